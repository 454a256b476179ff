package ivf_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
)

// blobs draws n rows around a few centres; the seed is fixed, so every run sees the same rows.
func blobs(n, d, centres int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	at := make([]float32, centres*d)
	for i := range at {
		at[i] = float32(r.NormFloat64() * 3)
	}
	out := make([]float32, n*d)
	for i := range n {
		c := r.IntN(centres)
		for j := range d {
			out[i*d+j] = at[c*d+j] + float32(r.NormFloat64())
		}
	}
	return out
}

func train(t testing.TB, sample []float32, n, d int, cfg ivf.TrainConfig) ([]float32, int) {
	t.Helper()
	centroids, k, err := ivf.Train(t.Context(), sample, n, d, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(centroids) != k*d {
		t.Fatalf("got %d values for %d centroids of %d", len(centroids), k, d)
	}
	return centroids, k
}

func TestSameBytesFromAnyNumberOfWorkers(t *testing.T) {
	t.Parallel()
	const n, d = 2500, 12 // enough that parts of the sample come first
	sample := blobs(n, d, 9)
	for i := range 6 {
		m, two := kernel.Metric(i%3), i >= 3
		cfg := ivf.TrainConfig{K: 20, MaxIter: 8, Seed: 42, Metric: m, Workers: 1, Hierarchical: two}
		want, _ := train(t, sample, n, d, cfg)
		for _, cfg.Workers = range []int{0, 2, 3, 8} {
			got, _ := train(t, sample, n, d, cfg)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%s, hierarchical %v, %d workers: value %d: got %v, want %v", m, two, cfg.Workers, i, got[i], want[i])
				}
			}
		}
		cfg.Seed = 43
		if other, _ := train(t, sample, n, d, cfg); slices.Equal(other, want) {
			t.Errorf("%s: another seed gave the same centroids", m)
		}
	}
}

// Every iteration of Lloyd's algorithm may only shorten the sum of squared distances.
func TestMoreIterationsAreNotWorse(t *testing.T) {
	t.Parallel()
	const n, d = 800, 6
	sample := blobs(n, d, 7)
	last := math.Inf(1)
	for _, iterations := range []int{1, 2, 4, 8, 30} {
		centroids, k := train(t, sample, n, d, ivf.TrainConfig{K: 12, MaxIter: iterations, Seed: 7, Metric: kernel.L2})
		router := kernel.NewRouter(kernel.L2, centroids, k, d)
		sum := 0.0
		for i := range n {
			_, dist := router.Nearest(sample[i*d : (i+1)*d])
			sum += float64(dist) * float64(dist)
		}
		if sum > last*(1+1e-6) {
			t.Errorf("%d iterations: error grew from %v to %v", iterations, last, sum)
		}
		last = sum
	}
}

func TestFewDistinctVectors(t *testing.T) {
	t.Parallel()
	negZero := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name   string
		m      kernel.Metric
		d, k   int
		sample []float32
		want   int
	}{
		{"one row", kernel.L2, 2, 5, []float32{1, 2}, 1},
		{"all equal", kernel.L2, 1, 4, []float32{3, 3, 3, 3, 3}, 1},
		{"three places", kernel.L2, 1, 9, []float32{1, 2, 1, 5, 2}, 3},
		{"signs of zero", kernel.L2, 2, 3, []float32{0, 1, negZero, 1}, 1},
		{"more rows than clusters", kernel.L2, 1, 2, []float32{1, 2, 3, 4}, 2},
		{"one direction", kernel.Cosine, 2, 4, []float32{1, 0, 2, 0, 4, 0}, 1},
		{"two directions", kernel.Cosine, 2, 4, []float32{1, 0, -2, 0, 4, 0}, 2},
		{"dot", kernel.Dot, 2, 4, []float32{1, 0, 2, 0, 4, 0}, 3},
	} {
		centroids, k := train(t, c.sample, len(c.sample)/c.d, c.d, ivf.TrainConfig{K: c.k, MaxIter: 10, Metric: c.m})
		if k != c.want {
			t.Errorf("%s: got %d clusters, want %d", c.name, k, c.want)
		}
		if k < c.k && c.m == kernel.L2 { // as many clusters as places: each place is a centroid
			for i := 0; i < len(c.sample); i += c.d {
				if _, dist := kernel.Nearest(c.m, centroids, k, c.d, c.sample[i:i+c.d]); dist != 0 {
					t.Errorf("%s: row %d is %v from its centroid", c.name, i/c.d, dist)
				}
			}
		}
	}
}

// Nearly all rows are equal: k-means++ and the refill must still give every centroid a place of its own.
func TestSkewedSample(t *testing.T) {
	t.Parallel()
	const n, d, k = 2000, 3, 16
	sample := make([]float32, n*d)
	for i := range k - 1 {
		sample[(100*i+50)*d+i%d] = float32(i + 1)
	}
	centroids, got := train(t, sample, n, d, ivf.TrainConfig{K: k, MaxIter: 5, Metric: kernel.L2})
	seen := map[[d]float32]bool{}
	for c := range got {
		seen[[d]float32(centroids[c*d:])] = true
	}
	if got != k || len(seen) != k {
		t.Errorf("got %d clusters at %d places, want %d", got, len(seen), k)
	}
}

func TestCosineCentroidsFollowTheLengthOfTheirRows(t *testing.T) {
	t.Parallel()
	sample := []float32{10, 0, 20, 0, 0, 3, 0, 5}
	centroids, k := train(t, sample, 4, 2, ivf.TrainConfig{K: 2, MaxIter: 10, Metric: kernel.Cosine})
	if k != 2 {
		t.Fatalf("got %d clusters", k)
	}
	got := [][2]float32{[2]float32(centroids[:2]), [2]float32(centroids[2:])}
	slices.SortFunc(got, func(a, b [2]float32) int { return int(b[0] - a[0]) })
	if got[0] != [2]float32{15, 0} || got[1] != [2]float32{0, 4} {
		t.Errorf("got %v", got)
	}
}

func TestTrainRefuses(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	for _, c := range []struct {
		name    string
		sample  []float32
		n, d, k int
		m       kernel.Metric
	}{
		{"no rows", nil, 0, 2, 3, kernel.L2},
		{"no clusters", []float32{1}, 1, 1, 0, kernel.L2},
		{"no dimension", []float32{1}, 1, 0, 1, kernel.L2},
		{"short sample", []float32{1}, 2, 1, 1, kernel.L2},
		{"NaN", []float32{1, nan}, 2, 1, 1, kernel.L2},
		{"zero vector", []float32{1, 0}, 2, 1, 1, kernel.Cosine},
	} {
		if _, _, err := ivf.Train(t.Context(), c.sample, c.n, c.d, ivf.TrainConfig{K: c.k, Metric: c.m}, nil); !errors.Is(err, ivf.ErrSample) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestTrainStops(t *testing.T) {
	t.Parallel()
	sample := blobs(500, 4, 3)
	ctx, cancel := context.WithCancel(t.Context())
	iterations := 0
	_, _, err := ivf.Train(ctx, sample, 500, 4, ivf.TrainConfig{K: 8, MaxIter: 100, Workers: 2}, func(iter int) {
		iterations = iter
		cancel()
	})
	if !errors.Is(err, context.Canceled) || iterations != 1 {
		t.Errorf("got %v after %d iterations", err, iterations)
	}
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine} {
		if _, _, err := ivf.Train(ctx, sample, 500, 4, ivf.TrainConfig{K: 8, Metric: m}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", m, err)
		}
	}
}

func TestTrainTakesAnyFiniteSample(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := kernel.Metric(rapid.IntRange(0, 2).Draw(t, "metric"))
		n, d, k := rapid.IntRange(1, 20).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "d"), rapid.IntRange(1, 24).Draw(t, "k")
		value := rapid.SampledFrom([]float32{0, 1, -1, 2, 1e-30, math.MaxFloat32, -math.MaxFloat32, 1e-45, 0.1})
		sample := rapid.SliceOfN(value, n*d, n*d).Draw(t, "sample")
		for i := range n {
			if ok, _ := kernel.Indexable(m, sample[i*d:(i+1)*d]); !ok {
				sample[i*d] = 1
			}
		}
		before := slices.Clone(sample)
		centroids, got, err := ivf.Train(context.Background(), sample, n, d, ivf.TrainConfig{K: k, MaxIter: 4, Metric: m, Workers: 2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got < 1 || got > min(n, k) || !slices.Equal(before, sample) {
			t.Fatalf("got %d clusters of %d rows, sample %v became %v", got, n, before, sample)
		}
		for i, x := range centroids {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("centroid value %d is %v", i, x)
			}
		}
	})
}

func TestSampleSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, k, want int64 }{
		{0, 256, 0},
		{500, 256, 500},
		{1_000_000, 256, 1_000_000},
		{5_000_000, 256, 1_000_000},
		{5_000_000, 8192, 256 * 8192},
		{400_000_000, 256, 4_000_000},
		{5_000_000_000, 256, 10_000_000},
		{5_000_000_000, 65536, 256 * 65536},
	} {
		if got := ivf.SampleSize(c.n, c.k); got != c.want {
			t.Errorf("n %d, k %d: got %d, want %d", c.n, c.k, got, c.want)
		}
	}
	if got := ivf.TrainBytes(1000, 10, 100, kernel.Cosine); got <= ivf.TrainBytes(1000, 10, 100, kernel.L2) {
		t.Errorf("cosine needs room for copies, got %d bytes", got)
	}
}

func TestProbeOrder(t *testing.T) {
	t.Parallel()
	centroids := []float32{4, 0, 0, 1, 1, 0, 0, -1}
	for _, c := range []struct {
		name    string
		m       kernel.Metric
		nprobes int
		want    []int
	}{
		{"L2, ties by id", kernel.L2, 4, []int{2, 0, 1, 3}},
		{"cosine, ties by id", kernel.Cosine, 3, []int{0, 2, 1}},
		{"dot", kernel.Dot, 2, []int{0, 2}},
		{"more than there are", kernel.Dot, 9, []int{0, 2, 1, 3}},
		{"none", kernel.Dot, 0, []int{}},
	} {
		if got := ivf.ProbeOrder(c.m, centroids, 4, 2, []float32{2, 0}, c.nprobes); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	sample := blobs(5000, 64, 50)
	for b.Loop() {
		train(b, sample, 5000, 64, ivf.TrainConfig{K: 64, MaxIter: 10, Workers: 2})
	}
}

// Few probes are the first of all, ties and numbers that are none included.
func TestFewProbesAreTheFirst(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		k := 1 + r.IntN(80)
		centroids := make([]float32, 2*k)
		for i := range centroids {
			centroids[i] = float32(r.IntN(4))
			if r.IntN(20) == 0 {
				centroids[i] = float32(math.Inf(1))
			}
		}
		for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
			q := []float32{float32(r.IntN(3)), float32(r.IntN(3))}
			all := ivf.ProbeOrder(m, centroids, k, 2, q, k)
			for n := range k + 2 {
				if got := ivf.ProbeOrder(m, centroids, k, 2, q, n); !slices.Equal(got, all[:min(n, k)]) {
					t.Fatalf("%s: %d probes of %d: got %v, want the first of %v", m, n, k, got, all)
				}
			}
		}
	}
}
