package model

import (
	"fmt"
	"strings"
)

// Bounds say how large the explored world is.
type Bounds struct {
	Instants, Writers int  // data-write instants in all, and at most pending at once
	Services          int  // how many of the instants may be table services
	Undoings          int  // rollbacks and restores
	Undo              bool // of completed instants, too; else only of pending ones
	Equal             bool // completion times may be equal
	Split             bool // a completion time may be taken before its file is seen
	Hidden            bool // a requested time, too
	Lag               bool // the listing that a batch is made from may miss an instant
	Archive           bool
	Crashes           int
	Takeovers         int  // how often a second Tidemark takes the lease of one that still works
	MDT               int  // compactions and archivals of the metadata table while a commit is under way
	Tidemarks         int  // 1 or 2
	Bootstrap         bool // begin without an index, which is then built at any time; else with one of the first instant
}

// step is one way on from a state.
type step struct {
	name name
	to   state
}

// name is what a step does, made a text only when it is shown.
type name struct {
	format string
	args   [2]uint8
}

func (n name) String() string {
	args := []any{n.args[0], n.args[1]}
	return fmt.Sprintf(n.format, args[:strings.Count(n.format, "%")]...)
}

// steps are all ways on from a state.
func (b Bounds) steps(s *state) []step {
	var out []step
	add := func(to state, format string, args ...uint8) {
		to.canon()
		st := step{name: name{format: format}, to: to}
		copy(st.name.args[:], args)
		out = append(out, st)
	}
	b.writers(s, add)
	b.undo(s, add)
	if b.Archive {
		b.archiver(s, add)
	}
	b.tidemarks(s, add)
	return out
}

type adder func(to state, format string, args ...uint8)

// writers begin instants and complete them.
func (b Bounds) writers(s *state, add adder) {
	open, services := 0, 0
	for _, i := range s.all() {
		if i.place == pending || i.place == timed || i.place == hidden {
			open++
		}
		if i.kind == service {
			services++
		}
	}
	if int(s.n) < b.Instants && open < b.Writers {
		to := *s
		to.instants[s.n] = instant{kind: write, place: pending, requested: s.tick()}
		to.n++
		add(to, "i%d requested", s.n)
		if b.Hidden {
			to.instants[s.n].place = hidden
			add(to, "i%d takes its requested time", s.n)
			to.instants[s.n].place = pending
		}
		if services < b.Services {
			to.instants[s.n].kind = service
			add(to, "i%d requested as a table service", s.n)
		}
	}
	for n, i := range s.all() {
		switch {
		case i.place == pending:
			b.complete(s, n, add)
		case i.place == hidden:
			to := *s
			to.instants[n].place = pending
			add(to, "the requested file of i%d appears", uint8(n))
		case i.place == timed:
			to := *s
			to.instants[n].place = active
			add(to, "the completed file of i%d appears", uint8(n))
		}
	}
}

func (b Bounds) complete(s *state, n int, add adder) {
	now := s.tick()
	done := func(at, place uint8, format string) {
		to := *s
		to.instants[n].completed, to.instants[n].place, to.last = at, place, at
		add(to, format, uint8(n))
	}
	if b.Split && s.instants[n].kind == write {
		done(now, timed, "i%d takes its completion time")
	}
	// A table service completes inside the table's lock: time and file at once.
	done(now, active, "i%d completes")
	if b.Equal && s.last > s.instants[n].requested {
		if b.Split && s.instants[n].kind == write {
			done(s.last, timed, "i%d takes the completion time taken last")
		}
		if s.instants[n].kind == write {
			done(s.last, active, "i%d completes at the completion time taken last")
		}
	}
}

// undo rolls back and restores.
func (b Bounds) undo(s *state, add adder) {
	busy := false
	for n, u := range s.undone() {
		if u.place != started {
			continue
		}
		busy = true
		to := *s
		if u.left == 0 {
			to.undoings[n].place, to.undoings[n].completed = finished, s.tick()
			add(to, undoingName[u.kind]+" u%d completes", uint8(n))
			continue
		}
		last := 7
		for !has(u.left, last) {
			last--
		}
		to.undoings[n].left = drop(u.left, last)
		to.instants[last].place = removed
		add(to, undoingName[u.kind]+" u%d removes i%d", uint8(n), uint8(last))
	}
	if busy || int(s.u) >= b.Undoings {
		return
	}
	begin := func(kind int, targets uint8) {
		to := *s
		to.undoings[s.u] = undoing{kind: uint8(kind), place: started, requested: s.tick(), targets: targets, left: targets}
		to.u++
		add(to, undoingName[kind]+" u%d requested of the set %b", s.u, targets)
	}
	newest := -1
	for n, i := range s.all() {
		if i.isActive() && (newest < 0 || i.completed >= s.instants[newest].completed) {
			newest = n
		}
	}
	for n, i := range s.all() {
		if i.place == pending || i.place == timed || b.Undo && n == newest && i.place == active {
			begin(rollback, with(0, n))
		}
	}
	if !b.Undo {
		return
	}
	// Restore to an active instant undoes all that were requested after it.
	for n, i := range s.all() {
		if i.place != active {
			continue
		}
		var targets uint8
		for m, o := range s.all() {
			if m > n && o.onTimeline() {
				targets = with(targets, m)
			}
		}
		if targets != 0 {
			begin(restore, targets)
		}
	}
}

var undoingName = [...]string{"rollback", "restore"}

func members(set uint8) string {
	out := ""
	for n := range 8 {
		if has(set, n) {
			out += fmt.Sprintf(" i%d", n)
		}
	}
	return out
}

// archiver moves the earliest active write to the archive: first it is in both places. It never passes a pending instant, leaves one
// write, and takes rollbacks that were requested before the newest archived write.
func (b Bounds) archiver(s *state, add adder) {
	left, upto := 0, uint8(0)
	for _, i := range s.all() {
		if i.place == active {
			left++
		}
		if i.place == both || i.place == archived {
			upto = max(upto, i.requested)
		}
	}
	for n, i := range s.all() {
		if i.place == both {
			to := *s
			to.instants[n].place = archived
			add(to, "i%d leaves the active timeline", uint8(n))
			break
		}
	}
	for _, u := range s.undone() {
		if u.place == started {
			return // an undoing and the archiver hold the table's lock
		}
	}
	for n, i := range s.all() {
		if i.place == pending || i.place == timed {
			break
		}
		if i.place == active {
			if left > 1 {
				to := *s
				to.instants[n].place = both
				add(to, "i%d is written to the archive", uint8(n))
			}
			break
		}
	}
	for n, u := range s.undone() {
		if u.kind == rollback && u.place == finished && u.requested < upto {
			to := *s
			to.undoings[n].place = forgotten
			add(to, "rollback u%d is archived", uint8(n))
		}
	}
}
