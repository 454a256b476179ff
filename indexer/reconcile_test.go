package indexer_test

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"
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
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
)

// edit changes the state object behind the program's back.
func edit(t *testing.T, st *mem.Store, fn func(s *mdt.State)) {
	t.Helper()
	p := mdt.Inside(st)
	s, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	fn(s)
	b, err := mdt.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	st.Put(p.StatePath(), b, time.Time{})
}

// undo takes the newest n data writes off the timeline, with their files, as a restore or rollback does.
func undo(t *testing.T, st *mem.Store, n int) []string {
	t.Helper()
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	var gone []string
	for _, w := range writes[len(writes)-n:] {
		gone = append(gone, w.Requested)
		for _, f := range st.Paths() {
			name := path.Base(f)
			timeline := strings.HasPrefix(f, ".hoodie/timeline/") && strings.HasPrefix(name, w.Requested)
			data := !strings.HasPrefix(f, ".hoodie") && strings.Contains(name, "_"+w.Requested)
			if timeline || data {
				if err := st.Delete(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return gone
}

func reconcile(t *testing.T, p mdt.Place) indexer.Reconciled {
	t.Helper()
	r, err := indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r) != 1 {
		t.Fatalf("%d results, want one", len(r))
	}
	return r[0]
}

// Commits that the index covers are undone: never fresh until a reconcile, which makes the index equal to the table as it
// is now; then further commits are followed as ever.
func TestReconcileAfterUndo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "partition_move_cow", "mor_basic", "unindexable"} {
		for n := 1; n <= 3; n++ {
			t.Run(name+strings.Repeat("+", n), func(t *testing.T) {
				t.Parallel()
				st := store(t, name)
				p := mdt.Inside(st)
				steps := testkit.Oracle(t, name)
				create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "4"})
				if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
					t.Fatal(err)
				}
				whole := st.Clone()
				gone := undo(t, st, n)

				s := status(t, p)
				if s.Fresh || s.State != coverage.StateBlocked || !strings.Contains(s.Next, "tidemark reconcile") {
					t.Fatalf("status after the undo: %+v", s)
				}
				for _, m := range markersOf(t, p) {
					if slices.Contains(gone, m.Requested) {
						t.Errorf("undone commit %s is listed as covered before the reconcile", m.Requested)
					}
				}
				if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); !errors.Is(err, storage.ErrStale) || !strings.Contains(storage.Hint(err), "reconcile") {
					t.Errorf("sync after the undo: %v", err)
				}
				version := st.Version()
				plan, err := indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{Plan: true})
				if err != nil {
					t.Fatal(err)
				}
				if st.Version() != version {
					t.Error("the plan wrote something")
				}
				r := reconcile(t, p)
				if plan[0].Written != 0 || plan[0].Corrections != r.Written || r.Corrections != r.Written || !slices.Equal(plan[0].Undone, gone) {
					t.Errorf("plan %+v, done %+v", plan[0], r)
				}
				if r.Written == 0 && !r.OK {
					t.Errorf("nothing was corrected: %+v", r)
				}
				if s := status(t, p); !s.Fresh || s.State != coverage.StateFresh || s.Frontier == nil {
					t.Errorf("status after the reconcile: %+v", s)
				}
				last := lastWith(t, steps, gone[0])
				verify(t, p, len(live(steps[last], "embedding", kernel.Float, kernel.Cosine)), "reconciled")
				for _, m := range markersOf(t, p) {
					if slices.Contains(gone, m.Requested) {
						t.Errorf("undone commit %s is still listed as covered", m.Requested)
					}
				}
				if again := reconcile(t, p); again.Commit != "" || again.Written != 0 || !again.OK {
					t.Errorf("a second reconcile: %+v", again)
				}

				// The same commits come back, as others would: they are followed.
				for _, f := range whole.Paths() {
					if strings.HasPrefix(f, ".hoodie/metadata") || strings.HasPrefix(f, ".hoodie/.tidemark") {
						continue
					}
					b, info, err := whole.ReadFile(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					st.Put(f, b, info.ModTime)
				}
				if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
					t.Fatal(err)
				}
				verify(t, p, len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)), "followed on")
			})
		}
	}
}

// lastWith returns the last step before the one that completed an instant.
func lastWith(t *testing.T, steps []testkit.Step, requested string) int {
	t.Helper()
	for n, s := range steps {
		for _, i := range s.Instants {
			if i.Requested == requested {
				return n - 1
			}
		}
	}
	t.Fatalf("no step completed %s", requested)
	return 0
}

// The recorded restore: an index that followed the commits that were undone, built on a table that no longer has them.
func TestReconcileRestoredTable(t *testing.T) {
	t.Parallel()
	st := store(t, "rollback_restore")
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "rollback_restore")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	edit(t, st, func(s *mdt.State) {
		s.Restores = nil
		x := s.Indexes["embedding_idx"]
		x.Covered = map[string]string{"20261130022725018": "20261130022731000", "20261130022734265": "20261130022740000", "20261130022742588": "20261130022749000"}
		x.Frontier = mdt.Frontier{Requested: "20261130022742588", Completed: "20261130022749000"}
	})
	if s := status(t, p); s.Fresh || s.State != coverage.StateBlocked || !strings.Contains(s.Next, "tidemark reconcile") {
		t.Fatalf("status: %+v", s)
	}
	r := reconcile(t, p)
	if len(r.Undone) != 3 || r.Covered == 0 || r.Missing == 0 || r.Written != r.Corrections {
		t.Errorf("reconciled: %+v", r)
	}
	if s := status(t, p); !s.Fresh || s.State != coverage.StateFresh {
		t.Errorf("status: %+v", s)
	}
	verify(t, p, len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)), "reconciled")
	sum := map[string]int64{}
	for _, m := range markersOf(t, p) {
		if m.Mode != "merged" {
			t.Errorf("marker %+v", m)
		}
		sum["insert"] += m.Counts["insert"]
	}
	if sum["insert"] != r.Missing {
		t.Errorf("markers count %d inserts, %d were missing", sum["insert"], r.Missing)
	}
}

// A reconcile in place of a catch-up ends with the same postings, covered set and frontier.
func TestReconcileEqualsSync(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for _, name := range []string{"cow_basic", "mor_basic", "mor_compaction_clean", "partition_move", "replace_ops", "occ", "pending", "nbcc_event_time", "occ_inflight"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := store(t, name)
			create(t, mdt.Inside(one), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(one))}, map[string]string{"vector.num_clusters": "4"})
			two := one.Clone()
			if _, err := indexer.Sync(t.Context(), mdt.Inside(one), indexer.SyncOptions{}); err != nil {
				t.Fatal(err)
			}
			reconcile(t, mdt.Inside(two))
			if d := cmp.Diff(postings(t, mdt.Inside(one), "embedding_idx"), postings(t, mdt.Inside(two), "embedding_idx")); d != "" {
				t.Errorf("postings (-synced +reconciled)\n%s", d)
			}
			a, b := outcomeOf(t, mdt.Inside(one)), outcomeOf(t, mdt.Inside(two))
			if d := cmp.Diff(a.Covered, b.Covered); d != "" || a.Frontier != b.Frontier {
				t.Errorf("covered, or frontier %v and %v\n%s", a.Frontier, b.Frontier, d)
			}
			if r := reconcile(t, mdt.Inside(one)); r.Written != 0 || r.Commit != "" || !r.OK {
				t.Errorf("reconcile after a sync: %+v", r)
			}
		})
	}
}

// An index that claims what it does not hold, has postings of what is gone, and codes of others: all is corrected.
func TestReconcileWrongContent(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "cow_basic")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})
	edit(t, st, func(s *mdt.State) {
		x := s.Indexes["embedding_idx"]
		x.Covered = map[string]string{}
		for _, step := range steps[1:] {
			for _, i := range step.Instants {
				x.Covered[i.Requested] = i.Completion
				x.Frontier = mdt.Frontier{Requested: i.Requested, Completed: i.Completion}
			}
		}
	})
	if s := status(t, p); s.State != coverage.StateStalled || !strings.Contains(s.Reason, "no commit of ours took it in") {
		t.Errorf("status: %+v", s)
	}
	r := reconcile(t, p)
	if r.Missing == 0 || r.Extra == 0 || r.Stale == 0 || r.WrongLocator == 0 || r.Covered != len(steps)-1 {
		t.Errorf("found %+v", r)
	}
	verify(t, p, len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)), "corrected")
}

// A reconcile that is killed at any storage call ends like one that was not, once another one has run.
func TestKilledReconcile(t *testing.T) {
	t.Parallel()
	start := store(t, "local_zone")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
	if _, err := indexer.Sync(t.Context(), mdt.Inside(start), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	undo(t, start, 2)
	run := func(st storage.Store) error {
		_, err := indexer.Reconcile(t.Context(), mdt.Inside(st), indexer.ReconcileOptions{Sink: dead()})
		return err
	}
	whole := start.Clone()
	count := fault.New(whole, fault.Config{})
	if err := run(count); err != nil {
		t.Fatal(err)
	}
	want, n := outcomeOf(t, mdt.Inside(whole)), count.Calls()
	if n < 50 {
		t.Fatalf("a reconcile of %d calls: the test shows nothing", n)
	}
	for call := 1; call <= n; call++ {
		if testkit.Thinned(call, 16) {
			continue
		}
		for _, after := range []bool{false, true} {
			if after == (call%2 == 0) && os.Getenv("TIDEMARK_TEST_LONG") == "" {
				continue
			}
			st := start.Clone()
			broken := fault.New(st, fault.Config{StopAt: call, StopAfter: after})
			if err := run(broken); err == nil && call < n {
				t.Fatalf("call %d of %d: killed, yet no error", call, n)
			}
			done := outcomeOf(t, mdt.Inside(st))
			if s := status(t, mdt.Inside(st)); s.Fresh != cmp.Equal(want, done) {
				t.Fatalf("call %d, after effect %v (%s): fresh %v", call, after, last(broken.Trace()), s.Fresh)
			}
			if err := run(st); err != nil {
				t.Fatalf("call %d, after effect %v (%s): reconcile afterwards: %v", call, after, last(broken.Trace()), err)
			}
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
				t.Fatalf("call %d, after effect %v (%s): (-whole +killed)\n%s", call, after, last(broken.Trace()), d)
			}
			if o := orphans(t, st); len(o) > 0 {
				t.Fatalf("call %d, after effect %v: orphans %v", call, after, o)
			}
		}
	}
}

// Commits that a reconcile covers say how many rows cannot be indexed, and why, on the last of them.
func TestReconcileCountsUnindexable(t *testing.T) {
	t.Parallel()
	st := store(t, "unindexable")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "4"})
	r := reconcile(t, p)
	list := markersOf(t, p)
	if r.Unindexable == 0 || r.Covered < 2 || len(list) != r.Covered {
		t.Fatalf("%d markers, reconciled %+v", len(list), r)
	}
	for n, m := range list {
		want, sum := int64(0), int64(0)
		if n == len(list)-1 {
			want = r.Unindexable
		}
		for _, rows := range m.Reasons {
			sum += rows
		}
		if m.Counts["unindexable"] != want || sum != want || want > 0 && m.Reasons[kernel.ReasonNull] == 0 {
			t.Errorf("want %d unindexable rows, marker %+v", want, m)
		}
	}
}

// The log of a commit that later ones have folded in is damaged, or gone without a clean: the commit ends covered only with a reason that
// counts the file groups.
func TestUnreadFilesAreCounted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		harm       func(t *testing.T, st *mem.Store, path string)
		reconciled bool // instead of a sync, which damage holds
		why        string
	}{
		{"gone", func(t *testing.T, st *mem.Store, path string) {
			if err := st.Delete(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}, false, "slice_gone"},
		{"gone, reconciled", func(t *testing.T, st *mem.Store, path string) {
			if err := st.Delete(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}, true, "slice_gone"},
		{"zeroed", func(t *testing.T, st *mem.Store, path string) {
			b, info, err := st.ReadFile(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			st.Put(path, make([]byte, len(b)), info.ModTime)
		}, true, "slice_unreadable"},
		{"cut", func(t *testing.T, st *mem.Store, path string) {
			b, info, err := st.ReadFile(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			st.Put(path, b[:len(b)/2], info.ModTime)
		}, true, "slice_unreadable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			st := store(t, "mor_basic")
			p := mdt.Inside(st)
			steps := testkit.Oracle(t, "mor_basic")
			create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})
			second := steps[1].Instants[0].Requested
			logs := 0
			for _, f := range st.Paths() {
				if !strings.HasPrefix(f, ".hoodie") && strings.Contains(f, "_"+second+".log.") {
					test.harm(t, st, f)
					logs++
				}
			}
			if logs == 0 {
				t.Fatal("step 2 wrote no log")
			}
			if test.reconciled {
				if test.why == "slice_unreadable" {
					_, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
					if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), second) || !strings.Contains(storage.Hint(err), "tidemark reconcile") {
						t.Fatalf("sync over a damaged log: %v (%s)", err, storage.Hint(err))
					}
					if list := markersOf(t, p); len(list) != 0 {
						t.Fatalf("markers %+v", list)
					}
				}
				reconcile(t, p)
			} else if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
				t.Fatal(err)
			}
			list := markersOf(t, p)
			for _, m := range list {
				t.Log(m.Requested, m.Mode, m.Counts, m.Reasons)
			}
			if len(list) == 0 || list[0].Requested != second || list[0].Mode != "merged" || list[0].Reasons[test.why] != int64(logs) {
				t.Errorf("%d logs of %s, markers %+v", logs, second, list)
			}
			if s := status(t, p); !s.Fresh {
				t.Errorf("status %+v", s)
			}
			verify(t, p, len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)), "covered")
		})
	}
}

// A file of the newest snapshot that is lost is named with what helps: looking again and again does not, and the table has not moved.
func TestReconcileWithoutABaseFile(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "2"})
	newest := newestBase(t, st)
	if err := st.Delete(t.Context(), newest); err != nil {
		t.Fatal(err)
	}
	var err error
	inBubble(t, func(t *testing.T) { _, err = indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{}) }) // it looks again for 2 s
	if !errors.Is(err, storage.ErrNotFound) || strings.Contains(err.Error(), "moved") || !strings.Contains(err.Error(), path.Base(newest)) ||
		!strings.Contains(storage.Hint(err), "restore the file from a copy") {
		t.Errorf("got %v; next: %s", err, storage.Hint(err))
	}
	if _, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{}); !strings.Contains(storage.Hint(err), "restore the file from a copy") {
		t.Errorf("verify: %v; next: %s", err, storage.Hint(err))
	}
}

// newestBase is the base file that was written last.
func newestBase(t *testing.T, st *mem.Store) (newest string) {
	t.Helper()
	at := ""
	for _, p := range st.Paths() {
		_, after, found := strings.Cut(strings.TrimSuffix(p, ".parquet"), "_")
		if i := strings.LastIndex(after, "_"); found && strings.HasSuffix(p, ".parquet") && !strings.HasPrefix(p, ".hoodie/") && after[i+1:] > at {
			newest, at = p, after[i+1:]
		}
	}
	if newest == "" {
		t.Fatal("no base file")
	}
	return newest
}
