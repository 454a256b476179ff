package model

import (
	"tidemark/markers"
	"tidemark/timeline"
)

// tidemarks take the lease, look, stage, look again, decide, create the commit file and show the state after; each can be
// stopped anywhere.
func (b Bounds) tidemarks(s *state, add adder) {
	for p := uint8(1); p <= 2; p++ {
		b.process(s, p, add)
	}
	if s.in.state == committing && s.in.file == active && int(s.services) < b.MDT {
		to := *s
		to.in.file, to.services = archived, s.services+1
		add(to, "the metadata table is compacted and archives the commit under way")
	}
}

func (b Bounds) process(s *state, p uint8, add adder) {
	phase := s.phase[p]
	lost := phase != idle && s.owner != p
	if phase != idle && int(s.crashes) < b.Crashes {
		to := *s
		to.phase[p], to.crashes = idle, s.crashes+1
		add(to, "Tidemark %d is killed", p)
	}
	switch {
	case phase == idle:
		b.acquire(s, p, add)
	case lost && (phase == decided || phase == looked || phase == doomed):
		// A paused owner goes on where it stood: it creates the file of its commit, and then finds its lease lost.
		to := *s
		if s.in.state == committing && s.in.file == 0 {
			to.in.file = active
		}
		to.phase[p] = idle
		add(to, "Tidemark %d, long paused, creates its commit file and finds its lease lost", p)
	case lost:
		to := *s
		to.phase[p] = idle
		add(to, "Tidemark %d finds its lease lost", p)
	case phase == owns:
		b.pass(s, p, add)
		if !b.Lag {
			return
		}
		for n, i := range s.all() {
			if !i.onTimeline() || i.place == both {
				continue
			}
			view := *s
			view.instants[n].place = hidden
			b.pass(&view, p, func(to state, format string, args ...uint8) {
				to.instants[n] = i
				add(to, format+", by a listing without i%d", append(args, uint8(n))...)
			})
		}
	case phase == staged:
		to := *s
		if s.refused() {
			to.burn(p)
			add(to, "Tidemark %d looks again and takes its batch back", p)
			return
		}
		to.in.state, to.phase[p] = committing, decided
		add(to, "Tidemark %d looks again and decides to commit", p)
	case phase == recovering:
		to := *s
		if s.refused() || s.in.file == 0 && s.passed() {
			to.burn(p)
			add(to, "Tidemark %d takes back what was decided before", p)
			return
		}
		if to.phase[p] = decided; s.in.file != 0 {
			to.phase[p] = ready
		}
		add(to, "Tidemark %d goes on with what was decided before", p)
	case phase == decided:
		to := s.withFile()
		to.phase[p] = created
		add(to, "Tidemark %d creates the commit file", p)
		to = *s
		if to.phase[p] = looked; s.undoneUnhandled() {
			to.phase[p] = doomed
		}
		add(to, "Tidemark %d looks for the last time", p)
	case phase == looked:
		to := s.withFile()
		to.phase[p] = ready
		add(to, "Tidemark %d creates the commit file after its last look", p)
	case phase == doomed:
		to := s.withFile()
		to.burn(p)
		add(to, "Tidemark %d creates the commit file, has seen a new undoing and takes its commit back", p)
	case phase == created:
		to := *s
		to.phase[p] = ready
		if s.undoneUnhandled() {
			to.burn(p)
		}
		add(to, "Tidemark %d looks for the last time after the commit file", p)
	case phase == ready:
		to := *s
		to.ix, to.in, to.phase[p] = s.in.after, intent{}, owns
		add(to, "Tidemark %d shows its commit", p)
	}
}

// withFile is the state with the commit file of the intent.
func (s *state) withFile() state {
	to := *s
	if s.in.file == 0 {
		to.in.file = active
	}
	return to
}

// undoneUnhandled says whether a look finds an undoing that the state after the intent has not dealt with.
func (s *state) undoneUnhandled() bool {
	return len(s.look(s.claim(s.in.after)).Unhandled(s.handled(s.in.after))) > 0
}

// acquire takes the lease and ends what an owner before left staging.
func (b Bounds) acquire(s *state, p uint8, add adder) {
	to := *s
	if b.Tidemarks < 2 && s.phase[3-p] != idle {
		return
	}
	if s.owner != 0 && s.owner != p && s.phase[s.owner] != idle {
		if int(s.takeovers) >= b.Takeovers {
			return
		}
		to.takeovers++
	}
	to.owner, to.phase[p] = p, owns
	switch s.in.state {
	case staging:
		to.in = intent{}
		add(to, "Tidemark %d takes the lease and takes back what was staged", p)
	case committing:
		to.phase[p] = recovering
		add(to, "Tidemark %d takes the lease and finds a decided commit", p)
	default:
		add(to, "Tidemark %d takes the lease", p)
	}
}

func (s *state) burn(p uint8) { s.in, s.phase[p] = intent{}, owns }

// refused is the check before a commit point, on the timeline as it is now.
func (s *state) refused() bool {
	if s.undoneUnhandled() {
		return true
	}
	after := s.claim(s.in.after)
	l := s.look(after)
	at, _ := l.Against(s.claim(s.ix), after)
	return at != ""
}

// passed says whether the archiver of the metadata table may have passed the intent's id: the earliest active instant was
// requested after it.
func (s *state) passed() bool {
	for _, i := range s.all() {
		if i.onTimeline() {
			return i.requested > s.in.seen
		}
	}
	return false
}

// pass is one look and what follows from it.
func (b Bounds) pass(s *state, p uint8, add adder) {
	c := s.claim(s.ix)
	l := s.look(c)
	if len(l.Writes) == 0 {
		to := *s
		to.owner, to.phase[p] = 0, idle
		add(to, "Tidemark %d finds no write", p)
		return
	}
	gone := !s.ix.exists() || len(l.Undone(c)) > 0 || l.Behind(c)
	var fresh uint8
	for n, u := range s.undone() {
		if u.place != finished || has(s.ix.handled, n) {
			continue
		}
		var targets []string
		for m, i := range s.all() {
			if has(u.targets, m) {
				targets = append(targets, text(i.requested))
			}
		}
		if c.Set.Holds(targets) != "" {
			gone = true
		}
		fresh = with(fresh, n)
	}
	stage := func(after index, what string) {
		to := *s
		to.in = intent{state: staging, after: after, seen: s.newest()}
		to.phase[p] = staged
		add(to, "Tidemark %d stages "+what, p)
	}
	switch {
	case gone:
		stage(s.anew(l, c), "the whole table anew")
		return
	case fresh != 0:
		to := *s
		to.ix.handled |= fresh
		add(to, "Tidemark %d notes undoings that undid nothing of the index", p)
		return
	}
	due := c.Set.Due(l.Writes)
	if len(due) == 0 && !l.Moves(c) {
		to := *s
		to.owner, to.phase[p] = 0, idle
		add(to, "Tidemark %d has nothing to do", p)
		return
	}
	stage(s.covering(l, c, due), "all that is due")
	if len(due) > 1 {
		stage(s.covering(l, c, due[:1]), "the first that is due")
	}
}

// covering is the index after a batch.
func (s *state) covering(l markers.Look, c markers.Claim, done []timeline.Instant) index {
	after := l.Cover(c, done)
	content := s.ix.content
	for _, i := range done {
		content = with(content, s.find(i.Requested))
	}
	x := s.take(after, content, s.ix.handled)
	s.forget(&x, l, after)
	return x
}

// anew is the index after the whole table was compared with it, or after it was built.
func (s *state) anew(l markers.Look, c markers.Claim) index {
	if s.ix.exists() {
		c = l.Rebase(c)
	} else {
		c = markers.Claim{Set: markers.Set{Baseline: map[string]string{}, Before: l.Earliest}}
		for _, w := range l.Writes {
			c.Set.Baseline[w.Requested] = w.Completed
		}
		c.Frontier = markers.Compute(markers.Frontier{}, c.Set, l.Writes, l.Pending)
	}
	var handled uint8
	for n, u := range s.undone() {
		if u.place == finished {
			handled = with(handled, n)
		}
	}
	x := s.take(c, s.effective(), handled)
	s.forget(&x, l, c)
	return x
}

// forget prunes what the archive has.
func (s *state) forget(x *index, l markers.Look, c markers.Claim) {
	for _, requested := range l.Forget(c) {
		n := s.find(requested)
		x.covered, x.baseline = drop(x.covered, n), drop(x.baseline, n)
	}
}

// newest is the newest time of a completed instant.
func (s *state) newest() (t uint8) {
	for _, i := range s.all() {
		if i.isActive() {
			t = max(t, i.requested, i.completed)
		}
	}
	for _, u := range s.undone() {
		if u.place == finished {
			t = max(t, u.requested, u.completed)
		}
	}
	return t
}
