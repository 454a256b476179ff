package search_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
	"tidemark/sink"
)

// committer is the sink as generation's Committer, as the program wires it.
type committer struct{ *sink.Sink }

func (c committer) Commit(ctx context.Context, b generation.Batch) (string, error) {
	return c.Sink.Commit(ctx, sink.Batch{
		Kind: b.Kind, Revision: b.Revision, Apply: b.Apply, NewestData: b.Newest,
		Build: func(id, completion string) ([]sink.FileRecords, error) {
			files, err := b.Build(id, completion)
			out := make([]sink.FileRecords, len(files))
			for i, f := range files {
				out[i] = sink.FileRecords{Index: f.Index, Group: f.Group, Base: f.Base}
				for _, r := range f.Records {
					out[i].Records = append(out[i].Records, sink.Record{Key: r.Key, Payload: r.Value})
				}
			}
			return out, err
		},
	})
}

// later is a clock at which every fixture is old: ids are then not rationed by the age of its newest file.
func later() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

type made struct {
	once sync.Once
	st   *mem.Store
}

var tables sync.Map // what was asked for → *made

// indexed returns a private copy of a fixture table in memory with an index of the column as of an instant; "" is the newest.
func indexed(t testing.TB, name, column, asOf string, kv ...string) *mem.Store {
	t.Helper()
	v, _ := tables.LoadOrStore(fmt.Sprint(name, column, asOf, kv), &made{})
	m := v.(*made)
	m.once.Do(func() {
		st := search.Fixture(t, name)
		st.SetClock(later)
		given := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			given[kv[i]] = kv[i+1]
		}
		o, err := generation.ParseOptions(given)
		if err != nil {
			t.Fatal(err)
		}
		s, err := sink.Open(t.Context(), mdt.Inside(st), sink.Config{
			Schema: delta.SchemaJSON, Create: true, Now: later, Owner: "test", Renew: time.Hour, Host: "host", PID: 1,
			Alive: func(int) bool { return false },
		})
		if err != nil {
			t.Fatal(err)
		}
		tab, err := table.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := generation.Create(t.Context(), tab, committer{s}, generation.CreateRequest{Column: column, Options: o, AsOf: asOf}); err != nil {
			t.Fatal(err)
		}
		m.st = st
	})
	if m.st == nil {
		t.Fatal("the index was not made")
	}
	return m.st.Clone()
}

func deps(st storage.Store, f search.Freshness) search.Deps {
	return search.Deps{Place: mdt.Inside(st), Freshness: func(context.Context, *table.Table, *mdt.State, string) (search.Freshness, error) {
		return f, nil
	}}
}

var fresh = search.Freshness{Fresh: true, LagInstants: new(int)}

func mustSearch(t testing.TB, st storage.Store, r search.Request) *search.Answer {
	t.Helper()
	a, err := search.Search(t.Context(), deps(st, fresh), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var oracles sync.Map // fixture name → func() []testkit.Step

// oracle reads an oracle once.
func oracle(t testing.TB, name string) []testkit.Step {
	t.Helper()
	f, _ := oracles.LoadOrStore(name, sync.OnceValue(func() []testkit.Step { return testkit.Oracle(t, name) }))
	return f.(func() []testkit.Step)()
}

// live returns the oracle's rows of the last step that can be indexed, the last written one of each key.
func live(t testing.TB, name, column string, m kernel.Metric, el kernel.Element) []testkit.Row {
	t.Helper()
	steps := oracle(t, name)
	return liveOf(steps[len(steps)-1].Rows, column, m, el)
}

func floats(t testing.TB, raw []byte, el kernel.Element) []float64 {
	t.Helper()
	v := make([]float64, len(raw)/el.Width())
	if !kernel.ToFloat64(v, raw, el) {
		t.Fatal("bad vector")
	}
	return v
}

// widened returns the vectors of rows.
func widened(t testing.TB, rows []testkit.Row, column string, el kernel.Element) [][]float64 {
	t.Helper()
	out := make([][]float64, len(rows))
	for i, r := range rows {
		out[i] = floats(t, r.Vector(column), el)
	}
	return out
}

// near returns the vectors that can be among the k nearest of q, by distances that may be a little wrong. The race detector
// looks away: with it, comparing every row with every query took longer than all else.
//
//go:norace
func near(m kernel.Metric, vectors [][]float64, q []float64, k int) []int {
	if k = min(k, len(vectors)); k == 0 {
		return nil
	}
	distances := make([]float64, len(vectors))
	best := make([]float64, 0, k+1) // ascending
	for i, v := range vectors {
		var dot, vv, qq float64
		for j, x := range v {
			dot += x * q[j]
			vv += x * x
			qq += q[j] * q[j]
		}
		d := -dot
		switch m {
		case kernel.L2:
			d = vv + qq - 2*dot
		case kernel.Cosine:
			d = 1 - dot/math.Sqrt(vv*qq)
		}
		distances[i] = d
		if len(best) == k && d >= best[k-1] {
			continue
		}
		best = append(best, d)
		for j := len(best) - 1; j > 0 && best[j-1] > best[j]; j-- {
			best[j-1], best[j] = best[j], best[j-1]
		}
		best = best[:min(k, len(best))]
	}
	worst := best[k-1]
	worst += 1e-9 * (1 + math.Abs(worst))
	var out []int
	for i, d := range distances {
		if d <= worst {
			out = append(out, i)
		}
	}
	return out
}

// nearest is the oracle's answer.
func nearest(t testing.TB, rows []testkit.Row, vectors [][]float64, m kernel.Metric, q []float64, k int) []search.Result {
	t.Helper()
	var out []search.Result
	for _, i := range near(m, vectors, q, k) {
		d := kernel.Distance64(m, vectors[i], q)
		if m == kernel.Cosine {
			d = max(0, d)
		}
		out = append(out, search.Result{Key: rows[i].Key, Partition: rows[i].Partition, Distance: d})
	}
	slices.SortFunc(out, func(a, b search.Result) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Partition, b.Partition))
	})
	return out[:min(k, len(out))]
}

func same(t testing.TB, what string, got, want []search.Result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d rows, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Key != w.Key || g.Partition != w.Partition || g.Distance != w.Distance {
			t.Fatalf("%s: row %d: got %v, want %v", what, i, g, w)
		}
	}
}

// With all clusters probed the index gives what the scan of the table gives, and both give what Spark's rows say.
func TestAllClustersEqualTheTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		metric  string
		queries int
		kv      []string
	}{
		{"mor_basic", "cosine", 8, []string{"vector.num_clusters", "9"}},
		{"mor_basic", "l2", 6, []string{"vector.num_clusters", "7", "vector.rabitq.bits", "1"}},
		{"mor_rli_rebuilt", "dot_product", 6, []string{"vector.num_clusters", "5", "vector.rabitq.bits", "8"}},
		{"partition_move", "l2", 6, []string{"vector.num_clusters", "4"}},
		{"keys_unicode", "cosine", 6, []string{"vector.num_clusters", "4", "tidemark.on_duplicate_key", "last_wins"}},
		{"demo_words", "cosine", 1, []string{"vector.num_clusters", "64", "vector.max_iter", "4", "vector.query.refine_factor", "20"}},
	} {
		t.Run(c.name+" "+c.metric, func(t *testing.T) {
			t.Parallel()
			st := indexed(t, c.name, "embedding", "", append(c.kv, "vector.metric", c.metric)...)
			m, err := kernel.ParseMetric(c.metric)
			if err != nil {
				t.Fatal(err)
			}
			rows := live(t, c.name, "embedding", m, kernel.Float)
			wide := widened(t, rows, "embedding", kernel.Float)
			for i, row := range rows {
				if n := min(c.queries, len(rows)); i*n%len(rows) >= n {
					continue
				}
				want := nearest(t, rows, wide, m, wide[i], 10)
				a := mustSearch(t, st, search.Request{Key: row.Key, K: 10, Mode: search.ExactRerank, NProbes: clusters(t, st)})
				same(t, "index, "+row.Key, a.Results, want)
				if a.Mode != search.ExactRerank || !a.Complete || !a.Fresh || *a.Generation != 1 || a.Reason != "" {
					t.Errorf("%s: got %+v", row.Key, a)
				}
				if i%10 == 0 {
					b := mustSearch(t, st, search.Request{Key: row.Key, K: 10, Mode: search.BruteForce})
					same(t, "table, "+row.Key, b.Results, want)
					if b.Mode != search.BruteForce || !b.Complete || b.Snapshot != a.Snapshot {
						t.Errorf("%s: got %+v", row.Key, b)
					}
				}
			}
			if c.name == "demo_words" {
				return // TestDemoWordsRecall asks for all its rows
			}
			all := mustSearch(t, st, search.Request{Key: rows[0].Key, K: len(rows) + 5})
			if len(all.Results) != len(rows) || !all.Complete {
				t.Errorf("got %d rows of %d, complete %v", len(all.Results), len(rows), all.Complete)
			}
		})
	}
}

func clusters(t testing.TB, st storage.Store) int {
	t.Helper()
	return load(t, st).K
}

func load(t testing.TB, st storage.Store) *generation.Generation {
	t.Helper()
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range state.Indexes {
		view, err := mdt.OpenView(t.Context(), mdt.Inside(st), state, name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := generation.Load(t.Context(), view, x)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	t.Fatal("no index")
	return nil
}

// Tables without a record index are answered by a merged scan, which says so.
func TestWithoutRecordIndex(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, column, metric string
		el                   kernel.Element
	}{
		{"cow_basic", "embedding", "cosine", kernel.Float},
		{"mor_compaction_clean", "embedding", "l2", kernel.Float},
		{"cow_clustering", "embedding", "dot_product", kernel.Float},
		{"merge_event_time", "embedding", "l2", kernel.Float},
		{"unindexable", "embedding", "cosine", kernel.Float},
		{"elements", "e64", "l2", kernel.Double},
		{"elements_mor", "i8", "cosine", kernel.Int8},
		{"two_vectors", "b", "cosine", kernel.Float},
		{"pending", "embedding", "cosine", kernel.Float},
		{"virtual_keys", "embedding", "l2", kernel.Float},
	} {
		t.Run(c.name+" "+c.column, func(t *testing.T) {
			t.Parallel()
			st := indexed(t, c.name, c.column, "", "vector.num_clusters", "4", "vector.metric", c.metric)
			m, err := kernel.ParseMetric(c.metric)
			if err != nil {
				t.Fatal(err)
			}
			rows := live(t, c.name, c.column, m, c.el)
			wide := widened(t, rows, c.column, c.el)
			for i := 0; i < len(rows); i += max(1, len(rows)/2) {
				q := wide[i]
				want := nearest(t, rows, wide, m, q, 10)
				for _, r := range []search.Request{{Key: rows[i].Key, K: 10}, {Vector: q, K: 10, NProbes: 1}} {
					a := mustSearch(t, st, r)
					same(t, rows[i].Key, a.Results, want)
					if a.Mode != search.BruteForce || !a.Complete || a.Reason == "" {
						t.Errorf("got mode %s, complete %v, %q", a.Mode, a.Complete, a.Reason)
					}
				}
			}
			_, err = search.Search(t.Context(), deps(st, fresh), search.Request{Key: rows[0].Key, K: 1, Mode: search.Approximate})
			if !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" {
				t.Errorf("approximate: got %v", err)
			}
		})
	}
}

// Recall against the scan, 200 rows as queries each without itself, is what probing allows. Rows come from memory here; that
// they come from the table just so is what the other tests show.
func TestDemoWordsRecall(t *testing.T) {
	t.Parallel()
	const k, queries, probes = 10, 200, 16
	st := indexed(t, "demo_words", "embedding", "", "vector.num_clusters", "64", "vector.max_iter", "4", "vector.query.refine_factor", "20", "vector.metric", "cosine")
	g := load(t, st)
	rows := live(t, "demo_words", "embedding", kernel.Cosine, kernel.Float)
	narrow := func(key string) []float32 {
		i, _ := slices.BinarySearchFunc(rows, key, func(r testkit.Row, key string) int { return cmp.Compare(r.Key, key) })
		v := make([]float32, g.Dim)
		kernel.ToFloat32(v, rows[i].Vector("embedding"), kernel.Float)
		return v
	}
	byKey := map[string]table.Row{}
	for _, r := range rows {
		byKey[r.Key] = table.Row{Key: r.Key, Partition: r.Partition, Vectors: [][]byte{r.Vector("embedding")}}
	}
	wide := widened(t, rows, "embedding", kernel.Float)
	clusterOf := map[string]int{}
	cluster := func(key string) int {
		c, ok := clusterOf[key]
		if !ok {
			c = g.Cluster(narrow(key))
			clusterOf[key] = c
		}
		return c
	}
	asker, err := search.OpenAsker(t.Context(), deps(st, fresh), search.Request{Mode: search.ExactRerank, NProbes: probes}, byKey)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := asker.Ask(t.Context(), wide[0], len(rows)+5); err != nil || len(all.Results) != len(rows) || !all.Complete {
		t.Errorf("got %d rows of %d, %v", len(all.Results), len(rows), err)
	}
	hit, probed, total := 0, 0, 0
	for i := range queries {
		row, q := rows[i*len(rows)/queries], wide[i*len(rows)/queries]
		a, err := asker.Ask(t.Context(), q, k+1)
		if err != nil || !a.Complete {
			t.Fatalf("got %+v, %v", a, err)
		}
		found := map[string]float64{}
		for _, r := range a.Results {
			found[r.Key] = r.Distance
		}
		order := ivf.ProbeOrder(g.Metric, g.Centroids, g.K, g.Dim, narrow(row.Key), probes)
		for _, want := range nearest(t, rows, wide, kernel.Cosine, q, k+1) {
			if want.Key == row.Key {
				continue
			}
			total++
			if slices.Contains(order, cluster(want.Key)) {
				probed++
			}
			if d, ok := found[want.Key]; ok {
				hit++
				if math.Abs(d-want.Distance) > 1e-6*want.Distance {
					t.Errorf("%s from %s: distance %v, exact %v", want.Key, row.Key, d, want.Distance)
				}
			}
		}
	}
	recall, limit := float64(hit)/float64(total), float64(probed)/float64(total)
	if recall < 0.95 || recall < limit-0.002 {
		t.Errorf("recall %v, probing recall %v", recall, limit)
	}
}

// An index that lags gives rows of the table only, with their own distances, or says why not.
func TestStaleIndex(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_basic", "partition_move", "mor_rli_rebuilt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := oracle(t, name)
			st := indexed(t, name, "embedding", steps[0].Instants[0].Requested, "vector.num_clusters", "8", "vector.metric", "l2")
			lag := len(steps) - 1
			d := deps(st, search.Freshness{LagInstants: &lag, Reason: "catching_up"})
			rows := live(t, name, "embedding", kernel.L2, kernel.Float)
			wide := widened(t, rows, "embedding", kernel.Float)
			byKey := map[string]testkit.Row{}
			for _, r := range rows {
				byKey[r.Key] = r
			}
			for i := 0; i < len(rows); i += max(1, len(rows)/2) {
				r := search.Request{Key: rows[i].Key, K: 10}
				a, err := search.Search(t.Context(), d, r)
				if !errors.Is(err, storage.ErrStale) || a == nil || len(a.Results) != 0 || a.Fresh || *a.LagInstants != lag {
					t.Fatalf("FAIL: got %+v, %v", a, err)
				}
				r.Policy = search.Warn
				if a, err = search.Search(t.Context(), d, r); err != nil {
					t.Fatal(err)
				}
				if a.Mode != search.ExactRerank || a.Fresh || a.Reason == "" {
					t.Errorf("WARN: got %+v", a)
				}
				q := wide[i]
				for _, got := range a.Results {
					row, ok := byKey[got.Key]
					if !ok || row.Partition != got.Partition {
						t.Fatalf("WARN: %s in %q is no row of the snapshot", got.Key, got.Partition)
					}
					if want := kernel.Distance64(kernel.L2, floats(t, row.Vector("embedding"), kernel.Float), q); got.Distance != want {
						t.Errorf("WARN: %s: distance %v, want %v", got.Key, got.Distance, want)
					}
				}
				r.Policy = search.Fallback
				if a, err = search.Search(t.Context(), d, r); err != nil {
					t.Fatal(err)
				}
				same(t, "FALLBACK", a.Results, nearest(t, rows, wide, kernel.L2, q, 10))
				if a.Mode != search.BruteForce || a.Fresh || !a.Complete {
					t.Errorf("FALLBACK: got %+v", a)
				}
			}
		})
	}
}

func TestPartitionsAndColumns(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
	rows := live(t, "mor_basic", "embedding", kernel.Cosine, kernel.Float)
	eu := slices.DeleteFunc(slices.Clone(rows), func(r testkit.Row) bool { return r.Partition != "eu" })
	q := floats(t, rows[3].Vector("embedding"), kernel.Float)
	for _, mode := range []search.Mode{search.ExactRerank, search.BruteForce} {
		a := mustSearch(t, st, search.Request{Vector: q, K: 15, Mode: mode, Partitions: []string{"eu"}, Columns: []string{"title", "price"}, NProbes: 2})
		same(t, string(mode), a.Results[:1], nearest(t, eu, widened(t, eu, "embedding", kernel.Float), kernel.Cosine, q, 1))
		for _, r := range a.Results {
			if title, ok := r.Row["title"].(string); !ok || title == "" || r.Partition != "eu" {
				t.Errorf("%s: got %+v", mode, r)
			}
		}
		if len(a.Results) != 15 {
			t.Errorf("%s: got %d rows", mode, len(a.Results))
		}
	}
	exact := mustSearch(t, st, search.Request{Vector: q, K: 10, Mode: search.ExactRerank, Columns: []string{"title"}})
	approx := mustSearch(t, st, search.Request{Vector: q, K: 10, Mode: search.Approximate, Columns: []string{"title"}})
	if approx.Mode != search.Approximate || !approx.Complete || len(approx.Results) != 10 {
		t.Fatalf("approximate: got %+v", approx)
	}
	overlap := 0
	for _, r := range approx.Results {
		if r.Row["title"] == nil {
			t.Errorf("approximate: %s has no title", r.Key)
		}
		if slices.ContainsFunc(exact.Results, func(e search.Result) bool { return e.Key == r.Key }) {
			overlap++
		}
	}
	if overlap < 7 {
		t.Errorf("approximate shares %d of 10 rows with exact", overlap)
	}
	if exact.Stats.LogResidentFinalists == 0 {
		t.Errorf("the table has rows in logs: got %+v", exact.Stats)
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine")
	v := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	for _, c := range []struct {
		name string
		r    search.Request
		kind error
	}{
		{"other dimension", search.Request{Vector: v[:7], K: 1}, search.ErrUsage},
		{"zero for cosine", search.Request{Vector: make([]float64, 8), K: 1}, search.ErrUsage},
		{"more probes than clusters", search.Request{Vector: v, K: 1, NProbes: 10}, search.ErrUsage},
		{"unknown partition", search.Request{Vector: v, K: 1, Partitions: []string{"mars"}}, search.ErrUsage},
		{"unknown index", search.Request{Vector: v, K: 1, Index: "x"}, storage.ErrNotFound},
		{"unknown key", search.Request{Key: "nobody", K: 1}, storage.ErrNotFound},
		{"no k", search.Request{Vector: v}, search.ErrUsage},
		{"unknown column", search.Request{Vector: v, K: 1, Columns: []string{"nothing"}}, search.ErrUsage},
	} {
		a, err := search.Search(t.Context(), deps(st, fresh), c.r)
		if !errors.Is(err, c.kind) || a != nil || storage.Hint(err) == "" {
			t.Errorf("%s: got %v, %v, hint %q", c.name, a, err, storage.Hint(err))
		}
	}
	empty := mem.New("empty")
	if _, err := search.Search(t.Context(), deps(empty, fresh), search.Request{Vector: v, K: 1}); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("no table: got %v", err)
	}
	broken := errors.New("unreadable")
	d := search.Deps{Place: mdt.Inside(st), Freshness: func(context.Context, *table.Table, *mdt.State, string) (search.Freshness, error) {
		return search.Freshness{}, broken
	}}
	if _, err := search.Search(t.Context(), d, search.Request{Vector: v, K: 1}); !errors.Is(err, broken) {
		t.Errorf("freshness unknown: got %v", err)
	}
}

// A row that cannot be indexed cannot be asked with; the error says why.
func TestKeyOfUnindexableRow(t *testing.T) {
	t.Parallel()
	st := indexed(t, "unindexable", "embedding", "", "vector.num_clusters", "4")
	steps := oracle(t, "unindexable")
	refused := 0
	for _, r := range steps[len(steps)-1].Rows {
		raw := r.Vector("embedding")
		ok, reason := kernel.Narrow(make([]float32, 8), raw, kernel.Float, kernel.Cosine)
		_, err := search.Search(t.Context(), deps(st, fresh), search.Request{Key: r.Key, K: 1})
		if ok != (err == nil) || !ok && (!errors.Is(err, search.ErrUsage) || !strings.Contains(err.Error(), reason) || storage.Hint(err) == "") {
			t.Errorf("%s, %s: got %v", r.Key, reason, err)
		}
		if !ok {
			refused++
		}
	}
	if refused == 0 {
		t.Error("the table has no such row")
	}
}

// A search reads; the store sees no write.
func TestSearchWritesNothing(t *testing.T) {
	t.Parallel()
	guard := storage.NewGuard(indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "9", "vector.metric", "cosine"), func(string) bool { return false })
	mustSearch(t, guard, search.Request{Key: "k0001", K: 3})
	if guard.Refused() != 0 || guard.Writes() != 0 {
		t.Errorf("%d writes refused, %d let through", guard.Refused(), guard.Writes())
	}
}
