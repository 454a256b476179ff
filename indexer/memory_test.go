package indexer_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
)

// staged returns the files of indexes in a store, by path.
func staged(t *testing.T, st *mem.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range st.Paths() {
		if !strings.Contains(p, "vector_index_") {
			continue
		}
		b, _, err := st.ReadFile(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		out[p] = string(b)
	}
	return out
}

// TestSpilledSyncWritesTheSame: whatever the bounds on memory, the staged files have the same bytes.
func TestSpilledSyncWritesTheSame(t *testing.T) {
	t.Parallel()
	for n, name := range []string{"cow_basic", "mor_basic", "mor_clustering", "partition_move", "two_vectors", "replace_ops", "nbcc_overlap_compaction"} {
		if testkit.Thinned(n, 3) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := store(t, name)
			p := mdt.Inside(st)
			columns := []string{"embedding"}
			if name == "two_vectors" {
				columns = []string{"a", "b"}
			}
			for _, c := range columns {
				create(t, p, generation.CreateRequest{Column: c, AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
			}
			var want map[string]string
			for _, memory := range []int64{0, 1, 20_000} {
				left, dir := st.Clone(), t.TempDir()
				opt := indexer.SyncOptions{Memory: indexer.Memory{Changes: memory, Window: memory, TempDir: dir}, Sink: sink.Config{Memory: memory}}
				r, err := indexer.Sync(t.Context(), mdt.Inside(left), opt)
				if err != nil || r.Processed == 0 {
					t.Fatalf("memory %d: %d instants, %v", memory, r.Processed, err)
				}
				got := staged(t, left)
				if want == nil {
					want = got
				}
				for p, b := range want {
					if got[p] != b {
						t.Errorf("memory %d: %s has %d other bytes, want %d", memory, p, len(got[p]), len(b))
					}
				}
				if len(got) != len(want) {
					t.Errorf("memory %d: %d files, want %d", memory, len(got), len(want))
				}
				if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
					t.Errorf("memory %d: left behind: %v, %v", memory, list, err)
				}
			}
		})
	}
}

// huge is a made-up table on disk with one large file group: a small one is indexed, the large one arrives, is rewritten in order, and
// rewritten in another order.
type huge struct {
	t    testing.TB
	dir  string
	rows int
	dim  int
}

func hugeAt(n int) string { return fmt.Sprintf("2026010100%04d000", n) }

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (x huge) put(name string, b []byte) {
	path := filepath.Join(x.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		x.t.Fatal(err)
	}
}

func (x huge) begin() {
	props := func(name, more string) []byte {
		return fmt.Appendf(nil, "hoodie.table.name=%s\nhoodie.table.version=9\nhoodie.table.initial.version=9\nhoodie.timeline.layout.version=2\n"+
			"hoodie.table.timeline.timezone=UTC\nhoodie.timeline.path=timeline\nhoodie.timeline.history.path=history\nhoodie.table.checksum=%d\n%s", name, crc32.ChecksumIEEE([]byte("."+name)), more)
	}
	x.put(".hoodie/hoodie.properties", props("t", "hoodie.table.type=COPY_ON_WRITE\nhoodie.table.base.file.format=PARQUET\nhoodie.table.recordkey.fields=id\n"+
		"hoodie.record.merge.mode=COMMIT_TIME_ORDERING\nhoodie.table.keygenerator.type=SIMPLE\nhoodie.table.metadata.partitions=files\n"))
	x.put(".hoodie/metadata/.hoodie/hoodie.properties", props("t_metadata", "hoodie.table.type=MERGE_ON_READ\nhoodie.table.base.file.format=HFILE\n"+
		"hoodie.table.recordkey.fields=key\nhoodie.populate.meta.fields=false\n"))
	x.put(".hoodie/metadata/.hoodie/timeline/history/.keep", nil)
	x.put(".hoodie/timeline/history/.keep", nil)
	x.put("p/.hoodie_partition_metadata", []byte("partitionDepth=1\n"))
}

// commit writes a base file of a group. One row of changed gets another vector; multiply changes the order of the rows.
func (x huge) commit(n int, group string, rows, changed int, multiply uint64) {
	t := x.t
	t.Helper()
	name := fmt.Sprintf("p/%s_0-0-0_%s.parquet", group, hugeAt(n))
	f, err := os.Create(filepath.Join(x.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) int { return int(uint64(i) * multiply % uint64(rows)) }
	key := func(i int) []byte { return fmt.Appendf(nil, "%s-%016x", group, mix(uint64(at(i)))) }
	now, partition := []byte(hugeAt(n)), []byte("p")
	basefiletest.WriteTo(t, f, basefiletest.Config{Codec: "snappy", Rows: rows, PageRows: 20000, GroupRows: max(120<<20/(4*x.dim+80), 1)},
		basefiletest.Column{Name: "_hoodie_commit_time", Kind: basefile.String, Encoding: "dict", At: func(int) []byte { return now }},
		basefiletest.Column{Name: "_hoodie_record_key", Kind: basefile.String, At: key},
		basefiletest.Column{Name: "_hoodie_partition_path", Kind: basefile.String, Encoding: "dict", At: func(int) []byte { return partition }},
		basefiletest.Column{Name: "id", Kind: basefile.String, At: key},
		basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 4 * x.dim, PageRows: max(1, 256<<10/(4*x.dim)), At: func(i int) []byte {
			i = at(i)
			s := uint64(i) << 20
			if changed > 0 && i%changed == 0 {
				s += uint64(n) << 60
			}
			out := make([]byte, 0, 4*x.dim)
			for j := range x.dim {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(int64(mix(s+uint64(j))>>40)-1<<23)/(1<<23)))
			}
			return out
		}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(x.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	schema := fmt.Sprintf(`{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"id","type":["null","string"],"default":null},`+
		`{"name":"v","type":["null",{"type":"fixed","name":"vector_float_%[1]d","size":%[2]d,"logicalType":"vector","dimension":%[1]d,"elementType":"FLOAT","storageBacking":"FIXED_BYTES"}],"default":null}]}`, x.dim, 4*x.dim)
	b, err := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": map[string]string{"schema": schema},
		"partitionToWriteStats": map[string]any{"p": []map[string]any{{"fileId": group, "path": name, "partitionPath": "p", "fileSizeInBytes": info.Size(), "prevCommit": "null"}}}})
	if err != nil {
		t.Fatal(err)
	}
	x.put(fmt.Sprintf(".hoodie/timeline/%s_%s.commit", hugeAt(n), hugeAt(n+1)), b)
	t.Logf("commit %d: %d MiB", n, info.Size()>>20)
}

// peak is the largest heap that a function had, in bytes above the one before it, when the memory limit is so many bytes above that: with what is
// garbage by then, which a busy machine collects late, and without, as collections found it. Near the limit these follow one another at once, so that none
// of what is needed beyond it is missed.
func peak(limit int64, fn func()) (most, live int64) {
	heap := func() (all, live int64) {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64()), int64(s[1].Value.Uint64())
	}
	runtime.GC()
	runtime.GC() // the second one sweeps what the first one found
	base, _ := heap()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(base + limit))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				all, found := heap()
				most, live = max(most, all), max(live, found)
			}
		}
	}()
	fn()
	close(stop)
	<-stopped
	return most - base, live - base
}

// TestSyncMemoryStaysBounded: a file group many times the bounds arrives and is rewritten. It is not parallel: it measures the heap.
func TestSyncMemoryStaysBounded(t *testing.T) {
	x := huge{t: t, dir: t.TempDir(), rows: 48_011, dim: 32}
	opt := indexer.SyncOptions{Memory: indexer.Memory{Changes: 3 << 20, Window: 1 << 20, TempDir: t.TempDir()}, Sink: sink.Config{Memory: 1 << 20}}
	hugeSync(t, x, 24<<20, 34<<20, opt) // 45 MiB without the bounds of opt
}

// TestSyncOfALargeGroup is the same with the defaults for a group of 5 GiB, or of TIDEMARK_TEST_BYTES, of 256 dimensions, or of
// TIDEMARK_TEST_DIM, in 512 MiB.
func TestSyncOfALargeGroup(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_LONG") == "" {
		t.Skip("a long test: set TIDEMARK_TEST_LONG=1; it takes 20 GB in the folder for temporary files")
	}
	number := func(name string, n int) int {
		if text := os.Getenv(name); text != "" {
			var err error
			if n, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	x := huge{t: t, dir: t.TempDir(), dim: number("TIDEMARK_TEST_DIM", 256)}
	x.rows = number("TIDEMARK_TEST_BYTES", 5<<30) / (4*x.dim + 40)
	hugeSync(t, x, 512<<20, 512<<20, indexer.SyncOptions{Memory: indexer.Memory{TempDir: t.TempDir()}})
}

// hugeSync syncs with a memory limit above what there is, and fails if more than a bound is needed. A busy machine goes beyond a limit that is not far away.
func hugeSync(t *testing.T, x huge, limit, bound int64, opt indexer.SyncOptions) {
	x.begin()
	x.commit(1, "small", 500, 0, 1)
	st, err := file.New(x.dir)
	if err != nil {
		t.Fatal(err)
	}
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "v"}, map[string]string{"vector.num_clusters": "4", "vector.rabitq.bits": "2"})
	for n, step := range []struct {
		what     string
		changed  int
		multiply uint64
		want     map[string]int64
	}{
		{"the group arrives", 0, 1, map[string]int64{"insert": int64(x.rows)}},
		{"it is rewritten in order", 100, 1, map[string]int64{"vector_update": int64((x.rows + 99) / 100), "locator_refresh": int64(x.rows - (x.rows+99)/100)}},
		{"it is rewritten in another order", 100, 7919, map[string]int64{"vector_update": int64((x.rows + 99) / 100), "locator_refresh": int64(x.rows - (x.rows+99)/100)}},
	} {
		x.commit(3+2*n, "large", x.rows, step.changed, step.multiply)
		var r *indexer.SyncResult
		above, live := peak(limit, func() { r, err = indexer.Sync(t.Context(), p, opt) })
		if err != nil || r.Processed != 1 {
			t.Fatalf("%s: %d instants, %v", step.what, r.Processed, err)
		}
		t.Logf("%s: %d MiB above the start, %d MiB of them not garbage", step.what, above>>20, live>>20)
		if live > bound {
			t.Errorf("%s: %d MiB above the start, bound %d", step.what, live>>20, bound>>20)
		}
		list := markersOf(t, p)
		for class, want := range step.want {
			if got := list[len(list)-1].Counts[class]; got != want {
				t.Errorf("%s: %d of %s, want %d", step.what, got, class, want)
			}
		}
		if list, err := os.ReadDir(opt.Memory.TempDir); err != nil || len(list) > 0 {
			t.Errorf("left behind: %v, %v", list, err)
		}
	}
	if x.rows < 100_000 {
		verify(t, p, 500+x.rows, "at the end")
	}
}
