package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/search"
)

// synced returns a table with an index made at its first step that took in all later ones.
func synced(t testing.TB, name string, kv ...string) *mem.Store {
	t.Helper()
	st := indexed(t, name, "embedding", oracle(t, name)[0].Instants[0].Requested, kv...)
	for {
		did, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead})
		if err != nil {
			t.Fatal(err)
		}
		if did.Processed == 0 {
			return st
		}
	}
}

// input is a query that is bad in some way, or of a table that is: an error of a kind, or the right answer.
type input struct {
	name    string
	st      *mem.Store
	q       search.Request // without mode and policy
	vectors [][]float64    // a batch; nil: q alone and, without a key, as both queries of one
	kind    error          // nil: it is answered
	says    string         // in the error
	rows    int            // of each answer
	// unusable: the index cannot answer this: kind is what FAIL and WARN say, FALLBACK and brute force give rows.
	unusable bool
	// onlyIndex: kind is of the modes that ask the index; brute force gives rows.
	onlyIndex bool
}

var (
	modes    = []search.Mode{search.ExactRerank, search.Approximate, search.BruteForce}
	policies = []search.Policy{search.Fail, search.Warn, search.Fallback}
)

// Every kind of bad input, in every mode and policy, for one query and in a batch: a clear error, or the right answer.
func TestInput(t *testing.T) {
	t.Parallel()
	st := basic(t)
	emptied, overwritten, unindexable := synced(t, "emptied_mor", "vector.num_clusters", "3"), synced(t, "emptied_cow", "vector.num_clusters", "3"), synced(t, "without_vectors", "vector.num_clusters", "3")
	building := st.Clone()
	state(t, building, func(s *mdt.State) { s.Indexes["embedding_idx"].Generations[0].State = mdt.GenBuilding })
	dropped := st.Clone()
	state(t, dropped, func(s *mdt.State) { s.Indexes["embedding_idx"].Dropped = true })
	l2 := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "l2")
	dot := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "dot_product")
	last := oracle(t, "mor_basic")[len(oracle(t, "mor_basic"))-1].Rows
	eu := 0
	for _, r := range last {
		if r.Partition == "eu" {
			eu++
		}
	}
	deleted := ""
	for _, r := range oracle(t, "mor_basic")[0].Rows {
		if !slices.ContainsFunc(last, func(x testkit.Row) bool { return x.Key == r.Key }) {
			deleted = r.Key
		}
	}
	v := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	odd := func(x float64) []float64 { return append([]float64{x}, v[1:]...) }
	huge := []float64{3e38, -3e38, 3e38, 3e38, -3e38, 3e38, 3e38, 3e38}
	many := slices.Repeat([][]float64{v}, search.MaxBatch+1)

	for _, c := range []input{
		{name: "k of 0", st: st, q: search.Request{Vector: v, K: 0}, kind: search.ErrUsage, says: "k is 0"},
		{name: "k below 0", st: st, q: search.Request{Vector: v, K: -1}, kind: search.ErrUsage, says: "k is -1"},
		{name: "k beyond memory", st: st, q: search.Request{Vector: v, K: math.MaxInt}, kind: search.ErrUsage, says: "1000000"},
		{name: "k above the rows", st: st, q: search.Request{Vector: v, K: 500_000}, rows: len(last)},
		{name: "another dimension", st: st, q: search.Request{Vector: v[:7], K: 1}, kind: search.ErrUsage, says: "7 components"},
		{name: "no component", st: st, q: search.Request{Vector: []float64{}, K: 1}, kind: search.ErrUsage, says: "0 components"},
		{name: "neither", st: st, q: search.Request{K: 1}, kind: search.ErrUsage},
		{name: "NaN", st: st, q: search.Request{Vector: odd(math.NaN()), K: 1}, kind: search.ErrUsage, says: "query vector"},
		{name: "infinite", st: st, q: search.Request{Vector: odd(math.Inf(-1)), K: 1}, kind: search.ErrUsage, says: "query vector"},
		{name: "infinite as float32", st: st, q: search.Request{Vector: odd(1e300), K: 1}, kind: search.ErrUsage, says: "query vector"},
		{name: "zero for cosine", st: st, q: search.Request{Vector: make([]float64, 8), K: 1}, kind: search.ErrUsage, says: "zero"},
		{name: "-0 for cosine", st: st, q: search.Request{Vector: slices.Repeat([]float64{math.Copysign(0, -1)}, 8), K: 1}, kind: search.ErrUsage, says: "zero"},
		{name: "zero as float32", st: st, q: search.Request{Vector: slices.Repeat([]float64{1e-60}, 8), K: 1}, kind: search.ErrUsage, says: "zero"},
		{name: "denormal", st: st, q: search.Request{Vector: slices.Repeat([]float64{1e-45}, 8), K: 3}, rows: 3},
		{name: "very long, cosine", st: st, q: search.Request{Vector: huge, K: 3}, rows: 3},
		{name: "very long, L2", st: l2, q: search.Request{Vector: huge, K: 3}, kind: search.ErrUsage, says: "longer than 1e+18", rows: 3, unusable: true},
		{name: "very long, dot product", st: dot, q: search.Request{Vector: huge, K: 3}, kind: search.ErrUsage, says: "longer than 1e+18", rows: 3, unusable: true},
		{name: "zero for L2", st: l2, q: search.Request{Vector: make([]float64, 8), K: 3}, rows: 3},
		{name: "zero for dot product", st: dot, q: search.Request{Vector: make([]float64, 8), K: 3}, kind: search.ErrUsage, says: "shorter", rows: 3, unusable: true},
		{name: "unknown partition", st: st, q: search.Request{Vector: v, K: 1, Partitions: []string{"eu", "mars"}}, kind: search.ErrUsage, says: "mars"},
		{name: "no name of a partition", st: st, q: search.Request{Vector: v, K: 1, Partitions: []string{""}}, kind: search.ErrUsage, says: `partition ""`},
		{name: "a partition twice", st: st, q: search.Request{Vector: v, K: 5, Partitions: []string{"eu", "eu/", "eu"}}, rows: 5},
		{name: "fewer rows in the partition", st: st, q: search.Request{Vector: v, K: 100, Partitions: []string{"eu"}}, rows: eu},
		{name: "more probes than clusters", st: st, q: search.Request{Vector: v, K: 1, NProbes: 10}, kind: search.ErrUsage, says: "has 9 clusters", rows: 1, onlyIndex: true},
		{name: "probes below 0", st: st, q: search.Request{Vector: v, K: 1, NProbes: -1}, kind: search.ErrUsage, says: "nprobes is -1"},
		{name: "unknown column", st: st, q: search.Request{Vector: v, K: 1, Columns: []string{"nothing"}}, kind: search.ErrUsage, says: "nothing"},
		{name: "nested column", st: st, q: search.Request{Vector: v, K: 1, Columns: []string{"a.b"}}, kind: search.ErrUsage, says: "a.b"},
		{name: "unknown column, no rows", st: emptied, q: search.Request{Vector: v, K: 1, Columns: []string{"nothing"}}, kind: search.ErrUsage, says: "nothing"},
		{name: "a column twice", st: st, q: search.Request{Vector: v, K: 1, Columns: []string{"title", "price", "title"}}, kind: search.ErrUsage, says: "twice"},
		{name: "the vector as a column", st: st, q: search.Request{Vector: v, K: 2, Columns: []string{"embedding"}}, rows: 2},
		{name: "unknown key", st: st, q: search.Request{Key: "nobody", K: 1}, kind: storage.ErrNotFound, says: "nobody"},
		{name: "key of a deleted row", st: st, q: search.Request{Key: deleted, K: 1}, kind: storage.ErrNotFound, says: deleted},
		{name: "key of an emptied table", st: emptied, q: search.Request{Key: "k0000", K: 1}, kind: storage.ErrNotFound, says: "k0000"},
		{name: "key of a row without a vector", st: unindexable, q: search.Request{Key: "k0000", K: 1}, kind: search.ErrUsage, says: "k0000"},
		{name: "key and vector", st: st, q: search.Request{Key: "k0001", Vector: v, K: 1}, kind: search.ErrUsage, says: "both"},
		{name: "no rows: deleted", st: emptied, q: search.Request{Vector: v, K: 5}, rows: 0},
		{name: "no rows: partitions deleted", st: overwritten, q: search.Request{Vector: v, K: 5}, rows: 0},
		{name: "no rows in a partition", st: emptied, q: search.Request{Vector: v, K: 5, Partitions: []string{"eu"}}, rows: 0},
		{name: "no rows in a deleted partition", st: overwritten, q: search.Request{Vector: v, K: 5, Partitions: []string{"eu"}}, rows: 0},
		{name: "no row can be indexed", st: unindexable, q: search.Request{Vector: v, K: 5}, rows: 0},
		{name: "no rows, with columns", st: unindexable, q: search.Request{Vector: v, K: 5, Columns: []string{"title"}}, rows: 0},
		{name: "no index", st: search.Fixture(t, "mor_basic"), q: search.Request{Vector: v, K: 1}, kind: storage.ErrNotFound},
		{name: "index dropped", st: dropped, q: search.Request{Vector: v, K: 1}, kind: storage.ErrNotFound},
		{name: "unknown index", st: st, q: search.Request{Vector: v, K: 1, Index: "x"}, kind: storage.ErrNotFound, says: "x"},
		{name: "index being built", st: building, q: search.Request{Vector: v, K: 4}, kind: storage.ErrNotFound, says: "no active generation", rows: 4, unusable: true},
		{name: "no queries", st: st, q: search.Request{K: 1}, vectors: [][]float64{}, kind: search.ErrUsage, says: "batch of 0"},
		{name: "10,000 queries", st: st, q: search.Request{K: 1, Partitions: []string{"eu"}}, vectors: many[:search.MaxBatch], rows: 1},
		{name: "10,001 queries", st: st, q: search.Request{K: 1}, vectors: many, kind: search.ErrUsage, says: "batch of 10001"},
		{name: "10,000 queries for too many rows", st: st, q: search.Request{K: 101}, vectors: many[:search.MaxBatch], kind: search.ErrUsage, says: "more than 1000000 rows"},
		{name: "one bad query in a batch", st: st, q: search.Request{K: 1}, vectors: [][]float64{v, odd(math.NaN())}, kind: search.ErrUsage, says: "query 2 of 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := search.NewReader(deps(c.st, fresh))
			for _, mode := range modes {
				for _, policy := range policies {
					if len(c.vectors) >= search.MaxBatch && policy != search.Fail {
						continue // it takes a while, and the policy has no say
					}
					c.asked(t, r, mode, policy)
				}
			}
		})
	}
}

// asked asks in one mode and policy, alone and in a batch.
func (c input) asked(t *testing.T, r *search.Reader, mode search.Mode, policy search.Policy) {
	t.Helper()
	q := c.q
	q.Mode, q.Policy = mode, policy
	kind := c.kind
	if c.unusable && (policy == search.Fallback || mode == search.BruteForce) || c.onlyIndex && mode == search.BruteForce {
		kind = nil
	}
	check := func(how string, all []*search.Answer, err error) {
		t.Helper()
		how = fmt.Sprintf("%s, %s, %s", mode, policy, how)
		if kind != nil {
			if kind == search.ErrUsage && errors.Is(err, storage.ErrUnsupported) {
				t.Errorf("%s: %v is of two kinds", how, err)
			}
			if !errors.Is(err, kind) || len(all) != 0 || storage.Hint(err) == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %d answers, %v, hint %q", how, len(all), err, storage.Hint(err))
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
		for _, a := range all {
			did := mode
			if c.unusable {
				did = search.BruteForce
			}
			if len(a.Results) != c.rows || !a.Complete || !a.Fresh || a.Mode != did || a.Results == nil || (a.Reason == "") != (did == mode) {
				t.Errorf("%s: %d rows, want %d; complete %v, fresh %v, %s, %q", how, len(a.Results), c.rows, a.Complete, a.Fresh, a.Mode, a.Reason)
			}
			for _, x := range a.Results {
				if math.IsNaN(x.Distance) || math.IsInf(x.Distance, 0) {
					t.Errorf("%s: %+v", how, x)
				}
			}
		}
	}
	if c.vectors != nil {
		all, err := r.Batch(t.Context(), q, c.vectors)
		check("batch", all, err)
		return
	}
	a, err := r.Search(t.Context(), q)
	var all []*search.Answer
	if a != nil {
		all = append(all, a)
	}
	check("alone", all, err)
	if q.Key == "" && q.Vector != nil {
		v := q.Vector
		q.Vector = nil
		all, err = r.Batch(t.Context(), q, [][]float64{v, v})
		check("batch", all, err)
	}
}

// slow is a store whose data files of a partition are not read before the deadline.
type slow struct {
	*mem.Store
	of string
}

func (s slow) wait(ctx context.Context, name string) error {
	if dir := path.Dir(name); dir == s.of || s.of == "" && !strings.HasPrefix(name, ".hoodie/") {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s slow) ReadFile(ctx context.Context, name string) ([]byte, storage.Info, error) {
	if err := s.wait(ctx, name); err != nil {
		return nil, storage.Info{}, err
	}
	return s.Store.ReadFile(ctx, name)
}

func (s slow) ReadRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	if err := s.wait(ctx, name); err != nil {
		return nil, err
	}
	return s.Store.ReadRange(ctx, name, off, n)
}

// A deadline of a millisecond: the rows found so far, which say so, or an error; in each mode and policy, alone and in a batch. Time stands
// still while there is something to do, so that the deadline comes at the files of a partition, or of both.
func TestInputDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, of string
		columns  []string
		found    map[search.Mode]string // complete, some or an error
	}{
		{"the rows of us", "us", nil, map[search.Mode]string{search.ExactRerank: "some", search.Approximate: "complete", search.BruteForce: "no answer before"}},
		{"all rows", "", nil, map[search.Mode]string{search.ExactRerank: "before any row", search.Approximate: "complete", search.BruteForce: "after 0 rows"}},
		{"the columns of us", "us", []string{"title"}, map[search.Mode]string{search.ExactRerank: "some", search.Approximate: "some", search.BruteForce: "no answer before"}},
		{"all columns", "", []string{"title"}, map[search.Mode]string{search.ExactRerank: "before any row", search.Approximate: "before any row", search.BruteForce: "after 0 rows"}},
		{"the index", metadata + "record_index", nil, map[search.Mode]string{search.ExactRerank: "before any row", search.Approximate: "before any row", search.BruteForce: "complete"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := slow{basic(t), c.of}
			synctest.Test(t, func(t *testing.T) {
				for _, mode := range modes {
					for _, policy := range policies {
						for _, n := range []int{1, 3} {
							how := fmt.Sprintf("%s, %s, %d queries", mode, policy, n)
							v := []float64{1, 2, 3, 4, 5, 6, 7, 8}
							ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
							q := search.Request{K: 10, Mode: mode, Policy: policy, Columns: c.columns}
							all, err := search.NewReader(deps(st, fresh)).Batch(ctx, q, slices.Repeat([][]float64{v}, n))
							cancel()
							want := c.found[mode]
							switch {
							case want != "some" && want != "complete":
								if !errors.Is(err, context.DeadlineExceeded) || len(all) != 0 || !strings.Contains(err.Error(), want) || !strings.Contains(storage.Hint(err), "more time") {
									t.Errorf("%s: %d answers, %v, hint %q", how, len(all), err, storage.Hint(err))
								}
								continue
							case err != nil || len(all) != n:
								t.Errorf("%s: %d answers, %v", how, len(all), err)
							}
							for _, a := range all {
								if a.Complete != (want == "complete") || a.Complete != (a.Reason == "") || len(a.Results) == 0 || !a.Complete && !strings.Contains(a.Reason, "deadline") {
									t.Errorf("%s: %d rows, complete %v, %q", how, len(a.Results), a.Complete, a.Reason)
								}
								if !a.Complete && slices.ContainsFunc(a.Results, func(r search.Result) bool { return r.Partition != "eu" }) {
									t.Errorf("%s: got %v", how, a.Results)
								}
							}
						}
					}
				}
			})
		})
	}
}

// Rows as long as float32 holds, and as short, are in the answers with distances that are numbers, in every mode.
func TestInputExtremeRows(t *testing.T) {
	t.Parallel()
	for _, metric := range []string{"l2", "dot_product", "cosine"} {
		st := indexed(t, "unindexable", "embedding", "", "vector.num_clusters", "3", "vector.metric", metric)
		r := search.NewReader(deps(st, fresh))
		v := [][]float64{{1, 2, 3, 4, 5, 6, 7, 8}, {-1, -1, -1, 0, 0, 0, 0, -1}, slices.Repeat([]float64{1e15}, 8)}
		want, err := r.Batch(t.Context(), search.Request{K: 100, Mode: search.BruteForce}, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, columns := range [][]string{nil, {"title"}} {
			for _, mode := range []search.Mode{search.ExactRerank, search.Approximate} {
				all, _, err := search.Indexed(t.Context(), r, search.Request{K: 100, Mode: mode, Columns: columns}, v)
				if err != nil {
					t.Fatal(err)
				}
				for i, a := range all {
					keys := func(a *search.Answer) (out []string) {
						for _, x := range a.Results {
							out = append(out, x.Key)
						}
						slices.Sort(out)
						return out
					}
					if !slices.Equal(keys(a), keys(want[i])) || !a.Complete || !slices.Contains(keys(a), "huge") {
						t.Errorf("%s, %s, query %d: got %v, want %v; %q", metric, mode, i, keys(a), keys(want[i]), a.Reason)
					}
					if b, err := json.Marshal(a); err != nil {
						t.Errorf("%s, %s, query %d: %v: %s", metric, mode, i, err, b)
					}
					if columns != nil && slices.ContainsFunc(a.Results, func(x search.Result) bool { return x.Row["title"] == nil }) {
						t.Errorf("%s, %s, query %d: rows without their columns", metric, mode, i)
					}
				}
			}
		}
	}
}

// Queries that no row of an INT8 or DOUBLE column could be: with all clusters probed the index gives what the scan gives.
func TestInputElements(t *testing.T) {
	t.Parallel()
	for column, dim := range map[string]int{"i8": 16, "e64": 8} {
		for _, metric := range []string{"l2", "dot_product", "cosine"} {
			st := indexed(t, "elements_mor", column, "", "vector.num_clusters", "4", "vector.metric", metric)
			r := search.NewReader(deps(st, fresh))
			of := func(x ...float64) []float64 { return slices.Repeat(x, dim/len(x)) }
			queries := [][]float64{of(0.5, -0.25), of(300, -300), of(127, -128), of(1e15, 1), of(1e-45, 2), of(math.Copysign(0, -1), 1), of(1+1e-12, math.Pi)}
			want, err := r.Batch(t.Context(), search.Request{K: 50, Mode: search.BruteForce}, queries)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := search.Indexed(t.Context(), r, search.Request{K: 50, Mode: search.ExactRerank}, queries)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				same(t, fmt.Sprint(column, metric, queries[i]), got[i].Results, want[i].Results)
			}
			for name, bad := range map[string][]float64{"NaN": of(math.NaN(), 1), "beyond float32": of(1e39, 1), "another dimension": make([]float64, 3)} {
				for _, mode := range modes {
					if _, err := r.Search(t.Context(), search.Request{K: 5, Vector: bad, Mode: mode, Policy: search.Fallback}); !errors.Is(err, search.ErrUsage) {
						t.Errorf("%s, %s, %s: %v", column, mode, name, err)
					}
				}
			}
		}
	}
}
