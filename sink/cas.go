package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// casAttempts bounds how often a compare-and-swap of the state is tried again because others changed it meanwhile.
const casAttempts = 50

// lockedAgain bounds a swap after one that met a lock which another process holds for too long. What follows a failure, taking back and
// giving the lease back, must not wait as long again; the next owner settles what it could not.
const lockedAgain = time.Second

// swap changes the state by compare-and-swap: read, change (a private copy), write if nobody wrote meanwhile, else anew.
// An error of change ends it and is returned as it is. It returns the new state and the store's time of the write. A
// missing state is passed to change as nil; change returns the state to write. The first attempt takes what this sink wrote last for
// what is there: the compare says so if it is not. What change makes of that is not believed when it is an error.
func (s *Sink) swap(ctx context.Context, change func(st *mdt.State) (*mdt.State, error)) (*mdt.State, time.Time, error) {
	known := s.wrote.Load()
	for attempt := 1; ; attempt++ {
		old, tag, err := s.readUnless(ctx, known)
		if errors.Is(err, storage.ErrNotFound) {
			old, tag = nil, ""
		} else if err != nil {
			return nil, time.Time{}, err
		}
		next, err := change(old)
		if err != nil && known != nil {
			known = nil
			continue
		}
		if err != nil {
			return nil, time.Time{}, err
		}
		b, err := mdt.EncodeState(next)
		if err != nil {
			return nil, time.Time{}, err
		}
		info, err := s.put(ctx, b, tag)
		if err == nil {
			s.wrote.Store(&written{b, next, info.Tag, info.ModTime})
			return next, info.ModTime, nil
		}
		known = nil
		s.wrote.Store(nil) // what is there is not known any more
		if !errors.Is(err, storage.ErrConflict) || attempt == casAttempts {
			return nil, time.Time{}, fmt.Errorf("swap state: %w", err)
		}
	}
}

// written is a state as it was written last. Both are never changed.
type written struct {
	bytes []byte
	state *mdt.State
	tag   string
	at    time.Time // by the store's clock
}

// readUnless is read, or known if there is one. The state is the caller's.
func (s *Sink) readUnless(ctx context.Context, known *written) (*mdt.State, string, error) {
	if known != nil {
		return known.state.Clone(), known.tag, nil
	}
	return s.read(ctx)
}

// read is mdt.ReadState that does not decode again what this sink has written itself. The state is the caller's.
func (s *Sink) read(ctx context.Context) (*mdt.State, string, error) {
	if w := s.wrote.Load(); w != nil {
		return mdt.ReadStateUnless(ctx, s.place, w.bytes, w.state)
	}
	return mdt.ReadState(ctx, s.place)
}

// put replaces the state object. An unknown outcome is resolved by reading: our bytes there means that it succeeded.
func (s *Sink) put(ctx context.Context, b []byte, tag string) (storage.Info, error) {
	if s.locked.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lockedAgain)
		defer cancel()
	}
	info, err := s.guard.Replace(ctx, s.place.StatePath(), b, tag)
	s.locked.Store(errors.Is(err, storage.ErrLocked))
	if err == nil {
		return info, nil
	}
	if isOutcomeKnown(err) && !errors.Is(err, storage.ErrConflict) {
		return storage.Info{}, err
	}
	// A conflict may be our own write whose answer was lost and which a client library repeated.
	now, info, readErr := s.guard.ReadFile(ctx, s.place.StatePath())
	switch {
	case readErr == nil && bytes.Equal(now, b):
		return info, nil
	case errors.Is(err, storage.ErrConflict):
		return storage.Info{}, err
	case readErr == nil && info.Tag == tag, errors.Is(readErr, storage.ErrNotFound) && tag == "":
		return storage.Info{}, err // it had no effect; the caller sees the cause
	case readErr == nil, errors.Is(readErr, storage.ErrNotFound):
		return storage.Info{}, fmt.Errorf("%w: %w", err, storage.ErrConflict)
	}
	return storage.Info{}, errors.Join(err, readErr)
}

// swapOwned is swap for the owner of the lease: ErrLeaseLost when the state has another owner, epoch or intent than
// expected. intent is the state of the intent that must be there with that id; "" means none. Whatever it changes, the lease is prolonged
// with it, unless change gave it back.
func (s *Sink) swapOwned(ctx context.Context, intent, id string, change func(st *mdt.State) error) (*mdt.State, time.Time, error) {
	held, epoch := s.lease()
	if !held {
		return nil, time.Time{}, fmt.Errorf("change state: not acquired: %w", ErrLeaseLost)
	}
	st, at, err := s.swap(ctx, func(st *mdt.State) (*mdt.State, error) {
		if st == nil || st.Epoch != epoch || st.Owner != s.cfg.Owner {
			return nil, s.lost()
		}
		if intent != anyIntent {
			if (st.Intent == nil) != (intent == "") || st.Intent != nil && (st.Intent.State != intent || st.Intent.ID != id) {
				return nil, fmt.Errorf("change state: intent is not %s %s: %w", intent, id, ErrLeaseLost)
			}
		}
		err := change(st)
		if st.Owner != "" {
			st.ValidUntil = s.cfg.Now().Add(s.cfg.Lease)
		}
		return st, err
	})
	return st, at, err
}

// lost notes that the lease is another owner's now.
func (s *Sink) lost() error {
	_, epoch := s.lease()
	s.setLease(false, epoch)
	return &storage.Error{Op: "change", Path: s.place.StatePath(), Err: ErrLeaseLost, Hint: "another instance works on this table; this one stands by"}
}

// anyIntent makes swapOwned accept whatever intent is there.
const anyIntent = "*"
