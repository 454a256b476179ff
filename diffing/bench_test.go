package diffing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"tidemark/delta"
	"tidemark/delta/batch"
	"tidemark/diffing"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// The file group of the benchmarks: 500,000 × 128 FLOAT, Hudi's pages and row groups. The files are made once, in a folder that
// TIDEMARK_BENCH_DIR names (else in the system's temporary folder), about 250 MB each.
func bigGroups(b *testing.B, mor bool, run func(b *testing.B, x big)) {
	rows := 500_000
	if text := os.Getenv("TIDEMARK_BENCH_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	dir := os.Getenv("TIDEMARK_BENCH_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "tidemark-bench")
	}
	for _, cluster := range []bool{true, false} {
		for _, share := range []float64{0.0001, 0.01, 0.1} {
			x := big{rows: rows, dim: 128, pages: 2048, mor: mor, share: share, cluster: cluster}
			name := fmt.Sprintf("%s/%g%%", map[bool]string{true: "clustered", false: "random"}[cluster], share*100)
			x.dir = filepath.Join(dir, fmt.Sprintf("%d-mor=%v-cluster=%v-%g", rows, mor, cluster, share))
			b.Run(name, func(b *testing.B) { run(b, x) })
		}
	}
}

// BenchmarkAppend compares a MoR deltacommit. read/needed: bytes read, footers apart, per byte of the new log and of the
// key and vector pages that hold candidates. whole/read: bytes of both whole slices per byte read.
func BenchmarkAppend(b *testing.B) {
	bigGroups(b, true, func(b *testing.B, x big) {
		x.write(b)
		log := x.sizeOf(b, filepath.Join(x.dir, x.log()))
		needed := log + x.pagesOf(b, "_hoodie_record_key", "v")
		var read int64
		var r []diffing.Result
		for b.Loop() {
			b.StopTimer()
			src, req := x.open(b)
			x.footers(b, src)
			before := src.table.Stats()
			b.StartTimer()
			var err error
			if r, err = diffing.Compare(b.Context(), src, req); err != nil {
				b.Fatal(err)
			}
			after := src.table.Stats()
			read = after.Base.Bytes - before.Base.Bytes + after.Log.Bytes - before.Log.Bytes
		}
		if n := r[0].Counts[delta.VectorUpdate]; n != int64(len(x.changed())) {
			b.Fatalf("%d updates", n)
		}
		b.ReportMetric(float64(read)/float64(needed), "read/needed")
		b.ReportMetric(float64(2*x.sizeOf(b, filepath.Join(x.dir, x.base(1)))+log)/float64(read), "whole/read")
		b.ReportMetric(written(b, x, r[0].Changes, int64(len(r[0].Changes)), 0), "B-written/changed-row")
	})
}

// BenchmarkRewrite compares a COW rewrite. speed/plain: its speed per that of reading the same columns of both files with parquet-go,
// page by page, and doing nothing, before and after it in the same process. Both by processor time, so that a busy machine does not
// decide.
func BenchmarkRewrite(b *testing.B) {
	bigGroups(b, false, func(b *testing.B, x big) {
		x.write(b)
		plain := func() time.Duration {
			runtime.GC()
			start := processor(b)
			for _, n := range []int{1, 3} {
				path := filepath.Join(x.dir, x.base(n))
				if rows := basefiletest.Drain(b, path, "_hoodie_commit_time", "_hoodie_record_key", "v"); rows != int64(x.rows) {
					b.Fatal(rows)
				}
			}
			return processor(b) - start
		}
		plain() // the files are in the page cache now
		var speeds, allocs []float64
		var r []diffing.Result
		d := &discard{keep: 2000}
		for b.Loop() {
			b.StopTimer()
			first := plain()
			src, req := x.open(b)
			req.Changes = d
			d.Reset()
			runtime.GC()
			var m0, m1 runtime.MemStats
			runtime.ReadMemStats(&m0)
			b.StartTimer()
			start := processor(b)
			var err error
			if r, err = diffing.Compare(b.Context(), src, req); err != nil {
				b.Fatal(err)
			}
			took := processor(b) - start
			b.StopTimer()
			runtime.ReadMemStats(&m1)
			second := plain()
			b.StartTimer()
			speeds = append(speeds, float64(first+second)/2/float64(took))
			allocs = append(allocs, float64(m1.Mallocs-m0.Mallocs)/float64(d.rows))
		}
		if n := r[0].Counts[delta.VectorUpdate]; n != int64(len(x.changed())) || d.rows != int64(x.rows)-n {
			b.Fatalf("%d updates, %d refreshes", n, d.rows)
		}
		b.ReportMetric(median(speeds), "speed/plain")
		b.ReportMetric(median(allocs), "allocs/unchanged-row")
		b.ReportMetric(written(b, x, d.sample, d.changed, d.rows), "B-written/changed-row")
	})
}

// processor is the processor time that the process has taken.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// router is a generation of 16 clusters with 4-bit codes.
type router struct {
	centroids []float32
	encoder   *rabitq.Encoder
}

func (r *router) Cluster(v []float32) int {
	best, at := float32(0), -1
	for i := range 16 {
		d := float32(0)
		for j, x := range v {
			d += (x - r.centroids[i*len(v)+j]) * (x - r.centroids[i*len(v)+j])
		}
		if at < 0 || d < best {
			best, at = d, i
		}
	}
	return at
}

func (r *router) Encode(v []float32, cluster int) rabitq.Code {
	return r.encoder.Encode(v, r.centroids[cluster*len(v):(cluster+1)*len(v)])
}

// written is the bytes of index records per changed row, as they are stored: measured on up to 2000 of the changes, and on as many rows
// that only moved, whose records differ in their locators alone.
func written(b *testing.B, x big, changes []delta.Change, changed, moved int64) float64 {
	b.Helper()
	rt := &router{encoder: rabitq.NewEncoder(rabitq.NewRotation(x.dim, 42), 4), centroids: make([]float32, 16*x.dim)}
	for i := range rt.centroids {
		rt.centroids[i] = float32(int64(mix(uint64(i))>>40)-1<<23) / (1 << 23)
	}
	builder := &delta.Builder{Router: rt, Segments: make([]int, 16), Groups: 1}
	for i := range builder.Segments {
		builder.Segments[i] = 1
	}
	bytesOf := func(list []delta.Change) float64 {
		all := batch.New(batch.Config{Builder: builder, Element: kernel.Float, Dim: x.dim})
		defer all.Close()
		for _, c := range list {
			if err := all.AddChange(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
		if err := all.Finish(b.Context()); err != nil {
			b.Fatal(err)
		}
		w := hfile.NewWriter(hfile.Config{Schema: delta.SchemaJSON})
		for _, f := range all.Files(nil) {
			for r, err := range f.Records {
				if err == nil {
					err = w.Append(r.Key, r.Value)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		out, err := w.Finish()
		if err != nil {
			b.Fatal(err)
		}
		return float64(len(out)) / float64(len(list))
	}
	total := bytesOf(changes[:min(len(changes), 2000)]) * float64(changed)
	if moved > 0 {
		var list []delta.Change
		loc := func(n int, at int) delta.Locator {
			return delta.Locator{Partition: "p", FileID: bigGroup, BaseInstant: bigAt(n), Position: int64(at)}
		}
		for i := range 2000 {
			raw := x.vector(i, 1)
			list = append(list, delta.Change{Class: delta.LocatorRefresh, Key: string(x.key(i)), Instant: bigAt(3),
				Old: &delta.Version{Raw: raw, Locator: loc(1, i)}, New: &delta.Version{Raw: raw, Locator: loc(3, i)}})
		}
		total += bytesOf(list) * float64(moved)
	}
	return total / float64(changed)
}
