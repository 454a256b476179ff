package kernel

import (
	"math"
	"sync"

	"tidemark/internal/vector/simd"
)

// nearing is what one call of Near works with.
type nearing struct{ scores, least []float32 }

var nearings = sync.Pool{New: func() any { return &nearing{} }}

// Near returns ids of centroids, ascending, among which the n nearest to v are, by Distances64 and the lower id where that is the same. v has d
// components. ok is false if nothing can be left out: numbers that are too large or none, a form without tiles, or n that is no small part of all.
//
// # Why none is missing
//
// Scores are those of tiles, but with four chains of fused steps in place of one, so that a term goes through no more roundings, and |ŝ(c) − s(c)| ≤ E holds
// as there. Let t be the nth smallest computed score: n centroids have s ≤ t + E. A centroid with ŝ > t + 2E + T has s > t + E + T, above each of
// these by more than T, and the literal distances of float64 tell apart what T, made for float32, does. So n centroids are
// nearer than it. The window, which is twice 2E + T, is wider than what the addition loses.
func (r *Router) Near(v []float32, n int) (ids []int32, ok bool) {
	t := r.tiles
	if t == nil || n < 1 || n > r.k/4 || !simd.Fast() {
		return nil, false
	}
	x := math.Sqrt(SquaredNorm64(v))
	if !(x <= longest) || r.metric == Cosine && x == 0 {
		return nil, false
	}
	w := nearings.Get().(*nearing)
	defer nearings.Put(w)
	if cap(w.scores) < len(t.norms) {
		w.scores = make([]float32, len(t.norms))
	}
	scores := w.scores[:len(t.norms)]
	simd.Scores(scores, v, t.panels, t.norms, t.scales)
	scores = scores[:r.k]
	least := w.least[:0] // a heap of the n least, the greatest on top
	for _, s := range scores {
		if len(least) < n {
			least = append(least, s)
			for i := len(least) - 1; i > 0 && least[(i-1)/2] < least[i]; i = (i - 1) / 2 {
				least[(i-1)/2], least[i] = least[i], least[(i-1)/2]
			}
		} else if s < least[0] {
			ReplaceGreatest(least, s)
		}
	}
	w.least = least
	limit := float64(least[0]) + t.window(r.metric, x)
	if !(limit < math.MaxFloat32) {
		return nil, false
	}
	ids = make([]int32, 0, n+n/8+8)
	for c, s := range scores {
		if float64(s) <= limit {
			ids = append(ids, int32(c))
		}
	}
	return ids, true
}

// ReplaceGreatest exchanges the greatest number of a heap, which is on top, for a smaller one. The heap is not empty.
func ReplaceGreatest[T float32 | float64](heap []T, x T) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(heap) {
			break
		}
		if child+1 < len(heap) && heap[child+1] > heap[child] {
			child++
		}
		if !(heap[child] > x) {
			break
		}
		heap[i], i = heap[child], child
	}
	heap[i] = x
}
