// Package inproc is a lock within one process.
//
// It owns one lock for each name, as Hudi's InProcessLockProvider has one for each table. It writes nothing, and keeps nobody out who runs
// elsewhere. It may import lock. Invariant: of all lockers of one name at most one holds it.
package inproc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tidemark/internal/lock"
)

var (
	mu  sync.Mutex // guards all
	all = map[string]chan struct{}{}
)

// Locker is the lock of one name. See New.
type Locker struct {
	name string
	turn chan struct{} // holds one value while the lock is held
	wait time.Duration
}

var _ lock.Locker = (*Locker)(nil)

// New returns the lock of a name, for example a table's base path. wait bounds Lock; 0 means lock.Wait.
func New(name string, wait time.Duration) *Locker {
	if wait <= 0 {
		wait = lock.Wait
	}
	mu.Lock()
	defer mu.Unlock()
	turn := all[name]
	if turn == nil {
		turn = make(chan struct{}, 1)
		all[name] = turn
	}
	return &Locker{name, turn, wait}
}

// Lock implements lock.Locker.
func (l *Locker) Lock(ctx context.Context) (lock.Held, error) {
	t := time.NewTimer(l.wait)
	defer t.Stop()
	select {
	case l.turn <- struct{}{}:
		return &held{turn: l.turn}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %s: %w", l.name, ctx.Err())
	case <-t.C:
		return nil, fmt.Errorf("lock %s in this process: %w", l.name, lock.ErrHeld)
	}
}

type held struct {
	turn chan struct{}
	mu   sync.Mutex // guards done
	done bool
}

// Check implements lock.Held.
func (h *held) Check(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return lock.ErrLost
	}
	return nil
}

// Unlock implements lock.Held.
func (h *held) Unlock(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.done {
		h.done = true
		<-h.turn
	}
	return nil
}
