package rabitq

import (
	"fmt"
	"testing"
	"time"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/peak"
	"tidemark/internal/vector/simd"
)

// literalGrid is the level search as the format page writes it: every factor of the grid is scored. reach is 1 there.
func literalGrid(a []float64, top, reach, largest float64) float64 {
	quarter := float64(0.25 * float64(len(a)))
	best, bestScore := 1.0, -1.0
	for s := 1; s <= gridSize; s++ {
		f := float64(float64(s)*top*reach) / float64(gridSize*largest)
		if score := literalScore(a, f, top, quarter); score > bestScore {
			best, bestScore = f, score
		}
	}
	return best
}

// residuals makes n different directions, as level choice gets them.
func residuals(n, d int) (all [][]float64, largest []float64) {
	x := gaussians(5, n*d)
	for i := range n {
		r := x[i*d : (i+1)*d]
		a, most := make([]float64, d), 0.0
		rn := float32(0)
		for _, y := range r {
			rn += y * y
		}
		for j, y := range r {
			a[j] = max(float64(y/rn), -float64(y/rn))
			most = max(most, a[j])
		}
		all, largest = append(all, a), append(largest, most)
	}
	return all, largest
}

// BenchmarkLevels compares the choice of the factor with the literal loop over the grid.
func BenchmarkLevels(b *testing.B) {
	for _, x := range []struct{ d, bits int }{{128, 2}, {128, 4}, {128, 8}, {768, 4}, {1536, 4}} {
		b.Run(fmt.Sprintf("D=%d,B=%d", x.d, x.bits), func(b *testing.B) {
			n := 256_000 / x.d
			all, largest := residuals(n, x.d)
			c := newChoice(x.bits, Reference)
			for range b.N {
				t, drift := peak.Least(9, peak.Float64,
					func() {
						for i := range n {
							c.best(all[i], largest[i])
						}
					},
					func() {
						for i := range n / 4 {
							literalGrid(all[i], c.top, c.reach, largest[i])
						}
					})
				b.ReportMetric(4*t[2]/t[1], "×literal")
				b.ReportMetric(t[1]/float64(n)*1e6, "µs/vector")
				b.ReportMetric(100*drift, "drift-%")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkEncode is the whole way of a vector to its code, routing included, as a share of what F and M allow.
func BenchmarkEncode(b *testing.B) {
	for _, d := range []int{128, 768, 1536} {
		b.Run(fmt.Sprintf("K=4096,D=%d,B=4", d), func(b *testing.B) {
			const k, n = 4096, 240
			centroids, vectors := gaussians(1, k*d), gaussians(2, n*d)
			rot := NewRotation(d, 42)
			rotated := rot.ApplyAll(centroids)
			router, enc, ids := kernel.NewRouter(kernel.L2, centroids, k, d), NewEncoder(rot, 4), make([]int32, n)
			for range b.N {
				t, drift := peak.Least(9, peak.Float32, peak.Float64,
					func() { router.NearestAll(vectors, ids, nil) },
					func() { rot.ApplyAll(vectors) },
					func() {
						router.NearestAll(vectors, ids, nil)
						enc.EncodeAll(vectors, func(i int) []float32 { return rotated[int(ids[i])*d : (int(ids[i])+1)*d] })
					})
				f, m := peak.Float32Ops/t[0], peak.Float64Pairs/t[1]
				limit := n * (2*k*float64(d)/f + float64(d)*float64(d)/m)
				b.ReportMetric(limit/t[4], "of-limit")
				b.ReportMetric(t[2]/n*1e6, "µs-route")
				b.ReportMetric(t[3]/n*1e6, "µs-rotate")
				b.ReportMetric(t[4]/n*1e6, "µs-all")
				b.ReportMetric(f/1e9, "F-GF/s")
				b.ReportMetric(m/1e9, "M-GMAC/s")
				b.ReportMetric(100*drift, "drift-%")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkScan is the scan of a block's signs in codes a second, in the form in use and in the portable one, with and without the
// interleaving of the block, which the cache of clusters does once; against the table of floats; and bounds a second.
func BenchmarkScan(b *testing.B) {
	for _, d := range []int{100, 128, 768, 1536} {
		b.Run(fmt.Sprintf("D=%d", d), func(b *testing.B) {
			const n, times = 1024, 20
			q, err := NewQuery(NewRotation(d, 42), kernel.L2, false, gaussians(3, d))
			if err != nil {
				b.Fatal(err)
			}
			c := q.Cluster(gaussians(4, d))
			plane := make([]byte, n*RowBytes(d))
			for i := range plane {
				plane[i] = byte(i * 2654435761 >> 7)
			}
			var s Signs
			s.Set(plane, n, d)
			f := Factors{FRescale1: 1, Err1: 0.1, ResidualNorm: 3}
			sums := c.Scan(&s)
			c.planeDot(plane)
			w, plain, tables := RowBytes(d), make([]uint16, n), c.scan.byteTables(d)
			for range b.N {
				t, drift := peak.Least(15, peak.Float64,
					func() {
						for range times {
							c.Scan(&s)
						}
					},
					func() {
						for range times {
							s.Set(plane, n, d)
						}
					},
					func() {
						for i := range n {
							c.Bound(sums[i], &f)
						}
					},
					func() {
						for i := range n {
							c.planeDot(plane[i*w : (i+1)*w])
						}
					},
					func() { c.scan.most = 0; c.quantize() },
					func() { c.buildTable() },
					func() { simd.ScanRows(plain, plane, tables) })
				b.ReportMetric(n*times/t[1]/1e6, "Mcodes/s")
				b.ReportMetric(n*times/(t[1]+t[2])/1e6, "Mcodes/s-with-layout")
				b.ReportMetric(n/t[3]/1e6, "Mbounds/s")
				b.ReportMetric(n/t[4]/1e6, "Mcodes/s-floats")
				b.ReportMetric(t[5]*1e6, "µs-tables")
				b.ReportMetric(t[6]*1e6, "µs-float-table")
				b.ReportMetric(n/t[7]/1e6, "Mcodes/s-portable")
				b.ReportMetric(times*t[7]/t[1], "×portable")
				b.ReportMetric(100*drift, "drift-%")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkTwoCores is what two threads do in the time of one, by the clock on the wall, beside the same of the arithmetic peak, which shares no
// memory at all; and the processor time of one thread beside another one, as a share of that alone, which contention for the two cores does not change.
func BenchmarkTwoCores(b *testing.B) {
	const d, k, n, codes = 128, 1024, 240, 4096
	centroids, vectors := gaussians(1, k*d), gaussians(2, n*d)
	rot := NewRotation(d, 42)
	rotated := rot.ApplyAll(centroids)
	router, enc := kernel.NewRouter(kernel.L2, centroids, k, d), NewEncoder(rot, 4)
	q, err := NewQuery(rot, kernel.L2, false, gaussians(3, d))
	if err != nil {
		b.Fatal(err)
	}
	plane := make([]byte, codes*RowBytes(d))
	for _, c := range []struct {
		name string
		fn   func()
	}{
		{"encode", func() {
			ids := make([]int32, n)
			router.NearestAll(vectors, ids, nil)
			enc.EncodeAll(vectors, func(i int) []float32 { return rotated[int(ids[i])*d : (int(ids[i])+1)*d] })
		}},
		{"scan", func() {
			c := q.Cluster(rotated[:d])
			var s Signs
			for range 80 {
				s.Set(plane, codes, d)
				c.Scan(&s)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				t := peak.TwoCores(5*time.Second, c.fn, peak.Float32)
				b.ReportMetric(t[0].Scaling(), "×one-core")
				b.ReportMetric(t[1].Scaling(), "×one-core-peak")
				b.ReportMetric(2/t[0].Cost(), "×by-processor-time")
				b.ReportMetric(2/t[1].Cost(), "×by-processor-time-peak")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
