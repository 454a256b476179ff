package model

import (
	"fmt"
	"slices"

	"tidemark/markers"
	"tidemark/timeline"
)

const (
	maxInstants = 6
	maxUndoings = 2
)

// Kinds of an instant.
const (
	write   = iota // commit, deltacommit, replacecommit: holds the frontier while it is pending
	service        // compaction, clustering: its plan holds nothing
)

// Places of an instant.
const (
	pending  = iota + 1 // requested or inflight
	timed               // its completion time is taken, its file is not there yet: pending to everyone else
	active              // completed, on the active timeline
	both                // and in the archive
	archived            // in the archive only
	removed             // rolled back or restored away
	hidden              // its requested time is taken, its file is not there yet: nobody else knows it
)

// instant is a data-write instant. Times are ranks; zero is none.
type instant struct{ kind, place, requested, completed uint8 }

// Kinds and places of an undoing.
const (
	rollback = iota
	restore

	started  // requested; targets go one by one
	finished // completed, on the active timeline
	forgotten
)

// undoing is a rollback or restore. targets and left are sets of instants.
type undoing struct{ kind, place, requested, completed, targets, left uint8 }

// index is what the state object says, and content, which only the model knows: the instants whose rows are in.
type index struct {
	baseline, covered, content, handled uint8 // sets; handled of undoings
	before                              uint8
	frontier                            instantTimes
	open                                uint8
}

type instantTimes struct{ requested, completed uint8 }

// States of the intent.
const (
	none = iota
	staging
	committing
)

// intent is a commit under way.
type intent struct {
	state uint8
	after index
	seen  uint8 // newest time when its id was taken: the id comes right after it
	file  uint8 // where its commit file is: 0, active or archived
}

// Phases of a process.
const (
	idle       = iota
	owns       // has the lease
	staged     // its files are there
	recovering // has the lease and found an intent that was decided
	decided    // the intent is committing: the commit file is created and the table looked at for the last time, in either order
	created    // the commit file is there
	looked     // the last look has found nothing
	doomed     // the last look has found an undoing
	ready      // the commit file is there, and the last look has found nothing
)

// state is the whole world. It is comparable, and canonical after canon.
type state struct {
	n, u      uint8
	instants  [maxInstants]instant // by requested time
	undoings  [maxUndoings]undoing // by requested time
	ix        index
	in        intent
	owner     uint8 // process that holds the lease, 0 none
	phase     [3]uint8
	last      uint8 // completion time taken last
	crashes   uint8
	takeovers uint8
	services  uint8 // MDT services run
}

func has(set uint8, i int) bool    { return set&(1<<i) != 0 }
func with(set uint8, i int) uint8  { return set | 1<<i }
func drop(set uint8, i int) uint8  { return set &^ (1 << i) }
func text(t uint8) string          { return times[t] }
func (s *state) all() []instant    { return s.instants[:s.n] }
func (s *state) undone() []undoing { return s.undoings[:s.u] }

// maxTimes bounds the times of one state.
const maxTimes = 48

var times = func() (out [maxTimes]string) {
	for i := 1; i < maxTimes; i++ {
		out[i] = fmt.Sprintf("%02d", i)
	}
	return out
}()

func (i instant) onTimeline() bool {
	return i.place != removed && i.place != archived && i.place != hidden
}
func (i instant) isActive() bool { return i.place == active || i.place == both }

// effective are the instants that are completed and not undone: what a snapshot of the table shows.
func (s *state) effective() (set uint8) {
	for n, i := range s.all() {
		if i.isActive() || i.place == archived {
			set = with(set, n)
		}
	}
	return set
}

// tick returns a new time, later than all others.
func (s *state) tick() uint8 {
	top := uint8(0)
	s.eachTime(func(t *uint8) { top = max(top, *t) })
	return top + 1
}

func (s *state) eachTime(fn func(*uint8)) {
	for n := range s.n {
		fn(&s.instants[n].requested)
		fn(&s.instants[n].completed)
	}
	for n := range s.u {
		fn(&s.undoings[n].requested)
		fn(&s.undoings[n].completed)
	}
	for _, x := range []*index{&s.ix, &s.in.after} {
		fn(&x.before)
		fn(&x.frontier.requested)
		fn(&x.frontier.completed)
		fn(&x.open)
	}
	fn(&s.in.seen)
	fn(&s.last)
}

// exists says whether there is an index.
func (x index) exists() bool { return x.before != 0 }

// canon renames times to their ranks and orders the two processes: only order matters, and they are alike.
func (s *state) canon() {
	var seen [maxTimes]bool
	s.eachTime(func(t *uint8) { seen[*t] = true })
	var rank [maxTimes]uint8
	next := uint8(0)
	for t := 1; t < maxTimes; t++ {
		if seen[t] {
			next++
			rank[t] = next
		}
	}
	s.eachTime(func(t *uint8) { *t = rank[*t] })
	if s.phase[1] > s.phase[2] || s.phase[1] == s.phase[2] && s.owner == 2 {
		s.phase[1], s.phase[2] = s.phase[2], s.phase[1]
		if s.owner != 0 {
			s.owner = 3 - s.owner
		}
	}
}

// look is the timeline as the decisions see it.
func (s *state) look(c markers.Claim) markers.Look {
	var l markers.Look
	for _, i := range s.all() {
		if !i.onTimeline() {
			continue
		}
		t := timeline.Instant{Requested: text(i.requested), Action: timeline.DeltaCommit, Pending: timeline.DeltaCommit, State: timeline.Inflight}
		if i.kind == service {
			t.Action, t.Pending = timeline.Compaction, timeline.Compaction
		}
		if l.Earliest == "" || t.Requested < l.Earliest {
			l.Earliest = t.Requested
		}
		if !i.isActive() {
			l.Pending = append(l.Pending, t)
			continue
		}
		if i.kind == service {
			t.Action = timeline.Commit
		}
		t.State, t.Completed = timeline.Completed, text(i.completed)
		l.Writes = append(l.Writes, t)
	}
	for _, u := range s.undone() {
		if u.place == finished {
			l.Undoings = append(l.Undoings, timeline.Instant{Requested: text(u.requested), Completed: text(u.completed), State: timeline.Completed, Action: timeline.Rollback})
		}
	}
	slices.SortFunc(l.Writes, markers.ByCompletion)
	if missing, needed := l.AskArchive(c); needed {
		s.archive(&l, missing)
	}
	return l
}

// archive tells a look what the archive says now.
func (s *state) archive(l *markers.Look, missing []string) {
	for _, i := range s.all() {
		if i.place != both && i.place != archived {
			continue
		}
		l.Upto = max(l.Upto, text(i.requested))
		if slices.Contains(missing, text(i.requested)) {
			if l.Archived == nil {
				l.Archived = map[string]string{}
			}
			l.Archived[text(i.requested)] = text(i.completed)
		}
	}
}

// claim is what an index says about itself.
func (s *state) claim(x index) markers.Claim {
	set := markers.Set{Before: text(x.before)}
	if x.baseline != 0 {
		set.Baseline = s.names(x.baseline)
	}
	if x.covered != 0 {
		set.Covered = s.names(x.covered)
	}
	return markers.Claim{Set: set, Frontier: markers.Frontier{Requested: text(x.frontier.requested), Completed: text(x.frontier.completed), Open: text(x.open)}}
}

func (s *state) names(set uint8) map[string]string {
	m := make(map[string]string, 4)
	for n, i := range s.all() {
		if has(set, n) {
			m[text(i.requested)] = text(i.completed)
		}
	}
	return m
}

func (s *state) handled(x index) map[string]string {
	m := map[string]string{}
	for n, u := range s.undone() {
		if has(x.handled, n) {
			m[text(u.requested)] = text(u.completed)
		}
	}
	return m
}

// find returns the instant requested at that time.
func (s *state) find(requested string) int {
	return slices.IndexFunc(s.all(), func(i instant) bool { return text(i.requested) == requested })
}

// take makes an index of a claim.
func (s *state) take(c markers.Claim, content, handled uint8) index {
	x := index{content: content, handled: handled, before: rank(c.Set.Before)}
	for requested := range c.Set.Baseline {
		x.baseline = with(x.baseline, s.find(requested))
	}
	for requested := range c.Set.Covered {
		x.covered = with(x.covered, s.find(requested))
	}
	x.frontier, x.open = instantTimes{rank(c.Frontier.Requested), rank(c.Frontier.Completed)}, rank(c.Frontier.Open)
	return x
}

// rank is the inverse of text.
func rank(t string) (r uint8) {
	for _, c := range []byte(t) {
		r = 10*r + c - '0'
	}
	return r
}
