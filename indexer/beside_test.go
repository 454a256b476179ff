package indexer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/mount"
	"tidemark/internal/storage/open"
	"tidemark/internal/testkit"
	"tidemark/search"
	"tidemark/sink"
)

// beside is the place of an index beside a table, whose store fails the test when it is written.
func beside(t *testing.T, table, sink storage.Store) mdt.Place {
	t.Helper()
	readOnly := fault.New(table, fault.Config{Before: func(_ int, op, path string) error {
		if slices.Contains([]string{"create", "replace", "delete", "sweep"}, op) {
			t.Errorf("%s %s on a table that is only read", op, path)
			return storage.ErrRefused
		}
		return nil
	}})
	return mdt.Beside(mount.New(readOnly, sink), table.URL())
}

// answers is what the commands say of an index.
type answers struct {
	Postings  map[string]posting
	Status    coverage.IndexStatus
	Markers   []coverage.Marker
	Verify    coverage.VerifyReport
	Reconcile indexer.Reconciled
	Search    search.Answer
	Covered   int
}

// indexAll makes an index at the earliest snapshot, follows the table, and asks everything.
func indexAll(t *testing.T, p mdt.Place, v avrox.Vector) answers {
	t.Helper()
	ctx := t.Context()
	asOf := earliestInstant(t, p)
	if strings.Contains(p.Store.URL(), "evolved") {
		asOf = "" // the column was added later
	}
	name := create(t, p, generation.CreateRequest{Column: v.Column, AsOf: asOf}, map[string]string{"vector.num_clusters": "3"}).Index
	synced, err := indexer.Sync(ctx, p, indexer.SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := answers{Covered: synced.Processed, Status: status(t, p), Postings: postings(t, p, name)}
	for _, m := range markersOf(t, p) {
		m.MDTInstant, m.LagMS = "", nil
		a.Markers = append(a.Markers, m)
	}
	report, err := coverage.Verify(ctx, coverage.Deps{Place: p}, coverage.VerifyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	a.Verify = *report
	if len(synced.Reconciled) == 0 {
		plan, err := indexer.Reconcile(ctx, p, indexer.ReconcileOptions{Plan: true})
		if err != nil {
			t.Fatal(err)
		}
		a.Reconcile = plan[0]
	}
	cert, b := certificate(t, p)
	if c := check(t, p, b); !c.OK || cert.Index != name {
		t.Errorf("certificate: %+v", c)
	}
	query := make([]float64, v.Dim)
	query[0] = 1
	answer, err := search.Search(ctx, search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		j, err := coverage.Fresh(ctx, p, tab, st, index)
		return search.Freshness{Fresh: j.Fresh, Reason: j.Reason}, err
	}}, search.Request{K: 5, Vector: query, Policy: search.Warn})
	if err != nil {
		t.Fatal(err)
	}
	a.Search = *answer
	return a
}

// dropped drops the index and says whether everything of it is gone.
func dropped(t *testing.T, p mdt.Place, name string) {
	t.Helper()
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := generation.Drop(t.Context(), c, name); err != nil {
		t.Fatal(err)
	}
	if s := status(t, p); s.State != coverage.StateAbsent {
		t.Errorf("after the drop: %+v", s)
	}
}

// anyOrder leaves out what depends on the order in which goroutines get to postings.
var anyOrder = cmpopts.IgnoreFields(search.Stats{}, "Pruned")

// same says that an index beside a table answers as one inside it. What differs is when commits were made, and stores' names.
func same(t *testing.T, inside, beside answers) {
	t.Helper()
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(coverage.IndexStatus{}, "Table", "OldestUncovered"),
		cmpopts.IgnoreFields(indexer.Reconciled{}, "Commit"), anyOrder, cmpopts.IgnoreUnexported(indexer.Reconciled{})}
	if d := cmp.Diff(inside, beside, opts); d != "" {
		t.Errorf("-inside +beside:\n%s", d)
	}
}

// vectorOf returns the first vector column of a recorded table that can have an index; ok is false for the others.
func vectorOf(t *testing.T, name string) (*mem.Store, avrox.Vector, bool) {
	t.Helper()
	st := store(t, name)
	tab, err := table.Open(t.Context(), st)
	if err != nil || tab.Props.CheckWritable() != nil {
		return nil, avrox.Vector{}, false
	}
	all := tab.Schema.Vectors()
	if len(all) == 0 {
		return nil, avrox.Vector{}, false
	}
	return st, all[0], true
}

// On every recorded table that can have an index, everything is as good beside the table as inside it, and the table is not written. A
// table without a metadata table gives the same, but for the record index (one in four).
func TestBeside(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(testkit.Path("tables/*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var tried atomic.Int32
	t.Run("tables", func(t *testing.T) {
		for i, file := range names {
			name := strings.TrimSuffix(filepath.Base(file), ".tar.gz")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				st, v, ok := vectorOf(t, name)
				if !ok {
					return
				}
				tried.Add(1)
				if testkit.Thinned(i, 8) {
					return
				}
				own := st.Clone()
				inside := indexAll(t, mdt.Inside(own), v)
				before := st.Version()
				p := beside(t, st, mem.New("beside-"+name))
				same(t, inside, indexAll(t, p, v))
				dropped(t, p, v.Column+"_idx")
				if st.Version() != before {
					t.Error("the table was written to")
				}
				if i%4 != 0 { // one in four is enough for what does not depend on the kind of table
					return
				}
				withoutMDT(t, st)
				p = beside(t, st, mem.New("bare-"+name))
				bare := indexAll(t, p, v)
				bare.Search.Mode, bare.Search.Reason, bare.Search.Stats = inside.Search.Mode, inside.Search.Reason, inside.Search.Stats
				same(t, inside, bare)
			})
		}
	})
	if n := tried.Load(); n < 40 {
		t.Errorf("%d tables could have an index, there were more", n)
	}
}

// withoutMDT makes a table one whose writer has hoodie.metadata.enable=false.
func withoutMDT(t *testing.T, st *mem.Store) {
	t.Helper()
	for _, f := range st.Paths() {
		if strings.HasPrefix(f, ".hoodie/metadata/") {
			if err := st.Delete(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, info, err := st.ReadFile(t.Context(), ".hoodie/hoodie.properties")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.SplitSeq(string(b), "\n") {
		if !strings.HasPrefix(line, "hoodie.table.metadata.partitions=") {
			kept = append(kept, line)
		}
	}
	st.Put(".hoodie/hoodie.properties", []byte(strings.Join(kept, "\n")), info.ModTime)
}

// Inside, a table without a metadata table is refused, and told of --sink.
func TestInsideNeedsAMetadataTable(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	withoutMDT(t, st)
	before := st.Version()
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	c, err := indexer.OpenCommitter(t.Context(), mdt.Inside(st), indexer.CommitterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = generation.Create(t.Context(), tab, c, generation.CreateRequest{Column: "embedding"})
	if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(storage.Hint(err), "--sink") {
		t.Errorf("%v, hint %q", err, storage.Hint(err))
	}
	if s := status(t, mdt.Inside(st)); s.State != coverage.StateAbsent || !strings.Contains(s.Next, "--sink") {
		t.Errorf("status %+v", s)
	}
	if st.Version() != before {
		t.Error("something was written")
	}
}

// A state beside another table is refused, whatever is asked; one inside a table is not compared.
func TestAnotherTable(t *testing.T) {
	t.Parallel()
	st, place := store(t, "cow_basic"), mem.New("beside")
	p := beside(t, st, place)
	create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
	state, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	want := &mdt.TableID{Path: st.URL(), Name: tab.Props.Name, First: tab.Timeline.Earliest()}
	if d := cmp.Diff(want, state.Table); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	refused := func(t *testing.T, p mdt.Place, version func() int64) {
		t.Helper()
		before := version()
		if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" {
			t.Errorf("sync: %v", err)
		}
		if s := status(t, p); s.Fresh || s.State != coverage.StateAbsent && s.State != coverage.StateStalled {
			t.Errorf("status: %+v", s)
		}
		if version() != before {
			t.Error("something was written")
		}
	}
	t.Run("another path", func(t *testing.T) {
		moved := mdt.Beside(mount.New(st.Clone(), place.Clone()), "mem://moved")
		refused(t, moved, place.Version)
	})
	for name, change := range map[string]func(t *testing.T, st *mem.Store){
		"another name": func(t *testing.T, st *mem.Store) {
			b, info, err := st.ReadFile(t.Context(), ".hoodie/hoodie.properties")
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(strings.ReplaceAll(string(b), "hoodie.table.name=cow_basic", "hoodie.table.name=other"), "hoodie.table.checksum=", "#")
			st.Put(".hoodie/hoodie.properties", []byte(text), info.ModTime)
		},
		"made anew": func(t *testing.T, st *mem.Store) {
			for _, f := range st.Paths() {
				if strings.HasPrefix(f, ".hoodie/timeline/"+want.First) {
					if err := st.Delete(t.Context(), f); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			other, copied := st.Clone(), place.Clone()
			change(t, other)
			refused(t, beside(t, other, copied), copied.Version)
		})
	}
	t.Run("a copy of a table with its index inside", func(t *testing.T) {
		in := store(t, "cow_basic")
		create(t, mdt.Inside(in), generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
		if s := status(t, mdt.Inside(in.Clone())); s.State != coverage.StateFresh {
			t.Errorf("status: %+v", s)
		}
	})
	t.Run("a place that is a table", func(t *testing.T) {
		before := st.Version()
		other := beside(t, store(t, "mor_basic"), st)
		tab, err := table.Open(t.Context(), other.Store)
		if err != nil {
			t.Fatal(err)
		}
		opt, err := generation.ParseOptions(map[string]string{"vector.num_clusters": "3"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := indexer.OpenCommitter(t.Context(), other, indexer.CommitterOptions{Sink: sink.Config{Create: true}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := generation.Create(t.Context(), tab, c, generation.CreateRequest{Place: other, Column: "embedding", Options: opt}); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("create: %v", err)
		}
		if st.Version() != before {
			t.Error("something was written")
		}
	})
}

// On disk: a table whose files and folders nobody may write, and its index in another folder.
func TestBesideReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	dir, beside := testkit.Table(t, "mor_basic"), t.TempDir()
	lock := func(dirMode, fileMode os.FileMode) map[string]string {
		tree := map[string]string{}
		err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			mode := fileMode
			if d.IsDir() {
				mode = dirMode
			}
			if err := os.Chmod(p, mode); err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil {
				tree[p] = info.ModTime().String()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	before := lock(0o555, 0o444)
	t.Cleanup(func() { lock(0o755, 0o644) })
	st, base, err := open.Beside(t.Context(), dir, beside, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := mdt.Beside(st, base)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := status(t, p); s.State != coverage.StateFresh {
		t.Errorf("status %+v", s)
	}
	dropped(t, p, "embedding_idx")
	if d := cmp.Diff(before, lock(0o555, 0o444)); d != "" {
		t.Errorf("the table changed:\n%s", d)
	}
}
