package generation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

var small = []string{"vector.num_clusters", "5", "tidemark.file_groups", "2"}

// records prints every record of an index with its generation number and times taken out.
func records(t testing.TB, st storage.Store, name string) string {
	t.Helper()
	g, view := loaded(t, st, name)
	number := fmt.Sprintf("%08x", g.Number)
	out := ""
	err := view.ScanEntries(t.Context(), nil, func(e mdt.Entry) error {
		rec, err := e.Record()
		if err != nil {
			return err
		}
		p, _ := rec.Rec("VectorIndexMetadata")
		for _, name := range []string{"createdTs", "lastUpdatedTs", "generationId", "activeGeneration"} {
			delete(p, name)
		}
		out += strings.Replace(fmt.Sprintf("%x", e.Key), number, "GENERATION", 1) + fmt.Sprintf(" %v\n", p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCreateTwiceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	one, two := fixture(t, "mor_basic"), fixture(t, "mor_basic")
	mustCreate(t, one, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...), Workers: 1})
	mustCreate(t, two, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...), Workers: 3})
	for _, p := range one.Paths() {
		if !strings.Contains(p, "vector_index_x/") {
			continue
		}
		a, _, err := one.ReadFile(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if b, _, err := two.ReadFile(t.Context(), p); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", p, err)
		}
	}

	// Another generation, at other times, holds the same records.
	first := records(t, one, "x")
	if err := generation.Drop(t.Context(), newCommitter(t, one), "x"); err != nil {
		t.Fatal(err)
	}
	r := mustCreate(t, one, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)})
	if r.Generation != 2 {
		t.Errorf("generation %d after a drop, want 2", r.Generation)
	}
	if second := records(t, one, "x"); first != second {
		t.Errorf("another generation differs:\n%s", cmp.Diff(first, second))
	}
}

// TestCreateKilledAtEveryCall stops a bootstrap at every storage call and runs it again; in the fast set at every call that writes, and a sample
// of the others.
func TestCreateKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	start := fixture(t, "two_vectors")
	steps := testkit.Oracle(t, "two_vectors")
	last := steps[len(steps)-1]
	req := generation.CreateRequest{Column: "a", Name: "x", Options: options(t, small...), Workers: 1}
	run := func(st storage.Store) error {
		tab, err := openQuiet(t, st)
		if err != nil {
			return err
		}
		_, err = generation.Create(t.Context(), tab, newCommitter(t, st), req)
		return err
	}
	ideal := fault.New(start.Clone(), fault.Config{})
	if err := run(ideal); err != nil {
		t.Fatal(err)
	}
	calls := slices.Clone(ideal.Trace())
	want := records(t, ideal, "x")
	kills := 0
	for n, call := range calls {
		if testkit.Thinned(n, 12) {
			continue
		}
		writes := slices.Contains([]string{"create", "replace", "delete"}, strings.Fields(call)[0])
		// A run that stops at a read leaves what stopping after the write before it leaves.
		if !writes && n%9 != 0 && os.Getenv("TIDEMARK_TEST_LONG") == "" {
			continue
		}
		for _, after := range []bool{false, true} {
			if after && !writes {
				continue
			}
			kills++
			left := start.Clone()
			what := fmt.Sprintf("killed at %s (%t)", call, after)
			if err := run(fault.New(left, fault.Config{StopAt: n + 1, StopAfter: after})); err == nil && !strings.HasPrefix(call, "delete") {
				t.Errorf("%s: no error", what)
			}
			active := isActive(t, left, "x")
			again := run(left)
			switch {
			case errors.Is(again, storage.ErrExists):
				// The killed run had got through, or the next one finished its commit.
			case again != nil:
				t.Fatalf("%s: the next run: %v", what, again)
			case active:
				t.Fatalf("%s: an active index was built again", what)
			}
			check(t, left, "x", last)
			if got := records(t, left, "x"); got != want {
				t.Fatalf("%s: other records:\n%s", what, cmp.Diff(got, want))
			}
			untouched(t, start, left, what)
		}
	}
	t.Logf("a bootstrap of %d calls: %d kills", len(calls), kills)
}

func isActive(t testing.TB, st storage.Store, index string) bool {
	t.Helper()
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil || state.Indexes[index] == nil {
		return false
	}
	_, active := state.Indexes[index].Active()
	return active
}

// untouched checks that nothing of the table itself changed.
func untouched(t testing.TB, before, after *mem.Store, what string) {
	t.Helper()
	for _, p := range before.Paths() {
		a, _, err := before.ReadFile(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if b, _, err := after.ReadFile(t.Context(), p); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %s changed: %v", what, p, err)
		}
	}
}

func TestDuplicateKeysLastWins(t *testing.T) {
	t.Parallel()
	st := fixture(t, "keys_unicode")
	steps := testkit.Oracle(t, "keys_unicode")
	r := mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "x",
		Options: options(t, append(small, "tidemark.on_duplicate_key", "last_wins")...)})
	if r.Duplicates.Keys != 1 || len(r.Duplicates.Samples) != 1 {
		t.Fatalf("duplicates %+v", r.Duplicates)
	}
	// The copy with the newest commit time counts.
	step := steps[len(steps)-1]
	newest := map[string]testkit.Row{}
	for _, row := range step.Rows {
		if old, ok := newest[row.Key]; !ok || *row.CommitTime > *old.CommitTime {
			newest[row.Key] = row
		}
	}
	step.Rows = nil
	for _, row := range newest {
		step.Rows = append(step.Rows, row)
	}
	check(t, st, "x", step)
}

func TestNameTakenAndList(t *testing.T) {
	t.Parallel()
	st := fixture(t, "cow_basic")
	c := newCommitter(t, st)
	if err := generation.Drop(t.Context(), c, "x"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("drop without a state: %v", err)
	}
	mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)})
	if _, err := create(t, st, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)}); !errors.Is(err, storage.ErrExists) {
		t.Errorf("name taken: %v", err)
	}
	mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "a", Options: options(t, append(small, "vector.metric", "l2")...)})
	if err := generation.Drop(t.Context(), c, "nothing"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("drop of nothing: %v", err)
	}
	if err := generation.Drop(t.Context(), c, "x"); err != nil {
		t.Fatal(err)
	}
	if err := generation.Drop(t.Context(), c, "x"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("drop twice: %v", err)
	}
	state, err := c.Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, l := range generation.List(state) {
		got += fmt.Sprintf("%s %s %s %d %d %s\n", l.Index, l.Column, l.Metric, l.Bits, l.Generation, l.State)
	}
	if want := "a embedding l2 4 1 ACTIVE\nx embedding cosine 4 1 DROPPED\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	steps := testkit.Oracle(t, "cow_basic")
	check(t, st, "a", steps[len(steps)-1])
}

func TestCentroidsFrom(t *testing.T) {
	t.Parallel()
	st := fixture(t, "cow_basic")
	steps := testkit.Oracle(t, "cow_basic")
	mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "early", AsOf: steps[0].Instants[0].Completion, Options: options(t, small...)})
	from, _ := loaded(t, st, "early")
	r := mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "late", CentroidsFrom: from, Options: options(t, "vector.query.nprobes", "3")})
	late := check(t, st, "late", steps[len(steps)-1])
	if !slices.Equal(late.Centroids, from.Centroids) || r.Clusters != from.K {
		t.Error("centroids were not copied")
	}
	_, err := create(t, st, generation.CreateRequest{Column: "embedding", Name: "other", CentroidsFrom: from, Options: options(t, "vector.metric", "l2")})
	if !errors.Is(err, storage.ErrRefused) {
		t.Errorf("another metric: %v", err)
	}
}

func TestMoreClustersThanRows(t *testing.T) {
	t.Parallel()
	st := fixture(t, "two_vectors")
	r := mustCreate(t, st, generation.CreateRequest{Column: "c", Name: "x", Options: options(t)})
	if int64(r.Clusters) > r.Rows || r.Options["vector.query.nprobes"] == "32" && r.Clusters < 32 {
		t.Errorf("%d clusters for %d rows, options %v", r.Clusters, r.Rows, r.Options)
	}
	steps := testkit.Oracle(t, "two_vectors")
	check(t, st, "x", steps[len(steps)-1])
}

func TestUnindexableRowsAreCounted(t *testing.T) {
	t.Parallel()
	for metric, zero := range map[string]bool{"cosine": true, "l2": false} {
		st := fixture(t, "unindexable")
		r := mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, append(small, "vector.metric", metric)...)})
		u := r.Unindexable
		sum := int64(0)
		for reason, n := range u.Reasons {
			sum += n
			if len(u.Samples[reason]) == 0 {
				t.Errorf("%s: no sample key of %d rows: %s", metric, n, reason)
			}
		}
		if sum != u.Count || u.Count == 0 || (u.Reasons["zero vector under cosine"] > 0) != zero {
			t.Errorf("%s: %+v", metric, u)
		}
	}
}

func TestPlanWritesNothing(t *testing.T) {
	t.Parallel()
	st := fixture(t, "mor_basic")
	before := st.Paths()
	p, err := generation.NewPlan(t.Context(), openTable(t, st), generation.CreateRequest{Column: "embedding", Options: options(t)})
	if err != nil {
		t.Fatal(err)
	}
	steps := testkit.Oracle(t, "mor_basic")
	if p.Index != "embedding_idx" || p.Rows < int64(len(steps[len(steps)-1].Rows)) || p.Files < p.Slices || p.Bytes == 0 ||
		p.Memory < p.Rows*32 || p.Limit != generation.DefaultMemoryLimit || p.Instants != 9 || p.Refuse() != nil {
		t.Errorf("plan %+v", p)
	}
	if !slices.Equal(before, st.Paths()) {
		t.Error("a plan wrote something")
	}
}

func TestALostStateDoesNotReuseNumbers(t *testing.T) {
	t.Parallel()
	st := fixture(t, "cow_basic")
	req := generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)}
	mustCreate(t, st, req)
	if err := generation.Drop(t.Context(), newCommitter(t, st), "x"); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, st, req)
	if err := st.Delete(t.Context(), mdt.Inside(st).StatePath()); err != nil {
		t.Fatal(err)
	}
	if r := mustCreate(t, st, req); r.Generation != 3 {
		t.Errorf("generation %d, want 3", r.Generation)
	}
	steps := testkit.Oracle(t, "cow_basic")
	check(t, st, "x", steps[len(steps)-1])
}

func TestWarnsWithoutARecordIndex(t *testing.T) {
	t.Parallel()
	for table, want := range map[string]int{"cow_basic": 1, "mor_basic": 0} {
		st := fixture(t, table)
		if r := mustCreate(t, st, generation.CreateRequest{Column: "embedding", Options: options(t, small...)}); len(r.Warnings) != want {
			t.Errorf("%s: warnings %q", table, r.Warnings)
		}
	}
}

func TestWarnsOfALostRecordIndex(t *testing.T) {
	t.Parallel()
	st := fixture(t, "mor_basic")
	for _, p := range st.Paths() {
		if strings.HasPrefix(p, ".hoodie/metadata/record_index/") {
			if err := st.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := generation.NewPlan(t.Context(), openTable(t, st), generation.CreateRequest{Column: "embedding", Options: options(t)})
	if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "list a record index, but it cannot be used") {
		t.Errorf("warnings %q, %v", p.Warnings, err)
	}
}

func TestFirstFrontier(t *testing.T) {
	t.Parallel()
	// Two writes are pending that were requested before the newest completed one: they hold the frontier back.
	st := fixture(t, "occ_inflight")
	r := mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)})
	if r.HeldBy == "" || r.Frontier.Completed >= r.Baseline.Completed {
		t.Errorf("frontier %+v held by %q, baseline %+v", r.Frontier, r.HeldBy, r.Baseline)
	}
	g, _ := loaded(t, st, "x")
	if m := g.Manifest; *m.VerifiedFrontier != r.Frontier.Completed || *m.BootstrapInstant != r.Baseline.Completed {
		t.Errorf("manifest: frontier %s, baseline %s", *m.VerifiedFrontier, *m.BootstrapInstant)
	}
	if g.Index.Frontier != r.Frontier || len(g.Index.Baseline.Instants) != 10 {
		t.Errorf("state: %+v", g.Index)
	}
}

// flipping returns index files with one bit flipped from the second time on that they are read: the sink's own check of
// what it wrote passes.
type flipping struct {
	storage.Store
	mu    sync.Mutex
	reads map[string]int // guarded by mu
}

func (f *flipping) ReadFile(ctx context.Context, p string) ([]byte, storage.Info, error) {
	b, info, err := f.Store.ReadFile(ctx, p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads[p]++; strings.HasSuffix(p, ".hfile") && f.reads[p] > 1 && len(b) > 0 {
		b[len(b)/3] ^= 4
	}
	return b, info, err
}

func TestWhatIsReadBackWrongIsNotActivated(t *testing.T) {
	t.Parallel()
	st := fixture(t, "cow_basic")
	req := generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)}
	_, err := create(t, &flipping{Store: st, reads: map[string]int{}}, req)
	if !errors.Is(err, storage.ErrCorrupt) || isActive(t, st, "x") {
		t.Fatalf("got %v", err)
	}
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil || !state.Indexes["x"].Dropped || len(state.Live("x")) != 0 {
		t.Errorf("an attempt that failed is left: %+v, %v", state.Indexes["x"], err)
	}
	if r := mustCreate(t, st, req); r.Generation != 2 {
		t.Errorf("generation %d after a burned attempt, want 2", r.Generation)
	}
	steps := testkit.Oracle(t, "cow_basic")
	check(t, st, "x", steps[len(steps)-1])
}

func TestSecondIndexAfterARestore(t *testing.T) {
	t.Parallel()
	st := fixture(t, "rollback_restore")
	steps := testkit.Oracle(t, "rollback_restore")
	for _, name := range []string{"one", "two"} {
		mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: name, Options: options(t, small...)})
	}
	for _, name := range []string{"one", "two"} {
		check(t, st, name, steps[len(steps)-1])
	}
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil || len(state.Restores) != 2 {
		t.Errorf("restores dealt with: %v, %v; want the rollback and the restore", state.Restores, err)
	}
}

// A dropped index's files go before the first file of the next one of that name: Hudi counts file groups by the files it sees.
func TestFilesOfTheDroppedIndexGoFirst(t *testing.T) {
	t.Parallel()
	st := fixture(t, "cow_basic")
	req := generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, "vector.num_clusters", "5", "tidemark.file_groups", "3")}
	mustCreate(t, st, req)
	there := func() (names []string) {
		infos, err := st.List(t.Context(), mdt.Inside(st).File(mdt.PartitionDir("x")))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			names = append(names, path.Base(i.Path))
		}
		return names
	}
	old := there()
	if err := generation.Drop(t.Context(), newCommitter(t, st), "x"); err != nil {
		t.Fatal(err)
	}
	req.Options = options(t, "vector.num_clusters", "5", "tidemark.file_groups", "1")
	mustCreate(t, st, req)
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil || len(state.Retired) != 0 {
		t.Errorf("retired: %v, %v", state.Retired, err)
	}
	for _, name := range there() {
		if slices.Contains(old, name) || !strings.Contains(name, "vector-index-0000-0") {
			t.Errorf("%s of the dropped index is there", name)
		}
	}
	steps := testkit.Oracle(t, "cow_basic")
	check(t, st, "x", steps[len(steps)-1])
}
