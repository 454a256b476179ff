// Package fault wraps a storage.Store and makes chosen calls fail, deterministically.
//
// It owns: stopping a process image at the n-th call, before or after the call's effect; one call whose outcome the
// caller cannot know; a hook at every call; a trace of calls. It refuses to choose calls at random. It may import
// storage only. Invariant: without a fault configured it changes nothing.
package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
}

// Store is a fault layer over another store.
type Store struct {
	inner storage.Store
	cfg   Config

	mu     sync.Mutex // guards the fields below
	calls  int
	killed bool
	trace  []string
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Sweeper = (*Store)(nil)
)

// New wraps inner.
func New(inner storage.Store, cfg Config) *Store { return &Store{inner: inner, cfg: cfg} }

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

// do counts a call and runs it with its fault.
func (s *Store) do(op, path string, call func() error) error {
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
	if !dead && s.cfg.Decide != nil {
		o := s.cfg.Decide(op, path)
		if o.Kill {
			s.Kill()
			o.Err = ErrKilled
		}
		if o.Err != nil {
			if o.After {
				_ = call() // the answer was lost
			}
			return fail(o.Err)
		}
	}
	switch {
	case dead:
		return fail(ErrKilled)
	case stop:
		if s.cfg.StopAfter {
			_ = call() // the process is gone before it could see the result
		}
		return fail(ErrKilled)
	case n == s.cfg.FailAt:
		if s.cfg.FailAfter {
			_ = call() // the answer was lost
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
	return call()
}

// ReadFile implements storage.Store.
func (s *Store) ReadFile(ctx context.Context, path string) (b []byte, info storage.Info, err error) {
	err = s.do("read", path, func() (err error) {
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
	err = s.do("range", path, func() (err error) {
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
	err = s.do("stat", path, func() (err error) {
		info, err = s.inner.Stat(ctx, path)
		return err
	})
	return info, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, dir string) (list []storage.Info, err error) {
	err = s.do("list", dir, func() (err error) {
		list, err = s.inner.List(ctx, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, path string, data []byte) (info storage.Info, err error) {
	err = s.do("create", path, func() (err error) {
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
	err = s.do("create", path, func() (err error) {
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
	err = s.do("replace", path, func() (err error) {
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
	return s.do("delete", path, func() error { return s.inner.Delete(ctx, path) })
}

// SweepTemps implements storage.Sweeper; a no-op when the wrapped store has no temporary files.
func (s *Store) SweepTemps(ctx context.Context, dir string) (n int, err error) {
	sw, ok := s.inner.(storage.Sweeper)
	if !ok {
		return 0, nil
	}
	err = s.do("sweep", dir, func() (err error) {
		n, err = sw.SweepTemps(ctx, dir)
		return err
	})
	return n, err
}

// URL returns the wrapped store's URL.
func (s *Store) URL() string { return s.inner.URL() }
