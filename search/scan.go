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
func (s *scanner) cluster(c *cluster, q *rabitq.ClusterQuery, b *best) (pruned int) {
	for _, block := range c.blocks {
		pruned += s.block(block, q, b)
	}
	return pruned
}

// scan returns the integers of pass 1 for the rows of a block. They are valid until the next call.
func (s *scanner) scan(b *block, q *rabitq.ClusterQuery) []uint16 {
	if room := b.signs.Room(); cap(s.sums) < room {
		s.sums = make([]uint16, room)
	}
	return q.ScanInto(s.sums[:cap(s.sums)], &b.signs)
}

// block is the two-pass scan: the sign plane and its bound first, all bits for what the bound lets through. Integers come
// before the sign plane's own estimate; they prune no row that it keeps. It returns how many rows the bound ended.
func (s *scanner) block(b *block, q *rabitq.ClusterQuery, to *best) (pruned int) {
	most := to.most()
	for i, sum := range s.scan(b, q) {
		if q.Bound(sum, &b.factors[i]) > most || s.row(b, i, q, to, &most) {
			pruned++
		}
	}
	s.flush(to)
	return pruned
}

// row scores one row, unless the bound of its sign plane is beyond most. It reports whether that was so.
//
// The partition filter comes before the heap, so that the answer is the best of the partitions (R95).
func (s *scanner) row(b *block, i int, q *rabitq.ClusterQuery, to *best, most *float64) (pruned bool) {
	f := &b.factors[i]
	optimistic, estimate := q.Passes(b.signRow(i), b.exPlanes(i), rabitq.RowBytes(s.shape.Dim), s.shape.Bits, f, *most)
	if optimistic > *most {
		return true
	}
	score := estimate
	if optimistic > score {
		score = optimistic
	}
	if score > *most || b.isGone(i) || s.partitions != nil && !s.partitions[b.locator(i).Partition] {
		return false
	}
	if s.add(to, hit{score: score, estimate: estimate, block: b, row: int32(i)}) {
		*most = to.most()
	}
	return false
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
