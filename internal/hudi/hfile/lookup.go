package hfile

import (
	"bytes"
	"context"
	"sort"
)

// Lookup calls fn for every cell whose key is keys[i], in file order; keys may be in any order and repeat, absent ones give
// no call. Only the blocks that can hold a key are read, neighbours in one request. Cells may be in any order inside their
// block, and a file that Java sorted by UTF-16 units is searched in that order too. value aliases a buffer and is valid
// during the call. An error of fn ends the look-up and is returned.
func (r *Reader) Lookup(ctx context.Context, keys [][]byte, fn func(i int, value []byte) error) error {
	blocks, err := r.index(ctx)
	if err != nil {
		return err
	}
	found := make([]bool, len(keys))
	wanted := map[int][]int{}
	for i, k := range keys {
		if b := floor(blocks, k); b >= 0 {
			wanted[b] = append(wanted[b], i)
		}
	}
	if err := r.lookup(ctx, blocks, wanted, keys, found, fn); err != nil {
		return err
	}
	again := map[int][]int{}
	for i, k := range keys {
		if found[i] || !mayBeMisplaced(k) {
			continue
		}
		if b := floorUTF16(blocks, k); b >= 0 && b != floor(blocks, k) {
			again[b] = append(again[b], i)
		}
	}
	return r.lookup(ctx, blocks, again, keys, found, fn)
}

// lookup searches each block for the keys that are wanted in it.
func (r *Reader) lookup(ctx context.Context, blocks []entry, wanted map[int][]int, keys [][]byte, found []bool, fn func(int, []byte) error) error {
	if len(wanted) == 0 {
		return nil
	}
	order := make([]int, 0, len(wanted))
	for b := range wanted {
		order = append(order, b)
	}
	sort.Ints(order)
	list := make([]entry, len(order))
	for i, b := range order {
		list[i] = blocks[b]
	}
	var f inflater
	next := 0
	return r.runs(ctx, list, func(e entry, raw []byte) error {
		want := wanted[order[next]]
		next++
		payload, err := r.unpack(&f, e, raw, magicData)
		if err != nil {
			return err
		}
		hit := func(i int, c Cell) error {
			found[i] = true
			return fn(i, c.Value)
		}
		if len(want) == 1 {
			return r.cells(payload, e.off, func(c Cell) error {
				if !bytes.Equal(c.Key, keys[want[0]]) {
					return nil
				}
				return hit(want[0], c)
			})
		}
		byKey := make(map[string][]int, len(want))
		for _, i := range want {
			byKey[string(keys[i])] = append(byKey[string(keys[i])], i)
		}
		return r.cells(payload, e.off, func(c Cell) error {
			for _, i := range byKey[string(c.Key)] {
				if err := hit(i, c); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
