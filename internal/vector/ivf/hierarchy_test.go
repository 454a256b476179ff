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

// Parts of the sample lead where the whole sample does.
func TestStagesAreAsGood(t *testing.T) {
	t.Parallel()
	const n, d, k = 12_000, 16, 60
	r := rand.New(rand.NewPCG(7, 8))
	at, sample := make([]float32, 200*d), make([]float32, n*d)
	for i := range at {
		at[i] = float32(r.NormFloat64() * 2)
	}
	for i := range n {
		centre := r.IntN(200)
		for j := range d {
			sample[i*d+j] = at[centre*d+j] + float32(r.NormFloat64())
		}
	}
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine} {
		error2 := func(stages bool) (sum float64) {
			x, err := newTrainer(t.Context(), sample, n, d, TrainConfig{K: k, Seed: 3, Metric: m, Workers: 2})
			switch {
			case err != nil:
			case stages:
				err = x.inStages(t.Context(), 20, nil)
			default:
				if err = x.start(t.Context()); err == nil {
					_, err = x.iterations(t.Context(), 1, 20, nil)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if part := x.part(coarseRows * k); part == x || part.n != coarseRows*k {
				t.Fatalf("no part of the sample: %d rows", part.n)
			}
			for _, dist := range x.distances {
				sum += float64(dist) * float64(dist)
			}
			return sum
		}
		ratio := error2(true) / error2(false)
		t.Logf("%s: the error of stages is %.3f of that of the whole sample", m, ratio)
		if math.IsNaN(ratio) || ratio > 1.03 {
			t.Errorf("%s: the error of stages is %.3f of that of the whole sample", m, ratio)
		}
	}
}

// A part that misses rows which differ is not started from.
func TestStagesOfFewDifferentRows(t *testing.T) {
	t.Parallel()
	const n, d, k = 4000, 2, 10
	sample := make([]float32, n*d)
	for i := range k - 1 {
		sample[(400*i+1)*d] = float32(i + 1)
	}
	centroids, got, err := Train(t.Context(), sample, n, d, TrainConfig{K: k, MaxIter: 20, Metric: kernel.L2}, nil)
	seen := map[[d]float32]bool{}
	for c := range got {
		seen[[d]float32(centroids[c*d:])] = true
	}
	if err != nil || got != k || len(seen) != k {
		t.Errorf("got %d clusters at %d places, %v", got, len(seen), err)
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
