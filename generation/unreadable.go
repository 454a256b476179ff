package generation

import (
	"context"
	"errors"
	"fmt"

	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// UnreadableError says that a file of the wanted snapshot is no longer there, or that its instant is archived, so that it is
// not known which files it had. Its kinds are those of Err (among them storage.ErrNotFound) and storage.ErrRefused.
type UnreadableError struct {
	// Earliest is the requested time of the first instant, in completion order, from which on every snapshot is readable;
	// "" if there is none.
	Earliest string
	Err      error
}

// Error names what is missing.
func (e *UnreadableError) Error() string { return "read snapshot: " + e.Err.Error() }

// Unwrap returns the cause, with the next step in front, and storage.ErrRefused.
func (e *UnreadableError) Unwrap() []error {
	hint := "no snapshot of the table can be read whole"
	if e.Earliest != "" {
		hint = "snapshots can be read from instant " + e.Earliest + " on"
	}
	return []error{&storage.Error{Op: "read", Path: "snapshot", Hint: hint, Err: e.Err}, storage.ErrRefused}
}

// gone turns a file that the cleaner took into an UnreadableError. A vanished file that the store reports counts, too: it
// was there when the files were listed.
func gone(ctx context.Context, t *table.Table, err error) error {
	if !errors.Is(err, table.ErrGone) && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	earliest, findErr := t.EarliestReadable(ctx)
	if findErr != nil {
		return errors.Join(err, findErr)
	}
	return &UnreadableError{Earliest: earliest, Err: err}
}

// archived turns err, by which asOf is not on the active timeline, into an UnreadableError if the archived timeline has it.
func archived(ctx context.Context, t *table.Table, asOf string, err error) error {
	if asOf == "" || !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	what, lookErr := inArchive(ctx, t, asOf)
	if lookErr != nil {
		return fmt.Errorf("%w; and the archived timeline cannot be searched: %w", err, lookErr)
	}
	if what == "" {
		return err
	}
	earliest, findErr := t.EarliestReadable(ctx)
	if findErr != nil {
		return fmt.Errorf("%w; and no other can be proposed: %w", err, findErr)
	}
	return &UnreadableError{Earliest: earliest, Err: fmt.Errorf("%s %s is archived: %w", what, asOf, storage.ErrNotFound)}
}

// inArchive returns the action of the archived instant with that requested or completion time, "" if there is none. Layout 1's
// archive is not read: no table that can be indexed has it.
func inArchive(ctx context.Context, t *table.Table, at string) (timeline.Action, error) {
	if t.Props.Layout != 2 {
		return "", nil
	}
	if writes := t.Timeline.Writes(); len(writes) > 0 && at > writes[len(writes)-1].Completed {
		return "", nil // what is archived had completed before
	}
	inst, _, err := t.Archive().Find(ctx, at)
	return inst.Action, err
}
