package search_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
)

// counted counts calls of a store.
type counted struct {
	storage.Store
	lists, stats, reads atomic.Int32
	before              func(path string) error // of each read; nil: none
}

func (c *counted) List(ctx context.Context, dir string) ([]storage.Info, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, dir)
}

func (c *counted) Stat(ctx context.Context, path string) (storage.Info, error) {
	c.stats.Add(1)
	return c.Store.Stat(ctx, path)
}

func (c *counted) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	c.reads.Add(1)
	if c.before != nil {
		if err := c.before(path); err != nil {
			return nil, storage.Info{}, err
		}
	}
	return c.Store.ReadFile(ctx, path)
}

func (c *counted) ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error) {
	c.reads.Add(1)
	if c.before != nil {
		if err := c.before(path); err != nil {
			return nil, err
		}
	}
	return c.Store.ReadRange(ctx, path, off, n)
}

func (c *counted) calls() string {
	return fmt.Sprintf("%d lists, %d stats, %d reads", c.lists.Swap(0), c.stats.Swap(0), c.reads.Swap(0))
}

// aged makes the state object an old file, as that of an index at rest is.
func aged(t testing.TB, st *mem.Store) {
	t.Helper()
	path := mdt.Inside(st).StatePath()
	b, _, err := st.ReadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	st.Put(path, b, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
}

func basic(t testing.TB) *mem.Store {
	return indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
}

// A second query reads nothing of what the first one read: one listing and two looks at a file tell that nothing moved.
func TestReaderReadsOnce(t *testing.T) {
	t.Parallel()
	st := basic(t)
	aged(t, st)
	c := &counted{Store: st}
	judged := 0
	d := deps(c, fresh)
	judge := d.Freshness
	d.Freshness = func(ctx context.Context, tab *table.Table, s *mdt.State, index string) (search.Freshness, error) {
		judged++
		return judge(ctx, tab, s, index)
	}
	r := search.NewReader(d)
	q := search.Request{Vector: []float64{1, 2, 3, 4, 5, 6, 7, 8}, K: 3, Mode: search.Approximate, NProbes: 9}
	first, err := r.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	c.calls()
	for range 3 {
		a, err := r.Search(t.Context(), q)
		if err != nil || !cmp.Equal(a.Results, first.Results) {
			t.Fatalf("got %+v, %v", a, err)
		}
		if got := c.calls(); got != "1 lists, 2 stats, 0 reads" {
			t.Errorf("a query without news: %s", got)
		}
	}
	if judged != 1 {
		t.Errorf("judged %d times", judged)
	}
	// A new state is seen, even one that leaves size and clusters as they are.
	state(t, st, func(s *mdt.State) { s.Indexes["embedding_idx"].Options["vector.query.stale_policy"] = "WARN" })
	if _, err := r.Search(t.Context(), q); err != nil || judged != 2 {
		t.Errorf("a new state: judged %d times, %v", judged, err)
	}
}

// fold replaces every file of the index by one of another name, as a fold does, and deletes the old ones.
func fold(t testing.TB, st *mem.Store, n int) {
	place := mdt.Inside(st)
	var old []string
	state(t, st, func(s *mdt.State) {
		for i := range s.Base {
			f := &s.Base[i]
			b, info, err := st.ReadFile(t.Context(), place.File(f.Path))
			if err != nil {
				t.Error(err)
				return
			}
			old = append(old, place.File(f.Path))
			f.Path += fmt.Sprintf(".%d", n)
			st.Put(place.File(f.Path), b, info.ModTime)
		}
		s.Revision++
	})
	for _, path := range old {
		if err := st.Delete(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
}

// A fold in the middle of a query, and one between two, end in the right answer.
func TestFoldUnderAReader(t *testing.T) {
	t.Parallel()
	st := basic(t)
	want := mustSearch(t, st, search.Request{Key: "k0001", K: 5})
	var once sync.Once
	c := &counted{Store: st}
	c.before = func(path string) error {
		if strings.Contains(path, "vector_index_") {
			once.Do(func() { fold(t, st, 1) })
		}
		return nil
	}
	r := search.NewReader(deps(c, fresh))
	for i := range 4 {
		a, err := r.Search(t.Context(), search.Request{Key: "k0001", K: 5})
		if err != nil {
			t.Fatalf("query %d: %v", i, err)
		}
		same(t, fmt.Sprint("query ", i), a.Results, want.Results)
		if a.Mode != search.ExactRerank || !a.Complete || a.Reason != "" {
			t.Errorf("query %d: got %+v", i, a)
		}
		fold(t, st, 10+i)
	}
	// Once the files are gone for good, what is in memory still answers; a new state without them does not.
	remove(t, st, metadata+"vector_index_", "")
	state(t, st, func(s *mdt.State) { s.Base[0].Path += ".lost" })
	if a, err := r.Search(t.Context(), search.Request{Key: "k0001", K: 5}); !errors.Is(err, storage.ErrNotFound) || a != nil || storage.Hint(err) == "" {
		t.Errorf("lost files: got %+v, %v", a, err)
	}
}

// A file of the table, of the record index or of the index that is not there at first, since it was cleaned after the snapshot was
// taken, makes the query look again; one that stays away is a clear error.
func TestCleanedFileUnderAReader(t *testing.T) {
	t.Parallel()
	st := basic(t)
	want := mustSearch(t, st, search.Request{Key: "k0001", K: 5})
	for _, part := range []string{".parquet", "record_index/", "vector_index_"} {
		for _, stays := range []bool{false, true} {
			var missed atomic.Int32
			c := &counted{Store: st}
			c.before = func(path string) error {
				if strings.Contains(path, part) && (missed.Add(1) == 1 || stays) {
					return &storage.Error{Op: "read", Path: path, Err: storage.ErrNotFound}
				}
				return nil
			}
			a, err := search.NewReader(deps(c, fresh)).Search(t.Context(), search.Request{Key: "k0001", K: 5})
			switch {
			case missed.Load() == 0:
				t.Errorf("%s was not read", part)
			case stays && (err == nil || a != nil || !strings.Contains(err.Error(), part) && !errors.Is(err, storage.ErrNotFound)):
				t.Errorf("%s stays away: got %+v, %v", part, a, err)
			case stays:
			case err != nil:
				t.Errorf("%s: %v", part, err)
			default:
				same(t, part, a.Results, want.Results)
			}
		}
	}
}

// Many queries at once on one reader, while the index is folded again and again.
func TestReaderIsShared(t *testing.T) {
	t.Parallel()
	st := basic(t)
	want := mustSearch(t, st, search.Request{Key: "k0003", K: 7})
	cache := search.NewCache(1 << 14) // room for few clusters
	d := deps(st, fresh)
	d.Cache = cache
	r := search.NewReader(d)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 6 {
				a, err := r.Search(t.Context(), search.Request{Key: "k0003", K: 7, NProbes: 9})
				// Two folds during one query can delete the files that its second attempt reads.
				if err != nil && !errors.Is(err, storage.ErrNotFound) {
					t.Error(err)
				}
				if err == nil && !cmp.Equal(a.Results, want.Results) {
					t.Errorf("got %+v", a)
				}
			}
		})
	}
	for i := range 5 {
		fold(t, st, i)
	}
	wg.Wait()
	if s := cache.Stats()["clusters"]; s.Bytes > 1<<14 || s.Misses == 0 {
		t.Errorf("got %+v", s)
	}
}

// Centroids are kept up to the budget, for all readers of a cache together, but those used last in any case; those that have no room are read anew, with the
// same answers.
func TestCentroidsHaveABudget(t *testing.T) {
	t.Parallel()
	st := basic(t)
	want := mustSearch(t, st, search.Request{Key: "k0003", K: 7})
	const queries = 3
	for budget, kept := range map[int64]int{1 << 20: 2, 3 << 10: 1, 512: 1} {
		d := deps(st, fresh)
		d.Cache = search.NewCache(budget)
		readers := []*search.Reader{search.NewReader(d), search.NewReader(d)} // as of two tables
		for range queries {
			for _, r := range readers {
				a, err := r.Search(t.Context(), search.Request{Key: "k0003", K: 7})
				if err != nil {
					t.Fatal(err)
				}
				same(t, "answer", a.Results, want.Results)
			}
		}
		s := d.Cache.Stats()["centroids"]
		if s.Kept != kept || s.Bytes == 0 || s.Bytes > budget && kept > 1 {
			t.Errorf("budget %d: got %+v, want %d kept", budget, s, kept)
		}
		if read := s.Misses > int64(len(readers)); read != (kept < len(readers)) {
			t.Errorf("budget %d: got %+v", budget, s)
		}
		if one, two := searchAtOnce(t, readers[0], 8), searchAtOnce(t, readers[1], 8); one+two != 0 {
			t.Errorf("budget %d: %d and %d answers at once differ", budget, one, two)
		}
	}
}

// searchAtOnce asks one thing many times at once and returns how many answers are not the first one's.
func searchAtOnce(t *testing.T, r *search.Reader, n int) (others int) {
	t.Helper()
	all := make([]*search.Answer, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = r.Search(t.Context(), search.Request{Key: "k0003", K: 7}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, a := range all {
		if a == nil || !cmp.Equal(a.Results, all[0].Results) {
			others++
		}
	}
	return others
}

// observed keeps what searches did.
type observed struct {
	mu  sync.Mutex
	all []search.Searched
}

func (o *observed) Searched(x search.Searched) {
	o.mu.Lock()
	o.all = append(o.all, x)
	o.mu.Unlock()
}

// A batch gives what its queries give one by one, in every mode, and is told of once.
func TestBatchOfATable(t *testing.T) {
	t.Parallel()
	st := basic(t)
	rows := live(t, "mor_basic", "embedding", kernel.Cosine, kernel.Float)
	wide := widened(t, rows, "embedding", kernel.Float)[:12]
	o := &observed{}
	d := deps(st, fresh)
	d.Observer = o
	r := search.NewReader(d)
	for _, q := range []search.Request{{Mode: search.ExactRerank, Columns: []string{"title"}}, {Mode: search.Approximate, Columns: []string{"title"}},
		{Mode: search.Approximate}, {Mode: search.BruteForce}, {Mode: search.ExactRerank, Partitions: []string{"eu"}}} {
		q.K = 6
		all, err := r.Batch(t.Context(), q, wide)
		if err != nil || len(all) != len(wide) {
			t.Fatalf("%+v: %d answers, %v", q, len(all), err)
		}
		last := o.all[len(o.all)-1]
		if last.Queries != len(wide) || last.Mode != q.Mode || last.Incomplete != 0 || last.Err != nil || last.Index != "embedding_idx" {
			t.Errorf("told of %+v", last)
		}
		if q.Mode == search.ExactRerank && q.Partitions == nil && last.Stats.LogResidentFinalists == 0 {
			t.Errorf("the table has rows in logs: %+v", last.Stats)
		}
		for i, v := range wide {
			q.Vector = v
			want, err := r.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			all[i].Stats.Pruned, want.Stats.Pruned = 0, 0
			if d := cmp.Diff(want, all[i]); d != "" {
				t.Errorf("%+v: query %d (-alone +in the batch):\n%s", q, i, d)
			}
		}
	}
}

// Bounds of a batch, and what one wrong vector in it does.
func TestBatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := search.NewReader(deps(basic(t), fresh))
	v := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	many := make([][]float64, search.MaxBatch)
	for i := range many {
		many[i] = v
	}
	all, err := r.Batch(t.Context(), search.Request{K: 1, Mode: search.Approximate, NProbes: 1}, many)
	if err != nil || len(all) != len(many) || !all[9_999].Complete || !cmp.Equal(all[0].Results, all[9_999].Results) {
		t.Errorf("%d queries: %d answers, %v", len(many), len(all), err)
	}
	for _, c := range []struct {
		name    string
		q       search.Request
		vectors [][]float64
		says    string
	}{
		{"none", search.Request{K: 1}, nil, "1 to 10000"},
		{"too many", search.Request{K: 1}, append(many, v), "1 to 10000"},
		{"too many rows", search.Request{K: 101}, many, "1000000 rows"},
		{"no k", search.Request{}, many[:2], "k is 0"},
		{"a key beside it", search.Request{K: 1, Key: "k0001"}, many[:2], "beside"},
		{"a short vector", search.Request{K: 1}, [][]float64{v, v[:3]}, "query 2 of 2"},
		{"nil", search.Request{K: 1}, [][]float64{nil, v}, "query 1 of 2"},
		{"NaN", search.Request{K: 1}, [][]float64{v, {math.NaN(), 1, 1, 1, 1, 1, 1, 1}}, "query 2 of 2"},
		{"infinite", search.Request{K: 1}, [][]float64{{math.Inf(1), 1, 1, 1, 1, 1, 1, 1}, v}, "query 1 of 2"},
		{"zero for cosine", search.Request{K: 1}, [][]float64{v, make([]float64, 8)}, "query 2 of 2"},
	} {
		all, err := r.Batch(t.Context(), c.q, c.vectors)
		if !errors.Is(err, search.ErrUsage) || all != nil || storage.Hint(err) == "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %d answers, %v, hint %q", c.name, len(all), err, storage.Hint(err))
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(-1)} {
		if _, err := r.Search(t.Context(), search.Request{K: 1, Vector: []float64{x, 1, 1, 1, 1, 1, 1, 1}}); !errors.Is(err, search.ErrUsage) {
			t.Errorf("%v: got %v", x, err)
		}
	}
}

// More rows than there are: all of them, and the answer is complete.
func TestMoreRowsThanThereAre(t *testing.T) {
	t.Parallel()
	rows := live(t, "mor_basic", "embedding", kernel.Cosine, kernel.Float)
	a := mustSearch(t, basic(t), search.Request{Key: rows[0].Key, K: 100_000, Mode: search.ExactRerank})
	if len(a.Results) != len(rows) || !a.Complete {
		t.Errorf("%d rows of %d, complete %v, %q", len(a.Results), len(rows), a.Complete, a.Reason)
	}
}

// A deadline of a millisecond ends in an answer or in an error that says so.
func TestShortDeadline(t *testing.T) {
	t.Parallel()
	st := basic(t)
	for _, mode := range []search.Mode{search.ExactRerank, search.Approximate, search.BruteForce} {
		for _, d := range []time.Duration{0, time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			a, err := search.Search(ctx, deps(st, fresh), search.Request{Key: "k0001", K: 5, Mode: mode})
			cancel()
			switch {
			case err != nil:
				if !errors.Is(err, context.DeadlineExceeded) || a != nil || !strings.Contains(storage.Hint(err), "more time") {
					t.Errorf("%s: got %+v, %v, hint %q", mode, a, err, storage.Hint(err))
				}
			case d == 0 || !a.Complete && (!strings.Contains(a.Reason, "deadline") || len(a.Results) == 0):
				t.Errorf("%s: got %+v", mode, a)
			}
		}
	}
}
