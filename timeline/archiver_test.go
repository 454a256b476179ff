package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// archiver archives the commits from..to of a table as Hudi does: level file, manifest, version file away and back, then each
// instant's files, pending ones first. Each call makes one step; false: there is none left.
func archiver(t testing.TB, st *mem.Store, version, from, to int, also ...[]row) func() bool {
	t.Helper()
	var steps []func()
	step := func(fn func()) { steps = append(steps, fn) }
	var rows []row
	for n := from; n <= to; n += 10 {
		rows = append(rows, commitRow(n))
	}
	after := mem.New("after")
	archive(t, after, version, append(also, rows)...)
	for _, p := range after.Paths() {
		b, info, err := after.ReadFile(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if p != history+"_version_" {
			step(func() { st.Put(p, b, info.ModTime) })
		}
	}
	step(func() { _ = st.Delete(context.Background(), history+"_version_") })
	step(func() { st.Put(history+"_version_", fmt.Append(nil, version), time.Unix(int64(version), 0)) })
	for n := from; n <= to; n += 10 {
		step(func() { _ = st.Delete(context.Background(), ".hoodie/timeline/"+at(n)+".commit.requested") })
		step(func() { _ = st.Delete(context.Background(), ".hoodie/timeline/"+done(n)) })
	}
	return func() bool {
		if len(steps) == 0 {
			return false
		}
		steps[0]()
		steps = steps[1:]
		return len(steps) > 0
	}
}

// While Hudi archives, each commit is in one of the two places, or in both, and a history has it exactly once, whenever the
// archiver makes its steps between the requests of the reader.
func TestHistoryWhileHudiArchives(t *testing.T) {
	t.Parallel()
	const commits = 6
	stale, whole := 0, 0
	for start := 1; start < 40; start++ {
		for pace := 1; pace <= 3; pace++ { // steps per request
			mst := files(t, map[string]string{".hoodie/hoodie.properties": v9})
			archive(t, mst, 1, []row{commitRow(10)})
			for n := 20; n < 20+10*commits; n += 10 {
				put(mst, done(n))
				put(mst, at(n)+".commit.requested")
			}
			next := archiver(t, mst, 2, 20, 50, []row{commitRow(10)})
			st := fault.New(mst, fault.Config{Before: func(n int, _, _ string) error {
				for i := 0; n >= start && i < pace; i++ {
					next()
				}
				return nil
			}})
			r := timeline.NewReader(st, dotHoodie)
			for range 3 { // a stale look is taken again
				p, tl, err := r.Open(t.Context())
				if err != nil {
					t.Fatalf("start %d, pace %d: %v", start, pace, err)
				}
				long, err := r.Since(t.Context(), p, tl, "")
				if errors.Is(err, storage.ErrStale) {
					stale++
					continue
				}
				if err != nil {
					t.Fatalf("start %d, pace %d: %v", start, pace, err)
				}
				writes := long.Writes()
				if len(writes) != 1+commits {
					t.Errorf("start %d, pace %d: %d writes: %v", start, pace, len(writes), requestedTimes(writes))
				}
				for _, w := range writes {
					if _, err := r.Commit(t.Context(), p, w); err != nil && !errors.Is(err, storage.ErrNotFound) { // gone since: the look is stale
						t.Errorf("start %d, pace %d: %s: %v", start, pace, w.Requested, err)
					}
				}
				whole++
				break
			}
		}
	}
	if whole != 39*3 {
		t.Errorf("%d histories of %d, %d stale looks", whole, 39*3, stale)
	}
}

// Reader and archive may be used by several at once, while the table changes.
func TestReaderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	mst := files(t, map[string]string{".hoodie/hoodie.properties": v9})
	archive(t, mst, 1, []row{commitRow(10)})
	for n := 20; n < 100; n += 10 {
		put(mst, done(n))
		put(mst, at(n)+".commit.requested")
	}
	r := timeline.NewReader(mst, dotHoodie)
	ok := func(err error) bool {
		if err == nil || errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrNotFound) {
			return err == nil
		}
		t.Error(err)
		return false
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 20 {
				p, tl, err := r.Open(t.Context())
				if !ok(err) {
					continue
				}
				long, err := r.Since(t.Context(), p, tl, at(10*(i%3)))
				if !ok(err) {
					continue
				}
				for _, w := range long.Writes() {
					_, err := r.Commit(t.Context(), p, w)
					ok(err)
				}
				_, err = r.Schema(t.Context(), p, tl, "")
				ok(err)
				if _, err := r.Poll(t.Context()); g == 0 {
					ok(err)
				}
				r.Stats()
			}
		})
	}
	wg.Go(func() {
		for next := archiver(t, mst, 2, 20, 60, []row{commitRow(10)}); next(); {
			put(mst, at(99)+".commit.requested")
		}
		for n := 110; n < 200; n += 10 {
			put(mst, done(n))
		}
	})
	wg.Wait()
}
