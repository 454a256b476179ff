package search_test

import (
	"context"
	"fmt"
	"math"
	"slices"
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
		st, err := mem.FromDir(name, testkit.Table(t, name))
		if err != nil {
			t.Fatal(err)
		}
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

// live returns the oracle's rows of the last step that can be indexed.
func live(t testing.TB, name, column string) []testkit.Row {
	t.Helper()
	steps := testkit.Oracle(t, name)
	var out []testkit.Row
	for _, r := range steps[len(steps)-1].Rows {
		if r.Vector(column) != nil {
			out = append(out, r)
		}
	}
	return out
}

func floats(t testing.TB, raw []byte, el kernel.Element) []float64 {
	t.Helper()
	v := make([]float64, len(raw)/el.Width())
	if !kernel.ToFloat64(v, raw, el) {
		t.Fatal("bad vector")
	}
	return v
}

// nearest is the oracle's answer: keys by distance, then key, then partition, and the distances.
func nearest(t testing.TB, rows []testkit.Row, column string, m kernel.Metric, el kernel.Element, q []float64, k int) []search.Result {
	t.Helper()
	var out []search.Result
	for _, r := range rows {
		out = append(out, search.Result{Key: r.Key, Partition: r.Partition, Distance: kernel.Distance64(m, floats(t, r.Vector(column), el), q)})
	}
	slices.SortFunc(out, func(a, b search.Result) int {
		switch {
		case a.Distance != b.Distance && math.Abs(a.Distance-b.Distance) > 1e-12:
			if a.Distance < b.Distance {
				return -1
			}
			return 1
		case a.Key < b.Key:
			return -1
		}
		return 1
	})
	return out[:min(k, len(out))]
}

func TestDemoWordsRecall(t *testing.T) {
	t.Parallel()
	const k, queries = 10, 200
	st := indexed(t, "demo_words", "embedding", "", "vector.num_clusters", "64")
	rows := live(t, "demo_words", "embedding")
	hit, total := 0, 0
	for i := range queries {
		row := rows[i*len(rows)/queries]
		q := floats(t, row.Vector("embedding"), kernel.Float)
		a := mustSearch(t, st, search.Request{Vector: q, K: k + 1, Mode: search.ExactRerank, NProbes: 16})
		if a.Mode != search.ExactRerank || !a.Complete {
			t.Fatalf("got mode %s, complete %v: %s", a.Mode, a.Complete, a.Reason)
		}
		found := map[string]float64{}
		for _, r := range a.Results {
			found[r.Key] = r.Distance
		}
		for _, want := range nearest(t, rows, "embedding", kernel.Cosine, kernel.Float, q, k+1) {
			if want.Key == row.Key {
				continue
			}
			total++
			if d, ok := found[want.Key]; ok {
				hit++
				if math.Abs(d-want.Distance) > 1e-6*want.Distance {
					t.Errorf("%s from %s: distance %v, exact %v", want.Key, row.Key, d, want.Distance)
				}
			}
		}
	}
	if recall := float64(hit) / float64(total); recall < 0.95 {
		t.Errorf("recall %v", recall)
	} else {
		t.Logf("recall %v of %d", recall, total)
	}
}

