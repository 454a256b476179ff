package search

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tidemark/delta"
)

// candidate is a posting with its estimated distance.
type candidate struct {
	key      string
	locator  delta.Locator
	estimate float64
}

// compareCandidates orders by estimate, then key, then place, so that ties never depend on the order of the scan.
func compareCandidates(a, b candidate) int {
	if d := cmp.Compare(a.estimate, b.estimate); d != 0 { // what follows is not even looked up for most
		return d
	}
	return cmp.Or(
		strings.Compare(a.key, b.key),
		strings.Compare(a.locator.Partition, b.locator.Partition),
		strings.Compare(a.locator.FileID, b.locator.FileID),
		cmp.Compare(a.locator.Position, b.locator.Position),
	)
}

// hit is a posting that may become a candidate: where it is in its cluster, and how good. Its score is its estimate, or
// the distance that the bound of pass 1 allows if that is greater. So what pass 1 drops for its bound could not have stayed by its
// score either, and the best hits are the same in whatever order, and by however many goroutines, postings are scored.
type hit struct {
	score, estimate float64
	block           *block
	row             int32
}

func (h *hit) key() []byte            { return h.block.key(int(h.row)) }
func (h *hit) locator() delta.Locator { return h.block.locator(int(h.row)) }

// worse orders by score; keys and places, which are looked at for ties only, make the order whole.
func (h *hit) worse(o *hit) bool {
	if h.score != o.score {
		return h.score > o.score
	}
	if d := bytes.Compare(h.key(), o.key()); d != 0 {
		return d > 0
	}
	a, b := h.locator(), o.locator()
	return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.FileID, b.FileID), cmp.Compare(a.Position, b.Position)) > 0
}

// best keeps the best hits of one query: limit of them, and one more, which tells that they are not all. It is safe for
// concurrent use.
type best struct {
	limit int
	void  *best         // of rows without an estimate, which take no other's place: those of the lowest keys; nil: they come last
	bound atomic.Uint64 // bits of the score that a further hit must not exceed; +Inf until there is one

	mu    sync.Mutex
	met   int   // guarded by mu: hits that were offered
	worst []hit // guarded by mu: a heap, the worst on top
}

func newBest(limit int) *best {
	b := &best{limit: limit}
	b.bound.Store(math.Float64bits(math.Inf(1)))
	return b
}

// most is the score that a further hit must not exceed.
func (b *best) most() float64 { return math.Float64frombits(b.bound.Load()) }

// offer takes over the best of some hits.
func (b *best) offer(hits []hit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.met += len(hits)
	for i := range hits {
		h := &hits[i]
		switch {
		case len(b.worst) <= b.limit:
			b.worst = append(b.worst, *h)
			b.up(len(b.worst) - 1)
		case b.worst[0].worse(h):
			b.worst[0] = *h
			b.down(0)
		}
	}
	if len(b.worst) > b.limit {
		b.bound.Store(math.Float64bits(b.worst[0].score))
	}
}

func (b *best) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !b.worst[i].worse(&b.worst[parent]) {
			return
		}
		b.worst[i], b.worst[parent] = b.worst[parent], b.worst[i]
		i = parent
	}
}

func (b *best) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(b.worst) {
			return
		}
		if child+1 < len(b.worst) && b.worst[child+1].worse(&b.worst[child]) {
			child++
		}
		if !b.worst[child].worse(&b.worst[i]) {
			return
		}
		b.worst[i], b.worst[child] = b.worst[child], b.worst[i]
		i = child
	}
}

// withoutEstimate is how many candidates, the first, have none.
func withoutEstimate(found []candidate) (n int) {
	for n < len(found) && math.IsInf(found[n].estimate, -1) {
		n++
	}
	return n
}

// left is how many hits were offered that take does not return.
func (b *best) left() int { return b.met - min(len(b.worst), b.limit) }

// take returns the candidates that skip does not name, best first, those without an estimate before all others, one for each record key, and whether they are all there are.
// The hits are gone afterwards.
func (b *best) take(skip map[string]struct{}) (found []candidate, all bool) {
	all = len(b.worst) <= b.limit
	if !all { // the one more
		b.worst[0] = b.worst[len(b.worst)-1]
		b.worst = b.worst[:len(b.worst)-1]
	}
	found = make([]candidate, 0, len(b.worst))
	for i := range b.worst {
		h := &b.worst[i]
		if _, old := skip[string(h.key())]; !old {
			found = append(found, candidate{key: string(h.key()), locator: h.locator(), estimate: h.estimate})
		}
	}
	b.worst = nil
	if b.void != nil && len(b.void.worst) > 0 {
		void, allVoid := b.void.take(skip)
		found, all = append(found, void...), all && allVoid
	}
	slices.SortFunc(found, compareCandidates)
	seen := make(map[string]struct{}, len(found))
	return slices.DeleteFunc(found, func(c candidate) bool {
		_, twice := seen[c.key]
		seen[c.key] = struct{}{}
		return twice
	}), all
}
