package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/search"
	"tidemark/sink"
)

// behind is a table with an index of its earliest snapshot, and what a sync makes of it.
func behind(t *testing.T) (st *mem.Store, want outcome) {
	t.Helper()
	st = store(t, "cow_basic")
	create(t, mdt.Inside(st), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(st))}, map[string]string{"vector.num_clusters": "3"})
	whole := st.Clone()
	if _, err := indexer.Sync(t.Context(), mdt.Inside(whole), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	return st, outcomeOf(t, mdt.Inside(whole))
}

// asked searches an index and returns keys and distances.
func asked(ctx context.Context, st storage.Store) ([]search.Result, error) {
	p := mdt.Inside(st)
	a, err := search.Search(ctx, search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, s *mdt.State, index string) (search.Freshness, error) {
		j, err := coverage.Fresh(ctx, p, tab, s, index)
		return search.Freshness{Fresh: j.Fresh, Reason: j.Reason}, err
	}}, search.Request{K: 5, Vector: []float64{1, 0, 0, 0, 0, 0, 0, 0}, Policy: search.Warn})
	if err != nil {
		return nil, err
	}
	return a.Results, nil
}

var writing = []string{"create", "replace", "delete", "sweep"}

// On a disk or in a bucket that may only be read, whatever only asks works as ever; what writes says why it cannot, and what to do.
func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	st, _ := behind(t)
	before := st.Version()
	layer := fault.New(st, fault.Config{Before: func(_ int, op, path string) error {
		if slices.Contains(writing, op) {
			return &storage.Error{Op: op, Path: path, Hint: "give this user write permission there, or name another place for the index",
				Err: fmt.Errorf("%w (%w)", storage.ErrRefused, syscall.EROFS)}
		}
		return nil
	}})
	p := mdt.Inside(layer)
	if s := status(t, p); s.State != coverage.StateCatchingUp {
		t.Errorf("status: %+v", s)
	}
	if rows, err := asked(t.Context(), layer); err != nil || len(rows) != 5 {
		t.Errorf("search: %v, %v", rows, err)
	}
	if r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{}); err != nil || !r.OK {
		t.Errorf("verify: %+v, %v", r, err)
	}
	if _, err := indexer.Plan(t.Context(), p, indexer.SyncOptions{}); err != nil {
		t.Errorf("plan: %v", err)
	}
	_, sync := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	_, reconcile := indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{})
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"sync": sync, "reconcile": reconcile, "drop": generation.Drop(t.Context(), c, "embedding_idx")} {
		if !errors.Is(err, storage.ErrRefused) || !strings.Contains(storage.Hint(err), "permission") {
			t.Errorf("%s: %v, hint %q", what, err, storage.Hint(err))
		}
	}
	if st.Version() != before {
		t.Error("something was written")
	}
}

// A disk or quota that is full at any call stops a sync with the next step; when there is space again the next one ends as if nothing had been.
func TestFullStore(t *testing.T) {
	t.Parallel()
	start, want := behind(t)
	for _, from := range []int{1, 2, 4, 6, 8} { // writes that still fit
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			st, n, full := start.Clone(), 0, true
			var mu sync.Mutex // guards n and full
			layer := fault.New(st, fault.Config{Before: func(_ int, op, path string) error {
				mu.Lock()
				defer mu.Unlock()
				if op != "create" && op != "replace" {
					return nil
				}
				if n++; full && n > from {
					return &storage.Error{Op: op, Path: path, Err: syscall.ENOSPC, Hint: "free space or raise the quota, then run the same command again; nothing is lost"}
				}
				return nil
			}})
			_, err := indexer.Sync(t.Context(), mdt.Inside(layer), indexer.SyncOptions{Sink: dead()})
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(storage.Hint(err), "free space") {
				t.Fatalf("full: %v", err)
			}
			mu.Lock()
			full = false
			mu.Unlock()
			if _, err := indexer.Sync(t.Context(), mdt.Inside(layer), indexer.SyncOptions{Sink: dead()}); err != nil {
				t.Fatalf("space again: %v", err)
			}
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
				t.Errorf("-never full +full for a while:\n%s", d)
			}
			if left := orphans(t, st); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Our clock is an hour ahead of the store's, or behind: ids come from the table's own times, so the index is the same; and the lease of an
// owner with another clock is never shared.
func TestClockAnHourOff(t *testing.T) {
	t.Parallel()
	start, want := behind(t)
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		st := start.Clone()
		cfg := sink.Config{Now: func() time.Time { return time.Now().Add(off) }}
		if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: cfg}); err != nil {
			t.Fatalf("%s: %v", off, err)
		}
		if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
			t.Errorf("%s:\n%s", off, d)
		}
		if s := status(t, mdt.Inside(st)); s.State != coverage.StateFresh {
			t.Errorf("%s: %+v", off, s)
		}
	}
	// An owner of another machine, alive, whose lease looks over to a clock that is ahead: it is taken over, and the first one finds out.
	st := start.Clone()
	one, err := indexer.OpenCommitter(t.Context(), mdt.Inside(st), indexer.CommitterOptions{Sink: sink.Config{Owner: "one", Host: "a", PID: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ahead := sink.Config{Owner: "two", Host: "b", PID: 1, Now: func() time.Time { return time.Now().Add(time.Hour) }}
	if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: ahead}); err != nil {
		t.Fatal(err)
	}
	late := generation.Batch{Kind: "late", Build: func(string, string) ([]generation.FileRecords, error) { return nil, nil },
		Apply: func(*mdt.State, string, string, []mdt.DataFile) error { return nil }}
	if _, err := one.Commit(t.Context(), late); !errors.Is(err, sink.ErrLeaseLost) {
		t.Errorf("the owner before: %v", err)
	}
	if err := one.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
		t.Errorf("two owners:\n%s", d)
	}
}

// A file of someone else in our directory is left alone by everything, and verify counts it.
func TestForeignFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	st, _ := behind(t)
	const notes = ".hoodie/metadata/vector_index_embedding_idx/notes.txt"
	st.Put(notes, []byte("mine"), time.Unix(0, 0))
	if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	reconcile(t, mdt.Inside(st))
	r, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, coverage.VerifyRequest{})
	if err != nil || r.ForeignFiles != 1 || !r.OK {
		t.Errorf("verify: %+v, %v", r, err)
	}
	dropped(t, mdt.Inside(st), "embedding_idx")
	create(t, mdt.Inside(st), generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
	if b, _, err := st.ReadFile(t.Context(), notes); err != nil || string(b) != "mine" {
		t.Errorf("the foreign file: %q, %v", b, err)
	}
}

// The state is lost, or a copy of the table has only part of the index: absent with the way out, never fresh; and creating it again works, with new
// numbers and times.
func TestLostOrCopiedState(t *testing.T) {
	t.Parallel()
	start, _ := behind(t)
	if _, err := indexer.Sync(t.Context(), mdt.Inside(start), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	was, _, err := mdt.ReadState(t.Context(), mdt.Inside(start))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		lose  func(path string) bool
		drops bool // it must be dropped first
	}{
		{"state lost", func(p string) bool { return strings.HasPrefix(p, ".hoodie/.tidemark/") }, false},
		{"copied without its files", func(p string) bool { return strings.Contains(p, "/vector_index_") }, true},
		{"copied without its logs", func(p string) bool { return strings.Contains(p, "/vector_index_") && strings.Contains(p, ".log.") }, true},
		{"copied without its base files", func(p string) bool { return strings.Contains(p, "/vector_index_") && strings.HasSuffix(p, ".hfile") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := start.Clone()
			for _, f := range st.Paths() {
				if c.lose(f) {
					if err := st.Delete(t.Context(), f); err != nil {
						t.Fatal(err)
					}
				}
			}
			p := mdt.Inside(st)
			if s := status(t, p); s.Fresh || s.State != coverage.StateAbsent || !strings.Contains(s.Next, "tidemark index create") {
				t.Errorf("status: %+v", s)
			}
			if rows, err := asked(t.Context(), st); err == nil && !c.drops {
				t.Errorf("a search found %v", rows)
			}
			if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err == nil && !c.drops {
				t.Error("sync worked")
			}
			if c.drops {
				dropped(t, p, "embedding_idx")
			}
			create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
			state, _, err := mdt.ReadState(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			g, _ := state.Indexes["embedding_idx"].Active()
			if state.LastTime <= was.LastTime || g.Number < 2 {
				t.Errorf("last time %s after %s, generation %d", state.LastTime, was.LastTime, g.Number)
			}
			if s := status(t, p); s.State != coverage.StateFresh {
				t.Errorf("created again: %+v", s)
			}
			if r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{}); err != nil || !r.OK {
				t.Errorf("verify: %+v, %v", r, err)
			}
		})
	}
}

// A drop while another process searches, at each of its calls: the search ends with its answer, or says that the index is gone.
func TestDropWhileSearching(t *testing.T) {
	t.Parallel()
	start, _ := behind(t)
	if _, err := indexer.Sync(t.Context(), mdt.Inside(start), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	count := fault.New(start, fault.Config{})
	want, err := asked(t.Context(), count)
	if err != nil {
		t.Fatal(err)
	}
	answered, gone := 0, 0
	for call := 1; call <= count.Calls(); call++ {
		st := start.Clone()
		layer := fault.New(st, fault.Config{Before: func(n int, _, _ string) error {
			if n == call {
				dropped(t, mdt.Inside(st), "embedding_idx")
			}
			return nil
		}})
		got, err := asked(t.Context(), layer)
		switch {
		case err == nil:
			answered++
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("dropped at call %d: another answer:\n%s", call, d)
			}
		case errors.Is(err, storage.ErrNotFound) && storage.Hint(err) != "":
			gone++
		default:
			t.Errorf("dropped at call %d: %v, hint %q", call, err, storage.Hint(err))
		}
	}
	if answered == 0 || gone == 0 {
		t.Errorf("%d answered, %d refused: nothing was tried", answered, gone)
	}
}
