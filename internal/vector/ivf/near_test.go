package ivf_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/simd"
)

// The order with a router is that of all distances, whatever the centroids are.
func TestProbeNear(t *testing.T) {
	t.Parallel()
	left := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 21))
		k, d, scale := 1+r.IntN(300), 1+r.IntN(140), 1.0
		kind := r.IntN(8)
		switch kind {
		case 1:
			scale = math.Pow(10, float64(r.IntN(60)-30))
		case 2:
			scale = 1e-40
		}
		number := func() float32 {
			if kind == 3 || kind == 4 && r.IntN(3) > 0 {
				return float32(r.IntN(3) - 1) // many ties
			}
			return float32(scale * r.NormFloat64())
		}
		centroids, q := make([]float32, k*d), make([]float32, d)
		for i := range centroids {
			centroids[i] = number()
		}
		for i := range q {
			q[i] = number()
		}
		row := func() []float32 { i := r.IntN(k); return centroids[i*d : (i+1)*d] }
		switch kind {
		case 5: // all but the same, up to the last bits
			for i := range k {
				copy(centroids[i*d:], q)
				centroids[i*d+r.IntN(d)] *= 1 + float32(r.IntN(5)-2)*0x1p-23
			}
		case 6: // far away from the query, near to each other
			for i := range centroids {
				centroids[i] = 1000 + centroids[i]*1e-4
			}
		case 7:
			for range k {
				copy(row(), row())
			}
			x := []float32{0, float32(math.Inf(1)), float32(math.NaN()), 3e38, 1e16, 1e-45}[r.IntN(6)]
			for range r.IntN(3) {
				row()[r.IntN(d)] = x
			}
			clear(row())
			if r.IntN(3) == 0 {
				q[r.IntN(d)] = x
			}
		}
		for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
			router := kernel.NewRouter(m, centroids, k, d)
			all := ivf.ProbeOrder(m, centroids, k, d, q, k)
			for _, n := range []int{0, 1, 2, k / 16, k / 4, k/4 + 1, k, k + 1} {
				if got := ivf.ProbeNear(router, m, centroids, k, d, q, n); !slices.Equal(got, all[:min(n, k)]) {
					t.Fatalf("seed %d, kind %d, %s, %d × %d: the first %d are %v, want %v", seed, kind, m, k, d, n, got, all[:min(n, k)])
				}
				ids, ok := router.Near(q, n)
				if ok && kind == 0 && len(ids) < n+5 {
					left++
				}
			}
		}
	}
	if simd.Fast() && left < 300 {
		t.Errorf("few were left out %d times only", left)
	}
}

func BenchmarkProbes(b *testing.B) {
	const k, d = 1024, 100
	centroids, q := blobs(k, d, 50), blobs(1, d, 1)
	router := kernel.NewRouter(kernel.Cosine, centroids, k, d)
	for b.Loop() {
		ivf.ProbeNear(router, kernel.Cosine, centroids, k, d, q, 16)
	}
}
