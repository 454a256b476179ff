package table_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// moment is the n-th of many instant times.
func moment(n int) string {
	return time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC).Format("20060102150405") + "000"
}

// aCommit is the metadata of a real commit, with its own times replaced; stats leaves its write stats in.
func aCommit(b testing.TB) func(n int) []byte {
	st := load(b, "archived")
	_, tl, err := timeline.Open(b.Context(), st, table.HoodieDir)
	if err != nil {
		b.Fatal(err)
	}
	w := tl.Writes()[0]
	text, _, err := st.ReadFile(b.Context(), ".hoodie/timeline/"+w.File)
	if err != nil {
		b.Fatal(err)
	}
	return func(n int) []byte {
		return bytes.ReplaceAll(text, []byte(w.Requested), []byte(moment(n)))
	}
}

// bigTable is a table with n archived commits and a few active ones. level is how many instants a level file has.
func bigTable(b testing.TB, n, level, active int, metadata func(n int) []byte) *mem.Store {
	b.Helper()
	st := mem.New("big")
	put := func(p string, data []byte) { st.Put(p, data, time.Unix(0, 0)) }
	put(".hoodie/hoodie.properties", fmt.Appendf(nil, "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=9\nhoodie.table.initial.version=9\n"+
		"hoodie.table.checksum=%d\nhoodie.table.create.schema={\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}\n", crc32.ChecksumIEEE([]byte(".t"))))
	put(".hoodie_partition_metadata", []byte("x"))
	for i := n; i < n+active; i++ {
		put(".hoodie/timeline/"+moment(2*i)+".commit.requested", nil)
		put(".hoodie/timeline/"+moment(2*i)+".inflight", nil)
		put(".hoodie/timeline/"+moment(2*i)+"_"+moment(2*i+1)+".commit", metadata(2*i))
	}
	var entries []string
	for from := 0; from < n; from += level {
		count := min(level, n-from)
		text := func(name string, at func(i int) []byte) basefiletest.Column {
			return basefiletest.Column{Name: name, Kind: basefile.String, At: at}
		}
		file := basefiletest.Write(b, basefiletest.Config{Rows: count, PageRows: 200},
			text("instantTime", func(i int) []byte { return []byte(moment(2 * (from + i))) }),
			text("completionTime", func(i int) []byte { return []byte(moment(2*(from+i) + 1)) }),
			text("action", func(int) []byte { return []byte("commit") }),
			basefiletest.Column{Name: "metadata", Kind: basefile.Bytes, At: func(i int) []byte { return metadata(2 * (from + i)) }},
			basefiletest.Column{Name: "plan", Kind: basefile.Bytes, At: func(int) []byte { return nil }},
			basefiletest.Column{Name: "version", Kind: basefile.Int32, Required: true, At: func(int) []byte { return []byte{1, 0, 0, 0} }})
		name := fmt.Sprintf("%s_%s_2.parquet", moment(2*from), moment(2*(from+count-1)))
		put(".hoodie/timeline/history/"+name, file)
		entries = append(entries, fmt.Sprintf(`{"fileName":"%s","fileLen":%d}`, name, len(file)))
	}
	put(".hoodie/timeline/history/manifest_1", []byte(`{"files":[`+strings.Join(entries, ",")+`]}`))
	put(".hoodie/timeline/history/_version_", []byte("1"))
	return st
}

// empty is the metadata of a commit that changed nothing.
func empty(int) []byte {
	return []byte(`{"partitionToWriteStats":{},"operationType":"UPSERT","extraMetadata":{}}`)
}

// plan takes a look and everything that a catch-up asks of the timeline: what is archived, what each instant did, which files
// there are.
func plan(b testing.TB, tab *table.Table) int {
	b.Helper()
	long, err := tab.Since(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := long.Files(b.Context()); err != nil {
		b.Fatal(err)
	}
	writes := long.Timeline.Writes()
	for _, w := range writes {
		if _, err := long.Commit(b.Context(), w); err != nil {
			b.Fatal(err)
		}
	}
	return len(writes)
}

// processorTime is what this process has used so far: the machine may be busy with other work.
func processorTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The plan of a catch-up over 10,000 archived commits of a real size takes at most 2 s of processor time and 200 MB.
func BenchmarkPlanOfArchivedInstants(b *testing.B) {
	const n, active = 10_000, 20
	st := bigTable(b, n, 1000, active, aCommit(b))
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := processorTime(b)
		tab := open(b, st)
		if got := plan(b, tab); got != n+active {
			b.Fatalf("%d of %d instants", got, n+active)
		}
		took := processorTime(b) - start
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / 1e6
		peak := float64(after.HeapSys-before.HeapSys) / 1e6
		runtime.KeepAlive(tab)
		b.ReportMetric(took.Seconds(), "cpu-s/plan")
		b.ReportMetric(kept, "MB-kept")
		b.ReportMetric(peak, "MB-more")
		if took > 2*time.Second || kept > 200 {
			b.Errorf("took %v and kept %.0f MB", took, kept)
		}
	}
}

// A catch-up over commits without changes is linear in their number: the time for each stays the same.
func BenchmarkPlanOfEmptyCommits(b *testing.B) {
	for _, n := range []int{1250, 2500, 5000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st := bigTable(b, n, 1000, 20, empty)
			start := processorTime(b)
			for b.Loop() {
				plan(b, open(b, st))
			}
			b.ReportMetric(float64((processorTime(b)-start).Microseconds())/float64(b.N*n), "cpu-µs/commit")
		})
	}
}

// A poll of 10,000 active instants without news is one listing and no read; a look is one Stat more.
func BenchmarkPollWithoutNews(b *testing.B) {
	st := fault.New(bigTable(b, 0, 1000, 10_000, empty), fault.Config{})
	cache := table.NewCache(st)
	if _, err := cache.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, poll := range []bool{true, false} {
		b.Run(map[bool]string{true: "poll", false: "look"}[poll], func(b *testing.B) {
			n := st.Calls()
			for b.Loop() {
				if !poll {
					if _, err := cache.Open(b.Context()); err != nil {
						b.Fatal(err)
					}
				} else if moved, err := cache.Reader().Poll(b.Context()); moved || err != nil {
					b.Fatal(moved, err)
				}
			}
			trace := st.Trace()[n:]
			reads := 0
			for _, line := range trace {
				if strings.HasPrefix(line, "read") {
					reads++
				}
			}
			b.ReportMetric(float64(len(trace))/float64(b.N), "requests/op")
			b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
		})
	}
}

// What the timeline costs a catch-up that takes 64 instants a pass and looks at the table anew for each.
func BenchmarkPassesOfACatchUp(b *testing.B) {
	for _, n := range []int{1250, 2500, 5000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st := bigTable(b, n, 1000, 20, empty)
			start := processorTime(b)
			for b.Loop() {
				cache, after := table.NewCache(st), ""
				for passes := 0; ; passes++ {
					tab, err := cache.Open(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					long, err := tab.Since(b.Context(), after)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := long.Files(b.Context()); err != nil {
						b.Fatal(err)
					}
					writes := long.Timeline.Writes()
					if len(writes) <= 64 {
						break
					}
					after = writes[63].Completed
				}
			}
			b.ReportMetric(float64((processorTime(b)-start).Microseconds())/float64(b.N*n), "cpu-µs/commit")
		})
	}
}
