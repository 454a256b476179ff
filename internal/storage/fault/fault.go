package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"tidemark/internal/storage"
)

// Errors of injected faults. Neither has one of storage's kinds, so callers must treat the outcome as unknown.
var (
	// ErrKilled is returned by the call at which the process image stopped, and by every later one.
	ErrKilled = errors.New("killed")
	// ErrUnknown is returned by a call whose outcome is hidden from the caller.
	ErrUnknown = errors.New("timeout, outcome unknown")
)

// Config chooses the faults. The zero value injects none.
type Config struct {
	// StopAt is the number of the call at which everything stops, 1 being the first. Defaults to 0, never.
	StopAt int
	// StopAfter lets the call at StopAt take effect first. Defaults to false: stopped before the effect.
	StopAfter bool
	// FailAt is the number of one call that fails with ErrUnknown; later calls work. Defaults to 0, none.
	FailAt int
	// FailAfter lets the call at FailAt take effect. Defaults to false: it has none.
	FailAfter bool
	// Before is called before each call with its number, operation and path, outside any lock; a non-nil error is
	// returned in place of the call. Defaults to none.
	Before func(n int, op, path string) error
	// Decide is asked what becomes of each call, outside any lock, and may block: a test that owns the order of all calls
	// answers when it is a call's turn. Defaults to none.
	Decide func(op, path string) Outcome
}

// Outcome is what becomes of one call. The zero value lets it happen.
type Outcome struct {
	// Err is returned in place of the call's result.
	Err error
	// After lets the call take effect first.
	After bool
	// Kill stops the process image: this call, and every later one, fails with ErrKilled.
	Kill bool
	// Wait is how long the store takes before anything happens. It ends with the call's context.
	Wait time.Duration
	// Stale makes a listing show what the directory held when this layer last listed it; a first listing is true.
	Stale bool
	// Short makes a write take half of its content, fail with io.ErrShortWrite and leave nothing behind.
	Short bool
}

// Store is a fault layer over another store.
type Store struct {
	inner storage.Store
	cfg   Config

	mu     sync.Mutex // guards the fields below
	calls  int
	killed bool
	trace  []string
	listed map[string][]storage.Info // the last true listing of each directory
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Sweeper = (*Store)(nil)
)

// New wraps inner.
func New(inner storage.Store, cfg Config) *Store {
	return &Store{inner: inner, cfg: cfg, listed: map[string][]storage.Info{}}
}

// Calls returns how many calls were made so far, failed ones included.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Trace returns "op path" of every call so far.
func (s *Store) Trace() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.trace...)
}

// Kill stops the process image now.
func (s *Store) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
}

// do counts a call and runs it with its fault. call gets what Decide said, if anything.
func (s *Store) do(ctx context.Context, op, path string, call func(Outcome) error) error {
	s.mu.Lock()
	s.calls++
	n := s.calls
	s.trace = append(s.trace, op+" "+path)
	dead := s.killed
	stop := !dead && n == s.cfg.StopAt
	if stop {
		s.killed = true
	}
	s.mu.Unlock()
	fail := func(err error) error {
		return &storage.Error{Op: op, Path: path, Err: fmt.Errorf("call %d: %w", n, err)}
	}
	var o Outcome
	if !dead && s.cfg.Decide != nil {
		o = s.cfg.Decide(op, path)
		if o.Wait > 0 {
			select {
			case <-time.After(o.Wait):
			case <-ctx.Done():
				return fail(ctx.Err())
			}
		}
		if o.Kill {
			s.Kill()
			o.Err = ErrKilled
		}
		if o.Err != nil {
			if o.After {
				_ = call(o) // the answer was lost
			}
			return fail(o.Err)
		}
	}
	switch {
	case dead:
		return fail(ErrKilled)
	case stop:
		if s.cfg.StopAfter {
			_ = call(o) // the process is gone before it could see the result
		}
		return fail(ErrKilled)
	case n == s.cfg.FailAt:
		if s.cfg.FailAfter {
			_ = call(o) // the answer was lost
		}
		return fail(ErrUnknown)
	}
	if s.cfg.Before != nil {
		if err := s.cfg.Before(n, op, path); err != nil {
			return fail(err)
		}
		s.mu.Lock()
		dead = s.killed
		s.mu.Unlock()
		if dead {
			return fail(ErrKilled)
		}
	}
	return call(o)
}

// shortWrite is the error of a write that broke off. Nobody repeats it: a local disk does so when it is full.
func shortWrite(op, path string) error {
	return &storage.Error{Op: op, Path: path, Err: io.ErrShortWrite, Hint: "free space, then run the same command again; nothing is lost"}
}

// ReadFile implements storage.Store.
func (s *Store) ReadFile(ctx context.Context, path string) (b []byte, info storage.Info, err error) {
	err = s.do(ctx, "read", path, func(Outcome) (err error) {
		b, info, err = s.inner.ReadFile(ctx, path)
		return err
	})
	if err != nil {
		return nil, storage.Info{}, err
	}
	return b, info, nil
}

// ReadRange implements storage.Store.
func (s *Store) ReadRange(ctx context.Context, path string, off, n int64) (b []byte, err error) {
	err = s.do(ctx, "range", path, func(Outcome) (err error) {
		b, err = s.inner.ReadRange(ctx, path, off, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Stat implements storage.Store.
func (s *Store) Stat(ctx context.Context, path string) (info storage.Info, err error) {
	err = s.do(ctx, "stat", path, func(Outcome) (err error) {
		info, err = s.inner.Stat(ctx, path)
		return err
	})
	return info, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, dir string) (list []storage.Info, err error) {
	err = s.do(ctx, "list", dir, func(o Outcome) (err error) {
		s.mu.Lock()
		before, ok := s.listed[dir]
		s.mu.Unlock()
		if o.Stale && ok {
			list = slices.Clone(before)
			return nil
		}
		if list, err = s.inner.List(ctx, dir); err == nil {
			s.mu.Lock()
			s.listed[dir] = slices.Clone(list)
			s.mu.Unlock()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, path string, data []byte) (info storage.Info, err error) {
	err = s.do(ctx, "create", path, func(o Outcome) (err error) {
		if o.Short {
			return shortWrite("create", path)
		}
		info, err = s.inner.Create(ctx, path, data)
		return err
	})
	if err != nil {
		return storage.Info{}, err
	}
	return info, nil
}

// CreateFrom implements storage.Store.
func (s *Store) CreateFrom(ctx context.Context, path string, size int64, open storage.Open) (info storage.Info, err error) {
	err = s.do(ctx, "create", path, func(o Outcome) (err error) {
		if o.Short {
			if r, err := open(); err == nil {
				_, _ = io.CopyN(io.Discard, r, size/2) // what the store took
				_ = r.Close()                          // only read from
			}
			return shortWrite("create", path)
		}
		info, err = s.inner.CreateFrom(ctx, path, size, open)
		return err
	})
	if err != nil {
		return storage.Info{}, err
	}
	return info, nil
}

// Replace implements storage.Store.
func (s *Store) Replace(ctx context.Context, path string, data []byte, tag string) (info storage.Info, err error) {
	err = s.do(ctx, "replace", path, func(o Outcome) (err error) {
		if o.Short {
			return shortWrite("replace", path)
		}
		info, err = s.inner.Replace(ctx, path, data, tag)
		return err
	})
	if err != nil {
		return storage.Info{}, err
	}
	return info, nil
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	return s.do(ctx, "delete", path, func(Outcome) error { return s.inner.Delete(ctx, path) })
}

// SweepTemps implements storage.Sweeper; a no-op when the wrapped store has no temporary files.
func (s *Store) SweepTemps(ctx context.Context, dir string) (n int, err error) {
	sw, ok := s.inner.(storage.Sweeper)
	if !ok {
		return 0, nil
	}
	err = s.do(ctx, "sweep", dir, func(Outcome) (err error) {
		n, err = sw.SweepTemps(ctx, dir)
		return err
	})
	return n, err
}

// URL returns the wrapped store's URL.
func (s *Store) URL() string { return s.inner.URL() }
