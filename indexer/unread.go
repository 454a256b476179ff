package indexer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"tidemark/diffing"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// What a marker's reasons say of the file groups that a covered commit touched, beside why rows cannot be indexed.
const (
	// sliceGone counts those whose slice after the commit is no longer there.
	sliceGone = "slice_gone"
	// sliceUnreadable counts those whose slice after the commit is there and cannot be read or decoded.
	sliceUnreadable = "slice_unreadable"
	// beforeGone counts those whose slice before the commit, or before the unit that ends with it, is no longer there.
	beforeGone = "slice_before_gone"
)

// unread says of each of some commits that are covered together, in completion order, what of it could not be read: file groups by reason,
// nil if all could. after says which instants a commit's slices are made of, last those that were compared; slices that are neither gone
// nor among the latter are read here, for nothing but to see that they can be.
func unread(ctx context.Context, src source, metas []*timeline.CommitMetadata, c table.Columns, after func(n int) table.Cut, last table.Cut) ([]map[string]int64, error) {
	out := make([]map[string]int64, len(metas))
	gone := src.files.Gone()
	for n, meta := range metas {
		lost := map[table.Group]bool{}
		for _, s := range meta.Stats {
			if s.Path != "" && gone[path.Join(s.Partition, path.Base(s.Path))] {
				lost[table.Group{Partition: s.Partition, FileID: s.FileID}] = true
			}
		}
		for _, g := range diffing.Touched([]*timeline.CommitMetadata{meta}) {
			var err error
			if !lost[g] {
				err = src.probe(ctx, g, c, after(n), last)
			}
			why := ""
			switch {
			case lost[g]:
				why = sliceGone
			case err == nil:
				continue
			case errors.Is(err, storage.ErrNotFound):
				why = sliceGone
			case errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrUnsupported):
				why = sliceUnreadable
			default:
				return nil, fmt.Errorf("read slice of %s: %w", g, err)
			}
			if out[n] == nil {
				out[n] = map[string]int64{}
			}
			out[n][why]++
		}
	}
	return out, nil
}

// missed is unread for a unit that was compared: an instant that was compared alone was read.
func missed(ctx context.Context, src source, req diffing.Request) ([]map[string]int64, error) {
	if len(req.Instants) == 1 {
		return make([]map[string]int64, 1), nil
	}
	place, columns := map[string]int{}, table.Columns{}
	for n, i := range req.Instants {
		place[i.Requested] = n
	}
	for _, t := range req.Targets {
		if !slices.Contains(columns.Vectors, t.Vector.Column) {
			columns.Vectors = append(columns.Vectors, t.Vector.Column)
		}
	}
	after := func(n int) table.Cut {
		return table.Cut{In: func(i timeline.Instant) bool {
			at, in := place[i.Requested]
			return req.Incorporated(i) || in && at <= n
		}}
	}
	return unread(ctx, src, req.Metas, columns, after, after(len(req.Instants)-1))
}

// probe reads the slice of a group at a cut, unless it is that of another cut, which was read.
func (s source) probe(ctx context.Context, g table.Group, c table.Columns, at, read table.Cut) error {
	sl, ok, err := s.files.Slice(g, at)
	if err != nil || !ok {
		return err
	}
	if other, ok, err := s.files.Slice(g, read); err == nil && ok && sameFiles(sl, other) {
		return nil
	}
	rows, err := s.table.Rows(ctx, sl, c, nil)
	if err != nil {
		return err
	}
	for {
		if r, err := rows.Next(ctx); err != nil || r == nil {
			return err
		}
	}
}

// sameFiles says that two slices are made of the same files.
func sameFiles(a, b table.Slice) bool {
	if (a.Base == nil) != (b.Base == nil) || a.Base != nil && a.Base.Path != b.Base.Path {
		return false
	}
	return slices.EqualFunc(a.Logs, b.Logs, func(x, y table.File) bool { return x.Path == y.Path })
}

// held locates what stops the comparison of an instant. Damage has two ways out: the file as it was, or the table without it.
func held(i timeline.Instant, err error) error {
	e := &storage.Error{Op: "compare instant", Path: i.Requested, Err: err}
	if errors.Is(err, storage.ErrCorrupt) {
		e.Hint = "restore the file that is named; or go on from the table as it is now, if later commits replaced it there: tidemark reconcile"
	}
	return e
}
