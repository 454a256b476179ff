package search

import (
	"context"
	"errors"
	"maps"
	"slices"

	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// sliceReader fetches finalists from their file slices.
type sliceReader struct {
	snapshot *snapshot
	columns  table.Columns
	// fresh says that the index covers exactly the snapshot. Then a locator with a position proves that no log of the slice
	// holds the key; otherwise a slice with logs is always read merged, so that an older row is never taken for the
	// current one (R90).
	fresh bool
}

// fetch reads the wanted rows of one file group: by position where the posting's locator still fits the slice, the
// others by key. A position is a hint: where it shows another key, the row is looked for by its key in the same slice
// (R89).
func (r *sliceReader) fetch(ctx context.Context, g table.Group, wanted []candidate, fn func(table.Row) error) (mismatched []string, err error) {
	s, ok, err := r.snapshot.slice(g)
	if err != nil || !ok {
		return nil, err
	}
	byKey := map[string]bool{}
	at := map[int64]string{}
	for _, c := range wanted {
		position := c.locator.Position
		_, taken := at[position]
		if position < 0 || taken || s.Base == nil || c.locator.BaseInstant != s.Base.Instant || !r.fresh && len(s.Logs) > 0 {
			byKey[c.key] = true
			continue
		}
		at[position] = c.key
	}
	if mismatched, err = r.positions(ctx, s, at, fn); err != nil {
		return nil, err
	}
	for _, key := range mismatched {
		byKey[key] = true
	}
	if len(byKey) == 0 {
		return nil, nil
	}
	// A base file may hold a key more than once: the copy written last counts.
	rows, written := map[string]table.Row{}, map[string]table.Written{}
	err = r.snapshot.table.ReadKeys(ctx, s, r.columns, byKey, func(row table.Row) error {
		at := r.snapshot.table.Written(s, row)
		if old, seen := written[row.Key]; !seen || at.Compare(old) > 0 {
			rows[row.Key], written[row.Key] = row, at
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range wanted {
		if row, ok := rows[c.key]; ok {
			if err := fn(row); err != nil {
				return nil, err
			}
		}
	}
	return mismatched, nil
}

// positions reads rows by position and returns the keys that are not where they should be.
func (r *sliceReader) positions(ctx context.Context, s table.Slice, at map[int64]string, fn func(table.Row) error) (mismatched []string, err error) {
	if len(at) == 0 {
		return nil, nil
	}
	order := slices.Sorted(maps.Keys(at))
	var rows []table.Row
	left := maps.Clone(at)
	err = r.snapshot.table.ReadPositions(ctx, s, r.columns, order, func(row table.Row) error {
		if at[row.Position] == row.Key {
			rows = append(rows, row)
			delete(left, row.Position)
		}
		return nil
	})
	if errors.Is(err, storage.ErrNotFound) { // a position beyond the file; if the file is gone, the read by key says so
		rows, left, err = nil, at, nil
	}
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if err := fn(row); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Values(left)), nil
}
