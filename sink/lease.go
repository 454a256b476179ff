package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/storage"
)

// Acquire takes the lease, ends what a killed owner left (R1, R2 of docs/format/commit.md), sweeps leftovers, and starts the renewal in the
// background, which Release ends. A second Acquire renews and recovers again. *LeaseError when another owner holds the
// lease; ErrNotFound when there is no state and Config.Create is not set; ErrWeakStore when the store must not be written.
// When recovery fails the lease is given back.
func (s *Sink) Acquire(ctx context.Context) (err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.acquire(ctx); err != nil {
		return fmt.Errorf("acquire lease: %w", err)
	}
	s.startRenewal(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release(ctx))
		}
	}()
	if left, ok := s.cfg.Lock.(lock.Clearer); ok { // a process that was killed may have held the table's lock
		if err := left.Clear(ctx); err != nil {
			s.cfg.LockTrouble(err)
		}
	}
	if err := s.recover(ctx); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if err := s.sweep(ctx); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

func (s *Sink) acquire(ctx context.Context) error {
	// Nothing is written, not even the probe, on a table that may not be written.
	first, _, err := mdt.ReadState(ctx, s.place)
	switch {
	case errors.Is(err, storage.ErrNotFound) && s.cfg.Create && s.place.IsBeside():
		err = s.checkEmpty(ctx)
	case errors.Is(err, storage.ErrNotFound) && s.cfg.Create:
		_, err = s.look(ctx, nil)
	case err == nil:
		err = s.checkBefore(ctx, first)
	}
	if err != nil {
		return err
	}
	if !s.probed {
		if err := s.probe(ctx); err != nil {
			return err
		}
		s.probed = true
	}
	if s.cfg.Create && s.place.IsBeside() {
		if err := s.createMDT(ctx); err != nil {
			return err
		}
	}
	st, _, err := s.swap(ctx, func(st *mdt.State) (*mdt.State, error) {
		if st == nil {
			if !s.cfg.Create {
				return nil, &storage.Error{Op: "read", Path: s.place.StatePath(), Err: storage.ErrNotFound}
			}
			var err error
			if st, err = s.firstState(ctx); err != nil {
				return nil, err
			}
		}
		held, epoch := s.lease()
		if !held || st.Owner != s.cfg.Owner || st.Epoch != epoch {
			if !s.free(st) {
				return nil, &LeaseError{Owner: st.Owner, Until: st.ValidUntil, Ahead: s.ahead(st)}
			}
			st.Epoch++
		}
		st.Owner, st.Host, st.PID, st.ValidUntil = s.cfg.Owner, s.cfg.Host, s.cfg.PID, s.cfg.Now().Add(s.cfg.Lease)
		return st, nil
	})
	if err != nil {
		return err
	}
	s.setLease(true, st.Epoch)
	s.publish(st)
	return nil
}

// free says whether the lease can be taken over: nobody's, ended, or of a process of this host that is dead.
func (s *Sink) free(st *mdt.State) bool {
	if st.Owner == "" || st.Owner == s.cfg.Owner || s.cfg.Now().After(st.ValidUntil) {
		return true
	}
	return s.cfg.Host != "" && st.Host == s.cfg.Host && !s.cfg.Alive(st.PID) || s.ahead(st) && s.rests(st)
}

// maxAhead is how far ahead of this clock a lease may end, beside its length, before its end says nothing: either clock may be as wrong.
const maxAhead = 3 * time.Hour

// ahead says whether a lease ends later than any can that was taken by a clock which is nearly right.
func (s *Sink) ahead(st *mdt.State) bool {
	return st.ValidUntil.Sub(s.cfg.Now()) > s.cfg.Lease+maxAhead
}

// seenLease is a lease as it was seen first, at a time by a clock that only goes on.
type seenLease struct {
	owner    string
	epoch    int64
	until    time.Time
	revision int64
	at       time.Time
}

// rests says whether a lease was not renewed for longer than its owner may let it be, as this process has watched: by then it is over,
// whatever its owner's clock says. turn is held.
func (s *Sink) rests(st *mdt.State) bool {
	now := seenLease{st.Owner, st.Epoch, st.ValidUntil, st.Revision, time.Now()}
	if was := s.rival; was.owner != now.owner || was.epoch != now.epoch || !was.until.Equal(now.until) || was.revision != now.revision {
		s.rival = now
		return false
	}
	return now.at.Sub(s.rival.at) > s.cfg.Lease+s.cfg.Renew
}

// WatchLease is how long a lease with LeaseError.Ahead is to be tried for: an owner that lives has renewed it by then.
func (s *Sink) WatchLease() time.Duration { return s.cfg.Lease + 2*s.cfg.Renew }

// startRenewal starts the goroutine that keeps the lease; release waits for it. turn is held.
func (s *Sink) startRenewal(ctx context.Context) {
	if s.stop != nil {
		return
	}
	// The lease outlives the call that took it.
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{}) // closed by the goroutine, waited for by release
	s.done = done
	go func() {
		defer close(done)
		tick := time.NewTicker(s.cfg.Renew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// A failed renewal is tried again at the next tick; a lost lease shows at the next commit, whose
			// compare-and-swap is what decides.
			if _, _, err := s.renew(ctx); errors.Is(err, ErrLeaseLost) {
				return
			}
		}
	}()
}

// renew prolongs the lease and returns the state and the store's time.
func (s *Sink) renew(ctx context.Context) (*mdt.State, time.Time, error) {
	return s.swapOwned(ctx, anyIntent, "", func(*mdt.State) error { return nil })
}

// Release ends the renewal and gives the lease back. Without a lease it does nothing; a lease that was lost is no error.
func (s *Sink) Release(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.release(ctx)
}

func (s *Sink) release(ctx context.Context) error {
	if s.stop != nil {
		s.stop()
		<-s.done
		s.stop, s.done = nil, nil
	}
	if held, _ := s.lease(); !held {
		s.setLease(false, 0)
		return nil
	}
	_, _, err := s.swapOwned(ctx, anyIntent, "", func(st *mdt.State) error {
		st.Owner, st.Host, st.PID, st.ValidUntil = "", "", 0, time.Time{}
		return nil
	})
	s.setLease(false, 0)
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}
