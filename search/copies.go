package search

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// copies knows the record keys that live more than once, as the index does (design, decision 17). The record index names one place of a
// key, or none while another copy lives, so that it cannot say which row of such a key counts: all places that are known are read, and
// the row written last is the key's row.
type copies struct {
	snapshot *snapshot
	columns  table.Columns
	known    *mdt.Copies
}

// copies returns what is known of copies, nil if there are none.
func (s *session) copies() *copies {
	if s.index.Copies == nil {
		return nil
	}
	c := table.Columns{Vectors: []string{s.column.Column}, Others: s.request.Columns}
	return &copies{snapshot: s.snapshot, columns: c, known: s.index.Copies}
}

// places returns where the row of a candidate may be, nil if the record index can be trusted with its key. Where not all keys with copies are
// known, it can be if it says what the posting says.
func (c *copies) places(x candidate, at table.Group, there bool) []table.Group {
	posting := table.Group{Partition: x.locator.Partition, FileID: x.locator.FileID}
	k, ok := c.known.Find(x.key)
	if !ok && (!c.known.More || there && at == posting) {
		return nil
	}
	out := []table.Group{posting}
	if there && !slices.Contains(out, at) {
		out = append(out, at)
	}
	for _, in := range k.Groups {
		if g := (table.Group{Partition: in.Partition, FileID: in.FileID}); !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// last reads keys in file groups and returns the row of each that was written last.
func (c *copies) last(ctx context.Context, at map[table.Group]map[string]bool) (map[string]table.Row, map[string]table.Written, error) {
	rows, written := map[string]table.Row{}, map[string]table.Written{}
	for _, g := range slices.SortedFunc(maps.Keys(at), compareGroups) {
		err := c.snapshot.byKey(ctx, g, c.columns, at[g], func(r table.Row, w table.Written) error {
			if old, seen := written[r.Key]; !seen || w.Compare(old) > 0 {
				rows[r.Key], written[r.Key] = r, w
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, written, nil
}

// copied turns the candidates whose keys have copies into results and returns their keys. Where a key's row may be is asked of the
// postings of all queries together.
func (e *engine) copied(ctx context.Context, asks []*ask, where map[string]table.Group) (map[string]bool, error) {
	if e.copies == nil {
		return nil, nil
	}
	apart := map[string]bool{}
	at := map[table.Group]map[string]bool{}
	for _, a := range asks {
		for _, c := range a.found {
			g, there := where[c.key]
			for _, p := range e.copies.places(c, g, there) {
				apart[c.key] = true
				if at[p] == nil {
					at[p] = map[string]bool{}
				}
				at[p][c.key] = true
			}
		}
	}
	if len(apart) == 0 {
		return nil, nil
	}
	rows, written, err := e.copies.last(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("read copies of record keys: %w", err)
	}
	v := newStored(e.generation.Metric, e.column)
	for _, a := range asks {
		for _, c := range a.found {
			if !apart[c.key] {
				continue
			}
			a.answer.Stats.Copied++
			row, ok := rows[c.key]
			if !ok {
				a.answer.Stats.Dead++
				continue
			}
			if !v.set(row.Vectors[0]) || e.partitions != nil && !e.partitions[row.Partition] {
				continue
			}
			r := Result{Key: c.key, Partition: row.Partition, Distance: c.estimate}
			if e.rerank {
				r.Distance, r.Row = a.query.distance(v), rowOf(e.columns, row.Others)
			} else {
				g := written[c.key].Group
				c.locator.Partition, c.locator.FileID, c.locator.Position, c.locator.BaseInstant = g.Partition, g.FileID, -1, ""
				a.places[c.key] = c
			}
			a.answer.Results = append(a.answer.Results, r)
		}
	}
	return apart, nil
}
