package markers_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"tidemark/markers"
	"tidemark/timeline"
)

// A course that is carried on says at every step what judging anew says, whatever is covered in whatever order.
func TestCourseIsWhatJudgingAnewSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var l markers.Look
		c := markers.Claim{Set: markers.Set{Baseline: map[string]string{}, Covered: map[string]string{}}}
		for i := range rapid.IntRange(0, 9).Draw(rt, "n") {
			requested := fmt.Sprintf("%02d", i*3+rapid.IntRange(0, 2).Draw(rt, "requested"))
			w := write(requested, fmt.Sprintf("%02d", rapid.IntRange(0, 30).Draw(rt, "completed")))
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				l.Pending = append(l.Pending, pending(requested, rapid.SampledFrom([]timeline.Action{timeline.Commit, timeline.Compaction, timeline.Clean}).Draw(rt, "action")))
				continue
			case 1:
				c.Set.Covered[w.Requested] = w.Completed
			case 2:
				c.Set.Baseline[w.Requested] = w.Completed
			}
			l.Writes = append(l.Writes, w)
		}
		c.Frontier = markers.Frontier{Completed: fmt.Sprintf("%02d", rapid.IntRange(0, 10).Draw(rt, "frontier"))}
		course := l.Course(c)
		for {
			want := anew(c, l.Writes, l.Pending)
			if d := cmp.Diff(want, course.Frontier()); d != "" {
				rt.Fatalf("frontier: %s", d)
			}
			if d := cmp.Diff(markers.Compute(c.Frontier, c.Set, l.Writes, l.Pending), want); d != "" {
				rt.Fatalf("computed: %s", d)
			}
			due := c.Set.Due(l.Writes)
			if d := cmp.Diff(due, course.Due(), cmpopts.EquateEmpty()); d != "" {
				rt.Fatalf("due: %s", d)
			}
			for _, w := range l.Writes {
				if course.Has(w) != c.Set.Has(w) {
					rt.Fatalf("has %v: %v", w, course.Has(w))
				}
			}
			if d := cmp.Diff(markers.Groups(due, c.Set.Covered), markers.Groups(due, course.Twins(due))); d != "" {
				rt.Fatalf("markers: %s", d)
			}
			if len(due) == 0 {
				return
			}
			done := due[:rapid.IntRange(1, len(due)).Draw(rt, "batch")]
			if rapid.Bool().Draw(rt, "out of order") {
				done = due[len(due)-len(done):]
			}
			done = slices.Clone(done)
			for _, w := range done {
				c.Set.Covered[w.Requested] = w.Completed
			}
			c.Frontier = want
			course.Cover(done)
		}
	})
}

// anew is the rule as RFC-109 section 9.1 and the DECISION at Compute have it, with nothing carried on.
func anew(c markers.Claim, writes, pending []timeline.Instant) markers.Frontier {
	ordered := slices.SortedStableFunc(slices.Values(writes), markers.ByCompletion)
	var open []timeline.Instant
	for _, p := range pending {
		if markers.Holds(p) {
			open = append(open, p)
		}
	}
	for _, w := range ordered {
		if !c.Set.Has(w) {
			open = append(open, w)
		}
	}
	first := func(a, b timeline.Instant) int {
		if a.Requested == b.Requested {
			return 0
		}
		return map[bool]int{true: -1, false: 1}[a.Requested < b.Requested]
	}
	f := markers.Frontier{Requested: c.Frontier.Requested, Completed: c.Frontier.Completed}
	for i, w := range ordered {
		if !c.Set.Has(w) {
			f.HeldBy = &w
			break
		}
		if len(open) > 0 {
			if by := slices.MinFunc(open, first); by.Requested < w.Completed {
				f.HeldBy = &by
				break
			}
		}
		last := i+1 == len(ordered) || ordered[i+1].Completed != w.Completed
		if last && w.Completed > f.Completed {
			f.Requested, f.Completed = w.Requested, w.Completed
		}
	}
	for _, i := range slices.Concat(pending, ordered) {
		if i.Action.IsWrite() && !c.Set.Has(i) && i.Requested < f.Completed && (f.Open == "" || i.Requested < f.Open) {
			f.Open = i.Requested
		}
	}
	return f
}

// What a catch-up judges grows with the number of commits, not with that times the number of batches.
func TestCourseJudgesEachInstantOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1 << 10, 1 << 13} {
		var l markers.Look
		for i := range n {
			l.Writes = append(l.Writes, write(fmt.Sprintf("%06d", 2*i), fmt.Sprintf("%06d", 2*i+1)))
		}
		course := l.Course(markers.Claim{})
		for len(course.Due()) > 0 {
			course.Cover(course.Due()[:min(64, len(course.Due()))])
			course.Frontier()
		}
		if got, most := course.Judged(), 3*n+n/64; got > most || course.Frontier().Completed != l.Writes[n-1].Completed {
			t.Errorf("%d commits: %d judgements, %d at most; frontier %+v", n, got, most, course.Frontier())
		}
	}
}
