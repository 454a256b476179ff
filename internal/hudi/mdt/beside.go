package mdt

import (
	"context"
	"fmt"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

// TableID says which table a state beside it is about.
type TableID struct {
	Path  string `json:"path"`            // canonical base path
	Name  string `json:"name"`            // hoodie.table.name
	First string `json:"first,omitempty"` // requested time of the first completed instant that was active then
}

const (
	otherPlace = "name the place of this table's own indexes with --sink, or an empty one to create them in"
	madeAnew   = "the table was made anew under its old path: create the index again at an empty place (--sink)"
)

// NewTableID describes a table for the state beside it.
func NewTableID(base string, p *timeline.Properties, tl *timeline.Timeline) *TableID {
	id := &TableID{Path: base, Name: p.Name}
	for _, i := range tl.Instants() {
		if i.State == timeline.Completed && (id.First == "" || i.Requested < id.First) {
			id.First = i.Requested
		}
	}
	return id
}

// of refuses the state of a table with another base path, and one from inside a table.
func (s *State) of(base string) error {
	switch {
	case s.Table == nil:
		return fmt.Errorf("it was written inside a table, and not for %s: %w", base, storage.ErrRefused)
	case s.Table.Path != base:
		return fmt.Errorf("it is about the table %s, and not about %s: %w", s.Table.Path, base, storage.ErrRefused)
	}
	return nil
}

// SameTable returns ErrRefused when the table under the state's base path is not the one that the state is about: it has another name, or
// neither its active nor its archived timeline has the instant that was the first. A state inside a table is about that table.
// The archive is looked at only if the instant is not active any more.
func SameTable(ctx context.Context, id *TableID, p *timeline.Properties, tl *timeline.Timeline, a *timeline.Archive) error {
	if id == nil {
		return nil
	}
	if id.Name != p.Name {
		return &storage.Error{Op: "compare tables", Path: id.Path, Hint: madeAnew,
			Err: fmt.Errorf("the index is of table %q, this is %q: %w", id.Name, p.Name, storage.ErrRefused)}
	}
	if id.First == "" {
		return nil
	}
	if i, ok := tl.Find(id.First); ok && i.Requested == id.First {
		return nil
	}
	if id.First < tl.Earliest() {
		for _, err := range a.Instants(ctx, id.First, id.First) {
			if err != nil {
				return fmt.Errorf("compare tables: %w", err)
			}
			return nil
		}
	}
	return &storage.Error{Op: "compare tables", Path: id.Path, Hint: madeAnew,
		Err: fmt.Errorf("no timeline has instant %s, the first of the table that the index is of: %w", id.First, storage.ErrRefused)}
}
