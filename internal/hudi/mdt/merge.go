package mdt

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"iter"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/storage"
)

// cursor is one layer in a merge.
type cursor struct {
	layer layer
	order int // newer layers of a group are greater
	group int
	next  func() (hfile.Cell, error, bool)
	cell  hfile.Cell
	last  []byte // key of the cell before, reused
}

// step goes to the next cell and reports whether there is one. Keys must ascend.
func (c *cursor) step() (bool, error) {
	first := c.cell.Key == nil
	c.last = append(c.last[:0], c.cell.Key...)
	cell, err, ok := c.next()
	if err != nil || !ok {
		return false, err
	}
	if !first && bytes.Compare(cell.Key, c.last) <= 0 {
		return false, fmt.Errorf("key %x is not above its predecessor %x: %w", cell.Key, c.last, storage.ErrCorrupt)
	}
	c.cell = cell
	return true, nil
}

// cursors is a heap: lowest key first, of one key the newest layer first.
type cursors []*cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	if d := bytes.Compare(h[i].cell.Key, h[j].cell.Key); d != 0 {
		return d < 0
	}
	if h[i].group != h[j].group {
		return h[i].group < h[j].group
	}
	return h[i].order > h[j].order
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)   { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}

// scan merges all layers of the groups by key. Deletes of a layer hide older records of its group.
func (v *View) scan(ctx context.Context, groups []viewGroup, prefix []byte, fn func(e Entry) error) error {
	stored := hfile.EncodeKey(prefix)
	var live cursors
	deletes := map[int][]cursor{} // by group
	for _, g := range groups {
		layers, err := v.groupLayers(ctx, g)
		if err != nil {
			return err
		}
		for i, l := range layers {
			c := &cursor{layer: l, order: i, group: g.number}
			if l.file == nil {
				deletes[g.number] = append(deletes[g.number], *c)
				continue
			}
			next, stop := iter.Pull2(l.file.Scan(ctx, stored))
			defer stop()
			c.next = next
			ok, err := c.step()
			if err != nil {
				return located("read index file", v.place.File(l.path), err)
			}
			if ok {
				live = append(live, c)
			}
		}
	}
	heap.Init(&live)
	var key []byte
	group, have := 0, false
	for len(live) > 0 {
		c := live[0]
		switch {
		case have && bytes.Equal(c.cell.Key, key) && c.group != group:
			return fmt.Errorf("key %x is in file groups %d and %d: %w", key, group, c.group, storage.ErrCorrupt)
		case have && bytes.Equal(c.cell.Key, key): // an older record of the same key
		default:
			key, group, have = append(key[:0], c.cell.Key...), c.group, true
			if hidden(deletes[group], c) {
				break
			}
			logical, err := hfile.DecodeKey(key)
			if err != nil {
				return located("read index file", v.place.File(c.layer.path), err)
			}
			if err := fn(Entry{Key: logical, Value: c.cell.Value, Schema: c.layer.schema, ID: c.layer.instant, Base: c.layer.base}); err != nil {
				return err
			}
		}
		ok, err := c.step()
		if err != nil {
			return located("read index file", v.place.File(c.layer.path), err)
		}
		if ok {
			heap.Fix(&live, 0)
		} else {
			heap.Pop(&live)
		}
	}
	return nil
}

// hidden says whether a delete newer than c takes its key.
func hidden(deletes []cursor, c *cursor) bool {
	for _, d := range deletes {
		if d.order > c.order {
			if _, ok := d.layer.deleted[string(c.cell.Key)]; ok {
				return true
			}
		}
	}
	return false
}
