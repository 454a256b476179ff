package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tidemark/internal/vector/peak"
	"tidemark/internal/vector/simd"
)

// BenchmarkAssign is the routing of a batch as a share of F, the float32 multiply-add peak.
func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct{ k, d int }{{256, 64}, {256, 128}, {1024, 128}, {4096, 128}, {1024, 768}, {4096, 768}, {1024, 1536}} {
		b.Run(fmt.Sprintf("K=%d,D=%d", c.k, c.d), func(b *testing.B) {
			const n = 480
			r := rand.New(rand.NewPCG(1, 2))
			centroids, vectors := draw(r, c.k*c.d, 0), draw(r, n*c.d, 0)
			router, ids, dists := NewRouter(L2, centroids, c.k, c.d), make([]int32, n), make([]float32, n)
			some := max(240, min(n, 600_000_000/(c.k*c.d*2)/240*240))
			plain, wide := &Router{metric: L2, k: c.k, d: c.d, panels: panels[float64](centroids, c.k, c.d, 0)}, 6
			for range b.N {
				t, drift := peak.Least(15, peak.Float32,
					func() { router.NearestAll(vectors[:some*c.d], ids[:some], nil) },
					func() { router.NearestAll(vectors[:some*c.d], ids[:some], dists[:some]) },
					func() { plain.NearestAll(vectors[:wide*c.d], ids[:wide], dists[:wide]) })
				ops := float64(2 * some * c.k * c.d)
				f := peak.Float32Ops / t[0]
				b.ReportMetric(f/1e9, "F-GF/s")
				b.ReportMetric(ops/t[1]/f, "of-F")
				b.ReportMetric(ops/t[2]/f, "of-F-with-distances")
				b.ReportMetric(t[3]/float64(wide)/(t[1]/float64(some)), "×eight-lanes-in-Go")
				b.ReportMetric(100*drift, "drift-%")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkRotate is the product of a batch with a square matrix as a share of M, the float64 multiply, then add, peak.
func BenchmarkRotate(b *testing.B) {
	for _, d := range []int{64, 100, 128, 384, 768, 1536} {
		b.Run(fmt.Sprintf("D=%d", d), func(b *testing.B) {
			n := max(64, min(1024, 40_000_000/(d*d)/64*64))
			r := rand.New(rand.NewPCG(1, 2))
			m, v, out := NewMatrix(draw(r, d*d, 0), d, d), draw(r, n*d, 0), make([]float32, n*d)
			for range b.N {
				t, drift := peak.Least(15, peak.Float64,
					func() { m.ApplyAll(out, v) },
					func() {
						for i := range 4 {
							m.Apply(out[i*d:(i+1)*d], v[i*d:(i+1)*d])
						}
					})
				mul := peak.Float64Pairs / t[0]
				b.ReportMetric(mul/1e9, "M-GMAC/s")
				b.ReportMetric(float64(n*d*d)/t[1]/mul, "of-M")
				b.ReportMetric(float64(4*d*d)/t[2]/mul, "of-M-one-at-a-time")
				b.ReportMetric(100*drift, "drift-%")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkDistances is the exact distance of one vector to many as a share of M.
func BenchmarkDistances(b *testing.B) {
	for _, d := range []int{100, 128, 768, 1536} {
		b.Run(fmt.Sprintf("D=%d", d), func(b *testing.B) {
			n := 2_000_000 / d
			r := rand.New(rand.NewPCG(1, 2))
			rows, v, sums := draw(r, n*d, 0), draw(r, d, 0), make([]float64, n)
			for range b.N {
				t, drift := peak.Least(15, peak.Float64,
					func() { simd.SquaresTo(sums, rows, v) },
					func() {
						for i := range sums {
							sums[i] = Distance64(L2, rows[i*d:(i+1)*d], v)
						}
					})
				mul := peak.Float64Pairs / t[0]
				b.ReportMetric(float64(n*d)/t[1]/mul, "of-M")
				b.ReportMetric(t[2]/t[1], "×one-at-a-time")
				b.ReportMetric(100*drift, "drift-%")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
