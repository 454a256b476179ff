package diffing_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"

	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
)

// An append reads the new log, and of the base file the pages that hold candidates: counted in bytes and requests.
func TestAppendReadsCandidatePages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		noPos    bool
		requests int64
	}{
		{"record positions", false, 8},
		{"keys only", true, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			x := big{codec: "snappy", dir: filepath.Join(t.TempDir(), "t"), rows: 40000, dim: 32, pages: 500, mor: true, share: 0.0001, noPos: tc.noPos}
			src, req := x.open(t)
			x.footers(t, src)
			before := src.table.Stats()
			r, err := diffing.Compare(t.Context(), src, req)
			if err != nil {
				t.Fatal(err)
			}
			if r[0].Counts[delta.VectorUpdate] != 4 || len(r[0].Changes) != 4 || r[0].Counts[delta.Unchanged] != 0 || r[0].Work.Examined != 4 {
				t.Errorf("counts %v, work %+v", r[0].Counts, r[0].Work)
			}
			after := src.table.Stats()
			need := x.pagesOf(t, "v", "_hoodie_record_key")
			if tc.noPos { // the key column whole
				for _, p := range basefiletest.Pages(t, filepath.Join(x.dir, x.base(1)), "_hoodie_record_key") {
					need += p.Size
				}
			}
			got := after.Base.Bytes - before.Base.Bytes
			if float64(got) > 1.2*float64(need) {
				t.Errorf("%d bytes of the base file, the pages that hold candidates have %d", got, need)
			}
			if n := after.Base.Requests - before.Base.Requests; n > tc.requests {
				t.Errorf("%d requests", n)
			}
			if n := after.Log.Requests - before.Log.Requests; n != 1 {
				t.Errorf("%d requests for one log", n)
			}
		})
	}
}

// pagesOf is the size of the pages of columns that hold changed rows.
func (x big) pagesOf(t testing.TB, columns ...string) (n int64) {
	for _, c := range columns {
		changed := x.changed()
		for _, p := range basefiletest.Pages(t, filepath.Join(x.dir, x.base(1)), c) {
			hit := false
			for len(changed) > 0 && int64(changed[0]) < p.First+p.Rows {
				hit, changed = true, changed[1:]
			}
			if hit {
				n += p.Size
			}
		}
	}
	return n
}

// A rewrite reads each byte of the columns at most once, in both files.
func TestRewriteReadsOnce(t *testing.T) {
	t.Parallel()
	x := big{codec: "snappy", dir: filepath.Join(t.TempDir(), "t"), rows: 20000, dim: 32, pages: 500, share: 0.01}
	src, req := x.open(t)
	x.footers(t, src)
	before := src.table.Stats()
	d := &discard{}
	req.Changes = d
	r, err := diffing.Compare(t.Context(), src, req)
	if err != nil {
		t.Fatal(err)
	}
	if r[0].Counts[delta.VectorUpdate] != 200 || r[0].Counts[delta.LocatorRefresh] != 19800 || d.rows != 19800 {
		t.Errorf("counts %v, %d handed over", r[0].Counts, d.rows)
	}
	if r[0].Work.Held != 0 || r[0].Work.Runs != 1 {
		t.Errorf("work %+v: rows of one order need not wait", r[0].Work)
	}
	var need int64
	for _, n := range []int{1, 3} {
		for _, c := range []string{"v", "_hoodie_record_key", "_hoodie_commit_time"} {
			for _, p := range basefiletest.Pages(t, filepath.Join(x.dir, x.base(n)), c) {
				need += p.Size
			}
		}
	}
	after := src.table.Stats()
	if got := after.Base.Bytes - before.Base.Bytes; float64(got) > 1.02*float64(need) {
		t.Errorf("%d bytes, the columns have %d", got, need)
	}
	if n := after.Base.Requests - before.Base.Requests; n > 8 {
		t.Errorf("%d requests", n)
	}
}

// A file group larger than the memory limit passes, whether rows keep their order or have lost it.
func TestMemoryStaysBounded(t *testing.T) {
	const limit = 40 << 20
	for _, shuffle := range []bool{false, true} {
		x := big{codec: "snappy", dir: filepath.Join(t.TempDir(), "t"), rows: 30001, dim: 256, pages: 1000, share: 0.001, shuffle: shuffle}
		src, req := x.open(t)
		d := &discard{}
		req.Changes, req.Window, req.TempDir = d, 4<<20, t.TempDir()
		runtime.GC()
		runtime.GC() // the second one sweeps what the first one found
		base := heap()
		old := debug.SetMemoryLimit(int64(base) + limit)
		var peak uint64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					peak = max(peak, heap())
					runtime.Gosched()
				}
			}
		}()
		r, err := diffing.Compare(t.Context(), src, req)
		close(stop)
		<-stopped
		debug.SetMemoryLimit(old)
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Counts[delta.VectorUpdate] != 30 || d.rows != 30001-30 {
			t.Errorf("shuffle %v: counts %v, %d handed over", shuffle, r[0].Counts, d.rows)
		}
		if shuffle == (r[0].Work.Spilled == 0) || r[0].Work.Held > 5<<20 {
			t.Errorf("shuffle %v: work %+v", shuffle, r[0].Work)
		}
		t.Logf("shuffle %v: %d MiB above the start, both files have 2 × %d MiB of vectors; %+v", shuffle, (int64(peak)-int64(base))>>20, x.rows*4*x.dim>>20, r[0].Work)
		if above := int64(peak) - int64(base); above > limit {
			t.Errorf("shuffle %v: %d MiB above the start, limit %d", shuffle, above>>20, limit>>20)
		}
	}
}

func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Where rows that wait cannot be put on disk, the error names the folder and what to do.
func TestNoRoomForWaitingRows(t *testing.T) {
	t.Parallel()
	x := big{codec: "snappy", dir: filepath.Join(t.TempDir(), "t"), rows: 2003, dim: 16, pages: 500, shuffle: true}
	src, req := x.open(t)
	missing := filepath.Join(t.TempDir(), "missing")
	req.Changes, req.Window, req.TempDir = &discard{}, 1000, missing
	_, err := diffing.Compare(t.Context(), src, req)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) || !strings.Contains(storage.Hint(err), "TMPDIR") {
		t.Errorf("got %v, hint %q", err, storage.Hint(err))
	}
}
