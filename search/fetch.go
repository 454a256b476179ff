package search

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

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
	placed := make([]*candidate, 0, len(wanted))
	for i := range wanted {
		c := &wanted[i]
		if c.locator.Position < 0 || s.Base == nil || c.locator.BaseInstant != s.Base.Instant || !r.fresh && len(s.Logs) > 0 {
			byKey[c.key] = true
			continue
		}
		placed = append(placed, c)
	}
	slices.SortFunc(placed, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.locator.Position, b.locator.Position), strings.Compare(a.key, b.key))
	})
	n := 0
	for _, c := range placed {
		if n > 0 && placed[n-1].locator.Position == c.locator.Position { // it is another one's
			byKey[c.key] = true
			continue
		}
		placed[n] = c
		n++
	}
	placed = placed[:n]
	if len(placed) == 0 && len(byKey) == 0 {
		return nil, nil
	}
	store := r.snapshot.table.Store
	if storage.IsBroad(store) && len(placed) > 0 && len(byKey) > 0 { // both need the footer: it is read once
		if _, err := r.snapshot.table.BaseRows(ctx, s); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
	}
	var keyed map[string]table.Row
	err = storage.Together(store, func() (err error) {
		mismatched, err = r.positions(ctx, s, placed, fn)
		return err
	}, func() (err error) { // this one keeps its rows, as fn is called by the other
		keyed, err = r.byKey(ctx, s, byKey)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(mismatched) > 0 {
		again := map[string]bool{}
		for _, key := range mismatched {
			again[key] = true
		}
		more, err := r.byKey(ctx, s, again)
		if err != nil {
			return nil, err
		}
		maps.Copy(keyed, more)
	}
	if len(keyed) == 0 {
		return mismatched, nil
	}
	for _, c := range wanted {
		if row, ok := keyed[c.key]; ok {
			if err := fn(row); err != nil {
				return nil, err
			}
		}
	}
	return mismatched, nil
}

// byKey reads rows by key. A base file may hold a key more than once: the copy written last counts.
func (r *sliceReader) byKey(ctx context.Context, s table.Slice, keys map[string]bool) (map[string]table.Row, error) {
	rows, written := map[string]table.Row{}, map[string]table.Written{}
	if len(keys) == 0 {
		return rows, nil
	}
	err := r.snapshot.table.ReadKeys(ctx, s, r.columns, keys, func(row table.Row) error {
		at := r.snapshot.table.Written(s, row)
		if old, seen := written[row.Key]; !seen || at.Compare(old) > 0 {
			rows[row.Key], written[row.Key] = row, at
		}
		return nil
	})
	return rows, err
}

// footersAhead bounds the base files whose footers are read before it is known that they are needed.
const footersAhead = 32

// ahead returns calls that read the footers of the base files that postings name, which are kept: errors come out when they are needed.
func (r *sliceReader) ahead(ctx context.Context, asks []*ask) (calls []func() error) {
	seen := map[table.Group]bool{}
	for _, a := range asks {
		for _, c := range a.found {
			g := table.Group{Partition: c.locator.Partition, FileID: c.locator.FileID}
			if seen[g] || len(calls) == footersAhead {
				continue
			}
			seen[g] = true
			calls = append(calls, func() error {
				if s, ok, err := r.snapshot.slice(g); ok && err == nil {
					_, _ = r.snapshot.table.BaseRows(ctx, s)
				}
				return nil
			})
		}
	}
	return calls
}

// positions hands the rows at the positions of candidates, which ascend, to fn and returns the keys that are not where they should be.
func (r *sliceReader) positions(ctx context.Context, s table.Slice, placed []*candidate, fn func(table.Row) error) (mismatched []string, err error) {
	if len(placed) == 0 {
		return nil, nil
	}
	order := make([]int64, len(placed))
	for i, c := range placed {
		order[i] = c.locator.Position
	}
	var stop error
	err = r.snapshot.table.ReadPositions(ctx, s, r.columns, order, func(x *table.SliceRow) error {
		c := placed[0]
		placed = placed[1:]
		if string(x.Key) != c.key {
			mismatched = append(mismatched, c.key)
			return nil
		}
		stop = fn(table.Row{Key: c.key, Partition: s.Partition, Vectors: x.Vectors, Others: x.Others, Position: x.Position})
		return stop
	})
	if errors.Is(err, storage.ErrNotFound) && stop == nil { // a position beyond the file; if the file is gone, the read by key says so
		for _, c := range placed {
			mismatched = append(mismatched, c.key)
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(mismatched)
	return mismatched, nil
}
