package ivf

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// minHierarchical is the number of clusters below which dividing gains nothing.
const minHierarchical = 16

// startInCells sets the centroids by training in two levels: about √k cells, then in each cell its share of the k clusters,
// by its share of the rows. One iteration over everything follows, which lets rows change over to the clusters of other
// cells. A cell has at most as many clusters as different rows, so that in all there may be fewer than k.
func (t *trainer) startInCells(ctx context.Context, cfg TrainConfig, progress func(iter int)) error {
	train := func(rows []float32, n, k int, seed int64) (*trainer, error) {
		sub, err := newTrainer(ctx, rows, n, t.d, TrainConfig{K: k, Seed: seed, Metric: cfg.Metric, Workers: cfg.Workers})
		if err == nil {
			err = sub.inStages(ctx, max(1, cfg.MaxIter), nil)
		}
		return sub, err
	}
	cells, err := train(t.rows, t.n, int(math.Round(math.Sqrt(float64(t.k)))), cfg.Seed)
	if err != nil {
		return err
	}
	sizes := make([]int, cells.k)
	for c := range sizes {
		sizes[c] = len(cells.cluster(c))
	}
	t.centroids = make([]float32, 0, t.k*t.d)
	seeds := splitMix(cfg.Seed)
	for c, share := range shares(sizes, t.k) {
		seed := int64(seeds.next())
		if share == 0 {
			continue
		}
		rows := make([]float32, 0, sizes[c]*t.d)
		for _, i := range cells.cluster(c) {
			rows = append(rows, t.row(int(i))...)
		}
		part, err := train(rows, sizes[c], share, seed)
		if err != nil {
			return err
		}
		t.centroids = append(t.centroids, part.centroids...)
		if progress != nil && cfg.MaxIter > 1 {
			progress(max(1, (c+1)*(cfg.MaxIter-1)/cells.k))
		}
	}
	t.k = len(t.centroids) / t.d
	t.boundaries = t.boundaries[:t.k+1]
	return nil
}

// shares divides k among cells by their sizes: the whole part of each one's quota, then one more for the largest
// remainders, lower cells first on ties; at least 1 for a cell that has rows, at most as many as it has rows. The sizes add
// up to k or more.
func shares(sizes []int, k int) []int {
	total := 0
	for _, n := range sizes {
		total += n
	}
	out, left := make([]int, len(sizes)), k
	for c, n := range sizes {
		if n > 0 {
			out[c] = max(1, int(int64(n)*int64(k)/int64(total)))
		}
		left -= out[c]
	}
	order := make([]int, len(sizes))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(int64(sizes[b])*int64(k)%int64(total), int64(sizes[a])*int64(k)%int64(total))
	})
	for left != 0 {
		before := left
		for _, c := range order {
			switch {
			case left > 0 && out[c] < sizes[c]:
				out[c]++
				left--
			case left < 0 && out[c] > 1:
				out[c]--
				left++
			}
		}
		if left == before {
			break // no cell can take or give any more
		}
	}
	return out
}
