package indexer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"tidemark/internal/storage/file"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

func loaded(t *testing.T, p mdt.Place, index string) *generation.Generation {
	t.Helper()
	g, _ := opened(t, p, index)
	return g
}

// A catch-up in one batch, one instant at a time, and a fresh build with the same centroids end with the same
// postings, and the counts per instant do not depend on batching.
func TestCatchUpEqualsFollowingAndFreshBuild(t *testing.T) {
	t.Parallel()
	for n, name := range []string{"cow_basic", "mor_basic", "mor_compaction_clean", "replace_ops", "mor_clustering", "partition_move", "merge_event_time", "unindexable", "occ"} {
		if testkit.Thinned(n, 3) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := map[string]string{"vector.num_clusters": "4"}
			live, atOnce := place(t, name), place(t, name)
			first := earliestInstant(t, live)
			create(t, live, generation.CreateRequest{Column: "embedding", AsOf: first}, opts)
			create(t, atOnce, generation.CreateRequest{Column: "embedding", AsOf: first, CentroidsFrom: loaded(t, live, "embedding_idx")}, opts)
			for {
				r, err := indexer.Sync(t.Context(), live, indexer.SyncOptions{MaxInstants: 1})
				if err != nil {
					t.Fatal(err)
				}
				if r.Processed == 0 {
					break
				}
			}
			r, err := indexer.Sync(t.Context(), atOnce, indexer.SyncOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Commits) != 1 {
				t.Errorf("catch-up made %d commits, want 1", len(r.Commits))
			}
			if d := cmp.Diff(postings(t, live, "embedding_idx"), postings(t, atOnce, "embedding_idx")); d != "" {
				t.Errorf("postings (-followed +caught up):\n%s", d)
			}
			if d := cmp.Diff(counts(t, live), counts(t, atOnce)); d != "" {
				t.Errorf("counts (-followed +caught up):\n%s", d)
			}
			create(t, live, generation.CreateRequest{Column: "embedding", Name: "fresh", CentroidsFrom: loaded(t, live, "embedding_idx")}, opts)
			if d := cmp.Diff(postings(t, live, "embedding_idx"), postings(t, live, "fresh")); d != "" {
				t.Errorf("postings (-followed +built fresh):\n%s", d)
			}
		})
	}
}

// The slices of the first commits are cleaned away while nobody follows: what is there now is indexed, deletes are not invented
// by the comparison of commits, the markers say so, and dead rows are found by the reconcile that ends such a catch-up.
func TestCleanedSlices(t *testing.T) {
	t.Parallel()
	base := testkit.Table(t, "cow_basic")
	st, err := file.New(base)
	if err != nil {
		t.Fatal(err)
	}
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "cow_basic")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})

	// Remove every base file but the newest of each file group, as a cleaner would.
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
		keep[s.Base.Name] = true
	}
	names, err := filepath.Glob(filepath.Join(base, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, n := range names {
		if !keep[filepath.Base(n)] {
			removed++
			if err := os.Remove(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if removed == 0 {
		t.Fatal("nothing was cleaned: the test shows nothing")
	}

	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)
	rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Checked != int64(len(want)) || rep.Missing != 0 || rep.Stale != 0 || rep.Extra != 0 || rep.WrongCode != 0 || rep.WrongLocator != 0 {
		t.Errorf("verify: %+v", *rep)
	}
	first := live(steps[0], "embedding", kernel.Float, kernel.Cosine)
	dead := 0
	for k := range first {
		if _, ok := want[k]; !ok {
			dead++
		}
	}
	if dead == 0 || len(r.Reconciled) != 1 || r.Reconciled[0].Hidden != int64(dead) || r.Reconciled[0].Written < int64(dead) || rep.Hidden != 0 {
		t.Errorf("%d rows of the first commit are gone now; reconciled %+v; hidden afterwards %d", dead, r.Reconciled, rep.Hidden)
	}
	deletes, modes := int64(0), map[string]int{}
	for _, m := range markersOf(t, p) {
		deletes += m.Counts["delete"]
		modes[m.Mode]++
	}
	if deletes != 0 {
		t.Errorf("%d deletes were invented", deletes)
	}
	if modes["merged"] == 0 || modes["full"] != 0 {
		t.Errorf("modes: %v", modes)
	}
	s := status(t, p)
	if s.State != coverage.StateFresh || s.Degraded != 0 {
		t.Errorf("status: %s, %d degraded", s.State, s.Degraded)
	}
}

// A preceding slice is gone but the commit's own slice is there: current_only.
func TestCurrentOnly(t *testing.T) {
	t.Parallel()
	base := testkit.Table(t, "cow_basic")
	st, err := file.New(base)
	if err != nil {
		t.Fatal(err)
	}
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "cow_basic")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})
	names, err := filepath.Glob(filepath.Join(base, "*_"+steps[0].Instants[0].Requested+".parquet"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	list := markersOf(t, p)
	if list[0].Mode != "current_only" || list[0].Counts["delete"] != 0 || list[0].Reasons["slice_before_gone"] == 0 {
		t.Errorf("first marker: %+v", list[0])
	}
	for _, m := range list[1:] {
		if m.Mode != "full" {
			t.Errorf("later marker: %+v", m)
		}
	}
	rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)
	if !rep.OK || rep.Checked != int64(len(want)) {
		t.Errorf("verify: %+v", *rep)
	}
}

// A newest file that is simply lost is no knowledge: nothing is marked, and the error names the file.
func TestLostFileBlocks(t *testing.T) {
	t.Parallel()
	base := testkit.Table(t, "cow_basic")
	st, err := file.New(base)
	if err != nil {
		t.Fatal(err)
	}
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "cow_basic")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})
	last := steps[len(steps)-1].Instants[0].Requested
	names, err := filepath.Glob(filepath.Join(base, "*_"+last+".parquet"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	_, err = indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err == nil || !strings.Contains(err.Error(), filepath.Base(names[0])) {
		t.Errorf("got %v, want an error that names %s", err, filepath.Base(names[0]))
	}
	for _, m := range markersOf(t, p) {
		if m.Requested == last {
			t.Error("the commit with the lost file has a marker")
		}
	}
	if s := status(t, p); s.Fresh || *s.LagInstants == 0 {
		t.Errorf("status: %+v", s)
	}
}

// A completed commit whose metadata is empty, cut or flipped proves nothing: what came before it is covered, the
// frontier stops there, and nothing after it is called covered.
func TestDamagedCommit(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"cut":     func(b []byte) []byte { return b[:len(b)*6/10] },
		"no Avro": func(b []byte) []byte { return append([]byte("nonsense"), b[8:]...) },
	} {
		for _, at := range []int{3, 6} { // in the middle, and the newest
			t.Run(fmt.Sprintf("%s %d", name, at), func(t *testing.T) {
				t.Parallel()
				st := store(t, "cow_basic")
				p := mdt.Inside(st)
				steps := testkit.Oracle(t, "cow_basic")
				create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})
				bad := steps[at].Instants[0]
				file := ".hoodie/timeline/" + bad.Requested + "_" + bad.Completion + "." + bad.Action
				b, info, err := st.ReadFile(t.Context(), file)
				if err != nil {
					t.Fatal(err)
				}
				st.Put(file, damage(b), info.ModTime)
				r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
				if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), bad.Requested) || strings.Contains(err.Error(), "\n") {
					t.Errorf("sync: %v", err)
				}
				if r.Processed != at-1 {
					t.Errorf("processed %d instants, want the %d before the damaged one", r.Processed, at-1)
				}
				s := status(t, p)
				if s.Fresh || s.State != coverage.StateBlocked || s.Frontier.Requested != steps[at-1].Instants[0].Requested {
					t.Errorf("status: %+v", s)
				}
				verify(t, p, len(live(steps[at-1], "embedding", kernel.Float, kernel.Cosine)), "before the damaged commit")
				tb, err := table.Open(t.Context(), st)
				if err != nil {
					t.Fatal(err)
				}
				files, err := tb.Files(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, cut := range []table.Cut{{}, {Upto: bad.Completion}} {
					for _, g := range files.Groups() {
						if _, _, err := files.Slice(g, cut); !errors.Is(err, storage.ErrCorrupt) {
							t.Errorf("slice of %s in a snapshot with the damaged commit: %v", g, err)
						}
					}
				}
				if _, _, err := files.Slice(files.Groups()[0], table.Cut{Upto: bad.Completion, Before: true}); err != nil {
					t.Errorf("slice before the damaged commit: %v", err)
				}

				// Repaired, everything is covered.
				st.Put(file, b, info.ModTime)
				if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
					t.Fatal(err)
				}
				verify(t, p, len(live(steps[6], "embedding", kernel.Float, kernel.Cosine)), "after the repair")
			})
		}
	}
}

// A plan says what a sync then does, and writes nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	st := store(t, "mor_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	before := st.Version()
	plan, err := indexer.Plan(t.Context(), p, indexer.SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st.Version() != before {
		t.Error("the plan wrote something")
	}
	part, err := indexer.Plan(t.Context(), p, indexer.SyncOptions{MaxInstants: 2})
	if err != nil || len(part) != 2 {
		t.Fatalf("plan of 2: %d, %v", len(part), err)
	}
	if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]int64{}
	for _, d := range plan {
		got[d.Instant.Requested] = d.Counts
	}
	if d := cmp.Diff(counts(t, p), got); d != "" {
		t.Errorf("(-sync +plan)\n%s", d)
	}
	if d := cmp.Diff(plan[:2], part); d != "" {
		t.Errorf("plan of 2 differs:\n%s", d)
	}
}

// A write that a slow planner took early and shows late holds the frontier where it is; the commits after it are
// covered all the same.
func TestOldPendingWriteAppears(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "cow_basic")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "4"})
	if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 2}); err != nil {
		t.Fatal(err)
	}
	at := status(t, p).Frontier
	old := steps[0].Instants[0].Requested
	for _, name := range []string{".commit.requested", ".inflight"} {
		st.Put(".hoodie/timeline/"+old[:len(old)-3]+"999"+name, nil, time.Time{})
	}
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err != nil || r.Processed != len(steps)-3 {
		t.Fatalf("sync: processed %d, %v", r.Processed, err)
	}
	s := status(t, p)
	if *s.Frontier != *at || !s.Fresh || s.State != coverage.StateWaiting {
		t.Errorf("status: %s, fresh %v, frontier %v, was %v", s.State, s.Fresh, s.Frontier, at)
	}
	verify(t, p, len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)), "at the end")
}

// Completion times that go backwards: a commit on the active timeline that is in no set is not covered, however
// old its times are.
func TestCommitWithOldTimes(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	steps := testkit.Oracle(t, "cow_basic")
	create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "4"})
	last := steps[len(steps)-1].Instants[0]
	b, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+last.Requested+"_"+last.Completion+".commit")
	if err != nil {
		t.Fatal(err)
	}
	st.Put(".hoodie/timeline/20200101000000000_20200101000000001.commit", b, time.Time{})
	if s := status(t, p); s.Fresh || *s.LagInstants != 1 {
		t.Errorf("status: %s, fresh %v", s.State, s.Fresh)
	}
}

// A commit whose file is seen late, after later ones were covered: whatever they moved where, the index ends as
// the table stands.
func TestLateCommit(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for _, name := range []string{"partition_move", "partition_move_cow", "mor_basic", "replace_ops"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := store(t, name)
			first := earliestInstant(t, mdt.Inside(start))
			create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: first}, map[string]string{"vector.num_clusters": "4"})
			tb, err := table.Open(t.Context(), start)
			if err != nil {
				t.Fatal(err)
			}
			steps := testkit.Oracle(t, name)
			want := len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine))
			writes := tb.Timeline.Writes()
			type try struct {
				late  timeline.Instant
				chunk int // instants a sync: 0 = all at once
			}
			var tries []try
			for n, w := range writes[1:] {
				tries = append(tries, try{w, n % 2})
				if name == "partition_move_cow" {
					tries = append(tries, try{w, 1 - n%2})
				}
			}
			for _, x := range tries {
				late, chunk := x.late, x.chunk
				if late.Requested <= first {
					continue
				}
				st := start.Clone()
				p := mdt.Inside(st)
				file := ".hoodie/timeline/" + late.File
				b, info, err := st.ReadFile(t.Context(), file)
				if err != nil {
					t.Fatal(err)
				}
				if err := st.Delete(t.Context(), file); err != nil {
					t.Fatal(err)
				}
				for _, pending := range []string{late.Requested + ".inflight", late.Requested + "." + string(late.Action) + ".inflight",
					late.Requested + "." + string(late.Action) + ".requested", late.Requested + ".compaction.requested", late.Requested + ".compaction.inflight"} {
					if err := st.Delete(t.Context(), ".hoodie/timeline/"+pending); err != nil {
						t.Fatal(err)
					}
				}
				for n := 1; n > 0; {
					r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: chunk})
					if err != nil {
						t.Fatalf("%s hidden: %v", late.Requested, err)
					}
					n = r.Processed
				}
				rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{})
				if err != nil || !rep.OK || rep.WrongLocator != 0 {
					t.Errorf("%s hidden: verify: %+v, %v", late.Requested, rep, err)
				}
				st.Put(file, b, info.ModTime)
				if s := status(t, p); s.Fresh {
					t.Fatalf("%s appeared, and the index is called fresh", late.Requested)
				}
				if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
					t.Fatalf("%s back: %v", late.Requested, err)
				}
				verify(t, p, want, late.Requested+" late")
				postings(t, p, "embedding_idx") // fails on a key with two live postings
			}
		})
	}
}
