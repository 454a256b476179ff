package diffing_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// real is a table as diffing reads it.
type real struct {
	table *table.Table
	files *table.Files
}

func (r real) Slice(g table.Group, in func(timeline.Instant) bool) (table.Slice, bool, error) {
	return r.files.Slice(g, table.Cut{In: in})
}

func (r real) Rows(ctx context.Context, s table.Slice, c table.Columns, twin diffing.Rows) (diffing.Rows, error) {
	other, _ := twin.(*table.Rows)
	rows, err := r.table.Rows(ctx, s, c, other)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (r real) ReadAppended(ctx context.Context, before, after table.Slice, c table.Columns, fn func(bool, table.Row) error) error {
	return r.table.ReadAppended(ctx, before, after, c, fn)
}

func (r real) ReadKeys(ctx context.Context, s table.Slice, c table.Columns, keys map[string]bool, fn func(table.Row) error) error {
	return r.table.ReadKeys(ctx, s, c, keys, fn)
}

var _ diffing.Source = real{}

// naiveSide is every row of the touched groups by key; of copies the one written last stays (design decision 17).
type naiveSide struct {
	rows       map[string]naiveRow
	duplicates map[string]int64
}

type naiveRow struct {
	raw             [][]byte
	loc             delta.Locator
	written, commit string
}

func (r naiveRow) after(o naiveRow) bool {
	return cmp.Or(cmp.Compare(r.written, o.written), cmp.Compare(r.commit, o.commit), cmp.Compare(r.loc.Partition, o.loc.Partition),
		cmp.Compare(r.loc.FileID, o.loc.FileID), cmp.Compare(r.loc.Position, o.loc.Position)) > 0
}

func (s *naiveSide) read(ctx context.Context, src real, sl table.Slice, columns []string, completion func(string) string, note func(string)) error {
	return src.table.ReadMerged(ctx, sl, table.Columns{Vectors: columns}, func(r table.Row) error {
		note(r.Key)
		x := naiveRow{raw: r.Vectors, written: completion(r.CommitTime), commit: r.CommitTime,
			loc: delta.Locator{Partition: sl.Partition, FileID: sl.FileID, BaseInstant: sl.Instant, Position: r.Position}}
		old, seen := s.rows[r.Key]
		if seen {
			s.duplicates[r.Key]++
		}
		if !seen || x.after(old) {
			s.rows[r.Key] = x
		}
		return nil
	})
}

// naive is Compare by whole slices in maps: slow, unbounded, and plain enough to be believed.
func naive(ctx context.Context, src real, req diffing.Request) ([]diffing.Result, error) {
	unit := map[string]bool{}
	for _, i := range req.Instants {
		unit[i.Requested] = true
	}
	after := func(i timeline.Instant) bool { return req.Incorporated(i) || unit[i.Requested] && i.IsDataWrite() }
	var columns []string
	for _, t := range req.Targets {
		if !slices.Contains(columns, t.Vector.Column) {
			columns = append(columns, t.Vector.Column)
		}
	}
	before, now := &naiveSide{map[string]naiveRow{}, map[string]int64{}}, &naiveSide{map[string]naiveRow{}, map[string]int64{}}
	blind := map[string]bool{}
	var degraded []table.Group
	for _, g := range diffing.Touched(req.Metas) {
		gone := false
		s, ok, err := src.Slice(g, req.Incorporated)
		if errors.Is(err, storage.ErrNotFound) {
			gone = true
			degraded = append(degraded, g)
		} else if err != nil {
			return nil, err
		} else if ok {
			if err := before.read(ctx, src, s, columns, req.Completion, func(string) {}); err != nil {
				return nil, err
			}
		}
		s, ok, err = src.Slice(g, after)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("%w: %w", err, storage.ErrStale)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			err := now.read(ctx, src, s, columns, req.Completion, func(key string) {
				if gone {
					blind[key] = true
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	var results []diffing.Result
	for _, t := range req.Targets {
		known := map[string]diffing.Posting{}
		if len(degraded) > 0 && req.Known != nil {
			var err error
			if known, err = req.Known(ctx, t.Index); err != nil {
				return nil, err
			}
		}
		results = append(results, naiveClasses(t, slices.Index(columns, t.Vector.Column), before, now, known, blind, degraded, req))
	}
	return results, nil
}

func naiveClasses(t diffing.Target, column int, before, now *naiveSide, known map[string]diffing.Posting, blind map[string]bool, degraded []table.Group, req diffing.Request) diffing.Result {
	res := diffing.Result{Index: t.Index, Counts: diffing.Counts{}, Reasons: map[string]int64{}, Degraded: degraded, Mode: diffing.Full}
	if len(degraded) > 0 {
		res.Mode = diffing.CurrentOnly
	}
	if len(req.Instants) > 1 {
		res.Mode = diffing.Merged
	}
	version := func(r naiveRow) (*delta.Version, string) {
		v := make([]float32, t.Vector.Dim)
		if ok, reason := kernel.Narrow(v, r.raw[column], t.Vector.Element.Kernel(), t.Metric); !ok {
			return nil, reason
		}
		return &delta.Version{Raw: r.raw[column], Vector: v, Locator: r.loc}, ""
	}
	posting := func(key string) *delta.Version {
		p, ok := known[key]
		if !ok {
			return nil
		}
		return &delta.Version{Locator: p.Locator, Cluster: p.Cluster, Routed: true}
	}
	add := func(class delta.Class, key string, old, cur *delta.Version) {
		res.Counts[class]++
		if class != delta.Unchanged {
			res.Changes = append(res.Changes, delta.Change{Class: class, Key: key, Old: old, New: cur, Instant: req.Instants[len(req.Instants)-1].Requested})
		}
	}
	keys := map[string]bool{}
	for key := range before.rows {
		keys[key] = true
	}
	for key := range now.rows {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var old, cur *delta.Version
		n, isNow := now.rows[key]
		if isNow {
			var reason string
			if cur, reason = version(n); cur == nil {
				res.Counts[delta.Unindexable]++
				res.Reasons[reason]++
			}
			res.Duplicates += now.duplicates[key]
		}
		if b, ok := before.rows[key]; ok {
			old, _ = version(b)
		} else if p, ok := known[key]; ok && (blind[key] || slices.Contains(degraded, table.Group{Partition: p.Locator.Partition, FileID: p.Locator.FileID})) {
			old = posting(key)
		}
		switch {
		case old == nil && cur == nil:
		case old == nil:
			add(delta.Insert, key, posting(key), cur)
		case cur == nil:
			add(delta.Delete, key, old, nil)
		case old.Raw == nil || !bytes.Equal(old.Raw, cur.Raw):
			add(delta.VectorUpdate, key, old, cur)
		case old.Locator != cur.Locator:
			add(delta.LocatorRefresh, key, old, cur)
		default:
			add(delta.Unchanged, key, old, cur)
		}
	}
	return res
}
