package search

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// postings reads records of the index in key order: *mdt.View. An entry's slices are valid during the call only.
type postings interface {
	ScanEntries(ctx context.Context, prefix []byte, fn func(e mdt.Entry) error) error
}

// cluster is what the index holds of one cluster, ready to be scanned. It never changes, so that any number of queries can
// scan it at once.
type cluster struct {
	blocks []*block // the last one is of the postings written since, if there are any
	bytes  int64    // about what it takes in memory
}

// rows is how many postings there are.
func (c *cluster) rows() (n int) {
	for _, b := range c.blocks {
		n += b.factors.Len()
	}
	return n
}

// block is a posting block, or all deltas of a cluster in the same form: then postings cost the same, and have the same estimate to the
// last bit, before and after they are packed.
type block struct {
	view    *delta.BlockView // nil: of deltas
	deltas  deltas
	signs   rabitq.Signs
	planes  rabitq.Planes
	factors rabitq.FactorColumns
	void    []int32  // rows whose codes say nothing, ascending; nil: none
	gone    []uint64 // bit i: row i is superseded by a delta or a tombstone; nil: none is
}

func (b *block) isGone(i int) bool { return b.gone != nil && b.gone[i/64]>>(i%64)&1 == 1 }

// add appends the factors of the next row.
func (b *block) add(f rabitq.Factors) {
	if f.Void() {
		b.void = append(b.void, int32(b.factors.Len()))
	}
	b.factors.Append(f)
}

func (b *block) isVoid(i int32) bool {
	_, void := slices.BinarySearch(b.void, i)
	return void
}

func (b *block) key(i int) []byte {
	if b.view == nil {
		return b.deltas.keys[i]
	}
	return b.view.RecordKeyBytes(i)
}

func (b *block) locator(i int) delta.Locator {
	if b.view == nil {
		return b.deltas.locators[i]
	}
	return b.view.Locator(i)
}

// deltas are postings written since the blocks were, as planes.
type deltas struct {
	keys        [][]byte
	locators    []delta.Locator
	signs, rest []byte // of each a row, and the rows of the further planes
}

// add appends the planes of a binaryCode, which has the length of the shape: the sign code, then levels of bits−1 bits as a stream, the
// lowest bit first (docs/format/posting-delta.md). A level's highest bit is in the first plane.
func (d *deltas) add(shape delta.BlockShape, key string, r *delta.PostingDelta) {
	levels, width := shape.Bits-1, rabitq.RowBytes(shape.Dim)
	d.keys, d.locators = append(d.keys, []byte(key)), append(d.locators, r.Locator())
	sign, stream := r.BinaryCode[:rabitq.SignBytes(shape.Dim)], r.BinaryCode[rabitq.SignBytes(shape.Dim):]
	d.signs = append(append(d.signs, sign...), make([]byte, width-len(sign))...)
	start := len(d.rest)
	d.rest = append(d.rest, make([]byte, levels*width)...)
	for p := range levels {
		row := d.rest[start+p*width:]
		for i, at := 0, levels-1-p; i < shape.Dim; i, at = i+1, at+levels {
			row[i/8] |= stream[at/8] >> (at % 8) & 1 << (i % 8)
		}
	}
}

// readCluster reads one cluster. Deltas and tombstones sort behind the blocks of their segment and supersede them, so the
// blocks of a segment wait until its end.
func readCluster(ctx context.Context, view postings, generation uint32, shape delta.BlockShape, id int) (*cluster, error) {
	out := &cluster{bytes: 256}
	superseded := map[string]struct{}{}
	written := &block{}
	segment, first := uint16(0), 0 // the first block of the segment
	flush := func() {
		for _, b := range out.blocks[first:] {
			out.bytes += b.prepare(shape, superseded)
		}
		first = len(out.blocks)
		clear(superseded)
	}
	err := view.ScanEntries(ctx, delta.ClusterPrefix(generation, uint32(id)), func(e mdt.Entry) error {
		k, err := delta.ParseKey(e.Key)
		if err != nil {
			return err
		}
		if k.Segment != segment {
			flush()
			segment = k.Segment
		}
		record, err := delta.Decode(e.Schema, bytes.Clone(e.Value)) // what is decoded aliases the value and stays
		if err != nil {
			return fmt.Errorf("read posting %x: %w", e.Key, err)
		}
		out.bytes += int64(len(e.Value))
		switch r := record.(type) {
		case *delta.PostingBlock:
			view, err := delta.NewBlockView(r, shape)
			if err != nil {
				return fmt.Errorf("block %d: %w", k.Block, err)
			}
			out.blocks = append(out.blocks, &block{view: view})
		case *delta.PostingDelta:
			if err := r.Check(shape.Dim, shape.Bits); err != nil {
				return err
			}
			superseded[k.RecordKey] = struct{}{}
			written.deltas.add(shape, k.RecordKey, r)
			written.add(r.Factors())
			out.bytes += 256
		case *delta.Tombstone:
			superseded[k.RecordKey] = struct{}{}
		default:
			return fmt.Errorf("posting key holds a %T: %w", r, storage.ErrCorrupt)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("scan cluster %d: %w", id, err)
	}
	flush()
	if n := written.factors.Len(); n > 0 {
		written.signs.Set(written.deltas.signs, n, shape.Dim)
		written.planes = planes(shape, written.deltas.signs, written.deltas.rest)
		out.bytes += int64(len(written.deltas.signs) + len(written.deltas.rest))
		out.blocks = append(out.blocks, written)
	}
	return out, nil
}

func planes(shape delta.BlockShape, signs, rest []byte) rabitq.Planes {
	return rabitq.Planes{Signs: signs, Rest: rest, RowBytes: rabitq.RowBytes(shape.Dim), Bits: shape.Bits}
}

// prepare lays the block out for scans and returns the bytes that this takes.
func (b *block) prepare(shape delta.BlockShape, superseded map[string]struct{}) int64 {
	n := b.view.Len()
	b.signs.Set(b.view.SignRows(), n, shape.Dim)
	b.planes = planes(shape, b.view.SignRows(), b.view.ExRows())
	b.factors = rabitq.NewFactorColumns(n)
	for i := range n {
		b.add(b.view.Factors(i))
		if len(superseded) == 0 {
			continue
		}
		if _, gone := superseded[string(b.view.RecordKeyBytes(i))]; gone {
			if b.gone == nil {
				b.gone = make([]uint64, (n+63)/64)
			}
			b.gone[i/64] |= 1 << (i % 64)
		}
	}
	return int64(512 + n*(rabitq.RowBytes(shape.Dim)+32))
}
