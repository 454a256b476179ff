package search_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
	"tidemark/sink"
)

// history is a recorded table that is played step by step: what its writer had not written yet at a step is not there.
type history struct {
	st      *mem.Store
	held    map[string]heldFile // files of both timelines that are not there yet, by path
	at      map[string]int      // step of each completed instant, by requested time
	newest  []string            // newest requested time up to each step
	done    []string            // newest completion time up to each step
	ended   map[string]string   // when instants of the metadata table completed, by requested time
	steps   []testkit.Step      // without those that were undone later
	folders [2]string           // of the timelines
}

type heldFile struct {
	bytes   []byte
	written time.Time
}

// openHistory takes a table back to the time before its first step.
func openHistory(t testing.TB, name string) *history {
	t.Helper()
	h := &history{st: search.Fixture(t, name), held: map[string]heldFile{}, at: map[string]int{}, ended: map[string]string{}, folders: [2]string{".hoodie/timeline", ".hoodie/metadata/.hoodie/timeline"}}
	gone := map[string]bool{}
	all := oracle(t, name)
	for _, s := range all {
		restored := false // what an archive took is gone from the active timeline only
		for _, i := range s.Instants {
			restored = restored || i.Action == "restore"
		}
		for _, raw := range s.Gone {
			var g struct{ Requested string }
			if err := json.Unmarshal(raw, &g); err != nil {
				t.Fatal(err)
			}
			gone[g.Requested] = gone[g.Requested] || restored
		}
	}
	for _, s := range all {
		undone := false
		for _, i := range s.Instants {
			undone = undone || gone[i.Requested]
		}
		if undone {
			continue
		}
		newest, done := "", ""
		if n := len(h.newest); n > 0 {
			newest, done = h.newest[n-1], h.done[n-1]
		}
		for _, i := range s.Instants {
			if _, known := h.at[i.Requested]; !known {
				h.at[i.Requested] = len(h.steps)
			}
			newest, done = max(newest, i.Requested), max(done, i.Completion)
		}
		h.steps, h.newest, h.done = append(h.steps, s), append(h.newest, newest), append(h.done, done)
	}
	for _, f := range h.st.Paths() {
		if path.Dir(f) != h.folders[0] && path.Dir(f) != h.folders[1] {
			continue
		}
		b, info, err := h.st.ReadFile(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		h.held[f] = heldFile{b, info.ModTime}
		if requested, rest, completed := strings.Cut(path.Base(f), "_"); completed && path.Dir(f) == h.folders[1] {
			h.ended[requested], _, _ = strings.Cut(rest, ".")
		}
		if err := h.st.Delete(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// there says whether a file of a timeline was there at a step. What a step completed is; so is what was begun by then, and what the metadata
// table did on its own by then.
func (h *history) there(file string, step int) bool {
	requested, rest, _ := strings.Cut(path.Base(file), ".")
	requested, _, completed := strings.Cut(requested, "_")
	if h.newest[step] == "" {
		return false
	}
	at, known := h.at[requested]
	switch {
	case known && (completed || path.Dir(file) == h.folders[1]):
		return at <= step
	case path.Dir(file) == h.folders[1]:
		return h.ended[requested] != "" && h.ended[requested] <= h.done[step]
	case !known && completed && path.Dir(file) == h.folders[0] && strings.Contains("commit deltacommit replacecommit", rest):
		return false // of a step that was undone
	}
	return requested <= h.newest[step]
}

// play lets the writer do what it did up to a step.
func (h *history) play(t testing.TB, step int) {
	t.Helper()
	for f, b := range h.held {
		if h.there(f, step) {
			h.st.Put(f, b.bytes, b.written)
			delete(h.held, f)
		}
	}
}

// open returns the first step from which on every snapshot can be read and shown: the cleaner has deleted files of earlier ones, and
// the archive has no writes of later ones.
func (h *history) open(t testing.TB) int {
	t.Helper()
	full := h.st.Clone()
	for f, b := range h.held {
		full.Put(f, b.bytes, b.written)
	}
	tab, err := table.Open(t.Context(), full)
	if err != nil {
		t.Fatal(err)
	}
	at, err := tab.EarliestReadable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := h.at[at]
	for requested, step := range h.at {
		if _, active := tab.Timeline.CompletionOf(requested); !active {
			first = max(first, step)
		}
	}
	return first
}

// vectorOf is a vector column with an index for each metric, of different bits.
type vectorOf struct {
	avrox.Vector
	index map[kernel.Metric]string
}

// create makes three indexes of each vector column the table has now.
func (h *history) create(t *testing.T) (out []vectorOf) {
	t.Helper()
	p := mdt.Inside(h.st)
	tab, err := table.Open(t.Context(), h.st)
	if err != nil {
		t.Fatal(err)
	}
	if tab.Schema == nil {
		return nil
	}
	for _, v := range tab.Schema.Vectors() {
		of := vectorOf{v, map[kernel.Metric]string{}}
		for i, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
			name := fmt.Sprintf("%s_%d", v.Column, i)
			o, err := generation.ParseOptions(map[string]string{"vector.metric": m.String(), "vector.num_clusters": strconv.Itoa(3 + 2*i), "vector.rabitq.bits": []string{"4", "1", "8"}[i],
				"vector.query.refine_factor": "10000", "tidemark.on_duplicate_key": "last_wins"})
			if err != nil {
				t.Fatal(err)
			}
			c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: dead})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := generation.Create(t.Context(), tab, c, generation.CreateRequest{Column: v.Column, Name: name, Options: o, Place: p}); err != nil {
				t.Fatalf("index %s: %v", name, err)
			}
			of.index[m] = name
		}
		out = append(out, of)
	}
	return out
}

// dead is a sink whose process nobody waits for.
var dead = sink.Config{Create: true, Host: "host", PID: 1, Alive: func(int) bool { return false }}

// notOurs are the recorded tables that no index can be made of: other table versions, and arrays that are no vectors.
var notOurs = []string{"flink_upgraded_mor", "flink_v6_append", "flink_v6_bucket", "flink_v6_cow", "flink_v6_mor", "v6", "v6_array"}

// After every step of every recorded table, for every vector column, metric and number of rows: the scan of the table gives what Spark saw,
// the index with all clusters probed gives the same to the last bit, and an approximate answer has only rows of the table. One reader
// lives through all steps, as in a daemon.
func TestEveryStepEqualsTheTable(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(testkit.Path("tables/*.expected.jsonl.gz"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for n, f := range all {
		name := strings.TrimSuffix(filepath.Base(f), ".expected.jsonl.gz")
		if slices.Contains(notOurs, name) || testkit.Thinned(n, 16) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyStep(t, name)
		})
	}
}

func everyStep(t *testing.T, name string) {
	h := openHistory(t, name)
	p := mdt.Inside(h.st)
	r := search.NewReader(search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		v, err := coverage.Fresh(ctx, p, tab, st, index)
		return search.Freshness{Fresh: v.Fresh, Reason: v.Reason}, err
	}})
	var columns []vectorOf
	compared, recorded := 0, 0
	for step := h.open(t); step < len(h.steps); step++ {
		s := h.steps[step]
		when := fmt.Sprintf("step %d (%s)", s.Step, s.Op)
		h.play(t, step)
		if columns == nil {
			if columns = h.create(t); columns == nil {
				continue // the column came later
			}
		}
		for {
			did, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{Sink: dead, FoldEvery: 3})
			if err != nil {
				t.Fatalf("%s: sync: %v", when, err)
			}
			if did.Processed == 0 {
				break
			}
		}
		for _, c := range columns {
			for m, index := range c.index {
				compared++
				if equalsTheTable(t, when+", "+index, r, c.Vector, m, index, s.Rows) {
					recorded++
				}
			}
		}
	}
	if compared < 2*3 {
		t.Errorf("%d comparisons", compared)
	}
	t.Logf("%d comparisons, %d of them with the table's record index", compared, recorded)
}

// equalsTheTable compares one index at one step, and reports whether the table's own record index was asked.
func equalsTheTable(t *testing.T, when string, r *search.Reader, v avrox.Vector, m kernel.Metric, index string, seen []testkit.Row) (recorded bool) {
	t.Helper()
	el := v.Element.Kernel()
	rows := liveOf(seen, v.Column, m, el)
	wide := widened(t, rows, v.Column, el)
	rng := rand.New(rand.NewPCG(uint64(len(rows)), uint64(len(when))))
	var queries [][]float64
	for range 3 {
		q := make([]float64, v.Dim)
		for i := range q {
			q[i] = float64(float32(rng.NormFloat64()))
		}
		queries = append(queries, q)
	}
	for i := range min(3, len(rows)) {
		q := wide[i*len(rows)/3%len(rows)]
		if m == kernel.L2 || kernel.SquaredNorm64(q) > 1e-12 { // shorter ones have tests of their own
			queries = append(queries, q)
		}
	}
	for _, k := range []int{1, 10, len(rows) + 3} {
		q := search.Request{Index: index, K: k, Policy: search.Fail, Mode: search.BruteForce}
		table, err := r.Batch(t.Context(), q, queries)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		q.Mode, q.NProbes = search.ExactRerank, 0
		ranked, own, err := search.Indexed(t.Context(), r, q, queries)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		q.Mode = search.Approximate
		near, _, err := search.Indexed(t.Context(), r, q, queries)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		recorded = own
		for i, given := range queries {
			want := nearest(t, rows, wide, m, given, k)
			what := fmt.Sprintf("%s, %d rows, query %d", when, k, i)
			same(t, what+", the table", table[i].Results, want)
			same(t, what+", the index", ranked[i].Results, want)
			for _, a := range []*search.Answer{table[i], ranked[i], near[i]} {
				if !a.Complete || !a.Fresh || a.Stats.Unresolved != 0 {
					t.Errorf("%s: %+v", what, a)
				}
			}
			naively(t, what, want, rows, v.Column, el, m, given)
			onlyLive(t, what, near[i].Results, rows, min(k, len(rows)))
		}
	}
	return recorded
}

// liveOf returns the rows that can be in the index, the last written one of each key, in the order of their keys.
func liveOf(seen []testkit.Row, column string, m kernel.Metric, el kernel.Element) []testkit.Row {
	byKey := map[string]testkit.Row{}
	for _, r := range seen {
		if old, twice := byKey[r.Key]; !twice || r.CommitTime != nil && *r.CommitTime > *old.CommitTime {
			byKey[r.Key] = r
		}
	}
	var out []testkit.Row
	for _, r := range byKey {
		raw := r.Vector(column)
		if ok, _ := kernel.Narrow(make([]float32, len(raw)/el.Width()), raw, el, m); ok {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b testkit.Row) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// naively computes the distances again, by the definition.
func naively(t *testing.T, what string, results []search.Result, rows []testkit.Row, column string, el kernel.Element, m kernel.Metric, q []float64) {
	t.Helper()
	for _, r := range results {
		i, _ := slices.BinarySearchFunc(rows, r.Key, func(x testkit.Row, key string) int { return cmp.Compare(x.Key, key) })
		var dot, vv, qq, l2 float64
		for j, x := range floats(t, rows[i].Vector(column), el) {
			dot, vv, qq, l2 = dot+x*q[j], vv+x*x, qq+q[j]*q[j], l2+(x-q[j])*(x-q[j])
		}
		want, size := l2, vv+qq
		switch m {
		case kernel.Dot:
			want = -dot
		case kernel.Cosine:
			want, size = 1-dot/math.Sqrt(vv*qq), 1
		}
		if math.Abs(r.Distance-want) > 1e-13*size {
			t.Errorf("%s: %s has distance %v, by its definition %v", what, r.Key, r.Distance, want)
		}
	}
}

// onlyLive says what is wrong with the rows of an approximate answer: each is a row of the table, once, and there are as many as there can be.
func onlyLive(t *testing.T, what string, results []search.Result, rows []testkit.Row, n int) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range results {
		i, ok := slices.BinarySearchFunc(rows, r.Key, func(x testkit.Row, key string) int { return cmp.Compare(x.Key, key) })
		if !ok || rows[i].Partition != r.Partition || seen[r.Key] {
			t.Errorf("%s: the approximate answer has %s of %q, which is no row, or twice", what, r.Key, r.Partition)
		}
		seen[r.Key] = true
	}
	if len(results) != n {
		t.Errorf("%s: the approximate answer has %d rows, want %d", what, len(results), n)
	}
}
