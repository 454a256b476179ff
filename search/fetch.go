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
	stats *Stats
}

// fetch reads the wanted rows of one file group: by position where the posting's locator still fits the slice, the
// others by key. A position is a hint: where it shows another key, the row is looked for by its key in the same slice
// (R89).
func (r *sliceReader) fetch(ctx context.Context, g table.Group, wanted []candidate, fn func(table.Row) error) error {
	s, ok, err := r.snapshot.slice(g)
	if err != nil || !ok {
		return err
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
	if err := r.positions(ctx, s, at, byKey, fn); err != nil || len(byKey) == 0 {
		return err
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
		return err
	}
	for _, c := range wanted {
		if row, ok := rows[c.key]; ok {
			if err := fn(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// positions reads rows by position. Keys that are not where they should be are added to byKey.
func (r *sliceReader) positions(ctx context.Context, s table.Slice, at map[int64]string, byKey map[string]bool, fn func(table.Row) error) error {
	if len(at) == 0 {
		return nil
	}
	order := slices.Sorted(maps.Keys(at))
	var rows []table.Row
	left := maps.Clone(at)
	err := r.snapshot.table.ReadPositions(ctx, s, r.columns, order, func(row table.Row) error {
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
		return err
	}
	for _, key := range left {
		r.stats.FetchKeyMismatch++
		byKey[key] = true
	}
	for _, row := range rows {
		if err := fn(row); err != nil {
			return err
		}
	}
	return nil
}
