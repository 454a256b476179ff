package search

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

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
	return cmp.Or(
		cmp.Compare(a.estimate, b.estimate),
		strings.Compare(a.key, b.key),
		strings.Compare(a.locator.Partition, b.locator.Partition),
		strings.Compare(a.locator.FileID, b.locator.FileID),
		cmp.Compare(a.locator.Position, b.locator.Position),
	)
}

// best keeps the limit best candidates.
type best struct {
	limit   int
	heap    worstFirst
	dropped bool // some candidate was left out or pushed out
}

// worst returns the estimate that a further candidate must not exceed, and whether there is such a bound.
func (b *best) worst() (float64, bool) {
	if len(b.heap) < b.limit {
		return 0, false
	}
	return b.heap[0].estimate, true
}

func (b *best) offer(c candidate) {
	if len(b.heap) < b.limit {
		heap.Push(&b.heap, c)
		return
	}
	b.dropped = true
	if compareCandidates(c, b.heap[0]) < 0 {
		b.heap[0] = c
		heap.Fix(&b.heap, 0)
	}
}

// sorted returns the candidates, best first, one for each record key.
func (b *best) sorted() []candidate {
	slices.SortFunc(b.heap, compareCandidates)
	seen := make(map[string]struct{}, len(b.heap))
	out := make([]candidate, 0, len(b.heap))
	for _, c := range b.heap {
		if _, dup := seen[c.key]; dup {
			continue
		}
		seen[c.key] = struct{}{}
		out = append(out, c)
	}
	return out
}

// worstFirst is a heap with the worst candidate on top.
type worstFirst []candidate

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return compareCandidates(h[i], h[j]) > 0 }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(x any)        { *h = append(*h, x.(candidate)) }
func (h *worstFirst) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
