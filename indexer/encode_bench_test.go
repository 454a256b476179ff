package indexer_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/file"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// BenchmarkSyncOfVectors is the processor time of a sync for each vector that a commit brought, against that of routing and encoding alone, as often
// as each is needed: once for a new row; for a changed one twice and once. The index has 256 clusters of 128 FLOAT, 4 bits. Reading and writing
// files is told apart, by a profile.
func BenchmarkSyncOfVectors(b *testing.B) {
	const rows, dim, clusters = 40_000, 128, 256
	for range b.N {
		b.StopTimer()
		x := huge{t: b, dir: b.TempDir(), rows: rows, dim: dim}
		x.begin()
		x.commit(1, "a", 4096, 0, 1)
		st, err := file.New(x.dir)
		if err != nil {
			b.Fatal(err)
		}
		p := mdt.Inside(st)
		create(b, p, generation.CreateRequest{Column: "v"}, map[string]string{"vector.num_clusters": "256", "vector.max_iter": "2", "vector.metric": "l2"})
		sync := func() (work, files time.Duration) {
			b.StartTimer()
			defer b.StopTimer()
			return profiled(b, func() {
				if r, err := indexer.Sync(b.Context(), p, indexer.SyncOptions{}); err != nil || r.Processed != 1 {
					b.Fatalf("%d processed, %v", r.Processed, err)
				}
			})
		}
		route, encode := routeAndEncode(b, rows, dim, clusters)
		x.commit(3, "b", rows, 0, 1)
		work, files := sync()
		b.ReportMetric(work.Seconds()/(route+encode).Seconds(), "×encode-new")
		b.ReportMetric((work+files).Seconds()/(route+encode).Seconds(), "×encode-new-with-files")
		x.commit(5, "b", rows, 1, 1)
		work, files = sync()
		b.ReportMetric(work.Seconds()/(2*route+encode).Seconds(), "×encode-changed")
		b.ReportMetric((work+files).Seconds()/(2*route+encode).Seconds(), "×encode-changed-with-files")
		b.ReportMetric(0, "ns/op")
	}
}

// routeAndEncode is the processor time of routing, and of encoding, so many vectors, the least of three times.
func routeAndEncode(b *testing.B, rows, dim, clusters int) (route, encode time.Duration) {
	b.Helper()
	value := func(i int) float32 { return float32(int64(mix(uint64(i))>>40)-1<<23) / (1 << 23) }
	centroids, vectors := make([]float32, clusters*dim), make([]float32, 0, rows*dim)
	for i := range centroids {
		centroids[i] = value(i)
	}
	for i := range rows * dim {
		vectors = append(vectors, value(i+len(centroids)))
	}
	rot := rabitq.NewRotation(dim, 42)
	router, enc, rotated := kernel.NewRouter(kernel.L2, centroids, clusters, dim), rabitq.NewEncoder(rot, 4), rot.ApplyAll(centroids)
	const together = 64
	ids := make([]int32, rows)
	each := func(fn func(from, to int)) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 3 {
			before := processorTime(b)
			for from := 0; from < rows; from += together {
				fn(from, min(rows, from+together))
			}
			least = min(least, processorTime(b)-before)
		}
		return least
	}
	route = each(func(from, to int) { router.NearestAll(vectors[from*dim:to*dim], ids[from:to], nil) })
	encode = each(func(from, to int) {
		enc.EncodeAll(vectors[from*dim:to*dim], func(i int) []float32 { c := int(ids[from+i]); return rotated[c*dim : (c+1)*dim] })
	})
	return route, encode
}

// filesOnly are the functions that read and write files: formats, compression, stores, the commit.
const filesOnly = `internal/hudi/(basefile|hfile|logfile|avrox)|internal/storage|tidemark/sink|compress|parquet|syscall\.`

// profiled is the processor time of a function, with what it took to read and write files apart.
func profiled(b *testing.B, fn func()) (work, files time.Duration) {
	b.Helper()
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		b.Fatal(err)
	}
	before := processorTime(b)
	fn()
	all := processorTime(b) - before
	pprof.StopCPUProfile()
	path := filepath.Join(b.TempDir(), "cpu")
	if err := os.WriteFile(path, profile.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.CommandContext(b.Context(), "go", "tool", "pprof", "-top", "-nodefraction=0", "-nodecount=1000000", "-unit=ms", "-ignore="+filesOnly, path).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	m := regexp.MustCompile(`accounting for ([0-9.]+)ms, .* of ([0-9.]+)ms total`).FindSubmatch(out)
	if m == nil {
		b.Fatalf("profile: %s", out)
	}
	kept, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	total, err := strconv.ParseFloat(string(m[2]), 64)
	if err != nil || total == 0 {
		b.Fatal("profile without samples", err)
	}
	work = time.Duration(float64(all) * kept / total)
	return work, all - work
}
