package hfile

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"tidemark/internal/lru"
)

// Blocks keeps unpacked data blocks between look-ups, of any number of files, up to a budget. A file never changes under its name, so what is kept is
// never wrong. It is safe for concurrent use.
type Blocks struct {
	kept *lru.Cache[blockKey, *sorted]
}

type blockKey struct {
	file string
	off  int64
}

// NewBlocks returns an empty cache with a budget in bytes.
func NewBlocks(budget int64) *Blocks { return &Blocks{lru.New[blockKey, *sorted](budget)} }

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
	var wanted []inBlock
	for i, k := range keys {
		if b := floor(blocks, k); b >= 0 {
			wanted = append(wanted, inBlock{b, i})
		}
	}
	if err := r.lookup(ctx, blocks, wanted, keys, found, fn); err != nil {
		return err
	}
	wanted = wanted[:0]
	for i, k := range keys {
		if found[i] || !mayBeMisplaced(k) {
			continue
		}
		if b := floorUTF16(blocks, k); b >= 0 && b != floor(blocks, k) {
			wanted = append(wanted, inBlock{b, i})
		}
	}
	return r.lookup(ctx, blocks, wanted, keys, found, fn)
}

// inBlock is a key that is looked for in a block, both by their numbers.
type inBlock struct{ block, key int }

// lookup searches blocks for the keys that are wanted in them: first those that are kept, then the others in the order of the file.
func (r *Reader) lookup(ctx context.Context, blocks []entry, wanted []inBlock, keys [][]byte, found []bool, fn func(int, []byte) error) error {
	if len(wanted) == 0 {
		return nil
	}
	slices.SortFunc(wanted, func(a, b inBlock) int { return cmp.Or(a.block-b.block, a.key-b.key) })
	search := func(s *sorted, want []inBlock) error {
		for _, w := range want {
			for at := s.floor(keys[w.key]); at < len(s.cells) && bytes.Equal(s.cells[at].Key, keys[w.key]); at++ {
				found[w.key] = true
				if err := fn(w.key, s.cells[at].Value); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var rest [][]inBlock // by block that is not kept
	var list []entry
	for len(wanted) > 0 {
		n := 1
		for n < len(wanted) && wanted[n].block == wanted[0].block {
			n++
		}
		want, e := wanted[:n], blocks[wanted[0].block]
		wanted = wanted[n:]
		if r.kept != nil {
			if s, ok := r.kept.kept.Get(blockKey{r.file, e.off}); ok {
				if err := search(s, want); err != nil {
					return err
				}
				continue
			}
		}
		rest, list = append(rest, want), append(list, e)
	}
	var f inflater
	s := new(sorted)
	return r.runs(ctx, list, func(e entry, raw []byte) error {
		want := rest[0]
		rest = rest[1:]
		payload, err := r.unpack(&f, e, raw, magicData)
		if err != nil {
			return err
		}
		if r.kept != nil {
			payload, s = bytes.Clone(payload), new(sorted)
		}
		if err := s.fill(r, payload, e.off); err != nil {
			return err
		}
		if r.kept != nil {
			r.kept.kept.Put(blockKey{r.file, e.off}, s, s.size(payload))
		}
		return search(s, want)
	})
}
