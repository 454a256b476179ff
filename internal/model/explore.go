package model

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
)

// Result is what an exploration found.
type Result struct {
	States, Steps int64
	Depth         int
	// Complete says that every state within the bounds was reached.
	Complete bool
	// Fault is the first violation with the way to it, "" if there is none.
	Fault string
}

type edge struct {
	from uint64
	name name
}

var seed = maphash.MakeSeed()

// Explore visits every state within the bounds, breadth first, and checks the invariants in each; of one in every settle-th the
// end is tried, too. It stops at the first violation, or after limit states.
func (b Bounds) Explore(limit int64, settle uint64) Result {
	var r Result
	start := b.start()
	start.canon()
	hash := func(s state) uint64 { return maphash.Comparable(seed, s) }
	came := map[uint64]edge{hash(start): {}}
	fault := func(at uint64, what string) {
		var way []string
		for at != hash(start) {
			e := came[at]
			way = append(way, e.name.String())
			at = e.from
		}
		slices.Reverse(way)
		r.Fault = what + "\n  " + strings.Join(way, "\n  ")
	}
	for front := []state{start}; len(front) > 0; r.Depth++ {
		var next []state
		for _, s := range front {
			at := hash(s)
			r.States++
			if what := s.check(); what != "" {
				fault(at, what)
				return r
			}
			if settle > 0 && at%settle == 0 {
				if what := b.settles(s); what != "" {
					fault(at, what)
					return r
				}
			}
			if r.States >= limit {
				return r
			}
			for _, st := range b.steps(&s) {
				r.Steps++
				h := hash(st.to)
				if _, known := came[h]; known {
					continue
				}
				came[h] = edge{at, st.name}
				next = append(next, st.to)
			}
		}
		front = next
	}
	r.Complete = true
	return r
}

// Walk takes random ways of some steps through the world and checks the invariants in each state: deeper and wider bounds than can be
// explored. The same seed takes the same ways.
func (b Bounds) Walk(seed uint64, walks, length int) Result {
	var r Result
	random := rand.New(rand.NewPCG(seed, 109))
	for range walks {
		s := b.start()
		s.canon()
		var way []string
		for range length {
			next := b.steps(&s)
			if len(next) == 0 {
				break
			}
			st := next[random.IntN(len(next))]
			s = st.to
			way = append(way, st.name.String())
			r.Steps++
			if what := s.check(); what != "" {
				r.Fault = what + "\n  " + strings.Join(way, "\n  ")
				return r
			}
		}
		if what := b.settles(s); what != "" {
			r.Fault = what + "\n  " + strings.Join(way, "\n  ")
			return r
		}
		r.States++
	}
	return r
}

// start is the first state.
func (b Bounds) start() state {
	if b.Bootstrap {
		return state{}
	}
	s := state{n: 1, last: 2, ix: index{baseline: 1, content: 1, before: 1, frontier: instantTimes{1, 2}}}
	s.instants[0] = instant{write, active, 1, 2}
	return s
}

// check returns what is wrong with a state.
func (s *state) check() string {
	if !s.ix.exists() {
		return ""
	}
	for n, i := range s.all() {
		in := has(s.ix.content, n)
		effective := i.isActive() || i.place == archived
		if effective && !in && s.ix.frontier.completed != 0 && i.completed <= s.ix.frontier.completed {
			return fmt.Sprintf("frontier %d, but i%d, which completed at %d, is not in the index\n%s", s.ix.frontier.completed, n, i.completed, s)
		}
		if (has(s.ix.covered, n) || has(s.ix.baseline, n)) && !in {
			return fmt.Sprintf("i%d is claimed but is not in the index\n%s", n, s)
		}
	}
	c := s.claim(s.ix)
	l := s.look(c)
	if l.Doubt(c, s.handled(s.ix)).Fresh() && s.ix.content != s.effective() {
		return fmt.Sprintf("called fresh: the index holds%s, the snapshot%s\n%s", members(s.ix.content), members(s.effective()), s)
	}
	return ""
}

// settles lets everyone else stop and one Tidemark work on: it must end fresh.
func (b Bounds) settles(s state) string {
	for n := range s.undone() {
		for s.undoings[n].place == started {
			for m := range s.all() {
				if has(s.undoings[n].left, m) {
					s.instants[m].place = removed
				}
			}
			s.undoings[n].left, s.undoings[n].place, s.undoings[n].completed = 0, finished, s.tick()
		}
	}
	for n := range s.all() {
		if s.instants[n].place == timed {
			s.instants[n].place = active
		}
		if s.instants[n].place == hidden {
			s.instants[n].place = pending
		}
	}
	s.phase = [3]uint8{}
	b.Tidemarks = 1
	for range 40 {
		var to *state
		b.tidemarks(&s, func(next state, format string, _ ...uint8) {
			if to == nil && !strings.Contains(format, "killed") && !strings.Contains(format, "metadata table") {
				to = &next
			}
		})
		if to == nil {
			return "stuck\n" + s.String()
		}
		s = *to
		if s.owner == 0 && s.phase[1] == idle {
			break
		}
	}
	if !slices.ContainsFunc(s.all(), instant.isActive) {
		return s.check() // nothing that an index could be built of
	}
	c := s.claim(s.ix)
	if !s.look(c).Doubt(c, s.handled(s.ix)).Fresh() || !s.ix.exists() {
		return "does not end fresh\n" + s.String()
	}
	return s.check()
}

// String is the state for people.
func (s *state) String() string {
	var b strings.Builder
	for n, i := range s.all() {
		fmt.Fprintf(&b, "  i%d %s %s requested %d completed %d\n", n, [...]string{"write", "service"}[i.kind],
			[...]string{"", "pending", "timed", "active", "in both places", "archived", "removed", "hidden"}[i.place], i.requested, i.completed)
	}
	for n, u := range s.undone() {
		fmt.Fprintf(&b, "  u%d %s of%s requested %d completed %d place %d\n", n, undoingName[u.kind], members(u.targets), u.requested, u.completed, u.place)
	}
	fmt.Fprintf(&b, "  index: baseline%s before %d covered%s frontier %d content%s handled %b\n", members(s.ix.baseline), s.ix.before, members(s.ix.covered),
		s.ix.frontier.completed, members(s.ix.content), s.ix.handled)
	return b.String()
}
