package rabitq

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/peak"
)

// literalGrid is the level search as the format page writes it: every factor of the grid is scored.
func literalGrid(a []float64, top, largest float64) float64 {
	quarter := float64(0.25 * float64(len(a)))
	best, bestScore := 1.0, -1.0
	for s := 1; s <= gridSize; s++ {
		f := float64(float64(s)*top) / float64(gridSize*largest)
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
	for _, c := range []struct{ d, bits int }{{128, 2}, {128, 4}, {128, 8}, {768, 4}, {1536, 4}} {
		b.Run(fmt.Sprintf("D=%d,B=%d", c.d, c.bits), func(b *testing.B) {
			n := 256_000 / c.d
			all, largest := residuals(n, c.d)
			top := float64(int(1)<<(c.bits-1) - 1)
			for range b.N {
				t := peak.Least(9,
					func() {
						for i := range n {
							bestFactor(all[i], top, largest[i])
						}
					},
					func() {
						for i := range n / 4 {
							literalGrid(all[i], top, largest[i])
						}
					})
				b.ReportMetric(4*t[1]/t[0], "×literal")
				b.ReportMetric(t[0]/float64(n)*1e6, "µs/vector")
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
				t := peak.Least(9, peak.Float32, peak.Float64,
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
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkScan is the scan of a block's signs, in codes a second, against the table of floats.
func BenchmarkScan(b *testing.B) {
	for _, d := range []int{100, 128, 768, 1536} {
		b.Run(fmt.Sprintf("D=%d", d), func(b *testing.B) {
			const n = 1024
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
			w := RowBytes(d)
			for range b.N {
				const times = 20
				t := peak.Least(15,
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
					func() { c.scan = scan{}; c.quantize() },
					func() { c.buildTable() })
				b.ReportMetric(n*times/t[0]/1e6, "Mcodes/s")
				b.ReportMetric(n*times/(t[0]+t[1])/1e6, "Mcodes/s-with-layout")
				b.ReportMetric(n/t[2]/1e6, "Mbounds/s")
				b.ReportMetric(n/t[3]/1e6, "Mcodes/s-floats")
				b.ReportMetric(t[4]*1e6, "µs-tables")
				b.ReportMetric(t[5]*1e6, "µs-float-table")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkTwoCores is what two goroutines do in the time of one, by the clock on the wall: it needs two cores that are
// free at times.
func BenchmarkTwoCores(b *testing.B) {
	const d, k, n, codes = 128, 1024, 120, 4096
	centroids, vectors := gaussians(1, k*d), gaussians(2, n*d)
	rot := NewRotation(d, 42)
	rotated := rot.ApplyAll(centroids)
	router, enc := kernel.NewRouter(kernel.L2, centroids, k, d), NewEncoder(rot, 4)
	q, err := NewQuery(rot, kernel.L2, false, gaussians(3, d))
	if err != nil {
		b.Fatal(err)
	}
	plane := make([]byte, codes*RowBytes(d))
	for name, fn := range map[string]func(){
		"encode": func() {
			ids := make([]int32, n)
			router.NearestAll(vectors, ids, nil)
			enc.EncodeAll(vectors, func(i int) []float32 { return rotated[int(ids[i])*d : (int(ids[i])+1)*d] })
		},
		"scan": func() {
			c := q.Cluster(rotated[:d])
			var s Signs
			for range 40 {
				s.Set(plane, codes, d)
				c.Scan(&s)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				least := [2]time.Duration{time.Hour, time.Hour}
				for range 1500 { // short and often: other work must leave both cores alone once
					for cores := range least {
						var wg sync.WaitGroup
						start := time.Now()
						for range cores + 1 {
							wg.Go(fn)
						}
						wg.Wait()
						least[cores] = min(least[cores], time.Since(start))
					}
				}
				b.ReportMetric(2*least[0].Seconds()/least[1].Seconds(), "×one-core")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
