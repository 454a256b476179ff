package coverage_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
)

// A gap says who wrote the commit, as far as its metadata tells.
func TestGapNamesWriter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		extra map[string]string
		want  string
	}{
		"nothing":         {map[string]string{"note": "x"}, ""},
		"a user's key":    {map[string]string{"_writer": "nightly-load", "_x": "y"}, "_writer=nightly-load"},
		"job before user": {map[string]string{"_user": "ann", "_job.id": "7"}, "_job.id=7"},
		"part of a word":  {map[string]string{"_happy": "x", "_rewriter": "y"}, ""},
		"streamer":        {map[string]string{"deltastreamer.checkpoint.key": "t,0:1"}, "Hudi Streamer"},
		"long":            {map[string]string{"_app": strings.Repeat("é", 200)}, "_app=" + strings.Repeat("é", 57) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, 2)
			tc.extra["schema"] = vectorOf8
			b, err := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": tc.extra})
			if err != nil {
				t.Fatal(err)
			}
			w.instant(at(3, 0)+"_"+at(3, 10)+".deltacommit", string(b))
			s := w.status()
			if len(s.Gaps) != 1 || s.Gaps[0].Writer != tc.want || s.Gaps[0].Reason != "pending" {
				t.Errorf("%+v, want writer %q", s.Gaps, tc.want)
			}
		})
	}
}

// A catch-up that is still to be compared with the whole table is not fresh, whatever its sets say.
func TestDoubtIsNotFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 3)
	if s := w.status(); !s.Fresh {
		t.Fatalf("%+v", s)
	}
	w.index().Reconcile = "the files of commit 1 were gone when it was compared"
	if s := w.status(); s.Fresh || s.State != coverage.StateCatchingUp || !strings.Contains(s.Reason, "commit 1") || s.Next != "tidemark sync /data/t" {
		t.Errorf("%+v", s)
	}
}

// A commit that an operator lets be is never called covered, and nobody is held to it: neither its lag nor its horizon counts as owed.
func TestSkippedIsNotOwed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		covered []int // minutes, beside 1 to 3
		writes  int
		skipped []int
		aside   []int // set aside after failures, too
		owed    int   // commits
		seconds float64
		oldest  float64
		reason  string
		next    string
	}{
		"alone":              {writes: 4, skipped: []int{4}, reason: "nothing is due but 1 commit skipped by an operator, 20261130020400000 first: lost"},
		"set aside before":   {writes: 4, skipped: []int{4}, aside: []int{4}, reason: "nothing is due but 1 commit skipped"},
		"later ones covered": {writes: 6, covered: []int{5, 6}, skipped: []int{4}, reason: "nothing is due but 1 commit skipped"},
		"another is due": {writes: 6, skipped: []int{4}, owed: 2, seconds: 120, oldest: 3600 - 5*60 - 10,
			reason: "2 commits not covered, the first is deltacommit 20261130020500000; beside them 1 commit skipped", next: "tidemark sync /data/t"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.writes, 3)
			for _, m := range tc.covered {
				w.index().Covered[at(m, 0)] = at(m, 10)
			}
			w.state.Commits = nil
			w.witness()
			w.state.Skipped, w.state.Quarantine = map[string]mdt.Skip{}, map[string]mdt.Quarantine{}
			for _, m := range tc.skipped {
				w.state.Skipped[at(m, 0)] = mdt.Skip{Reason: "lost", At: noon}
			}
			for _, m := range tc.aside {
				w.state.Quarantine[at(m, 0)] = mdt.Quarantine{Reason: "bad bytes", Attempts: 5, Since: noon}
			}
			s := w.status()
			if s.Fresh || s.State != coverage.StateCatchingUp || !strings.Contains(s.Reason, tc.reason) || s.Next != tc.next {
				t.Errorf("fresh %v, %s: %s; next %s", s.Fresh, s.State, s.Reason, s.Next)
			}
			if *s.LagInstants != tc.owed+1 || s.Skipped != 1 || s.Gaps[0].Reason != "quarantined" || s.Gaps[0].Skipped != "lost" {
				t.Errorf("lag %d, %d skipped, gaps %+v", *s.LagInstants, s.Skipped, s.Gaps)
			}
			o := s.Owes()
			if *o.LagInstants != tc.owed || *o.LagSeconds != tc.seconds || *o.OldestUncovered != tc.oldest {
				t.Errorf("owes %d commits, %v s, the oldest %v s", *o.LagInstants, *o.LagSeconds, *o.OldestUncovered)
			}
			if tc.owed == 0 && (o.Horizon != coverage.Horizon{}) {
				t.Errorf("horizon %+v of what nobody owes", o.Horizon)
			}
		})
	}
}
