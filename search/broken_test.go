package search_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
)

const metadata = ".hoodie/metadata/"

// flip changes a byte in the middle of every file whose path starts with prefix and ends with suffix.
func flip(t testing.TB, st *mem.Store, prefix, suffix string) {
	t.Helper()
	each(t, st, prefix, suffix, func(path string) {
		b, info, err := st.ReadFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		st.Put(path, b, info.ModTime)
	})
}

func remove(t testing.TB, st *mem.Store, prefix, suffix string) {
	t.Helper()
	each(t, st, prefix, suffix, func(path string) {
		if err := st.Delete(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	})
}

func each(t testing.TB, st *mem.Store, prefix, suffix string, fn func(path string)) {
	t.Helper()
	n := 0
	for _, path := range st.Paths() {
		if strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix) {
			n++
			fn(path)
		}
	}
	if n == 0 {
		t.Fatalf("no file %s*%s", prefix, suffix)
	}
}

// state changes the state object.
func state(t testing.TB, st *mem.Store, change func(*mdt.State)) {
	t.Helper()
	place := mdt.Inside(st)
	s, tag, err := mdt.ReadState(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	b, err := mdt.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Replace(t.Context(), place.StatePath(), b, tag); err != nil {
		t.Fatal(err)
	}
}

// Whatever is wrong with the index, FALLBACK and brute force answer from the table; the other policies say what to do.
func TestIndexThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const dir = metadata + "vector_index_"
	rows := live(t, "mor_basic", "embedding", kernel.Cosine, kernel.Float)
	q := floats(t, rows[7].Vector("embedding"), kernel.Float)
	want := nearest(t, rows, widened(t, rows, "embedding", kernel.Float), kernel.Cosine, q, 10)
	for _, c := range []struct {
		name  string
		spoil func(t testing.TB, st *mem.Store)
		kind  error
		hints []string
	}{
		{"index file damaged", func(t testing.TB, st *mem.Store) { flip(t, st, dir, ".hfile") }, storage.ErrCorrupt, []string{"must be built anew"}},
		{"index file gone", func(t testing.TB, st *mem.Store) { remove(t, st, dir, ".hfile") }, storage.ErrNotFound, []string{"absent",
			"tidemark index drop 'mem://mor basic' --index embedding_idx --yes-drop embedding_idx && ",
			"tidemark index create 'mem://mor basic' --column embedding --name embedding_idx"}},
		{"metadata table gone", func(t testing.TB, st *mem.Store) { remove(t, st, metadata, "") }, storage.ErrNotFound, []string{"absent"}},
		{"metadata table damaged", func(t testing.TB, st *mem.Store) {
			each(t, st, metadata+".hoodie/hoodie.properties", "", func(path string) { st.Put(path, []byte("\x00"), later()) })
		}, storage.ErrCorrupt, []string{"let Hudi rebuild it"}},
		{"record index damaged", func(t testing.TB, st *mem.Store) { flip(t, st, metadata+"record_index/", ".hfile") }, storage.ErrCorrupt,
			[]string{"let Hudi rebuild it"}},
		{"absent generation", func(t testing.TB, st *mem.Store) {
			state(t, st, func(s *mdt.State) { s.Indexes["embedding_idx"].Generations[0].Number = 7 })
		}, storage.ErrCorrupt, []string{"must be built anew"}},
		{"state and manifest differ", func(t testing.TB, st *mem.Store) {
			state(t, st, func(s *mdt.State) { s.Indexes["embedding_idx"].Dim = 4 })
		}, storage.ErrCorrupt, []string{"must be built anew"}},
		{"no active generation", func(t testing.TB, st *mem.Store) {
			state(t, st, func(s *mdt.State) { s.Indexes["embedding_idx"].Generations[0].State = mdt.GenBuilding })
		}, storage.ErrNotFound, []string{"tidemark index create"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
			c.spoil(t, st)
			d := deps(st, fresh)
			d.Table = "mem://mor basic"
			for _, r := range []search.Request{{Key: rows[7].Key, Policy: search.Fallback}, {Vector: q, Policy: search.Fallback, Mode: search.Approximate},
				{Key: rows[7].Key, Mode: search.BruteForce}} {
				r.K = 10
				a, err := search.Search(t.Context(), d, r)
				if err != nil {
					t.Fatalf("%+v: %v", r, err)
				}
				same(t, c.name, a.Results, want)
				if a.Mode != search.BruteForce || !a.Complete || (a.Reason == "") != (r.Mode == search.BruteForce) || a.Stats.Candidates+a.Stats.Rounds != 0 {
					t.Errorf("%+v: got %+v", r, a)
				}
			}
			for _, p := range []search.Policy{search.Fail, search.Warn} {
				a, err := search.Search(t.Context(), d, search.Request{Vector: q, K: 10, Policy: p})
				hint := storage.Hint(err)
				if !errors.Is(err, c.kind) || a != nil {
					t.Errorf("%q: got %v, %v", p, a, err)
				}
				for _, part := range append(c.hints, "--policy FALLBACK", "--mode brute_force") {
					if !strings.Contains(hint, part) {
						t.Errorf("%q: hint %q lacks %q", p, hint, part)
					}
				}
				if strings.Contains(hint, "read the state again") {
					t.Errorf("%q: hint %q: the state was read again", p, hint)
				}
			}
		})
	}
}

// What comes out only while postings are scanned is treated alike, and leaves no trace in the answer.
func TestIndexThatBreaksDuringTheScan(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
	want := mustSearch(t, st, search.Request{Key: "k0001", K: 5, Mode: search.BruteForce})
	r := search.Request{Key: "k0001", K: 5, Mode: search.Approximate}
	bad := fmt.Errorf("block 3: %w", storage.ErrCorrupt)
	if a, err := search.SearchUnreadable(t.Context(), deps(st, fresh), r, bad); !errors.Is(err, storage.ErrCorrupt) || a != nil || !strings.Contains(storage.Hint(err), "FALLBACK") {
		t.Errorf("FAIL: got %v, %v, hint %q", a, err, storage.Hint(err))
	}
	r.Policy = search.Fallback
	a, err := search.SearchUnreadable(t.Context(), deps(st, fresh), r, bad)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "FALLBACK", a.Results, want.Results)
	if a.Mode != search.BruteForce || !a.Complete || !strings.Contains(a.Reason, "block 3") || a.Stats != want.Stats {
		t.Errorf("FALLBACK: got %+v", a)
	}
	if _, err := search.SearchUnreadable(t.Context(), deps(st, fresh), r, errors.New("timeout")); err != nil {
		t.Errorf("another failure: got %v", err)
	}
}

// watched hands out another state at first, and calls before each whole read.
type watched struct {
	storage.Store
	first  []byte
	states int
	before func(path string)
}

func (w *watched) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	if w.before != nil {
		w.before(path)
	}
	b, info, err := w.Store.ReadFile(ctx, path)
	if err == nil && path == mdt.Inside(w).StatePath() {
		w.states++
		if w.states == 1 && w.first != nil {
			b = w.first
		}
	}
	return b, info, err
}

// Files that the state names may be replaced and deleted while it is being read: it is read again, once.
func TestStateIsReadAgainOnce(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
	old, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	for i := range old.Base {
		old.Base[i].Path += ".folded"
	}
	first, err := mdt.EncodeState(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []search.Policy{search.Fail, search.Fallback} {
		w := &watched{Store: st, first: first}
		a, err := search.Search(t.Context(), deps(w, fresh), search.Request{Key: "k0001", K: 3, Policy: p})
		if err != nil || a.Mode != search.ExactRerank || a.Reason != "" || w.states != 2 {
			t.Errorf("%s: got %+v, %v after %d reads of the state", p, a, err, w.states)
		}
	}
	remove(t, st, metadata+"vector_index_", ".hfile")
	w := &watched{Store: st}
	if _, err := search.Search(t.Context(), deps(w, fresh), search.Request{Key: "k0001", K: 3}); !errors.Is(err, storage.ErrNotFound) || w.states != 2 {
		t.Errorf("still gone: got %v after %d reads of the state", err, w.states)
	}
}

// A search that is called off does not go on with the table.
func TestCancelledSearchDoesNotFallBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watched{Store: indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine"), before: func(path string) {
		if strings.HasPrefix(path, metadata+"vector_index_") {
			cancel()
		}
	}}
	a, err := search.Search(ctx, deps(w, fresh), search.Request{Key: "k0001", K: 3, Policy: search.Fallback})
	if !errors.Is(err, context.Canceled) || a != nil {
		t.Errorf("got %v, %v", a, err)
	}
}

// Where it is not known what the index covers, answers say so; only FAIL refuses.
func TestUnknownFreshness(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
	broken := errors.New("the archive is unreadable")
	d := search.Deps{Place: mdt.Inside(st), Freshness: func(context.Context, *table.Table, *mdt.State, string) (search.Freshness, error) {
		return search.Freshness{}, broken
	}}
	if _, err := search.Search(t.Context(), d, search.Request{Key: "k0001", K: 3, Policy: search.Fail}); !errors.Is(err, broken) {
		t.Errorf("FAIL: got %v", err)
	}
	for r, mode := range map[*search.Request]search.Mode{
		{Policy: search.Warn}:                          search.ExactRerank,
		{Policy: search.Fallback}:                      search.BruteForce,
		{Mode: search.BruteForce, Policy: search.Fail}: search.BruteForce,
	} {
		r.Key, r.K = "k0001", 3
		a, err := search.Search(t.Context(), d, *r)
		if err != nil || a.Mode != mode || a.Fresh || a.LagInstants != nil || !strings.Contains(a.Reason, "unreadable") || len(a.Results) != 3 {
			t.Errorf("%+v: got %+v, %v", *r, a, err)
		}
	}
}

// A column that is gone leaves nothing to search.
func TestColumnThatIsGone(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
	state(t, st, func(s *mdt.State) { s.Indexes["embedding_idx"].Column = "picture" })
	_, err := search.Search(t.Context(), deps(st, fresh), search.Request{Key: "k0001", K: 3, Policy: search.Fallback})
	if hint := storage.Hint(err); !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "picture") || !strings.Contains(hint, "embedding") || !strings.Contains(hint, "drop the index") {
		t.Errorf("got %v, hint %q", err, hint)
	}
}

// Distances of a dot product are defined for a query without direction: brute force gives them.
func TestShortQueryForDotProduct(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_rli_rebuilt", "embedding", "", "vector.num_clusters", "5", "vector.rabitq.bits", "8", "vector.metric", "dot_product")
	rows := live(t, "mor_rli_rebuilt", "embedding", kernel.Dot, kernel.Float)
	wide := widened(t, rows, "embedding", kernel.Float)
	for _, x := range []float64{0, 1e-12} {
		q := make([]float64, len(wide[0]))
		q[1] = float64(float32(x))
		want := nearest(t, rows, wide, kernel.Dot, q, 10)
		for _, r := range []search.Request{{Mode: search.BruteForce}, {Policy: search.Fallback}} {
			r.Vector, r.K = q, 10
			a := mustSearch(t, st, r)
			same(t, "short", a.Results, want)
			if a.Mode != search.BruteForce || !a.Complete || (a.Reason == "") != (r.Mode == search.BruteForce) {
				t.Errorf("%v: got %+v", x, a)
			}
			if x == 0 && slices.ContainsFunc(a.Results, func(r search.Result) bool { return math.Signbit(r.Distance) }) {
				t.Errorf("got −0: %v", a.Results)
			}
		}
		for _, r := range []search.Request{{}, {Mode: search.Approximate}, {Policy: search.Warn}} {
			r.Vector, r.K = q, 10
			if _, err := search.Search(t.Context(), deps(st, fresh), r); !errors.Is(err, search.ErrUsage) || !strings.Contains(storage.Hint(err), "--mode brute_force") {
				t.Errorf("%v, %+v: got %v, hint %q", x, r, err, storage.Hint(err))
			}
		}
	}
}

// Estimates below 0 are shown as 0, which is nearer to the distance, and −0 never.
func TestApproximateDistancesAreNotNegative(t *testing.T) {
	t.Parallel()
	for _, metric := range []string{"cosine", "l2"} {
		kv := []string{"vector.num_clusters", "9", "vector.metric", metric}
		if metric == "l2" {
			kv = []string{"vector.num_clusters", "7", "vector.rabitq.bits", "1", "vector.metric", metric}
		}
		st := indexed(t, "mor_basic", "embedding", "", kv...)
		m, err := kernel.ParseMetric(metric)
		if err != nil {
			t.Fatal(err)
		}
		rows := live(t, "mor_basic", "embedding", m, kernel.Float)
		for _, row := range rows[:min(6, len(rows))] {
			a := mustSearch(t, st, search.Request{Key: row.Key, K: 5, Mode: search.Approximate})
			for _, r := range a.Results {
				if math.Signbit(r.Distance) {
					t.Errorf("%s, %s from %s: distance %v", metric, r.Key, row.Key, r.Distance)
				}
			}
		}
	}
}

// A table without any index is refused under every policy and mode, with what to do: without one, no metric is known.
func TestNoIndex(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_basic", "cow_basic"} {
		st := search.Fixture(t, name)
		for _, r := range []search.Request{{}, {Policy: search.Warn}, {Policy: search.Fallback}, {Mode: search.BruteForce}, {Mode: search.Approximate}} {
			r.Vector, r.K = []float64{1, 0, 0, 0, 0, 0, 0, 0}, 3
			a, err := search.Search(t.Context(), deps(st, fresh), r)
			if !errors.Is(err, storage.ErrNotFound) || a != nil || !strings.Contains(storage.Hint(err), "index create") {
				t.Errorf("%s, %+v: got %v, %v, hint %q", name, r, a, err, storage.Hint(err))
			}
		}
	}
}
