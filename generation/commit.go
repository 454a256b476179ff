package generation

import (
	"context"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/timeline"
)

// FileRecords are the records of one file of a batch, ascending by key without doubles.
type FileRecords struct {
	Index   string
	Group   int  // physical file group
	Base    bool // a base file instead of a log file
	Records []delta.KV
}

// Batch is one commit as this room describes it.
type Batch struct {
	Kind     string // "bootstrap" or "activate"
	Revision int64  // of the state it was computed from
	// Build makes the records once the times are allocated. It is deterministic and may be called again with others.
	Build func(id, completion string) ([]FileRecords, error)
	// Apply changes the state as it is to be once the batch is visible.
	Apply func(st *mdt.State, id, completion string, files []mdt.DataFile) error
	// Newest is the newest data-table instant that was looked at.
	Newest timeline.Instant
}

// Committer makes commits. The sink implements it, behind an adapter that the program's wiring holds.
type Committer interface {
	// Acquire takes the table's lease, makes the state object if there is none, and settles what a killed owner left.
	Acquire(ctx context.Context) error
	// Release gives the lease back. Without a lease it does nothing.
	Release(ctx context.Context) error
	// State returns a copy of the state as of the last call of any method here; nil if none was read yet.
	State() *mdt.State
	// Reload reads the state anew. storage.ErrNotFound if there is none.
	Reload(ctx context.Context) (*mdt.State, error)
	// Update changes the state without a commit. fn may be called more than once.
	Update(ctx context.Context, fn func(*mdt.State) error) error
	// Commit makes a batch visible as one deltacommit and returns its id. storage.ErrStale: nothing is visible and the
	// same work can be done again. It needs the lease.
	Commit(ctx context.Context, b Batch) (id string, err error)
	// Drop marks an index dropped and retires its files. storage.ErrNotFound if there is no such index.
	Drop(ctx context.Context, index string) error
}
