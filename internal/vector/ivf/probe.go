package ivf

import (
	"cmp"
	"slices"

	"tidemark/internal/vector/kernel"
)

// ProbeOrder returns the ids of the nprobes centroids nearest to q (all of them if there are fewer), nearest first by the
// float64 distance, lower id first on ties (vector-index format, section 5). centroids holds k rows of d components, q
// has d components.
func ProbeOrder(m kernel.Metric, centroids []float32, k, d int, q []float32, nprobes int) []int {
	type ranked struct {
		id   int
		dist float64
	}
	all, dists := make([]ranked, k), make([]float64, k)
	kernel.Distances64(m, dists, centroids[:k*d], q)
	for c, dist := range dists {
		all[c] = ranked{c, dist}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.dist, b.dist), cmp.Compare(a.id, b.id))
	})
	out := make([]int, min(max(0, nprobes), k))
	for i := range out {
		out[i] = all[i].id
	}
	return out
}
