package search

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// postings reads records of the index in key order: *mdt.View. An entry's slices are valid during the call only.
type postings interface {
	ScanEntries(ctx context.Context, prefix []byte, fn func(e mdt.Entry) error) error
}

// scanner scores the postings of clusters into a heap.
type scanner struct {
	view       postings
	generation uint32
	shape      delta.BlockShape
	partitions map[string]bool // nil: all
	best       *best
	stats      *Stats
	signs      rabitq.Signs
}

// cluster scores one cluster. Deltas and tombstones sort behind the blocks of their segment and supersede them, so the
// blocks of a segment wait until its end.
func (s *scanner) cluster(ctx context.Context, id int, q *rabitq.ClusterQuery) error {
	var blocks []*delta.BlockView
	superseded := map[string]struct{}{}
	segment := uint16(0)
	flush := func() {
		for _, b := range blocks {
			s.block(b, q, superseded)
		}
		blocks = nil
		clear(superseded)
	}
	prefix := delta.ClusterPrefix(s.generation, uint32(id))
	err := s.view.ScanEntries(ctx, prefix, func(e mdt.Entry) error {
		k, err := delta.ParseKey(e.Key)
		if err != nil {
			return err
		}
		if k.Segment != segment {
			flush()
			segment = k.Segment
		}
		record, err := delta.Decode(e.Schema, bytes.Clone(e.Value)) // blocks alias the value and wait
		if err != nil {
			return fmt.Errorf("read posting %x: %w", e.Key, err)
		}
		switch r := record.(type) {
		case *delta.PostingBlock:
			view, err := delta.NewBlockView(r, s.shape)
			if err != nil {
				return fmt.Errorf("block %d: %w", k.Block, err)
			}
			blocks = append(blocks, view)
		case *delta.PostingDelta:
			superseded[k.RecordKey] = struct{}{}
			return s.delta(k.RecordKey, r, q)
		case *delta.Tombstone:
			superseded[k.RecordKey] = struct{}{}
		default:
			return fmt.Errorf("posting key holds a %T: %w", r, storage.ErrCorrupt)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan cluster %d: %w", id, err)
	}
	flush()
	return nil
}

// block is the two-pass scan: the sign plane and its bound first, all bits for what the bound lets through, locator and
// key only for what is good enough. Integers come before the sign plane's own estimate; they prune no row that it keeps.
func (s *scanner) block(b *delta.BlockView, q *rabitq.ClusterQuery, superseded map[string]struct{}) {
	rowBytes := rabitq.RowBytes(s.shape.Dim)
	s.signs.Set(b.SignRows(), b.Len(), s.shape.Dim)
	sums := q.Scan(&s.signs)
	for i := range b.Len() {
		s.stats.Scanned++
		f := b.Factors(i)
		worst, full := s.best.worst()
		if full && q.Bound(sums[i], &f) > worst {
			s.stats.Pruned++
			s.best.dropped = true
			continue
		}
		signDot, optimistic := q.Pass1(b.SignRow(i), &f)
		if full && optimistic > worst {
			s.stats.Pruned++
			s.best.dropped = true
			continue
		}
		estimate := q.Pass2(signDot, b.ExPlanes(i), rowBytes, s.shape.Bits, &f)
		if full && estimate > worst {
			s.best.dropped = true
			continue
		}
		if _, gone := superseded[string(b.RecordKeyBytes(i))]; gone {
			continue
		}
		s.offer(b.RecordKey(i), b.Locator(i), estimate)
	}
}

func (s *scanner) delta(key string, d *delta.PostingDelta, q *rabitq.ClusterQuery) error {
	s.stats.Scanned++
	if err := d.Check(s.shape.Dim, s.shape.Bits); err != nil {
		return err
	}
	f := d.Factors()
	estimate, err := q.Delta(d.BinaryCode, s.shape.Bits, &f)
	if err != nil {
		return err
	}
	s.offer(key, d.Locator(), estimate)
	return nil
}

// offer applies the partition filter, which comes before the heap so that the answer is the best of the partitions
// (R95). An estimate that is not a number comes last.
func (s *scanner) offer(key string, at delta.Locator, estimate float64) {
	if s.partitions != nil && !s.partitions[at.Partition] {
		return
	}
	if math.IsNaN(estimate) {
		estimate = math.Inf(1)
	}
	s.best.offer(candidate{key: key, locator: at, estimate: estimate})
}
