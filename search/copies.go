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

// copied turns the candidates whose keys have copies into results and returns the others.
func (e *engine) copied(ctx context.Context, found []candidate, where map[string]table.Group) ([]candidate, error) {
	if e.copies == nil {
		return found, nil
	}
	var apart, others []candidate
	at := map[table.Group]map[string]bool{}
	for _, c := range found {
		g, there := where[c.key]
		places := e.copies.places(c, g, there)
		if places == nil {
			others = append(others, c)
			continue
		}
		apart = append(apart, c)
		for _, p := range places {
			if at[p] == nil {
				at[p] = map[string]bool{}
			}
			at[p][c.key] = true
		}
	}
	if len(apart) == 0 {
		return found, nil
	}
	e.answer.Stats.Copied += len(apart)
	rows, written, err := e.copies.last(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("read copies of record keys: %w", err)
	}
	for _, c := range apart {
		row, ok := rows[c.key]
		if !ok {
			e.answer.Stats.Dead++
			continue
		}
		d, ok := e.query.distance(row.Vectors[0])
		if !ok || e.partitions != nil && !e.partitions[row.Partition] {
			continue
		}
		if !e.rerank {
			d = c.estimate
			g := written[c.key].Group
			c.locator.Partition, c.locator.FileID, c.locator.Position, c.locator.BaseInstant = g.Partition, g.FileID, -1, ""
			e.places[c.key] = c
		}
		r := Result{Key: c.key, Partition: row.Partition, Distance: d}
		if e.rerank {
			r.Row = rowOf(e.columns, row.Others)
		}
		e.answer.Results = append(e.answer.Results, r)
	}
	return others, nil
}
