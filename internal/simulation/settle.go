package simulation

import (
	"errors"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// settle lets the faults stop: the writer ends what it began, and one Tidemark must end fresh, with an index equal to the table.
func (s *sim) settle() {
	s.note("faults stop")
	s.advance(s.hudi, 1<<20, true)
	for _, p := range s.tidemarks {
		p.clock, p.stale = 0, 0
		for p.busy() && s.fault == "" { // a call may take longer than advance waits
			s.advance(p, 1<<20, true)
		}
	}
	s.begin(Event{1, opFinish, 0})
	s.advance(s.hudi, 1<<20, true)
	s.sleep(2 * time.Hour)
	p := s.tidemarks[0]
	var last error
	for range 12 {
		if s.fault != "" {
			return
		}
		if s.settled() {
			return
		}
		work := syncOnce(0)
		if s.reconcile || errors.Is(last, storage.ErrStale) || errors.Is(last, storage.ErrCorrupt) {
			work = reconcileOnce
		}
		p.start(work)
		s.advanceTo(p)
		p.mu.Lock()
		last = p.err
		p.mu.Unlock()
		s.ended(p)
		s.sleep(time.Minute)
	}
	s.fail("does not end fresh: %v", last)
}

func (s *sim) advanceTo(p *process) {
	for s.fault == "" {
		c := p.parked()
		if c == nil && !p.busy() {
			return
		}
		if c == nil {
			s.sleep(500 * time.Millisecond)
			continue
		}
		s.step(p, c, noFault)
	}
}

// settled says whether the index is fresh and equal to the table.
func (s *sim) settled() bool {
	d := coverage.Deps{Place: mdt.Inside(s.store), Now: s.w.Now}
	status, err := coverage.Status(s.t.Context(), d)
	if err != nil {
		s.fail("status: %v", err)
		return false
	}
	for _, x := range status {
		if !x.Fresh || x.State == coverage.StateDegraded {
			s.note("status: %s: %s", x.State, x.Reason)
			s.reconcile = x.State == coverage.StateDegraded || x.State == coverage.StateBlocked
			return false
		}
	}
	for _, x := range status {
		r, err := coverage.Verify(s.t.Context(), d, coverage.VerifyRequest{Index: *x.Index})
		if err != nil {
			s.fail("verify: %v", err)
			return false
		}
		if !r.OK || r.ForeignFiles != 0 {
			s.fail("verify: %+v", *r)
		}
	}
	return true
}
