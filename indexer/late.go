package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/generation"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/markers"
	"tidemark/timeline"
)

// settle rewrites the changes of a late unit (protocol 0.3 step 2): what the comparison found only names
// candidate keys. A commit that is covered already may have moved such a key to a file group that the late one
// never touched, so each key is written as it stands now, wherever it lives: in the groups the unit touched, or
// where a posting of the index says. Every posting of the key that is not the one written is replaced. The
// counts stay those of the comparison.
func (l *look) settle(ctx context.Context, src source, req diffing.Request, results []diffing.Result, byIndex map[string]*known) error {
	// What the unit changed when it was made, whatever later commits made of it. Where those slices are gone, the
	// comparison with what is incorporated has to do, whose mode says so.
	own := req
	own.Incorporated = func(i timeline.Instant) bool { return markers.ByCompletion(i, req.Instants[0]) < 0 }
	then, err := diffing.Compare(ctx, src, own)
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrStale) {
		return fmt.Errorf("compare late instant %s: %w", req.Instants[0].Requested, err)
	}
	for n := range results {
		r, target, k := &results[n], req.Targets[n], byIndex[results[n].Index]
		keys := map[string]bool{}
		for _, c := range r.Changes {
			keys[c.Key] = true
		}
		if err == nil {
			for _, c := range then[n].Changes {
				keys[c.Key] = true
			}
		}
		if len(keys) == 0 {
			continue
		}
		held, err := k.all(ctx, keys)
		if err != nil {
			return err
		}
		rows, err := l.now(ctx, src, req, target, keys, held)
		if err != nil {
			return fmt.Errorf("read keys of late instant %s: %w", req.Instants[0].Requested, err)
		}
		r.Changes = r.Changes[:0]
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			c := delta.Change{Key: key, New: rows[key], Instant: req.Instants[len(req.Instants)-1].Requested}
			for _, p := range held[key] {
				v := &delta.Version{Locator: p.Locator, Cluster: p.Cluster, Routed: true}
				if c.Old == nil {
					c.Old = v
					continue
				}
				c.Also = append(c.Also, v)
			}
			switch {
			case c.Old == nil && c.New == nil:
				continue
			case c.Old == nil:
				c.Class = delta.Insert
			case c.New == nil:
				c.Class = delta.Delete
			default:
				c.Class = delta.VectorUpdate // equality with what the posting was made of is not proved
			}
			r.Changes = append(r.Changes, c)
		}
	}
	return nil
}

// now returns the indexable rows of some keys as they stand with the unit incorporated; of several copies the one
// written last counts.
func (l *look) now(ctx context.Context, src source, req diffing.Request, target diffing.Target, keys map[string]bool, held map[string][]diffing.Posting) (map[string]*delta.Version, error) {
	groups := map[table.Group]bool{}
	for _, g := range diffing.Touched(req.Metas) {
		groups[g] = true
	}
	for _, list := range held {
		for _, p := range list {
			groups[table.Group{Partition: p.Locator.Partition, FileID: p.Locator.FileID}] = true
		}
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b table.Group) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.FileID, b.FileID))
	})
	unit := map[string]bool{}
	for _, i := range req.Instants {
		unit[i.Requested] = true
	}
	rows, written := map[string]*delta.Version{}, map[string][2]string{}
	for _, g := range order {
		s, ok, err := src.Slice(g, func(i timeline.Instant) bool { return req.Incorporated(i) || unit[i.Requested] })
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		err = l.table.ReadKeys(ctx, s, table.Columns{Vectors: []string{target.Vector.Column}}, keys, func(r table.Row) error {
			at := [2]string{l.table.Completion(r.CommitTime), r.CommitTime}
			if old, seen := written[r.Key]; seen && cmp.Or(cmp.Compare(at[0], old[0]), cmp.Compare(at[1], old[1])) < 0 {
				return nil
			}
			written[r.Key] = at
			delete(rows, r.Key)
			v := make([]float32, target.Vector.Dim)
			if ok, _ := kernel.Narrow(v, r.Vectors[0], target.Vector.Element.Kernel(), target.Metric); ok {
				rows[r.Key] = &delta.Version{Raw: r.Vectors[0], Vector: v,
					Locator: delta.Locator{Partition: g.Partition, FileID: g.FileID, BaseInstant: s.Instant, Position: r.Position}}
			}
			return nil
		})
		if errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("%w: %w", err, storage.ErrStale)
		}
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// all returns every posting of some keys as the index stores them now.
func (o *known) all(ctx context.Context, keys map[string]bool) (map[string][]diffing.Posting, error) {
	held := map[string][]diffing.Posting{}
	err := o.gen.Postings(ctx, o.view, func(p generation.Posting) error {
		if keys[p.Key] {
			held[p.Key] = append(held[p.Key], diffing.Posting{Cluster: p.Cluster, Locator: p.Locator})
		}
		return nil
	})
	return held, err
}
