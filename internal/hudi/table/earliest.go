package table

import (
	"context"
	"errors"

	"tidemark/internal/storage"
)

// EarliestReadable returns the requested time of the first data write, in completion order, from which on every snapshot can
// be read whole; "" when the table has no data write, or when not even the newest snapshot can be read. Instants of the
// active timeline only are considered.
func (t *Table) EarliestReadable(ctx context.Context) (string, error) {
	files, err := t.Files(ctx)
	if err != nil {
		return "", err
	}
	return files.EarliestReadable()
}

// EarliestReadable is Table.EarliestReadable on files that were listed already.
func (f *Files) EarliestReadable() (string, error) {
	writes := f.t.Timeline.Writes()
	first := 0 // index of the first readable snapshot so far
	for _, g := range f.order {
		// Readability never comes back going backwards, so each group is followed down to its first gone slice only, and looked
		// at only where the next instant is one of its own.
		own := f.groups[g].instants()
		for i := len(writes) - 1; i >= first; i-- {
			if i < len(writes)-1 && !own[writes[i+1].Requested] {
				continue
			}
			_, _, err := f.Slice(g, Cut{Upto: writes[i].Completed})
			if errors.Is(err, storage.ErrNotFound) {
				first = i + 1
				break
			}
			if err != nil {
				return "", err
			}
		}
	}
	if first >= len(writes) {
		return "", nil
	}
	return writes[first].Requested, nil
}

// instants returns the requested times that occur in a group: in its files' names, as their writers, as replacing it.
func (x *group) instants() map[string]bool {
	out := map[string]bool{}
	for _, files := range [][]*File{x.bases, x.logs} {
		for _, file := range files {
			out[file.Instant] = true
			for _, w := range file.writers {
				out[w] = true
			}
		}
	}
	for _, r := range x.replaced {
		out[r] = true
	}
	return out
}
