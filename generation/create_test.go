package generation_test

import (
	"bytes"
	"context"
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
	"tidemark/internal/vector/rabitq"
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

var tables sync.Map // fixture name → *mem.Store

// fixture returns a private copy of a fixture table in memory.
func fixture(t testing.TB, name string) *mem.Store {
	t.Helper()
	if st, ok := tables.Load(name); ok {
		return st.(*mem.Store).Clone()
	}
	st, err := mem.FromDir(name, testkit.Table(t, name))
	if err != nil {
		t.Fatal(err)
	}
	st.SetClock(later)
	tables.Store(name, st)
	return st.Clone()
}

// later is a clock at which every fixture is old: ids are then not rationed by the age of its newest file.
func later() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func newCommitter(t testing.TB, st storage.Store) committer {
	t.Helper()
	s, err := sink.Open(t.Context(), mdt.Inside(st), sink.Config{
		Schema: delta.SchemaJSON, Create: true, Now: later, Owner: "test", Renew: time.Hour, Host: "host", PID: 1,
		Alive: func(int) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return committer{s}
}

func openTable(t testing.TB, st storage.Store) *table.Table {
	t.Helper()
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func options(t testing.TB, kv ...string) generation.Options {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	o, err := generation.ParseOptions(m)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func create(t testing.TB, st storage.Store, req generation.CreateRequest) (*generation.Result, error) {
	t.Helper()
	return generation.Create(t.Context(), openTable(t, st), newCommitter(t, st), req)
}

func mustCreate(t testing.TB, st storage.Store, req generation.CreateRequest) *generation.Result {
	t.Helper()
	r, err := create(t, st, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// loaded opens the index as any reader would.
func loaded(t testing.TB, st storage.Store, name string) (*generation.Generation, *mdt.View) {
	t.Helper()
	place := mdt.Inside(st)
	state, _, err := mdt.ReadState(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	view, err := mdt.OpenView(t.Context(), place, state, name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := generation.Load(t.Context(), view, state.Indexes[name])
	if err != nil {
		t.Fatal(err)
	}
	return g, view
}

// wants returns what the index must hold by the oracle: the live, indexable rows of a step.
func wants(step testkit.Step, g *generation.Generation) map[string][]float32 {
	out := map[string][]float32{}
	for _, r := range step.Rows {
		v := make([]float32, g.Dim)
		if ok, _ := kernel.Narrow(v, r.Vector(g.Vector.Column), g.Vector.Element.Kernel(), g.Metric); ok {
			out[r.Key] = v
		}
	}
	return out
}

// posted is one posting as a scan sees it.
type posted struct {
	cluster int
	code    []byte // as in a delta
	delta   bool
	at      delta.Locator
}

// scan returns every live posting of a view: blocks, then deltas over them.
func scan(t testing.TB, g *generation.Generation, view *mdt.View) map[string]posted {
	t.Helper()
	out := map[string]posted{}
	err := view.ScanEntries(t.Context(), delta.PostingsPrefix(g.Number), func(e mdt.Entry) error {
		k, err := delta.ParseKey(e.Key)
		if err != nil {
			return err
		}
		rec, err := delta.Decode(e.Schema, e.Value)
		if err != nil {
			return err
		}
		add := func(key string, p posted) {
			if _, twice := out[key]; twice {
				t.Errorf("%s has two postings", key)
			}
			if s := delta.SegmentOf(key, g.Segments[p.cluster]); s != int(k.Segment) {
				t.Errorf("%s is in segment %d, want %d", key, k.Segment, s)
			}
			out[key] = p
		}
		switch r := rec.(type) {
		case *delta.PostingBlock:
			v, err := delta.NewBlockView(r, g.Shape())
			if err != nil {
				return err
			}
			for i := range v.Len() {
				p := v.Posting(i)
				add(p.RecordKey, posted{cluster: int(k.Cluster), code: rabitq.DeltaBinary(nil, p.Code), at: p.Locator})
			}
		case *delta.PostingDelta:
			add(r.RecordKey, posted{cluster: int(k.Cluster), code: r.BinaryCode, delta: true, at: r.Locator()})
		default:
			t.Errorf("posting key %x holds %T", e.Key, rec)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// check compares an index with the oracle: exactly one posting for every live indexable key, in the nearest cluster, with
// the code that the encoder makes, in the row's file group.
func check(t testing.TB, st storage.Store, name string, step testkit.Step) *generation.Generation {
	t.Helper()
	g, view := loaded(t, st, name)
	want := wants(step, g)
	got := scan(t, g, view)
	for key, v := range want {
		p, ok := got[key]
		if !ok {
			t.Errorf("%q has no posting", key)
			continue
		}
		if c := g.Cluster(v); p.cluster != c {
			t.Errorf("%q is in cluster %d, nearest is %d", key, p.cluster, c)
		}
		if code := rabitq.DeltaBinary(nil, g.Encode(v, p.cluster)); !bytes.Equal(p.code, code) {
			t.Errorf("%q has another code", key)
		}
		if p.delta != (p.at.Position == delta.LogPosition) {
			t.Errorf("%q: delta %t at position %d", key, p.delta, p.at.Position)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%q has a posting and is no live indexable row", key)
		}
	}
	for _, r := range step.Rows {
		if p, ok := got[r.Key]; ok && (p.at.Partition != r.Partition || r.FileID != nil && p.at.FileID != *r.FileID) {
			t.Errorf("%q is located in %s/%s, lies in %s/%s", r.Key, p.at.Partition, p.at.FileID, r.Partition, *r.FileID)
		}
	}
	live := int64(0)
	for _, c := range g.Counters {
		live += c.Live
	}
	if int(live) != len(want) {
		t.Errorf("counters say %d live rows, there are %d", live, len(want))
	}
	return g
}

func TestCreateOnFixtures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, column string }{
		{"cow_basic", "embedding"}, {"mor_basic", "embedding"}, {"unindexable", "embedding"}, {"v8", "embedding"},
		{"elements", "e32"}, {"elements", "e64"}, {"elements", "i8"}, {"elements_mor", "e64"}, {"elements_mor", "i8"},
		{"two_vectors", "a"}, {"two_vectors", "b"}, {"two_vectors", "c"}, {"evolved", "embedding"}, {"virtual_keys", "embedding"},
		{"mor_compaction_clean", "embedding"}, {"pending", "embedding"}, {"partition_move", "embedding"}, {"rollback_restore", "embedding"},
		{"nbcc_event_time", "embedding"}, {"keys_complex", "embedding"}, {"parquet_logs", "embedding"}, {"archived", "embedding"},
	} {
		t.Run(c.table+"/"+c.column, func(t *testing.T) {
			t.Parallel()
			steps := testkit.Oracle(t, c.table)
			st := fixture(t, c.table)
			r := mustCreate(t, st, generation.CreateRequest{Column: c.column, Options: options(t, "vector.num_clusters", "5", "vector.query.nprobes", "2")})
			g := check(t, st, c.column+"_idx", steps[len(steps)-1])
			if int(r.Rows) != len(wants(steps[len(steps)-1], g)) || r.Clusters != g.K || r.Generation != 1 {
				t.Errorf("result %+v", r)
			}
			if n := len(steps[len(steps)-1].Rows); int64(n) != r.Rows+r.Unindexable.Count {
				t.Errorf("%d rows, %d indexed and %d not", n, r.Rows, r.Unindexable.Count)
			}
		})
	}
}

func TestCreateInAnyMetricAndWidth(t *testing.T) {
	t.Parallel()
	steps := testkit.Oracle(t, "elements_mor")
	for _, metric := range []string{"l2", "cosine", "dot_product"} {
		for _, column := range []string{"e32", "e64", "i8"} {
			bits := map[string]string{"l2": "1", "cosine": "5", "dot_product": "8"}[metric]
			t.Run(metric+"/"+bits+"/"+column, func(t *testing.T) {
				t.Parallel()
				st := fixture(t, "elements_mor")
				mustCreate(t, st, generation.CreateRequest{Column: column, Name: "x", Options: options(t,
					"vector.metric", metric, "vector.rabitq.bits", bits, "vector.num_clusters", "4", "vector.rabitq.seed", "-7", "tidemark.file_groups", "3")})
				g := check(t, st, "x", steps[len(steps)-1])
				if g.Groups != 3 || len(g.Segments) != g.K {
					t.Errorf("%d file groups", g.Groups)
				}
			})
		}
	}
}

// TestCreateDemoWords builds the demo table's index and times out the suite if it is slow.
func TestCreateDemoWords(t *testing.T) {
	t.Parallel()
	steps := testkit.Oracle(t, "demo_words")
	st := fixture(t, "demo_words")
	stages := map[string]bool{}
	r := mustCreate(t, st, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested, Options: options(t, "vector.num_clusters", "16"),
		Progress: func(stage string, done, total int64) {
			stages[stage] = true
			if done < 1 || done > total {
				t.Errorf("%s: %d of %d", stage, done, total)
			}
		}})
	check(t, st, "embedding_idx", steps[0])
	if r.Baseline.Requested != steps[0].Instants[0].Requested || r.Blocks == 0 || r.Frontier.Completed != r.Baseline.Completed {
		t.Errorf("result %+v", r)
	}
	for _, s := range []string{"read", "train", "assign", "encode", "write", "validate"} {
		if !stages[s] {
			t.Errorf("no progress of %s", s)
		}
	}
}

func openQuiet(t testing.TB, st storage.Store) (*table.Table, error) {
	t.Helper()
	return table.Open(t.Context(), st)
}
