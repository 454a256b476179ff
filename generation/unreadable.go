package generation

import (
	"context"
	"errors"

	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// UnreadableError says that a file of the wanted snapshot is no longer there. Its kinds are those of Err (among them
// storage.ErrNotFound) and storage.ErrRefused.
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
