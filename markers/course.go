package markers

import (
	"maps"
	"slices"

	"tidemark/timeline"
)

// Course is one claim on its way through one look: what is due and where the frontier stands, as more and more is incorporated. It is
// the rule of Compute and Due, found once for a look and carried on from where it stood, so that what an instant costs does not depend on
// how many there are. It holds for that look only: another look, or another claim, takes another Course. Not safe for concurrent use.
type Course struct {
	set    Set                // Covered is the course's own
	writes []timeline.Instant // of the look, in completion order
	due    []timeline.Instant // what was not incorporated when it was last gone through; due[:done] is by now
	done   int
	first  []int32           // for each place in due: the place, from there on, of what was requested first
	holder *timeline.Instant // of the pending instants that hold the frontier (Holds) the one requested first; nil: none
	plan   string            // requested time of the earliest pending write or table service, "" if there is none
	passed int               // writes[:passed] are incorporated, and nothing open was requested before they completed
	at     Frontier          // the frontier there, without Open and HeldBy
	judged int
}

// Course begins the course of a claim, which is not changed.
func (l Look) Course(c Claim) *Course {
	set := Set{Baseline: c.Set.Baseline, Before: c.Set.Before, Covered: make(map[string]string, len(c.Set.Covered))}
	maps.Copy(set.Covered, c.Set.Covered)
	return course(c.Frontier, set, l.Writes, l.Pending)
}

// course begins a course; only Cover changes the set.
func course(prev Frontier, set Set, writes, pending []timeline.Instant) *Course {
	c := &Course{set: set, writes: inOrder(writes), at: Frontier{Requested: prev.Requested, Completed: prev.Completed}}
	for i, p := range pending {
		if Holds(p) && (c.holder == nil || p.Requested < c.holder.Requested) {
			c.holder = &pending[i]
		}
		if p.Action.IsWrite() && (c.plan == "" || p.Requested < c.plan) {
			c.plan = p.Requested
		}
	}
	c.await(c.writes)
	return c
}

// inOrder returns instants in completion order: themselves, if they are.
func inOrder(writes []timeline.Instant) []timeline.Instant {
	if slices.IsSortedFunc(writes, ByCompletion) {
		return writes
	}
	return slices.SortedStableFunc(slices.Values(writes), ByCompletion)
}

// await finds what is due among instants in completion order.
func (c *Course) await(writes []timeline.Instant) {
	c.judged += len(writes)
	c.due, c.done = c.set.Due(writes), 0
	c.first = make([]int32, len(c.due))
	for i := len(c.due) - 1; i >= 0; i-- {
		c.first[i] = int32(i)
		if i+1 < len(c.due) && c.due[c.first[i+1]].Requested < c.due[i].Requested {
			c.first[i] = c.first[i+1]
		}
	}
}

// Due returns the completed data writes of the look that are not incorporated, in completion order. The slice must not be changed.
func (c *Course) Due() []timeline.Instant { return slices.Clip(c.due[c.done:]) }

// Has reports whether a completed data write is incorporated by now; see Set.Has.
func (c *Course) Has(i timeline.Instant) bool { return c.set.Has(i) }

// Judged counts the instants that were judged so far, those judged again included.
func (c *Course) Judged() int { return c.judged }

// Cover incorporates instants of the look.
func (c *Course) Cover(done []timeline.Instant) {
	for _, i := range done {
		c.set.Covered[i.Requested] = i.Completed
	}
	from := c.done
	for c.done < len(c.due) && c.Has(c.due[c.done]) {
		c.done++
	}
	if c.judged += c.done - from; c.done-from < len(done) { // some came before what is due first
		c.await(c.due[c.done:])
	}
}

// Frontier returns the frontier by now: the largest one that the look allows, see Compute.
func (c *Course) Frontier() Frontier {
	open, plan := c.holder, c.plan
	if c.done < len(c.due) {
		// What is due first, by its requested time, holds like what is pending.
		w := &c.due[c.first[c.done]]
		if open == nil || w.Requested < open.Requested {
			open = w
		}
		if plan == "" || w.Requested < plan {
			plan = w.Requested
		}
	}
	held := func(by timeline.Instant) *timeline.Instant { return &by }
	var by *timeline.Instant
	for ; c.passed < len(c.writes); c.passed++ {
		w := c.writes[c.passed]
		c.judged++
		if !c.Has(w) {
			by = held(w)
			break
		}
		if open != nil && open.Requested < w.Completed {
			by = held(*open)
			break
		}
		// All of one completion time are in before it becomes the frontier.
		if next := c.passed + 1; next < len(c.writes) && c.writes[next].Completed == w.Completed {
			continue
		}
		if w.Completed > c.at.Completed {
			c.at.Requested, c.at.Completed = w.Requested, w.Completed
		}
	}
	f := Frontier{Requested: c.at.Requested, Completed: c.at.Completed, HeldBy: by}
	if plan != "" && plan < f.Completed { // the frontier passed it, although it is not incorporated
		f.Open = plan
	}
	return f
}

// Twins returns the instants of the look with a marker of their own, present or to come, that share a completion time with one of some
// instants (requested → completion time): see Groups.
func (c *Course) Twins(instants []timeline.Instant) map[string]string {
	out := map[string]string{}
	for _, i := range instants {
		n, _ := slices.BinarySearchFunc(c.writes, timeline.Instant{Completed: i.Completed}, ByCompletion)
		for ; n < len(c.writes) && c.writes[n].Completed == i.Completed; n++ {
			if w := c.writes[n]; c.set.Covered[w.Requested] == w.Completed {
				out[w.Requested] = w.Completed
			}
		}
	}
	return out
}
