package follow_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/file"
)

// handles counts the files that this process has open.
func handles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no list of open files here")
	}
	return len(all)
}

// heap is what is in use after a collection, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Thousands of looks and of passes that fail leave no goroutine, no open file and no memory behind. A bubble fails by itself when a
// goroutine is left at its end. It is not parallel: open files are counted for the whole process.
func TestPassesLeaveNothingBehind(t *testing.T) {
	passes := 150
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		passes = 10_000
	}
	l := late(t, "cow_basic")
	dir := t.TempDir()
	copyTo(t, l, dir)
	st, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	indexertest.InBubble(t, func(t *testing.T) {
		f := launch(t, follow.Config{Attempts: -1, Interval: time.Second, Look: time.Second}, map[string]storage.Store{"/t": st})
		run := func(n int) {
			before := f.view("/t").Looks
			for f.view("/t").Looks < before+int64(n) {
				f.Wake("/t")
				time.Sleep(time.Second)
				synctest.Wait()
			}
		}
		run(20)
		goroutines, files, memory := runtime.NumGoroutine(), handles(t), heap()
		run(passes) // with nothing to do
		i := l.commitTo(t, st)
		tb, err := table.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := tb.Commit(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, meta.Stats[0].Path), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		run(passes) // that take the lease, compare, and fail
		if v := f.view("/t"); v.Failures < passes/2 {
			t.Errorf("only %d passes failed: the test shows nothing", v.Failures)
		}
		if n := runtime.NumGoroutine(); n > goroutines+2 {
			t.Errorf("%d goroutines, there were %d", n, goroutines)
		}
		if n := handles(t); n > files+2 {
			t.Errorf("%d open files, there were %d", n, files)
		}
		if now := heap(); now > memory+8<<20 {
			t.Errorf("%d bytes in use, there were %d", now, memory)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// copyTo writes a table into a folder.
func copyTo(t testing.TB, l *lateTable, dir string) {
	t.Helper()
	for _, p := range l.st.Paths() {
		b, _, err := l.st.ReadFile(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Two hundred idle tables take at most 300 MB.
func TestIdleTablesAreSmall(t *testing.T) {
	const many = 200
	l := late(t, "mor_basic")
	for len(l.due) > 0 {
		l.commit(t)
	}
	if _, err := indexer.Sync(t.Context(), mdt.Inside(l.st), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyTo(t, l, dir)
	st, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	indexertest.InBubble(t, func(t *testing.T) {
		before := heap()
		var list []follow.TableConfig
		for i := range many {
			list = append(list, follow.TableConfig{URL: fmt.Sprintf("/t%d", i)})
		}
		f := launch(t, follow.Config{Open: func(context.Context, follow.TableConfig) (mdt.Place, error) { return mdt.Inside(st), nil }}, nil, slices.Clone(list)...)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if v := f.view("/t7"); !v.Fresh || len(v.Indexes) != 1 || v.Passes > 0 {
			t.Errorf("not an idle table with an index: %+v", v)
		}
		// The collector lets the heap grow to twice of what is in use.
		if now := heap(); now > before && 2*(now-before) > 300e6 {
			t.Errorf("%d idle tables take %d bytes", many, now-before)
		} else {
			t.Logf("%d idle tables: %.1f MB in use", many, float64(now-before)/1e6)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// An idle table costs six requests a look, and some more each minute for a whole look, whatever it holds; every five
// minutes it looks whether the newest files are there.
func TestIdleTableCostsFewRequests(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_compaction_clean", "cow_basic"} {
		l := late(t, name)
		for len(l.due) > 0 {
			l.commit(t)
		}
		indexertest.InBubble(t, func(t *testing.T) {
			calls := fault.New(l.st, fault.Config{})
			f := launch(t, follow.Config{}, map[string]storage.Store{"/t": calls})
			time.Sleep(10 * time.Minute) // all is covered, and the eager looks are over
			synctest.Wait()
			before := len(calls.Trace())
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			seen, kinds := calls.Trace()[before:], map[string]int{}
			for _, c := range seen {
				kinds[strings.Fields(c)[0]]++
			}
			t.Logf("%s: %v in 10 minutes", name, kinds)
			if len(seen) > 530 || kinds["list"]+kinds["read"]+kinds["stat"] != len(seen) {
				t.Errorf("%s: an idle table costs %d requests in 10 minutes: %v", name, len(seen), kinds)
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
