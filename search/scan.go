package search

import (
	"math"
	"math/bits"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
	"tidemark/internal/vector/simd"
)

// scanner scores clusters for queries. It belongs to one goroutine.
type scanner struct {
	shape      delta.BlockShape
	partitions map[string]bool // nil: all
	sums       []uint16
	bounds     []float64 // of a cluster that is not held
	set        []uint64
	least      []float64 // see nth
	codes      []int32
	scored     [rabitq.PassesAtOnce]rabitq.Scored
	hits       []hit
}

// hitsAtOnce is how many hits wait before they are offered: often enough that the bound keeps up with the scan.
const hitsAtOnce = 32

// resized is a slice of n places, of the memory of s if that is enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// scan returns what the integers of pass 1 say of the rows of a cluster, block by block, in the room of bounds if that is enough: no row's
// optimistic distance is below its bound.
func (s *scanner) scan(bounds []float64, c *cluster, q *rabitq.ClusterQuery) []float64 {
	bounds = resized(bounds, c.rows())
	at := 0
	for _, b := range c.blocks {
		s.sums = resized(s.sums, b.signs.Room())
		n := b.factors.Len()
		q.Bounds(bounds[at:at+n], q.ScanInto(s.sums, &b.signs), &b.factors)
		at += n
	}
	return bounds
}

// near scores the rows of a cluster whose bounds do not exceed a limit.
func (s *scanner) near(c *cluster, p *pair, limit float64, to *best) {
	most, at := to.most(), 0
	for _, b := range c.blocks {
		bounds := p.bounds[at : at+b.factors.Len()]
		at += len(bounds)
		s.below(bounds, limit, func(i int) {
			p.near++
			p.pruned += s.score(b, i, p.query, to, &most)
		})
		p.pruned += s.scoreAll(b, p.query, to, &most)
	}
	s.flush(to)
}

// far scores the rows whose bounds exceed a limit, if the heap may still want them.
func (s *scanner) far(c *cluster, p *pair, limit float64, to *best) {
	most, at := to.most(), 0
	p.pruned += len(p.bounds) - p.near
	for _, b := range c.blocks {
		bounds := p.bounds[at : at+b.factors.Len()]
		at += len(bounds)
		s.below(bounds, most, func(i int) {
			if x := bounds[i]; x > limit && !(x > most) {
				p.pruned += s.score(b, i, p.query, to, &most) - 1
			}
		})
		p.pruned += s.scoreAll(b, p.query, to, &most)
	}
	s.flush(to)
}

// all scores a cluster of which nothing is held, and returns how many rows pass 1 ended.
func (s *scanner) all(c *cluster, q *rabitq.ClusterQuery, to *best) (pruned int) {
	s.bounds = s.scan(s.bounds, c, q)
	most, at := to.most(), 0
	pruned = len(s.bounds)
	for _, b := range c.blocks {
		bounds := s.bounds[at : at+b.factors.Len()]
		at += len(bounds)
		s.below(bounds, most, func(i int) {
			if !(bounds[i] > most) {
				pruned += s.score(b, i, q, to, &most) - 1
			}
		})
		pruned += s.scoreAll(b, q, to, &most)
	}
	s.flush(to)
	return pruned
}

// below calls fn for each number that does not exceed a limit, or is none, in order.
func (s *scanner) below(x []float64, limit float64, fn func(i int)) {
	s.set = resized(s.set, (len(x)+63)/64)
	simd.Below(s.set, x, limit)
	for w, set := range s.set {
		for ; set != 0; set &= set - 1 {
			fn(64*w + bits.TrailingZeros64(set))
		}
	}
}

// score puts a row to those that are scored together. It returns how many were ended by the bound of their sign planes, of those that were.
func (s *scanner) score(b *block, i int, q *rabitq.ClusterQuery, to *best, most *float64) (pruned int) {
	if s.codes = append(s.codes, int32(i)); len(s.codes) < rabitq.PassesAtOnce {
		return 0
	}
	return s.scoreAll(b, q, to, most)
}

// scoreAll scores the rows that wait, all of one block, unless the bound of the sign plane is beyond most. It returns how many it was.
//
// The partition filter comes before the heap, so that the answer is the best of the partitions (R95).
func (s *scanner) scoreAll(b *block, q *rabitq.ClusterQuery, to *best, most *float64) (pruned int) {
	if len(s.codes) == 0 {
		return 0
	}
	q.Passes(s.scored[:len(s.codes)], &b.planes, s.codes, &b.factors, *most)
	for at, i := range s.codes {
		x := &s.scored[at]
		if b.void != nil && to.void != nil && b.isVoid(i) {
			continue
		}
		if x.Optimistic > *most {
			if to.void == nil || !math.IsInf(x.Optimistic, 1) {
				pruned++
				continue
			}
			x.Estimate = math.NaN() // was left out; see add
		}
		score := x.Estimate
		if x.Optimistic > score {
			score = x.Optimistic
		}
		if score > *most && (to.void == nil || !math.IsInf(score, 1)) || b.isGone(int(i)) || s.partitions != nil && !s.partitions[b.locator(int(i)).Partition] {
			continue
		}
		if s.add(to, hit{score: score, estimate: x.Estimate, block: b, row: i}) {
			*most = to.most()
		}
	}
	s.codes = s.codes[:0]
	return pruned
}

// void offers the rows of a cluster whose codes say nothing: no estimate may drop them, only their rows can tell how far they are.
func (s *scanner) void(c *cluster, to *best) {
	for _, b := range c.blocks {
		if b.void == nil || to.void == nil {
			continue
		}
		for _, i := range b.void {
			if !b.isGone(int(i)) && (s.partitions == nil || s.partitions[b.locator(int(i)).Partition]) {
				s.hits = append(s.hits, hit{score: math.Inf(-1), estimate: math.Inf(-1), block: b, row: i})
			}
		}
		s.flush(to.void)
	}
}

// add keeps a hit until there are some, and reports whether they were offered. One whose estimate or score is no finite number, as for a centroid
// that is too long, has none: not only when the heap is full, or what is found would depend on the order of the scan.
func (s *scanner) add(b *best, h hit) bool {
	if h.estimate-h.estimate != 0 || h.score-h.score != 0 {
		h.score, h.estimate = math.Inf(1), math.Inf(1)
		if b.void != nil {
			h.score, h.estimate = math.Inf(-1), math.Inf(-1)
			b.void.offer([]hit{h})
			return false
		}
	}
	s.hits = append(s.hits, h)
	if len(s.hits) < hitsAtOnce {
		return false
	}
	s.flush(b)
	return true
}

func (s *scanner) flush(b *best) {
	if len(s.hits) > 0 {
		b.offer(s.hits)
		clear(s.hits)
		s.hits = s.hits[:0]
	}
}

// nth returns the nth smallest of some bounds, +Inf if there are not so many. Bounds that are no numbers are left out.
func (s *scanner) nth(all [][]float64, n int) float64 {
	least := s.least[:0] // a heap of those met, the greatest on top
	limit := math.Inf(1)
	for _, bounds := range all {
		s.below(bounds, limit, func(i int) {
			switch x := bounds[i]; {
			case len(least) < n && x == x:
				least = append(least, x)
				for i := len(least) - 1; i > 0 && least[(i-1)/2] < least[i]; i = (i - 1) / 2 {
					least[(i-1)/2], least[i] = least[i], least[(i-1)/2]
				}
			case len(least) == n && x < least[0]:
				kernel.ReplaceGreatest(least, x)
			}
		})
		if len(least) == n {
			limit = least[0]
		}
	}
	s.least = least
	return limit
}
