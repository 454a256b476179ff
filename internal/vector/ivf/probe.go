package ivf

import (
	"cmp"
	"slices"

	"tidemark/internal/vector/kernel"
)

// ProbeOrder returns the ids of the nprobes centroids nearest to q (all of them if there are fewer), nearest first by the
// float64 distance, lower id first on ties (design, decision 19). centroids holds k rows of d components, q
// has d components.
func ProbeOrder(m kernel.Metric, centroids []float32, k, d int, q []float32, nprobes int) []int {
	return nearest(m, centroids[:k*d], k, q, min(max(0, nprobes), k))
}

// ProbeNear is ProbeOrder with a router of the same centroids, which leaves most of them out.
func ProbeNear(r *kernel.Router, m kernel.Metric, centroids []float32, k, d int, q []float32, nprobes int) []int {
	ids, ok := r.Near(q, nprobes)
	if !ok {
		return ProbeOrder(m, centroids, k, d, q, nprobes)
	}
	rows := make([]float32, 0, len(ids)*d)
	for _, id := range ids {
		rows = append(rows, centroids[int(id)*d:(int(id)+1)*d]...)
	}
	out := nearest(m, rows, len(ids), q, nprobes)
	for i, at := range out { // ids ascend, so that ties keep their order
		out[i] = int(ids[at])
	}
	return out
}

// nearest returns the places of the n rows nearest to q, of k.
func nearest(m kernel.Metric, rows []float32, k int, q []float32, n int) []int {
	type ranked struct {
		id   int
		dist float64
	}
	dists := make([]float64, k)
	kernel.Distances64(m, dists, rows, q)
	near := make([]ranked, 0, n+1)
	if n > k/2 || n > fewProbes {
		near = make([]ranked, k)
		for c, dist := range dists {
			near[c] = ranked{c, dist}
		}
		slices.SortFunc(near, func(a, b ranked) int {
			if d := cmp.Compare(a.dist, b.dist); d != 0 {
				return d
			}
			return a.id - b.id
		})
		near = near[:n]
	} else if n > 0 {
		for c, dist := range dists {
			if len(near) == n && dist >= near[n-1].dist {
				continue
			}
			at, _ := slices.BinarySearchFunc(near, dist, func(r ranked, dist float64) int { // behind those as near, whose ids are lower
				return cmp.Or(cmp.Compare(r.dist, dist), -1)
			})
			near = slices.Insert(near, at, ranked{c, dist})
			near = near[:min(n, len(near))]
		}
	}
	out := make([]int, n)
	for i := range out {
		out[i] = near[i].id
	}
	return out
}

// fewProbes is up to how many probes a list kept in order takes less time than sorting all centroids.
const fewProbes = 512
