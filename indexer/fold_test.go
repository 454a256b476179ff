package indexer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/search"
)

// never is a sync that folds only what must be, always one that folds whatever it can.
const never, always = 1000, 1

func syncFolding(t testing.TB, p mdt.Place, every, instants int) *indexer.SyncResult {
	t.Helper()
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{FoldEvery: every, MaxInstants: instants})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stateOf(t testing.TB, p mdt.Place) *mdt.State {
	t.Helper()
	st, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// said is everything that commands say of an index.
type said struct {
	Postings map[string]posting
	Status   coverage.IndexStatus
	Markers  []coverage.Marker
	Verify   coverage.VerifyReport
	Plan     indexer.Reconciled
	Search   search.Answer
	Proved   []coverage.Proved
}

// ask asks all of them, and has a certificate of an earlier time checked.
func ask(t *testing.T, p mdt.Place, name string, v avrox.Vector, cert []byte) (said, []byte) {
	t.Helper()
	ctx := t.Context()
	s := said{Postings: postings(t, p, name), Status: status(t, p), Markers: markersOf(t, p)}
	s.Status.OldestUncovered = nil
	report, err := coverage.Verify(ctx, coverage.Deps{Place: p}, coverage.VerifyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s.Verify = *report
	plan, err := indexer.Reconcile(ctx, p, indexer.ReconcileOptions{Plan: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Plan = plan[0]
	answer, err := nearest(ctx, p, v)
	if err != nil {
		t.Fatal(err)
	}
	s.Search = *answer
	c, b := certificate(t, p)
	s.Proved = c.Covered
	if cert != nil {
		if r := check(t, p, cert); !r.OK {
			t.Errorf("certificate: %q", r.Problems)
		}
	}
	return s, b
}

// nearest searches the index, and nothing else.
func nearest(ctx context.Context, p mdt.Place, v avrox.Vector) (*search.Answer, error) {
	query := make([]float64, v.Dim)
	query[0] = 1
	return search.Search(ctx, search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		j, err := coverage.Fresh(ctx, p, tab, st, index)
		return search.Freshness{Fresh: j.Fresh, Reason: j.Reason}, err
	}}, search.Request{K: 5, Vector: query, Policy: search.Fail})
}

// past is a store whose state object is an older one for the first so many reads.
type past struct {
	storage.Store
	state []byte
	left  atomic.Int32
}

func (s *past) ReadFile(ctx context.Context, p string) ([]byte, storage.Info, error) {
	b, info, err := s.Store.ReadFile(ctx, p)
	if strings.HasSuffix(p, "/state.json") && s.left.Add(-1) >= 0 {
		b = bytes.Clone(s.state)
	}
	return b, info, err
}

// What anyone is told is the same before a fold, after it, and for a reader that read the state before and its files afterwards: until
// they are deleted. Then it reads the state once more, and never answers by the old one.
func TestFoldChangesNoAnswer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "mor_basic", "replace_ops", "unindexable", "mor_clustering", "keys_unicode", "elements"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, v, ok := vectorOf(t, name)
			if !ok {
				t.Fatal("no vector column")
			}
			p := mdt.Inside(st)
			index := create(t, p, generation.CreateRequest{Column: v.Column, AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"}).Index
			for syncFolding(t, p, never, 1).Processed > 0 {
			}
			before := stateOf(t, p)
			old, _, err := st.ReadFile(t.Context(), p.StatePath())
			if err != nil {
				t.Fatal(err)
			}
			want, cert := ask(t, p, index, v, nil)
			if n, _ := before.Unfolded(); n < 3 {
				t.Fatalf("%d commits", n)
			}
			same := func(what string, p mdt.Place) {
				t.Helper()
				got, _ := ask(t, p, index, v, cert)
				if _, frozen := p.Store.(*past); frozen { // it never learns of the fold, whose files are nobody's to it
					for _, r := range []*coverage.VerifyReport{&got.Verify, &got.Plan.VerifyReport} {
						r.ForeignFiles = 0
						delete(r.Examples, "foreign_files")
					}
				}
				if d := cmp.Diff(want, got, anyOrder, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(indexer.Reconciled{})); d != "" {
					t.Errorf("%s: (-before +now)\n%s", what, d)
				}
			}
			r := syncFolding(t, p, always, 0)
			after := stateOf(t, p)
			if n, _ := after.Unfolded(); len(r.Folds) != 1 || n != 0 || len(after.Commits) != 0 {
				t.Fatalf("%+v, %d commits left", r, len(after.Commits))
			}
			same("folded", p)
			noIdleTombstones(t, p, index)
			reader := &past{Store: st, state: old}
			reader.left.Store(1 << 20)
			same("a reader from before", mdt.Inside(reader))
			later := dead()
			later.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
			if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{Sink: later}); err != nil {
				t.Fatal(err)
			}
			if left := orphans(t, st); len(left) > 0 || len(stateOf(t, p).Retired) > 0 {
				t.Errorf("left: %v, %v", left, stateOf(t, p).Retired)
			}
			same("replaced files deleted", p)
			reader.left.Store(1)
			got, err := nearest(t.Context(), mdt.Inside(reader), v)
			if err != nil || cmp.Diff(want.Search, *got, anyOrder) != "" {
				t.Errorf("a reader from before that reads the state once more: %+v, %v", got, err)
			}
			reader.left.Store(1 << 20)
			if got, err := nearest(t.Context(), mdt.Inside(reader), v); err == nil {
				t.Errorf("answered by a state whose files are gone: %+v", got)
			}
			// The index goes on from its base files.
			if again := syncFolding(t, p, always, 0); again.Processed+len(again.Commits)+len(again.Folds) != 0 {
				t.Errorf("a sync with nothing to do: %+v", again)
			}
		})
	}
}

// noIdleTombstones fails if a tombstone hides nothing.
func noIdleTombstones(t *testing.T, p mdt.Place, index string) {
	t.Helper()
	g, view := opened(t, p, index)
	packed := map[string]bool{}
	if err := view.ScanEntries(t.Context(), delta.PostingsPrefix(g.Number), func(e mdt.Entry) error {
		k, err := delta.ParseKey(e.Key)
		if err != nil {
			return err
		}
		rec, err := delta.Decode(e.Schema, bytes.Clone(e.Value))
		if err != nil {
			return err
		}
		at := fmt.Sprint(k.Cluster, k.Segment, " ")
		switch r := rec.(type) {
		case *delta.PostingBlock:
			v, err := delta.NewBlockView(r, g.Shape())
			if err != nil {
				return err
			}
			for i := range v.Len() {
				packed[at+v.RecordKey(i)] = true
			}
		case *delta.Tombstone:
			if !packed[at+k.RecordKey] {
				t.Errorf("tombstone of %q hides nothing", k.RecordKey)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A fold waits where the last id that may be taken now is, and the sync does not wait for it. The next one folds.
func TestFoldWaitsForAnID(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	writes := tab.Timeline.Writes()
	newest := ".hoodie/timeline/" + writes[len(writes)-1].File
	b, _, err := st.ReadFile(t.Context(), newest)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	st.SetClock(func() time.Time { return now })
	st.Put(newest, b, now.Add(-9*time.Second))
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
	syncFolding(t, p, never, 1)
	r := syncFolding(t, p, always, 1)
	if n, _ := stateOf(t, p).Unfolded(); r.Processed != 1 || len(r.Folds) != 0 || n != 3 {
		t.Fatalf("%+v, %d commits to fold: the fourth id of a young file is taken", r, n)
	}
	now = now.Add(2 * time.Second)
	r = syncFolding(t, p, always, 1)
	if n, _ := stateOf(t, p).Unfolded(); len(r.Folds) == 0 || n != 0 {
		t.Errorf("%+v, %d commits to fold", r, n)
	}
}

// A fold is due every ten commits, as soon as the oldest could be archived, and never twice in a pass.
func TestFoldIsDue(t *testing.T) {
	t.Parallel()
	p := mdt.Inside(absence(t, 25))
	var at []int
	for n := 1; n <= 26; n++ {
		r := syncFolding(t, p, 0, 1)
		if len(r.Folds) > 1 {
			t.Errorf("%d folds in a pass", len(r.Folds))
		}
		if len(r.Folds) > 0 {
			at = append(at, n)
		}
	}
	// The first because the index was made before what is archived now.
	if !slices.Equal(at, []int{1, 11, 21}) {
		t.Errorf("folds after commits %v", at)
	}
}

// A reconcile ends with everything written anew, as a restore takes our commits off the metadata table's timeline.
func TestReconcileFoldsEverything(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
	syncFolding(t, p, never, 0)
	undo(t, st, 1)
	before := st.Clone()
	r := reconcile(t, p)
	check := func(what string, p mdt.Place) {
		t.Helper()
		s := stateOf(t, p)
		for _, f := range s.Live("") {
			if !f.Base || f.ID <= r.Commit {
				t.Errorf("%s: %s is older than the reconcile, %s", what, f.Path, r.Commit)
			}
		}
		if s.Refold || len(s.Live("")) == 0 {
			t.Errorf("%s: %+v", what, s)
		}
	}
	check("reconciled", p)
	want := postings(t, p, "embedding_idx")
	// Stopped between the two, the next sync does it.
	broken := fault.New(before, fault.Config{Before: func(_ int, op, path string) error {
		if op == "create" && strings.HasSuffix(path, ".hfile") {
			return storage.ErrRefused
		}
		return nil
	}})
	if _, err := indexer.Reconcile(t.Context(), mdt.Inside(broken), indexer.ReconcileOptions{}); !errors.Is(err, storage.ErrRefused) {
		t.Fatal(err)
	}
	late := mdt.Inside(before)
	if s := stateOf(t, late); !s.Refold || s.Intent != nil {
		t.Fatalf("%+v", s)
	}
	syncFolding(t, late, 0, 0)
	check("by the next sync", late)
	if d := cmp.Diff(want, postings(t, late, "embedding_idx")); d != "" {
		t.Error(d)
	}
}

// A fold leaves alone what is being built and what was dropped, and folds all indexes of a table together.
func TestFoldOfSeveralIndexes(t *testing.T) {
	t.Parallel()
	st := store(t, "two_vectors")
	p := mdt.Inside(st)
	opts := map[string]string{"vector.num_clusters": "3", "vector.metric": "l2"}
	for _, c := range []string{"a", "b"} {
		create(t, p, generation.CreateRequest{Column: c, AsOf: earliestInstant(t, p)}, opts)
	}
	syncFolding(t, p, never, 1)
	// A third one is stopped between its two commits.
	built := false
	broken := fault.New(st, fault.Config{Before: func(_ int, op, path string) error {
		s, _, err := mdt.ReadState(t.Context(), p)
		if err == nil && s.Indexes["c_idx"] != nil && len(s.Indexes["c_idx"].Building) > 0 {
			built = true
			return fault.ErrKilled
		}
		return nil
	}})
	if tryCreateColumn(t, mdt.Inside(broken), "c", opts) == nil || !built {
		t.Fatal("it was not stopped while it was built")
	}
	building := stateOf(t, p).Indexes["c_idx"].Building
	if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{FoldEvery: always, MaxInstants: 1, Sink: dead()}); err != nil {
		t.Fatal(err)
	}
	s := stateOf(t, p)
	if n, _ := s.Unfolded(); n != 0 || len(s.Base) != s.Indexes["a_idx"].FileGroups+s.Indexes["b_idx"].FileGroups {
		t.Fatalf("%d commits to fold, %d base files", n, len(s.Base))
	}
	if !slices.Equal(s.Indexes["c_idx"].Building, building) {
		t.Errorf("what is being built: %v, was %v", s.Indexes["c_idx"].Building, building)
	}
	for _, name := range []string{"a_idx", "b_idx"} {
		if r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{Index: name}); err != nil || !r.OK {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	dropped := func(name string) {
		t.Helper()
		c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: dead()})
		if err != nil {
			t.Fatal(err)
		}
		if err := generation.Drop(t.Context(), c, name); err != nil {
			t.Fatal(err)
		}
	}
	dropped("b_idx")
	dropped("c_idx")
	for syncFolding(t, p, always, 1).Processed > 0 {
	}
	create(t, p, generation.CreateRequest{Column: "c"}, opts)
	for _, name := range []string{"a_idx", "c_idx"} {
		if r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{Index: name}); err != nil || !r.OK {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if left := orphans(t, st); len(left) > 0 {
		t.Errorf("orphans %v", left)
	}
}

// A sync that folds is killed at every call that writes, before and after its effect.
func TestKillSyncThatFolds(t *testing.T) {
	t.Parallel()
	start := store(t, "cow_basic")
	p := mdt.Inside(start)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	syncFolding(t, p, never, 1)
	opt := indexer.SyncOptions{Sink: dead(), FoldEvery: always}
	whole := start.Clone()
	count := fault.New(whole, fault.Config{})
	if r, err := indexer.Sync(t.Context(), mdt.Inside(count), opt); err != nil || len(r.Folds) != 1 {
		t.Fatal(r, err)
	}
	want, files := outcomeOf(t, mdt.Inside(whole)), shapes(t, mdt.Inside(whole))
	kills := 0
	for n, call := range count.Trace() {
		if op, _, _ := strings.Cut(call, " "); op != "create" && op != "replace" && op != "delete" {
			continue
		}
		for _, after := range []bool{false, true} {
			kills++
			st := start.Clone()
			broken := fault.New(st, fault.Config{StopAt: n + 1, StopAfter: after})
			if _, err := indexer.Sync(t.Context(), mdt.Inside(broken), opt); err == nil && n+1 < count.Calls() {
				t.Fatalf("%s: killed, yet no error", call)
			}
			if _, err := indexer.Sync(t.Context(), mdt.Inside(st), opt); err != nil {
				t.Fatalf("%s, after effect %v: sync afterwards: %v", call, after, err)
			}
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
				t.Fatalf("%s, after effect %v: (-whole +killed)\n%s", call, after, d)
			}
			if got := shapes(t, mdt.Inside(st)); !slices.Equal(got, files) {
				t.Fatalf("%s, after effect %v: files %v, want %v", call, after, got, files)
			}
			if o := orphans(t, st); len(o) > 0 {
				t.Fatalf("%s, after effect %v: orphans %v", call, after, o)
			}
		}
	}
	t.Logf("a sync that folds: %d kills", kills)
}

// shapes are the live files up to their names.
func shapes(t *testing.T, p mdt.Place) (out []string) {
	t.Helper()
	for _, f := range stateOf(t, p).Live("") {
		out = append(out, fmt.Sprintf("%s %d %t %d", f.Index, f.Group, f.Base, f.Size))
	}
	slices.Sort(out)
	return out
}

// tryCreateColumn is create with its error.
func tryCreateColumn(t *testing.T, p mdt.Place, column string, options map[string]string) error {
	t.Helper()
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: dead()})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := table.Open(t.Context(), p.Store)
	if err != nil {
		return err
	}
	o, err := generation.ParseOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = generation.Create(t.Context(), tb, c, generation.CreateRequest{Place: p, Column: column, Options: o})
	return err
}

// A fold that could not be made is a fact of status, and nothing that makes an answer wrong.
func TestStatusTellsOfAnOverdueFold(t *testing.T) {
	t.Parallel()
	p := mdt.Inside(absence(t, 3))
	if s := status(t, p); s.FoldOverdue == "" {
		t.Errorf("%+v", s)
	}
	syncFolding(t, p, 0, 0)
	if s := status(t, p); s.FoldOverdue != "" || !s.Fresh {
		t.Errorf("%+v", s)
	}
}
