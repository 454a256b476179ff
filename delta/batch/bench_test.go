package batch

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// nearest routes to the nearest of 16 centroids and encodes with 4 bits.
type nearest struct {
	router    *kernel.Router
	enc       *rabitq.Encoder
	centroids []float32
	dim       int
}

func (n *nearest) Cluster(v []float32) int { c, _ := n.router.Nearest(v); return c }

func (n *nearest) Encode(v []float32, cluster int) rabitq.Code {
	return n.enc.Encode(v, n.centroids[cluster*n.dim:(cluster+1)*n.dim])
}

func (n *nearest) Clusters(v []float32, ids []int32) { n.router.NearestAll(v, ids, nil) }

func (n *nearest) Codes(v []float32, clusters []int32) []rabitq.Code {
	return n.enc.EncodeAll(v, func(i int) []float32 { return n.centroids[int(clusters[i])*n.dim : (int(clusters[i])+1)*n.dim] })
}

// BenchmarkBatch takes 20,000 rows of 128 FLOAT that only moved from the comparison to their sorted records. spilled: with so little memory
// that both the net changes and the records go to disk many times. time/encode: processor time per that of routing and encoding alone.
func BenchmarkBatch(b *testing.B) {
	const rows, dim = 20_000, 128
	v := func(i, j int) float32 { return float32((uint32(i*dim+j)*2654435761)>>8)/(1<<23) - 1 }
	r := &nearest{enc: rabitq.NewEncoder(rabitq.NewRotation(dim, 42), 4), dim: dim}
	for i := range 16 * dim {
		r.centroids = append(r.centroids, v(-1, i))
	}
	r.router = kernel.NewRouter(kernel.L2, r.centroids, 16, dim)
	builder := &delta.Builder{Router: r, Segments: make([]int, 16), Groups: 4}
	keys, raws := make([][]byte, rows), make([][]byte, rows)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i)
		for j := range dim {
			raws[i] = binary.LittleEndian.AppendUint32(raws[i], math.Float32bits(v(i, j)))
		}
	}
	at := func(n, i int) delta.Locator {
		return delta.Locator{Partition: "p", FileID: "f", BaseInstant: fmt.Sprint(n), Position: int64(i)}
	}
	processor := func() time.Duration { // that the process has taken: a busy machine does not decide
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	encode := func() time.Duration { // routing and encoding alone
		vec, ids, start := make([]float32, together*dim), make([]int32, together), processor()
		for i := range rows {
			at := i % together
			kernel.ToFloat32(vec[at*dim:(at+1)*dim], raws[i], kernel.Float)
			if at == together-1 {
				r.Clusters(vec, ids)
				r.Codes(vec, ids)
			}
		}
		return processor() - start
	}
	for _, mode := range []struct {
		name   string
		memory int64
	}{{"memory", 0}, {"spilled", 1 << 20}} {
		b.Run(mode.name, func(b *testing.B) {
			b.ReportAllocs()
			var spilled int64
			var all, alone time.Duration
			for b.Loop() {
				b.StopTimer()
				alone += encode()
				b.StartTimer()
				start := processor()
				x := New(Config{Builder: builder, Element: kernel.Float, Dim: dim, Memory: mode.memory, TempDir: b.TempDir()})
				x.Begin()
				for i := range rows {
					old, cur := delta.Version{Raw: raws[i], Locator: at(1, i)}, delta.Version{Raw: raws[i], Locator: at(2, i)}
					if err := x.Add(b.Context(), delta.LocatorRefresh, keys[i], &old, &cur, "1"); err != nil {
						b.Fatal(err)
					}
				}
				if err := x.Finish(b.Context()); err != nil {
					b.Fatal(err)
				}
				n := 0
				for _, f := range x.Files(nil) {
					for _, err := range f.Records {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
				}
				all += processor() - start
				if n != rows {
					b.Fatal(n)
				}
				spilled = x.Spilled()
				if err := x.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(all.Seconds()/alone.Seconds(), "time/encode")
			b.ReportMetric(float64(spilled)/rows, "B-spilled/row")
		})
	}
}
