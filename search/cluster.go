package search

import (
	"bytes"
	"context"
	"fmt"

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
	blocks []*block
	deltas []deltaPosting
	bytes  int64 // about what it takes in memory
}

// block is a posting block.
type block struct {
	view    *delta.BlockView
	signs   rabitq.Signs
	factors []rabitq.Factors
	gone    []uint64 // bit i: row i is superseded by a delta or a tombstone; nil: none is
}

func (b *block) isGone(i int) bool { return b.gone != nil && b.gone[i/64]>>(i%64)&1 == 1 }

// deltaPosting is a posting written since the blocks were.
type deltaPosting struct {
	key     []byte
	code    []byte
	locator delta.Locator
	factors rabitq.Factors
}

// readCluster reads one cluster. Deltas and tombstones sort behind the blocks of their segment and supersede them, so the
// blocks of a segment wait until its end.
func readCluster(ctx context.Context, view postings, generation uint32, shape delta.BlockShape, id int) (*cluster, error) {
	out := &cluster{bytes: 256}
	superseded := map[string]struct{}{}
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
			out.deltas = append(out.deltas, deltaPosting{key: []byte(k.RecordKey), code: r.BinaryCode, locator: r.Locator(), factors: r.Factors()})
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
	return out, nil
}

// prepare lays the block out for scans and returns the bytes that this takes.
func (b *block) prepare(shape delta.BlockShape, superseded map[string]struct{}) int64 {
	n := b.view.Len()
	b.signs.Set(b.view.SignRows(), n, shape.Dim)
	b.factors = make([]rabitq.Factors, n)
	for i := range n {
		b.factors[i] = b.view.Factors(i)
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
