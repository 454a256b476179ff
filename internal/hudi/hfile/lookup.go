package hfile

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"tidemark/internal/lru"
)

// Blocks keeps unpacked data blocks between look-ups, of any number of files, up to a budget. A file never changes under its name, so what is kept is
// never wrong. It is safe for concurrent use.
type Blocks struct {
	kept *lru.Cache[blockKey, []Cell]
}

type blockKey struct {
	file string
	off  int64
}

// cellSize is about what a cell takes beside its bytes.
const cellSize = 48

// NewBlocks returns an empty cache with a budget in bytes.
func NewBlocks(budget int64) *Blocks { return &Blocks{lru.New[blockKey, []Cell](budget)} }

// Stats returns what the cache has done so far.
func (b *Blocks) Stats() lru.Stats { return b.kept.Stats() }

// Keep lets look-ups keep blocks. file names the file among all that share b, and its version: Hudi gives the first files of a partition that is
// built again the names of those before. Call it before the first look-up.
func (r *Reader) Keep(b *Blocks, file string) { r.kept, r.file = b, file }

// Lookup calls fn for every cell whose key is keys[i]; keys may be in any order and repeat, absent ones give no call. The calls are in
// no order. Only the blocks that can hold a key are read, neighbours in one request, unless they are kept. Cells may be in any order
// inside their block, and a file that Java sorted by UTF-16 units is searched in that order too. value is not the caller's and is valid
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
	search := func(cells []Cell, want []int) error {
		for _, i := range want {
			at, _ := slices.BinarySearchFunc(cells, keys[i], func(c Cell, key []byte) int { return bytes.Compare(c.Key, key) })
			for ; at < len(cells) && bytes.Equal(cells[at].Key, keys[i]); at++ {
				found[i] = true
				if err := fn(i, cells[at].Value); err != nil {
					return err
				}
			}
		}
		return nil
	}
	order := make([]int, 0, len(wanted))
	for b, want := range wanted {
		if r.kept != nil {
			if cells, ok := r.kept.kept.Get(blockKey{r.file, blocks[b].off}); ok {
				if err := search(cells, want); err != nil {
					return err
				}
				continue
			}
		}
		order = append(order, b)
	}
	sort.Ints(order)
	list := make([]entry, len(order))
	for i, b := range order {
		list[i] = blocks[b]
	}
	var f inflater
	var cells []Cell
	next := 0
	return r.runs(ctx, list, func(e entry, raw []byte) error {
		want := wanted[order[next]]
		next++
		payload, err := r.unpack(&f, e, raw, magicData)
		if err != nil {
			return err
		}
		if r.kept != nil {
			payload, cells = bytes.Clone(payload), nil
		}
		if cells, err = r.sorted(cells[:0], payload, e.off); err != nil {
			return err
		}
		if r.kept != nil {
			r.kept.kept.Put(blockKey{r.file, e.off}, cells, int64(len(payload)+cellSize*len(cells)))
		}
		return search(cells, want)
	})
}

// sorted appends the cells of a data block in the order of their keys.
func (r *Reader) sorted(cells []Cell, payload []byte, off int64) ([]Cell, error) {
	err := r.cells(payload, off, func(c Cell) error {
		cells = append(cells, c)
		return nil
	})
	byKey := func(a, b Cell) int { return bytes.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(cells, byKey) {
		slices.SortStableFunc(cells, byKey)
	}
	return cells, err
}
