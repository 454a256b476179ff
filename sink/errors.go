package sink

import (
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// Kinds of refusal that callers show as a state of the index. Each wraps a kind of package storage.
var (
	// ErrHandedOver says that the index's partition is registered in the table: an aware engine owns it (decision 4).
	// Nothing may be written any more.
	ErrHandedOver = mdt.ErrHandedOver
	// ErrNoMDT says that the table has no metadata table, or no longer the one that the state's files were in.
	ErrNoMDT = fmt.Errorf("metadata table is gone: %w", storage.ErrNotFound)
	// ErrFilesGone says that files which the state names are missing or have another size: the index is absent.
	ErrFilesGone = fmt.Errorf("files of the index are gone: %w", storage.ErrNotFound)
	// ErrLeaseLost says that another owner took over, or that this one was never one. What was staged is not visible.
	ErrLeaseLost = fmt.Errorf("lease lost: %w", storage.ErrConflict)
	// ErrBusy says that a commit is under way, so that only operator fields can be changed now.
	ErrBusy = fmt.Errorf("a commit is under way: %w", storage.ErrConflict)
	// ErrWeakStore says that a store accepted a second create of a name or a replace with a stale tag.
	ErrWeakStore = fmt.Errorf("store does not keep its promises: %w", storage.ErrUnsupported)
)

// LeaseError says that another owner holds the lease.
type LeaseError struct {
	Owner string    // who holds it
	Until time.Time // when it ends unless it is renewed, by that owner's clock
	// Ahead says that Until is further ahead than a lease lasts: some clock is wrong. Who asks again for WatchLease gets the lease, unless
	// its owner lives and renews it.
	Ahead bool
}

// Error names the owner and the end of its lease.
func (e *LeaseError) Error() string {
	text := fmt.Sprintf("lease is held by %s until %s", e.Owner, e.Until.UTC().Format(time.RFC3339))
	if e.Ahead {
		text += ", which is later than a lease lasts: the clock of that host, or of this one, is wrong"
	}
	return text
}

// Unwrap returns storage.ErrRefused.
func (e *LeaseError) Unwrap() error { return storage.ErrRefused }

// WaitError says that no id may be allocated now (docs/format/commit.md, Ids without a clock).
type WaitError struct {
	// Until is when to try again, by the store's clock; zero when only the next commit of the table helps.
	Until time.Time
	// Reason says which limit holds.
	Reason string
}

// Error returns the reason.
func (e *WaitError) Error() string { return "wait for an id: " + e.Reason }

// Unwrap returns storage.ErrStale: the same batch can be committed later.
func (e *WaitError) Unwrap() error { return storage.ErrStale }

func stale(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, storage.ErrStale)...)
}
