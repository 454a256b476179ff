package indexer_test

import (
	"errors"
	"fmt"
	"path"
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

// clean removes what a cleaner takes that keeps only the newest snapshot: every file that no slice of it needs.
func clean(t *testing.T, st *mem.Store) int {
	t.Helper()
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	files, err := tb.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keep := map[string]bool{}
	for s, err := range files.Slices(table.Cut{}) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Base != nil {
			keep[s.Base.Path] = true
		}
		for _, l := range s.Logs {
			keep[l.Path] = true
		}
	}
	removed := 0
	for _, f := range st.Paths() {
		if strings.HasPrefix(f, ".hoodie") || keep[f] || !strings.HasSuffix(f, ".parquet") && !strings.Contains(path.Base(f), ".log.") {
			continue
		}
		removed++
		if err := st.Delete(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return removed
}

// writesOf are the data writes on the active timeline of a table.
func writesOf(t *testing.T, st *mem.Store) int {
	t.Helper()
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return len(tb.Timeline.Writes())
}

// places is postings without their locators, which may differ where slices were gone.
func places(all map[string]posting) map[string]posting {
	out := map[string]posting{}
	for k, p := range all {
		p.Locator.BaseInstant, p.Locator.Position = "", 0
		out[k] = p
	}
	return out
}

// Commits are archived while nobody follows; a catch-up covers archived and active ones in completion order. It ends with the
// postings, frontier and counts of an index that followed live, whether it runs at once or one instant at a time.
func TestCatchUpFromArchive(t *testing.T) {
	t.Parallel()
	for n, name := range []string{"cow_basic", "mor_basic", "mor_compaction_clean", "replace_ops", "mor_clustering", "partition_move", "merge_event_time", "unindexable", "occ", "nbcc_event_time", "v8"} {
		if testkit.Thinned(n, 5) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := store(t, name)
			create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
			live := start.Clone()
			if _, err := indexer.Sync(t.Context(), mdt.Inside(live), indexer.SyncOptions{}); err != nil {
				t.Fatal(err)
			}
			want := outcomeOf(t, mdt.Inside(live))
			for _, left := range []int{2, 3} {
				for _, each := range []int{0, 1} {
					st := archiveSome(t, start, writesOf(t, start)-left)
					p := mdt.Inside(st)
					behind := status(t, p)
					if behind.Fresh || behind.State != coverage.StateCatchingUp || !strings.Contains(behind.Next, "tidemark sync") || behind.LagInstants == nil {
						t.Fatalf("status of the index that fell behind: %+v", behind)
					}
					version := st.Version()
					plan, err := indexer.Plan(t.Context(), p, indexer.SyncOptions{})
					if err != nil || st.Version() != version {
						t.Fatalf("plan: %v, or it wrote", err)
					}
					if len(plan) != *behind.LagInstants || len(plan) < left {
						t.Errorf("%d instants planned, lag %d", len(plan), *behind.LagInstants)
					}
					for done := 0; ; {
						r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: each})
						if err != nil {
							t.Fatalf("%d left, %d each: %v", left, each, err)
						}
						done += r.Processed
						if s := status(t, p); s.Fresh != (done == len(plan)) {
							t.Fatalf("fresh %v after %d of %d instants", s.Fresh, done, len(plan))
						}
						if r.Processed == 0 || each == 0 {
							break
						}
					}
					if s := status(t, p); s.State != coverage.StateFresh && s.State != coverage.StateWaiting {
						t.Errorf("%d left, %d each: %+v", left, each, s)
					}
					got := outcomeOf(t, p)
					if d := cmp.Diff(want.Postings, got.Postings); d != "" {
						t.Errorf("%d left, %d each: postings (-followed +caught up)\n%s", left, each, d)
					}
					if d := cmp.Diff(want.Counts, got.Counts); d != "" {
						t.Errorf("%d left, %d each: counts (-followed +caught up)\n%s", left, each, d)
					}
					if want.Frontier != got.Frontier {
						t.Errorf("frontier %v, followed live %v", got.Frontier, want.Frontier)
					}
					_, cert := certificate(t, p)
					if r := check(t, p, cert); !r.OK {
						t.Errorf("its certificate is refused: %q", r.Problems)
					}
				}
			}
		})
	}
}

// The cleaner took the slices as well: commits are covered together as merged, and the catch-up ends with a reconcile, so that
// no dead row is left.
func TestCatchUpFromCleanedArchive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "mor_compaction_clean", "partition_move_cow", "occ", "cow_clustering"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := store(t, name)
			steps := testkit.Oracle(t, name)
			create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
			live := start.Clone()
			if _, err := indexer.Sync(t.Context(), mdt.Inside(live), indexer.SyncOptions{}); err != nil {
				t.Fatal(err)
			}
			if clean(t, start) == 0 { // Hudi archives a replacecommit only when what it replaced is gone
				t.Fatal("nothing was cleaned: the test shows nothing")
			}
			st := archiveSome(t, start, writesOf(t, start)-2)
			p := mdt.Inside(st)
			r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Reconciled) != 1 {
				t.Errorf("%d reconciled indexes, want one", len(r.Reconciled))
			}
			if d := cmp.Diff(places(postings(t, mdt.Inside(live), "embedding_idx")), places(postings(t, p, "embedding_idx"))); d != "" {
				t.Errorf("postings (-followed +caught up)\n%s", d)
			}
			a, b := outcomeOf(t, mdt.Inside(live)), outcomeOf(t, p)
			if a.Frontier != b.Frontier {
				t.Errorf("frontier %v, followed live %v", b.Frontier, a.Frontier)
			}
			merged := 0
			for _, m := range markersOf(t, p) {
				if m.Mode == "merged" {
					merged++
				}
			}
			if merged == 0 {
				t.Error("no marker says merged")
			}
			if s := status(t, p); !s.Fresh || s.State != coverage.StateFresh {
				t.Errorf("status: %+v", s)
			}
			rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{})
			if err != nil || !rep.OK || rep.Hidden != 0 || rep.Checked != int64(len(indexableRows(steps[len(steps)-1]))) {
				t.Errorf("verify: %+v, %v", rep, err)
			}
		})
	}
}

func indexableRows(s testkit.Step) map[string][]byte {
	return live(s, "embedding", kernel.Float, kernel.Cosine)
}

// The recorded table with a real archive: an index that stood at one of its archived commits.
func TestCatchUpRealArchive(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	steps := testkit.Oracle(t, "archived")
	for _, at := range []int{2, 20, 30, 38} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			st := store(t, "archived")
			p := mdt.Inside(st)
			create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
			stood := steps[at].Instants[0]
			edit(t, st, func(s *mdt.State) {
				x := s.Indexes["embedding_idx"]
				x.Baseline = mdt.Baseline{Instants: map[string]string{stood.Requested: stood.Completion}, Before: stood.Requested}
				x.Covered, x.Frontier = nil, mdt.Frontier{Requested: stood.Requested, Completed: stood.Completion}
			})
			s := status(t, p)
			due := 0
			for _, step := range steps[at+1:] {
				for _, i := range step.Instants {
					if write(i.Action) {
						due++
					}
				}
			}
			if s.Fresh || s.LagInstants == nil || *s.LagInstants != due || s.State != coverage.StateCatchingUp {
				t.Errorf("status: %+v, want a lag of %d", s, due)
			}
			r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Processed != due || len(r.Reconciled) != 1 {
				t.Errorf("processed %d of %d, %d reconciled", r.Processed, due, len(r.Reconciled))
			}
			verify(t, p, len(indexableRows(steps[len(steps)-1])), "caught up")
			for _, step := range steps[at+1:] {
				for _, i := range step.Instants {
					if !write(i.Action) {
						continue
					}
					for _, when := range []string{i.Requested, i.Completion} {
						w, err := coverage.Wait(t.Context(), coverage.Deps{Place: p}, coverage.WaitRequest{Covers: when})
						if err != nil || !w.Covered {
							t.Errorf("%s: %+v, %v", when, w, err)
						}
					}
				}
			}
			if _, cert := certificate(t, p); !check(t, p, cert).OK {
				t.Error("its certificate is refused")
			}
		})
	}
}

// An archive that does not reach back to the index any more, or misses commits, is never taken for the whole history.
func TestCatchUpFromCutArchive(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*mem.Store, mdt.Place) {
		start := store(t, "cow_basic")
		create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
		st := archiveSome(t, archiveSome(t, start, 2), 3)
		return st, mdt.Inside(st)
	}
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		st, p := begin(t)
		var newest string
		for _, f := range st.Paths() {
			if strings.HasPrefix(f, history) && strings.HasSuffix(f, ".parquet") {
				newest = f
			}
		}
		b, _, err := st.ReadFile(t.Context(), newest)
		if err != nil {
			t.Fatal(err)
		}
		st.Put(history+"manifest_9", fmt.Appendf(nil, `{"files":[{"fileName":%q,"fileLen":%d}]}`, path.Base(newest), len(b)), time.Time{})
		st.Put(history+"_version_", []byte("9"), time.Time{})
		if s := status(t, p); s.Fresh || s.State != coverage.StateBlocked || !strings.Contains(s.Next, "tidemark reconcile") {
			t.Errorf("status: %+v", s)
		}
		if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); !errors.Is(err, storage.ErrStale) || !strings.Contains(storage.Hint(err), "reconcile") {
			t.Errorf("sync: %v", err)
		}
		reconcile(t, p)
		if s := status(t, p); !s.Fresh {
			t.Errorf("status after the reconcile: %+v", s)
		}
		verify(t, p, len(indexableRows(testkit.Oracle(t, "cow_basic")[6])), "reconciled")
	})
	t.Run("hole", func(t *testing.T) {
		t.Parallel()
		start := store(t, "cow_basic")
		create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
		// The third commit is gone from both timelines, its files are there.
		tb, err := table.Open(t.Context(), start)
		if err != nil {
			t.Fatal(err)
		}
		lost := tb.Timeline.Writes()[2].Requested
		for _, f := range start.Paths() {
			if path.Dir(f) == ".hoodie/timeline" && strings.HasPrefix(path.Base(f), lost) {
				if err := start.Delete(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
		st := archiveSome(t, start, 4)
		p := mdt.Inside(st)
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Reconciled) != 1 {
			t.Error("a hole in the archive was not noticed")
		}
		verify(t, p, len(indexableRows(testkit.Oracle(t, "cow_basic")[6])), "caught up over a hole")
	})
	t.Run("truncated", func(t *testing.T) {
		t.Parallel()
		st, p := begin(t)
		for _, f := range st.Paths() {
			if strings.HasPrefix(f, history) && strings.HasSuffix(f, ".parquet") {
				b, _, err := st.ReadFile(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				st.Put(f, b[:len(b)/2], time.Time{})
			}
		}
		if s := status(t, p); s.Fresh || s.State != coverage.StateStalled || s.Reason == "" {
			t.Errorf("status: %+v", s)
		}
		if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("sync: %v", err)
		}
	})
}

// Two indexes of one table, one fresh and one behind the archive: only the second catches up.
func TestCatchUpBesideFreshIndex(t *testing.T) {
	t.Parallel()
	start := store(t, "cow_basic")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", Name: "old", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
	st := archiveSome(t, start, 4)
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", Name: "new"}, map[string]string{"vector.num_clusters": "3"})
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Processed != 6 || len(r.Reconciled) != 0 { // the metadata table followed them all, so the archive is whole
		t.Errorf("processed %d instants, want 6; reconciled %+v", r.Processed, r.Reconciled)
	}
	for _, m := range markersOf(t, p) {
		if m.Index != "old" {
			t.Errorf("marker %+v", m)
		}
	}
	all, err := coverage.Status(t.Context(), coverage.Deps{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if !s.Fresh {
			t.Errorf("%+v", s)
		}
	}
	stBefore, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range stBefore.Indexes {
		rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{Index: name})
		if err != nil || !rep.OK {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
		if n := len(x.Covered) + len(x.Baseline.Instants); n != 3 {
			t.Errorf("%s: the state names %d instants, 3 are active", name, n)
		}
	}
}

// A catch-up over archived, cleaned commits that is killed at any call ends like one that was not.
func TestKilledCatchUp(t *testing.T) {
	t.Parallel()
	start := store(t, "cow_basic")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
	clean(t, start)
	start = archiveSome(t, start, 5)
	whole := start.Clone()
	count := fault.New(whole, fault.Config{})
	if _, err := indexer.Sync(t.Context(), mdt.Inside(count), indexer.SyncOptions{Sink: dead()}); err != nil {
		t.Fatal(err)
	}
	want, n := outcomeOf(t, mdt.Inside(whole)), count.Calls()
	for call := 1; call <= n; call += 3 {
		if testkit.Thinned(call, 8) {
			continue
		}
		st := start.Clone()
		broken := fault.New(st, fault.Config{StopAt: call, StopAfter: call%2 == 0})
		if _, err := indexer.Sync(t.Context(), mdt.Inside(broken), indexer.SyncOptions{Sink: dead()}); err == nil && call < n {
			t.Fatalf("call %d of %d: killed, yet no error", call, n)
		}
		if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead()}); err != nil {
			t.Fatalf("call %d (%s): sync afterwards: %v", call, last(broken.Trace()), err)
		}
		if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
			t.Fatalf("call %d (%s): (-whole +killed)\n%s", call, last(broken.Trace()), d)
		}
		if s := status(t, mdt.Inside(st)); s.State != coverage.StateFresh {
			t.Fatalf("call %d: %+v", call, s)
		}
		if o := orphans(t, st); len(o) > 0 {
			t.Fatalf("call %d: orphans %v", call, o)
		}
	}
}

// An index whose column is another one now does not keep the table's other index from being followed.
func TestOneIndexAside(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	first := earliestInstant(t, p)
	create(t, p, generation.CreateRequest{Column: "embedding", Name: "a", AsOf: first}, map[string]string{"vector.num_clusters": "2"})
	create(t, p, generation.CreateRequest{Column: "embedding", Name: "b", AsOf: first}, map[string]string{"vector.num_clusters": "2"})
	edit(t, st, func(s *mdt.State) { s.Indexes["a"].Column = "gone" })
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), "gone") || r.Processed != 6 {
		t.Errorf("processed %d, %v", r.Processed, err)
	}
	all, err := coverage.Status(t.Context(), coverage.Deps{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Fresh || all[0].State != coverage.StateFailClosed || !all[1].Fresh {
		t.Errorf("status: %+v", all)
	}
}

// An index that never had a frontier, since a write held it: what was archived before its baseline was read is in it, and is not
// looked at again; its own baseline was archived since.
func TestCatchUpWithoutFrontier(t *testing.T) {
	t.Parallel()
	start := store(t, "archived")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
	edit(t, start, func(s *mdt.State) { s.Indexes["embedding_idx"].Frontier = mdt.Frontier{} })
	st := archiveSome(t, start, 2)
	p := mdt.Inside(st)
	if s := status(t, p); s.Fresh || s.State != coverage.StateCatchingUp || *s.LagInstants != 0 {
		t.Errorf("status: %+v", s)
	}
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err != nil || r.Processed != 0 || len(r.Commits) != 1 {
		t.Errorf("processed %d in %d commits, %v", r.Processed, len(r.Commits), err)
	}
	if s := status(t, p); !s.Fresh || s.State != coverage.StateFresh {
		t.Errorf("status: %+v", s)
	}
}
