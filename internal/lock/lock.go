// Package lock is the contract of a lock that is shared with other writers of a table: Hudi's own lock providers.
//
// It owns the interface and its errors; packages inproc, storagelock and filelock implement it, and locktest is the suite that all pass. It
// may import storage. Nothing of ours needs a lock to be safe (the state object's compare-and-swap is what fences), so one is held only
// where it is configured, around the last steps of a commit, for writers that expect every writer to hold it.
//
// Invariant: who is told nil by Check was the only holder when the check began.
package lock

import (
	"context"
	"fmt"
	"time"

	"tidemark/internal/storage"
)

var (
	// ErrHeld says that someone else held the lock for as long as it was waited for. Nothing was changed.
	ErrHeld = error(held{})
	// ErrLost says that the lock is no longer certainly held: it could not be renewed, its time is over, or someone took it. What was
	// to be done under it must be done anew.
	ErrLost = fmt.Errorf("lock lost: %w", storage.ErrStale)
)

// held is ErrHeld: a storage.ErrConflict that does not say that something was changed.
type held struct{}

func (held) Error() string { return "lock is held by someone else" }
func (held) Unwrap() error { return storage.ErrConflict }

// Locker is a lock that can be taken. It is safe for concurrent use.
type Locker interface {
	// Lock waits until the lock is held, at most for the implementation's wait: ErrHeld. It ends with the context. An error means that
	// the lock is not held, or that it runs out by itself where the outcome of a call stayed unknown.
	Lock(ctx context.Context) (Held, error)
}

// Held is a lock that was taken. It is safe for concurrent use.
type Held interface {
	// Check returns nil if the lock is certainly still held, and ErrLost, or the error that kept it from finding out, if not.
	Check(ctx context.Context) error
	// Unlock gives the lock back. ErrLost says that it was no longer ours, and then nothing is changed. A second call does nothing.
	Unlock(ctx context.Context) error
}

// Wait is how long Lock waits for another holder where nothing else is configured, as Hudi's clients do.
const Wait = time.Minute

// Poll is how often a lock that is held by another is looked at.
const Poll = time.Second

// Sleep waits, or ends with the context.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
