package indexer_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
)

// place is the place inside a private copy of a fixture table.
func place(t testing.TB, name string) mdt.Place { return mdt.Inside(store(t, name)) }

// indexable judges a row as the oracle recorded it, apart from the product's own readers.
func indexable(raw []byte, el kernel.Element, m kernel.Metric) bool {
	if raw == nil {
		return false
	}
	v := make([]float32, len(raw)/el.Width())
	if !kernel.ToFloat32(v, raw, el) {
		return false
	}
	zero := true
	for _, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return false
		}
		zero = zero && x == 0
	}
	return !zero || m != kernel.Cosine
}

// live returns the indexable vectors of a step by record key.
func live(s testkit.Step, column string, el kernel.Element, m kernel.Metric) map[string][]byte {
	out := map[string][]byte{}
	for _, r := range s.Rows {
		if v := r.Vector(column); indexable(v, el, m) {
			out[r.Key] = v
		}
	}
	return out
}

// wantCounts is what the rows before and after say about a step.
func wantCounts(before, after map[string][]byte) map[string]int64 {
	c := map[string]int64{"insert": 0, "vector_update": 0, "delete": 0}
	for k, v := range after {
		old, ok := before[k]
		switch {
		case !ok:
			c["insert"]++
		case !bytes.Equal(old, v):
			c["vector_update"]++
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			c["delete"]++
		}
	}
	return c
}

func verify(t *testing.T, p mdt.Place, want int, when string) {
	t.Helper()
	rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{})
	if err != nil {
		t.Fatalf("%s: verify: %v", when, err)
	}
	if !rep.OK || rep.WrongLocator != 0 || rep.ForeignFiles != 0 {
		t.Errorf("%s: verify: %+v", when, *rep)
	}
	if rep.Checked != int64(want) {
		t.Errorf("%s: verify checked %d keys, the rows have %d", when, rep.Checked, want)
	}
}

// Every step of a recorded table: the index is built at the earliest readable step, then follows one instant at
// a time; counts equal what the recorded rows imply, and the index equals the rows after every step.
func TestFollowOracle(t *testing.T) {
	t.Parallel()
	for n, tc := range []struct {
		table, column string
		element       kernel.Element
		options       map[string]string
	}{
		{"cow_basic", "embedding", kernel.Float, nil},
		{"mor_basic", "embedding", kernel.Float, map[string]string{"vector.metric": "l2"}},
		{"mor_compaction_clean", "embedding", kernel.Float, nil},
		{"demo_words", "embedding", kernel.Float, nil},
		{"v8", "embedding", kernel.Float, nil},
		{"local_zone", "embedding", kernel.Float, nil},
		{"elements", "e64", kernel.Double, map[string]string{"vector.rabitq.bits": "8"}},
		{"elements", "e32", kernel.Float, map[string]string{"vector.rabitq.bits": "2", "tidemark.levels": "wide"}},
		{"elements_mor", "i8", kernel.Int8, map[string]string{"vector.rabitq.bits": "1", "vector.metric": "dot_product"}},
		{"unindexable", "embedding", kernel.Float, nil},
		{"replace_ops", "embedding", kernel.Float, nil},
		{"cow_clustering", "embedding", kernel.Float, nil},
		{"mor_clustering", "embedding", kernel.Float, nil},
		{"merge_event_time", "embedding", kernel.Float, nil},
		{"merge_commit_time", "embedding", kernel.Float, nil},
		{"partition_move", "embedding", kernel.Float, nil},
		{"partition_move_cow", "embedding", kernel.Float, nil},
		{"partial_update", "embedding", kernel.Float, nil},
		{"log_compaction", "embedding", kernel.Float, nil},
		{"parquet_logs", "embedding", kernel.Float, nil},
		{"occ", "embedding", kernel.Float, nil},
		{"archived", "embedding", kernel.Float, nil},
		{"bucket", "embedding", kernel.Float, nil},
		{"keys_complex", "embedding", kernel.Float, nil},
		{"keys_timestamp", "embedding", kernel.Float, nil},
		{"two_vectors", "b", kernel.Float, nil},
		{"cdc_mor", "embedding", kernel.Float, nil},
		{"pending", "embedding", kernel.Float, nil},
		{"rollback_cow", "embedding", kernel.Float, nil},
		{"nbcc_commit_time", "embedding", kernel.Float, nil},
		{"nbcc_event_time", "embedding", kernel.Float, nil},
		{"nbcc_overlap_compaction", "embedding", kernel.Float, nil},
		{"sql_created", "embedding", kernel.Float, nil},
		{"keys_unicode", "embedding", kernel.Float, nil},
		{"virtual_keys", "embedding", kernel.Float, nil},
		{"cdc", "embedding", kernel.Float, nil},
		{"cow_pending_clustering", "embedding", kernel.Float, nil},
		{"merge_noop", "embedding", kernel.Float, nil},
		{"custom_delete", "embedding", kernel.Float, nil},
		{"marked_mor", "embedding", kernel.Float, nil},
		{"marked_cow", "embedding", kernel.Float, map[string]string{"vector.metric": "l2"}},
		{"ordering_two", "embedding", kernel.Float, nil},
		{"ordering_null", "embedding", kernel.Float, nil},
		{"partial_late_merge", "embedding", kernel.Float, nil},
		{"virtual_mor", "embedding", kernel.Float, nil},
		{"virtual_complex", "embedding", kernel.Float, map[string]string{"vector.num_clusters": "2"}},
		{"evolved_written", "embedding", kernel.Float, nil},
		{"evolved", "embedding", kernel.Float, nil},
		{"javaclient_mor", "embedding", kernel.Float, nil},
		{"mor_rli_rebuilt", "embedding", kernel.Float, nil},
		{"occ_inflight", "embedding", kernel.Float, nil},
		{"rollback_restore", "embedding", kernel.Float, nil},
	} {
		if testkit.Thinned(n, 8) {
			continue
		}
		t.Run(tc.table, func(t *testing.T) {
			t.Parallel()
			follow(t, tc.table, tc.column, tc.element, tc.options)
		})
	}
}

func follow(t *testing.T, name, column string, el kernel.Element, options map[string]string) {
	p := place(t, name)
	steps := testkit.Oracle(t, name)
	opts := map[string]string{"vector.num_clusters": "4"}
	for k, v := range options {
		opts[k] = v
	}
	o, err := generation.ParseOptions(opts)
	if err != nil {
		t.Fatal(err)
	}
	metric, err := kernel.ParseMetric(o.Map()["vector.metric"])
	if err != nil {
		t.Fatal(err)
	}
	steps, order := recorded(t, steps)
	first := earliest(t, p, steps)
	for len(live(steps[first], column, el, metric)) == 0 { // the column came later
		first++
	}
	n := 0 // of order, what the index incorporates
	for n < len(order) && order[n].step <= first {
		n++
	}
	create(t, p, generation.CreateRequest{Column: column, AsOf: order[n-1].requested}, opts)
	cow := !strings.Contains(properties(t, p), "hoodie.table.type=MERGE_ON_READ")
	before := steps[first]
	verify(t, p, len(live(before, column, el, metric)), "after create")
	for at := first + 1; at < len(steps); at++ {
		s := steps[at]
		when := fmt.Sprintf("step %d (%s)", s.Step, s.Op)
		due := order[n:]
		for len(due) > 0 && due[len(due)-1].step > at {
			due = due[:len(due)-1]
		}
		if slices.ContainsFunc(due, func(i instant) bool { return i.step > at }) {
			continue // later ones completed before: no index of ours is ever at these rows
		}
		n += len(due)
		got := map[string]int64{"insert": 0, "vector_update": 0, "delete": 0, "locator_refresh": 0, "unindexable": 0}
		done := map[string]bool{}
		for _, i := range due {
			if st := status(t, p); strings.Contains(st.Next, "tidemark reconcile") {
				t.Fatalf("%s: status asks for a reconcile: %+v", when, st)
			}
			r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 1})
			if err != nil {
				t.Fatalf("%s: sync: %v", when, err)
			}
			if r.Processed != 1 {
				t.Fatalf("%s: sync processed %d instants", when, r.Processed)
			}
			done[i.requested] = true
		}
		found := 0
		for _, m := range markersOf(t, p) {
			if !slices.ContainsFunc(order[:n], func(i instant) bool { return i.requested == m.Requested }) {
				t.Errorf("%s: a marker of %s, which the table does not have then", when, m.Requested)
			}
			if !done[m.Requested] {
				continue
			}
			found++
			if m.Mode != "full" {
				t.Errorf("%s: instant %s has mode %s", when, m.Requested, m.Mode)
			}
			for k := range got {
				got[k] += m.Counts[k]
			}
		}
		if found != len(done) {
			t.Fatalf("%s: %d of %d instants have markers", when, found, len(done))
		}
		want := wantCounts(live(before, column, el, metric), live(s, column, el, metric))
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %d of class %s, the rows say %d", when, got[k], k, v)
			}
		}
		if len(due) == 1 {
			rest(t, when, due[0], cow, got, before, s, func(r testkit.Row) bool { return indexable(r.Vector(column), el, metric) }, column)
		}
		verify(t, p, len(live(s, column, el, metric)), when)
		before = s
	}
	if n != len(order) {
		t.Errorf("followed %d of %d recorded instants", n, len(order))
	}
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err != nil || r.Processed != 0 {
		t.Fatalf("sync at the end: processed %d, %v", r.Processed, err)
	}
	st := status(t, p)
	if !st.Fresh || *st.LagInstants != 0 {
		t.Errorf("at the end: %+v", st)
	}
	searched(t, p, column, el, before)
}

// searched asks the index that followed the table: with all clusters probed it gives the rows that a scan of the table gives.
func searched(t *testing.T, p mdt.Place, column string, el kernel.Element, last testkit.Step) {
	t.Helper()
	r := search.NewReader(search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		v, err := coverage.Fresh(ctx, p, tab, st, index)
		return search.Freshness{Fresh: v.Fresh, Reason: v.Reason}, err
	}})
	var queries [][]float64
	for _, row := range last.Rows {
		raw := row.Vector(column)
		q := make([]float64, len(raw)/el.Width())
		if len(queries) < 5 && indexable(raw, el, kernel.Cosine) && kernel.ToFloat64(q, raw, el) {
			queries = append(queries, q)
		}
	}
	if len(queries) == 0 {
		return
	}
	for _, k := range []int{5, len(last.Rows) + 3} { // the latter makes it probe every cluster
		q := search.Request{K: k, Mode: search.BruteForce, Policy: search.Fail}
		want, err := r.Batch(t.Context(), q, queries)
		if err != nil {
			t.Fatal(err)
		}
		q.Mode, q.NProbes = search.ExactRerank, 1
		if k == 5 {
			q.NProbes = 0 // all of the few that these indexes have
		}
		got, err := r.Batch(t.Context(), q, queries)
		if err != nil {
			t.Fatal(err)
		}
		for i := range queries {
			if d := cmp.Diff(want[i].Results, got[i].Results); d != "" || !got[i].Complete || !got[i].Fresh {
				t.Errorf("search for %d rows (-scan +index), complete %v, %q:\n%s", k, got[i].Complete, got[i].Reason, d)
			}
		}
	}
}

func properties(t *testing.T, p mdt.Place) string {
	t.Helper()
	b, _, err := p.Store.ReadFile(t.Context(), ".hoodie/hoodie.properties")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(action string) bool {
	return strings.Contains("commit deltacommit replacecommit", action)
}

// earliest returns the first step from which on every snapshot of the table is readable.
func earliest(t *testing.T, p mdt.Place, steps []testkit.Step) int {
	t.Helper()
	tb, err := table.Open(t.Context(), p.Store)
	if err != nil {
		t.Fatal(err)
	}
	at, err := tb.EarliestReadable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done, ok := tb.Timeline.CompletionOf(at)
	if !ok {
		t.Fatalf("earliest readable instant %s is not completed", at)
	}
	for n, s := range steps {
		for _, i := range s.Instants {
			if write(i.Action) && i.Completion >= done {
				return n
			}
		}
	}
	t.Fatalf("no step at or after %s", at)
	return 0
}

func status(t *testing.T, p mdt.Place) coverage.IndexStatus {
	t.Helper()
	s, err := coverage.Status(t.Context(), coverage.Deps{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	return s[0]
}
