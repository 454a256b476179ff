package ivf

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"tidemark/internal/vector/kernel"
)

func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 20).Draw(t, "sizes")
		rows, cells := 0, 0
		for _, n := range sizes {
			rows += n
			cells += min(n, 1)
		}
		if rows == 0 {
			t.Skip()
		}
		k := rapid.IntRange(cells, rows).Draw(t, "k")
		sum := 0
		for c, share := range shares(sizes, k) {
			sum += share
			if share > sizes[c] || sizes[c] > 0 && share < 1 {
				t.Fatalf("cell %d of %d rows: %d clusters", c, sizes[c], share)
			}
		}
		if sum != k {
			t.Fatalf("%v: %d clusters in all, want %d", sizes, sum, k)
		}
	})
}

// Two levels cost a little quality and no cluster: rows around many centres lie almost as near to their centroids.
func TestHierarchicalIsAlmostAsGood(t *testing.T) {
	t.Parallel()
	const n, d, k = 6000, 16, 100
	r := rand.New(rand.NewPCG(5, 6))
	at, sample := make([]float32, 60*d), make([]float32, n*d)
	for i := range at {
		at[i] = float32(r.NormFloat64() * 2)
	}
	for i := range sample {
		sample[i] = at[i/d%60*d+i%d] + float32(r.NormFloat64())
	}
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		error2 := func(two bool) (sum float64) {
			last := 0
			centroids, got, err := Train(t.Context(), sample, n, d, TrainConfig{K: k, MaxIter: 10, Seed: 3, Metric: m, Workers: 2, Hierarchical: two}, func(iter int) {
				if iter <= last && two && iter != last || iter > 10 {
					t.Errorf("%s: progress went from %d to %d", m, last, iter)
				}
				last = iter
			})
			if err != nil {
				t.Fatal(err)
			}
			if got != k {
				t.Errorf("%s: %d clusters, want %d", m, got, k)
			}
			by := m
			if by == kernel.Dot {
				by = kernel.L2 // what it is trained by
			}
			used := make([]bool, got)
			router := kernel.NewRouter(by, centroids, got, d)
			for i := range n {
				id, dist := router.Nearest(sample[i*d : (i+1)*d])
				used[id] = true
				if by == kernel.L2 {
					dist *= dist
				}
				sum += float64(dist)
			}
			for c, u := range used {
				if !u {
					t.Logf("%s: cluster %d has no row", m, c)
				}
			}
			return sum
		}
		if ratio := error2(true) / error2(false); math.IsNaN(ratio) || ratio > 1.1 {
			t.Errorf("%s: the error of two levels is %.3f of that of one", m, ratio)
		} else {
			t.Logf("%s: the error of two levels is %.3f of that of one", m, ratio)
		}
	}
}

func TestHierarchicalOfFewRows(t *testing.T) {
	t.Parallel()
	sample := make([]float32, 40*3)
	for i := range sample {
		sample[i] = float32(i / 3 % 20) // 20 different rows
	}
	centroids, k, err := Train(t.Context(), sample, 40, 3, TrainConfig{K: 64, MaxIter: 5, Metric: kernel.L2, Hierarchical: true}, nil)
	if err != nil || k < 10 || k > 20 || len(centroids) != 3*k {
		t.Errorf("got %d clusters of %d values, %v", k, len(centroids), err)
	}
}
