package mdt

import (
	"testing"

	"tidemark/timeline"
)

// What was noted stays as it was first seen, is forgotten with the instant, and says nothing about a retry under the same requested time.
func TestWitness(t *testing.T) {
	t.Parallel()
	write := func(requested, completed string, a timeline.Action, size int64) timeline.Instant {
		return timeline.Instant{Requested: requested, Completed: completed, Action: a, State: timeline.Completed, Size: size}
	}
	x := &Index{Baseline: Baseline{Instants: map[string]string{"1": "2"}}, Covered: map[string]string{"3": "4"}}
	one, three := write("1", "2", timeline.Commit, 10), write("3", "4", timeline.DeltaCommit, 20)
	if x.Unseen(one) || x.Changed(one) != "" || x.Changed(write("1", "2", timeline.Commit, 0)) != "is empty" {
		t.Error("a state that notes nothing")
	}
	x.Witness([]timeline.Instant{one, three, write("5", "6", timeline.Commit, 30)}, nil)
	if len(x.Seen) != 2 || x.Unseen(one) || x.Changed(one) != "" || x.Changed(three) != "" {
		t.Errorf("%+v", x.Seen)
	}
	x.Witness([]timeline.Instant{write("1", "2", timeline.Commit, 11), write("3", "4", timeline.ReplaceCommit, 20)}, nil)
	for want, w := range map[string]timeline.Instant{
		"has 11 bytes and had 10":                  write("1", "2", timeline.Commit, 11),
		"is a replacecommit and was a deltacommit": write("3", "4", timeline.ReplaceCommit, 20),
		"": write("5", "6", timeline.Commit, 31), // not covered
	} {
		if got := x.Changed(w); got != want {
			t.Errorf("%s: %q, want %q", w.Requested, got, want)
		}
	}
	x.Covered["5"] = "6"
	if !x.Unseen(write("5", "6", timeline.Commit, 30)) {
		t.Error("a name that nobody noted")
	}
	x.Covered = map[string]string{"3": "7"} // undone, and made again
	again := write("3", "7", timeline.DeltaCommit, 40)
	if x.Witness([]timeline.Instant{one, again}, nil); len(x.Seen) != 2 || x.Unseen(again) || x.Changed(again) != "" {
		t.Errorf("%+v", x.Seen)
	}
	delete(x.Baseline.Instants, "1")
	if x.Witness([]timeline.Instant{one, again}, nil); len(x.Seen) != 1 {
		t.Errorf("%+v", x.Seen)
	}
}
