package search

import (
	"context"
	"errors"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// indexError says that the index or the record index cannot be read. The table may be readable all the same.
type indexError struct {
	records bool // the record index
	err     error
}

func (e *indexError) Error() string {
	if e.records {
		return "the record index cannot be read: " + e.err.Error()
	}
	return "the index cannot be read: " + e.err.Error()
}

func (e *indexError) Unwrap() error { return e.err }

// lateError says that the deadline came before there was an answer, which is context.DeadlineExceeded.
type lateError struct{ why string }

func (e *lateError) Error() string { return e.why + ": " + context.DeadlineExceeded.Error() }
func (e *lateError) Unwrap() error { return context.DeadlineExceeded }

// tooLate puts the error of a query that its deadline ended into words.
func tooLate(err error) error {
	var e *lateError
	if !errors.As(err, &e) {
		e = &lateError{"the deadline came before any row was found"}
	}
	return &storage.Error{Op: "search", Hint: "give the query more time, or probe fewer clusters", Err: e}
}

// remedy says what to do about an index that cannot be read.
func (s *session) remedy(e *indexError) string {
	rebuild := "it must be built anew: tidemark index drop " + s.table + " --index " + s.index.Name + " --yes-drop " + s.index.Name +
		" && tidemark index create " + s.table + " --column " + mdt.Word(s.index.Column) + " --name " + s.index.Name + "; until then " + exact
	switch {
	case e.records && (errors.Is(e, storage.ErrNotFound) || errors.Is(e, storage.ErrCorrupt)):
		return "the table's metadata table is damaged: let Hudi rebuild it; until then " + exact
	case e.records:
	case errors.Is(e, storage.ErrNotFound):
		return "the index is absent: the metadata table was rebuilt, or someone deleted the file; " + rebuild
	case errors.Is(e, storage.ErrCorrupt):
		return "the index is damaged; " + rebuild
	}
	if hint := storage.Hint(e.err); hint != "" {
		return hint + "; until then " + exact
	}
	return "try again, or " + exact
}
