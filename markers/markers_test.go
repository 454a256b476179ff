package markers_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark/internal/testkit"
	"tidemark/markers"
	"tidemark/timeline"
)

func write(requested, completed string) timeline.Instant {
	return timeline.Instant{Requested: requested, Completed: completed, Action: timeline.DeltaCommit, State: timeline.Completed}
}

func pending(requested string, action timeline.Action) timeline.Instant {
	return timeline.Instant{Requested: requested, Action: action, State: timeline.Inflight}
}

func cover(is ...timeline.Instant) map[string]string {
	m := map[string]string{}
	for _, i := range is {
		m[i.Requested] = i.Completed
	}
	return m
}

// The upstream rule walks one kind of time; a history whose instants complete at their requested time must agree.
func TestComputeGolden(t *testing.T) {
	t.Parallel()
	var golden struct {
		Advance []struct {
			Bootstrap string
			Persisted *string
			Ordered   []string `json:"ordered_source_instants"`
			Marked    []string
			Frontier  string
		}
	}
	if err := json.Unmarshal(testkit.File(t, "golden/vector-index/frontier.json"), &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Advance) == 0 {
		t.Fatal("no cases")
	}
	for i, c := range golden.Advance {
		start := c.Bootstrap
		if c.Persisted != nil {
			start = *c.Persisted
		}
		set := markers.Set{Baseline: map[string]string{}, Covered: map[string]string{}}
		var writes []timeline.Instant
		for _, o := range c.Ordered {
			writes = append(writes, write(o, o))
			if o <= start {
				set.Baseline[o] = o
			}
		}
		for _, m := range c.Marked {
			set.Covered[m] = m
		}
		got := markers.Compute(markers.Frontier{Requested: start, Completed: start}, set, writes, nil)
		if got.Completed != c.Frontier {
			t.Errorf("case %d: got %s, want %s", i, got.Completed, c.Frontier)
		}
	}
}

func TestCompute(t *testing.T) {
	t.Parallel()
	a, b, c, late := write("01", "10"), write("11", "20"), write("21", "30"), write("05", "40")
	twin := write("12", "20")
	for _, tc := range []struct {
		name     string
		set      markers.Set
		writes   []timeline.Instant
		pending  []timeline.Instant
		prev     string
		want     string
		wantHeld string
	}{
		{"empty timeline", markers.Set{}, nil, nil, "", "", ""},
		{"all covered", markers.Set{Covered: cover(a, b, c)}, []timeline.Instant{a, b, c}, nil, "", "30", ""},
		{"gap stops it", markers.Set{Covered: cover(a, c)}, []timeline.Instant{a, b, c}, nil, "", "10", "11"},
		{"order of the input does not matter", markers.Set{Covered: cover(a, c)}, []timeline.Instant{c, b, a}, nil, "", "10", "11"},
		{"pending write requested before", markers.Set{Covered: cover(a, b, c)}, []timeline.Instant{a, b, c}, []timeline.Instant{pending("15", timeline.Commit)}, "", "10", "15"},
		{"pending write requested after", markers.Set{Covered: cover(a, b)}, []timeline.Instant{a, b}, []timeline.Instant{pending("25", timeline.DeltaCommit)}, "", "20", ""},
		{"pending compaction never holds", markers.Set{Covered: cover(a, b)}, []timeline.Instant{a, b}, []timeline.Instant{pending("05", timeline.Compaction)}, "", "20", ""},
		{"pending clustering never holds", markers.Set{Covered: cover(a)}, []timeline.Instant{a}, []timeline.Instant{pending("00", timeline.Clustering)}, "", "10", ""},
		{"pending replacecommit holds", markers.Set{Covered: cover(a)}, []timeline.Instant{a}, []timeline.Instant{pending("00", timeline.ReplaceCommit)}, "", "", "00"},
		{"a late completed write holds what was requested after it", markers.Set{Covered: cover(a, b)}, []timeline.Instant{a, b, late}, nil, "", "", "05"},
		{"equal completion times go together", markers.Set{Covered: cover(a, b)}, []timeline.Instant{a, b, twin}, nil, "", "10", "12"},
		{"equal completion times both covered", markers.Set{Covered: cover(a, b, twin)}, []timeline.Instant{a, b, twin}, nil, "", "20", ""},
		{"same requested time but another completion is another instant", markers.Set{Covered: cover(write("01", "09"))}, []timeline.Instant{a}, nil, "", "", "01"},
		{"baseline below its time, not in the set", markers.Set{Baseline: cover(b), Before: "15"}, []timeline.Instant{a, b}, nil, "", "", "01"},
		{"never goes back", markers.Set{Covered: cover(a)}, []timeline.Instant{a, b}, nil, "20", "20", "11"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := markers.Compute(markers.Frontier{Completed: tc.prev}, tc.set, tc.writes, tc.pending)
			if got.Completed != tc.want {
				t.Errorf("frontier: got %q, want %q", got.Completed, tc.want)
			}
			held := ""
			if got.HeldBy != nil {
				held = got.HeldBy.Requested
			}
			if held != tc.wantHeld {
				t.Errorf("held by: got %q, want %q", held, tc.wantHeld)
			}
		})
	}
}

// Whatever the history: every data write completed at or before the frontier is incorporated, and no open
// write was requested before it.
func TestComputeNeverPassesAGap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(rt, "n")
		set := markers.Set{Baseline: map[string]string{}, Covered: map[string]string{}}
		var writes, open []timeline.Instant
		for i := range n {
			requested := fmt.Sprintf("%02d", i*3+rapid.IntRange(0, 2).Draw(rt, "requested"))
			completed := fmt.Sprintf("%02d", rapid.IntRange(0, 40).Draw(rt, "completed"))
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				open = append(open, pending(requested, rapid.SampledFrom([]timeline.Action{timeline.Commit, timeline.DeltaCommit, timeline.ReplaceCommit, timeline.Compaction}).Draw(rt, "action")))
			case 1:
				writes = append(writes, write(requested, completed))
			case 2:
				writes = append(writes, write(requested, completed))
				set.Covered[requested] = completed
			case 3:
				writes = append(writes, write(requested, completed))
				set.Baseline[requested] = completed
			}
		}
		f := markers.Compute(markers.Frontier{}, set, writes, open)
		for _, w := range writes {
			if w.Completed <= f.Completed && !set.Has(w) {
				rt.Fatalf("frontier %s passes the gap %v", f.Completed, w)
			}
		}
		for _, p := range open {
			if markers.Holds(p) && p.Requested < f.Completed {
				rt.Fatalf("frontier %s passes the pending %v", f.Completed, p)
			}
		}
		if ok, by := markers.Valid(f.Completed, set, writes, open); !ok {
			rt.Fatalf("computed frontier %s is not valid by %v", f.Completed, by)
		}
		for _, w := range writes {
			// Whatever Valid allows above the computed frontier would pass a gap, or is not a write's time.
			if ok, _ := markers.Valid(w.Completed, set, writes, open); ok && w.Completed > f.Completed {
				rt.Fatalf("computed %s, yet %s is valid", f.Completed, w.Completed)
			}
		}
		if f.HeldBy == nil && len(writes) > 0 {
			newest := slices.MaxFunc(writes, markers.ByCompletion)
			if f.Completed != newest.Completed {
				rt.Fatalf("not held, yet %s is not the newest %s", f.Completed, newest.Completed)
			}
		}
	})
}

func TestKnown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		f        string
		before   string
		earliest string
		upto     string
		want     bool
	}{
		{"nothing archived", "", "", "50", "", true},
		{"no frontier, archive", "", "", "50", "45", false},
		{"older than the earliest active instant", "40", "", "50", "45", false},
		{"at the earliest active instant", "50", "", "50", "45", true},
		{"baseline reaches in", "", "60", "50", "45", true},
		{"empty timeline", "", "", "", "", true},
		{"something active below the archive", "40", "", "01", "45", false},
		{"the frontier lies above all of that", "50", "", "01", "45", true},
		{"nothing active is left, archive", "40", "", "", "45", false},
		{"nothing active is left, archive up to the frontier", "40", "", "", "40", false},
		{"nothing active is left, archive below the frontier", "40", "", "", "39", true},
		{"nothing active is left, archive below the baseline", "", "60", "", "45", true},
	} {
		if got := markers.Known(markers.Frontier{Completed: tc.f}, markers.Set{Before: tc.before}, tc.earliest, tc.upto); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	got := markers.Groups([]timeline.Instant{write("12", "20"), write("01", "10")}, map[string]string{"11": "20", "09": "15"})
	want := []markers.Group{{Completed: "10", Requested: []string{"01"}}, {Completed: "20", Requested: []string{"11", "12"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got[1].Text() != "11,12" {
		t.Errorf("text: got %q", got[1].Text())
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	a, b, c := write("01", "10"), write("11", "20"), write("21", "30")
	l := markers.Measure(markers.Set{Covered: cover(a, c)}, []timeline.Instant{c, a, b}, "")
	if l.Instants != 1 || l.Latest.Completed != "30" || l.Upto != "10" || l.FirstUncovered.Requested != "11" || l.CoveredAhead != 1 {
		t.Errorf("got %+v", l)
	}
	l = markers.Measure(markers.Set{Covered: cover(a, b, c)}, []timeline.Instant{a, b, c}, "30")
	if l.Instants != 0 || l.Upto != "30" || l.CoveredAhead != 0 {
		t.Errorf("fresh: got %+v", l)
	}
	l = markers.Measure(markers.Set{}, []timeline.Instant{a}, "")
	if l.Instants != 1 || l.Upto != "" {
		t.Errorf("nothing covered: got %+v", l)
	}
	// A write that shows up late, below the frontier, takes Upto back.
	l = markers.Measure(markers.Set{Covered: cover(a, c)}, []timeline.Instant{a, b, c}, "30")
	if l.Upto != "10" {
		t.Errorf("late write: got %+v", l)
	}
}

func TestDueAndVanished(t *testing.T) {
	t.Parallel()
	a, b, c := write("01", "10"), write("11", "20"), write("21", "30")
	set := markers.Set{Baseline: cover(a), Covered: cover(c)}
	if due := set.Due([]timeline.Instant{c, b, a}); len(due) != 1 || due[0].Requested != "11" {
		t.Errorf("due: got %v", due)
	}
	if got := markers.Vanished(set, []timeline.Instant{a}, nil); !slices.Equal(got, []string{"21"}) {
		t.Errorf("vanished: got %v", got)
	}
	for _, completed := range []string{"10", ""} {
		if got := markers.Vanished(set, []timeline.Instant{c}, map[string]string{"01": completed}); len(got) != 0 {
			t.Errorf("archived is not vanished: got %v", got)
		}
	}
	// That the archive reaches further says nothing: a rolled back instant is not in it, and the rollback may be archived, too.
	for _, archived := range []map[string]string{nil, {"02": "03"}, {"01": "99"}} {
		if got := markers.Vanished(set, []timeline.Instant{c}, archived); !slices.Equal(got, []string{"01"}) {
			t.Errorf("not in the archive %v: got %v", archived, got)
		}
	}
}

// A frontier that passed the plan of a table service is known only as long as the archive cannot have taken what became of it.
func TestOpen(t *testing.T) {
	t.Parallel()
	a, b := write("01", "10"), write("11", "20")
	plan := pending("05", timeline.Compaction)
	f := markers.Compute(markers.Frontier{}, markers.Set{Covered: cover(a, b)}, []timeline.Instant{a, b}, []timeline.Instant{plan})
	if f.Completed != "20" || f.Open != "05" {
		t.Fatalf("with a plan pending: got %+v", f)
	}
	if markers.Known(f, markers.Set{}, "11", "10") {
		t.Error("the archive passed the plan, yet the frontier is known")
	}
	if !markers.Known(f, markers.Set{}, "05", "04") {
		t.Error("the plan is still on the active timeline, yet the frontier is not known")
	}
	done := write("05", "30")
	f = markers.Compute(f, markers.Set{Covered: cover(a, b)}, []timeline.Instant{a, b, done}, nil)
	if f.Completed != "20" || f.Open != "05" {
		t.Errorf("completed and not covered: got %+v", f)
	}
	f = markers.Compute(f, markers.Set{Covered: cover(a, b, done)}, []timeline.Instant{a, b, done}, nil)
	if f.Completed != "30" || f.Open != "" {
		t.Errorf("covered: got %+v", f)
	}
}

// A claim that gives up an instant which the timeline shows must not become visible, even if its frontier stays: it was made from a
// listing that had missed the instant.
func TestAgainstGivingUp(t *testing.T) {
	t.Parallel()
	a, b := write("01", "10"), write("11", "20")
	l := markers.Look{Writes: []timeline.Instant{a, b}, Earliest: "01"}
	f := markers.Frontier{Requested: "11", Completed: "20"}
	before := markers.Claim{Set: markers.Set{Baseline: cover(a), Covered: cover(b)}, Frontier: f}
	if at, gone := l.Against(before, markers.Claim{Set: markers.Set{Covered: cover(b)}, Frontier: f}); at != "01" || gone {
		t.Errorf("got %q, %v", at, gone)
	}
	if at, _ := l.Against(before, before); at != "" {
		t.Errorf("the same claim: got %q", at)
	}
}
