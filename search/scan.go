package search

import (
	"math"

	"tidemark/delta"
	"tidemark/internal/vector/rabitq"
)

// scanner scores clusters for queries. It belongs to one goroutine.
type scanner struct {
	shape      delta.BlockShape
	partitions map[string]bool // nil: all
	sums       []uint16
	hits       []hit
}

// hitsAtOnce is how many hits wait before they are offered: often enough that the bound keeps up with the scan.
const hitsAtOnce = 32

// cluster scores the postings of a cluster for one query.
func (s *scanner) cluster(c *cluster, q *rabitq.ClusterQuery, b *best) (scanned, pruned int, err error) {
	for _, block := range c.blocks {
		scanned += len(block.factors)
		pruned += s.block(block, q, b)
	}
	for i := range c.deltas {
		d := &c.deltas[i]
		scanned++
		estimate, err := q.Delta(d.code, s.shape.Bits, &d.factors)
		if err != nil {
			return scanned, pruned, err
		}
		if s.partitions == nil || s.partitions[d.locator.Partition] {
			s.add(b, hit{score: estimate, estimate: estimate, delta: d})
		}
	}
	s.flush(b)
	return scanned, pruned, nil
}

// block is the two-pass scan: the sign plane and its bound first, all bits for what the bound lets through. Integers come
// before the sign plane's own estimate; they prune no row that it keeps. It returns how many rows the bound ended.
//
// The partition filter comes before the heap, so that the answer is the best of the partitions (R95).
func (s *scanner) block(b *block, q *rabitq.ClusterQuery, to *best) (pruned int) {
	rowBytes := rabitq.RowBytes(s.shape.Dim)
	if room := b.signs.Room(); cap(s.sums) < room {
		s.sums = make([]uint16, room)
	}
	sums := q.ScanInto(s.sums[:cap(s.sums)], &b.signs)
	most := to.most()
	for i, sum := range sums {
		f := &b.factors[i]
		if q.Bound(sum, f) > most {
			pruned++
			continue
		}
		signDot, optimistic := q.Pass1(b.view.SignRow(i), f)
		if optimistic > most {
			pruned++
			continue
		}
		estimate := q.Pass2(signDot, b.view.ExPlanes(i), rowBytes, s.shape.Bits, f)
		score := estimate
		if optimistic > score {
			score = optimistic
		}
		if score > most || b.isGone(i) || s.partitions != nil && !s.partitions[b.view.Locator(i).Partition] {
			continue
		}
		if s.add(to, hit{score: score, estimate: estimate, block: b, row: int32(i)}) {
			most = to.most()
		}
	}
	s.flush(to)
	return pruned
}

// add keeps a hit until there are some, and reports whether they were offered. An estimate that is not a number comes last.
func (s *scanner) add(b *best, h hit) bool {
	if math.IsNaN(h.score) {
		h.score, h.estimate = math.Inf(1), math.Inf(1)
	}
	s.hits = append(s.hits, h)
	if len(s.hits) < hitsAtOnce {
		return false
	}
	s.flush(b)
	return true
}

func (s *scanner) flush(b *best) {
	b.offer(s.hits)
	clear(s.hits)
	s.hits = s.hits[:0]
}
