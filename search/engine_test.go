package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// world is a table and its index in memory: what the engine reads, without files.
type world struct {
	g      *generation.Generation
	schema *avrox.Schema
	kvs    []delta.KV
	rows   map[string]table.Row   // what the table holds
	where  map[string]table.Group // the record index
	asked  int                    // keys looked up
}

const dim = 16

// newWorld packs n rows into k clusters of blocks; rows are named k0000, k0001, …, in two partitions of one file group.
func newWorld(t testing.TB, n, k int, m kernel.Metric) *world {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	vectors := make([]float32, n*dim)
	for i := range vectors {
		vectors[i] = float32(r.NormFloat64()) + float32(i/dim%7)
	}
	centroids, k, err := ivf.Train(t.Context(), vectors, n, dim, ivf.TrainConfig{K: k, MaxIter: 5, Metric: m}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rot := rabitq.NewRotation(dim, 42)
	w := &world{rows: map[string]table.Row{}, where: map[string]table.Group{}}
	w.g = &generation.Generation{Number: 1, Manifest: &delta.Manifest{}, Options: generation.Default(), Metric: m, Bits: 4,
		Dim: dim, K: k, Centroids: centroids, Rotated: rot.ApplyAll(centroids), Rotation: rot, Encoder: rabitq.NewEncoder(rot, 4)}
	if w.schema, err = avrox.ParseSchema(delta.SchemaJSON); err != nil {
		t.Fatal(err)
	}
	packed := make([][]delta.Posting, k)
	for i := range n {
		v := vectors[i*dim : (i+1)*dim]
		c, _ := kernel.Nearest(m, centroids, k, dim, v)
		at := delta.Locator{Partition: fmt.Sprintf("p%d", i%2), FileID: "f", BaseInstant: "1", Position: int64(i)}
		key := fmt.Sprintf("k%04d", i)
		packed[c] = append(packed[c], delta.Posting{RecordKey: key, Locator: at, Code: w.g.Encode(v, c)})
		w.put(key, at.Partition, v)
	}
	for c, rows := range packed {
		kvs, err := delta.PackSegment(w.g.Shape(), 1, uint32(c), 0, 100, rows)
		if err != nil {
			t.Fatal(err)
		}
		w.kvs = append(w.kvs, kvs...)
	}
	return w
}

func (w *world) key(i int) string { return fmt.Sprintf("k%04d", i) }

// put sets the table's row and the record index, not the postings.
func (w *world) put(key, partition string, v []float32) {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	w.rows[key] = table.Row{Key: key, Partition: partition, Vectors: [][]byte{raw}}
	w.where[key] = table.Group{Partition: partition, FileID: "f"}
}

func (w *world) vector(key string) []float32 {
	v := make([]float32, dim)
	kernel.ToFloat32(v, w.rows[key].Vectors[0], kernel.Float)
	return v
}

// record sets the record of a posting key.
func (w *world) record(key []byte, r delta.Record) {
	w.kvs = slices.DeleteFunc(w.kvs, func(kv delta.KV) bool { return bytes.Equal(kv.Key, key) })
	w.kvs = append(w.kvs, delta.KV{Key: key, Value: delta.EncodeRecord(nil, r)})
	slices.SortFunc(w.kvs, func(a, b delta.KV) int { return bytes.Compare(a.Key, b.Key) })
}

func (w *world) cluster(v []float32) int {
	c, _ := kernel.Nearest(w.g.Metric, w.g.Centroids, w.g.K, dim, v)
	return c
}

// update changes a row's vector the way sync does: a delta in the new cluster, a tombstone in an old other one.
func (w *world) update(key string, v []float32) {
	before, after := w.cluster(w.vector(key)), w.cluster(v)
	if before != after {
		w.record(delta.PostingKey(1, uint32(before), 0, key), &delta.Tombstone{DeleteInstant: "2", DeleteReason: delta.ReasonManual})
	}
	partition := w.rows[key].Partition
	w.put(key, partition, v)
	at := delta.Locator{Partition: partition, FileID: "f", BaseInstant: "1", Position: -1}
	w.record(delta.PostingKey(1, uint32(after), 0, key), delta.NewPosting(key, at, w.g.Encode(v, after)))
}

func (w *world) ScanEntries(_ context.Context, prefix []byte, fn func(mdt.Entry) error) error {
	for _, kv := range w.kvs {
		if !bytes.HasPrefix(kv.Key, prefix) {
			continue
		}
		// The slices of an entry are valid during the call only.
		e := mdt.Entry{Key: bytes.Clone(kv.Key), Value: bytes.Clone(kv.Value), Schema: w.schema}
		err := fn(e)
		clear(e.Key)
		clear(e.Value)
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) locate(_ context.Context, keys []string) (map[string]table.Group, error) {
	w.asked += len(keys)
	out := map[string]table.Group{}
	for _, k := range keys {
		if g, ok := w.where[k]; ok {
			out[k] = g
		}
	}
	return out, nil
}

func (w *world) fetch(_ context.Context, g table.Group, wanted []candidate, fn func(table.Row) error) ([]string, error) {
	for _, c := range wanted {
		if row, ok := w.rows[c.key]; ok && row.Partition == g.Partition {
			if err := fn(row); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// one is an engine with one query.
type one struct {
	*engine
	ask *ask
}

func (w *world) ask(t testing.TB, q []float32) *ask {
	t.Helper()
	wide := make([]float64, len(q))
	for i, x := range q {
		wide[i] = float64(x)
	}
	query, err := newQuery(w.g.Metric, column, wide)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := rabitq.NewQuery(w.g.Rotation, w.g.Metric, false, q)
	if err != nil {
		t.Fatal(err)
	}
	return &ask{query: query, rotated: rotated, answer: &Answer{}}
}

var column = avrox.Vector{Column: "v", Dim: dim, Element: avrox.ElementFloat}

func (w *world) engine(t testing.TB, q []float32, k, nprobes int) *one {
	t.Helper()
	return &one{engine: &engine{generation: w.g, column: column, live: w, rows: w, k: k, nprobes: nprobes, rerank: true,
		clusters: func(ctx context.Context, id int) (*cluster, error) {
			return readCluster(ctx, w, w.g.Number, w.g.Shape(), id)
		}}, ask: w.ask(t, q)}
}

func (e *one) run(ctx context.Context) error { return e.engine.run(ctx, []*ask{e.ask}) }

func (e *one) must(t testing.TB) *Answer {
	t.Helper()
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.ask.answer.Results = e.ask.answer.Results[:min(e.k, len(e.ask.answer.Results))]
	return e.ask.answer
}

func (w *world) distance(key string, q []float32) float64 {
	d := kernel.Distance64(w.g.Metric, w.vector(key), q)
	if w.g.Metric == kernel.Cosine {
		d = max(0, d)
	}
	return d
}

// brute is the oracle: every row of the table, sorted.
func (w *world) brute(q []float32, k int, partition string) []Result {
	var out []Result
	for key, row := range w.rows {
		if partition == "" || row.Partition == partition {
			out = append(out, Result{Key: key, Partition: row.Partition, Distance: w.distance(key, q)})
		}
	}
	slices.SortFunc(out, func(a, b Result) int { return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Key, b.Key)) })
	return out[:min(k, len(out))]
}

func same(t testing.TB, got, want []Result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Key != want[i].Key || got[i].Partition != want[i].Partition || got[i].Distance != want[i].Distance {
			t.Errorf("row %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestAllClustersEqualBruteForce(t *testing.T) {
	t.Parallel()
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		w := newWorld(t, 900, 12, m)
		for i := range 20 {
			q := w.vector(fmt.Sprintf("k%04d", 40*i))
			a := w.engine(t, q, 10, w.g.K).must(t)
			same(t, a.Results, w.brute(q, 10, ""))
			if !a.Complete || a.Stats.Rounds != 1 || a.Stats.Pruned == 0 && m == kernel.L2 {
				t.Errorf("%s: got complete %v, %+v", m, a.Complete, a.Stats)
			}
		}
	}
}

func TestDeltasSupersedeBlocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 400, 8, kernel.L2)
	q := w.vector("k0001")
	far := make([]float32, dim)
	for i := range far {
		far[i] = 50
	}
	w.update("k0001", far)                  // was the nearest, leaves its cluster
	w.update("k0300", q)                    // becomes the nearest
	near := slices.Clone(w.vector("k0010")) // changes inside its cluster
	near[0] += 0.001
	w.update("k0010", near)
	a := w.engine(t, q, 400, 8).must(t)
	same(t, a.Results, w.brute(q, 400, ""))
	if a.Stats.Dead+a.Stats.Unresolved != 0 {
		t.Errorf("got %+v", a.Stats)
	}
	w.record(delta.PostingKey(1, uint32(w.cluster(q)), 0, "k0300"), &delta.Tombstone{DeleteInstant: "3"})
	delete(w.rows, "k0300")
	same(t, w.engine(t, q, 400, 8).must(t).Results, w.brute(q, 400, ""))
}

func TestDeadRowsAreRefilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3000, 4, kernel.L2)
	q := w.vector("k0007")
	for _, r := range w.brute(q, 1200, "") { // more than two rounds of 500 candidates
		delete(w.rows, r.Key)
		delete(w.where, r.Key)
	}
	a := w.engine(t, q, 10, 4).must(t)
	same(t, a.Results, w.brute(q, 10, ""))
	if a.Stats.Rounds < 3 || a.Stats.Dead < 1200 || !a.Complete {
		t.Errorf("got complete %v, %+v", a.Complete, a.Stats)
	}
	if a.Stats.Candidates != w.asked {
		t.Errorf("looked up %d keys for %d candidates: some twice", w.asked, a.Stats.Candidates)
	}
	if share := a.Stats.StaleCrowding(); share < 0.5 || share > 1 {
		t.Errorf("stale crowding %v", share)
	}
}

func TestFewerRowsThanAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 300, 16, kernel.L2)
	q := w.vector("k0007")
	for key := range w.rows {
		if key > "k0020" {
			delete(w.rows, key)
			delete(w.where, key)
		}
	}
	a := w.engine(t, q, 50, 1).must(t) // one probe is not enough: the engine goes on to all clusters
	same(t, a.Results, w.brute(q, 50, ""))
	if !a.Complete || a.Stats.Clusters != 16 || len(a.Results) != 21 {
		t.Errorf("got %d rows, complete %v, %+v", len(a.Results), a.Complete, a.Stats)
	}
}

func TestBoundOfCandidates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2000, 3, kernel.L2)
	for i := 1; i <= 7; i++ { // 16000 postings, all dead
		for _, kv := range slices.Clone(w.kvs[:len(w.kvs)/i]) {
			k, err := delta.ParseKey(kv.Key)
			if err != nil {
				t.Fatal(err)
			}
			r, err := delta.Decode(w.schema, bytes.Clone(kv.Value))
			if err != nil {
				t.Fatal(err)
			}
			b := r.(*delta.PostingBlock)
			b.RecordKeyBytes = slices.Clone(b.RecordKeyBytes)
			for j := 0; j < len(b.RecordKeyBytes); j += 5 { // every key has five bytes
				b.RecordKeyBytes[j] = byte('a' + i)
			}
			w.kvs = append(w.kvs, delta.KV{Key: delta.BlockKey(1, k.Cluster, 0, k.Block+uint32(1000*i)), Value: delta.EncodeRecord(nil, b)})
		}
	}
	clear(w.where)
	slices.SortFunc(w.kvs, func(a, b delta.KV) int { return bytes.Compare(a.Key, b.Key) })
	a := w.engine(t, w.vector("k0001"), 10, 3).must(t)
	if a.Complete || len(a.Results) != 0 || a.Stats.Candidates != maxRerank || a.Reason == "" {
		t.Errorf("got complete %v, %q, %+v", a.Complete, a.Reason, a.Stats)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 600, 8, kernel.Cosine)
	q := w.vector("k0001")
	e := w.engine(t, q, 10, 8)
	e.partitions = map[string]bool{"p0": true}
	same(t, e.must(t).Results, w.brute(q, 10, "p0"))

	// A row that has left the partition since its posting was written is not in the answer.
	first := w.brute(q, 1, "p0")[0].Key
	w.put(first, "p1", w.vector(first))
	e = w.engine(t, q, 10, 8)
	e.partitions = map[string]bool{"p0": true}
	a := e.must(t)
	same(t, a.Results, w.brute(q, 10, "p0"))
	if a.Stats.Moved != 1 {
		t.Errorf("got %+v", a.Stats)
	}
	// Without the filter it is found where it is now.
	same(t, w.engine(t, q, 10, 8).must(t).Results, w.brute(q, 10, ""))
}

func TestUnresolvedRowsAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, 2, kernel.L2)
	q := w.vector("k0001")
	delete(w.rows, "k0001") // the record index still names it
	a := w.engine(t, q, 60, 2).must(t)
	same(t, a.Results, w.brute(q, 60, ""))
	if a.Complete || a.Stats.Unresolved != 1 || a.Reason == "" {
		t.Errorf("got complete %v, %q, %+v", a.Complete, a.Reason, a.Stats)
	}
}

func TestApproximate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 900, 8, kernel.L2)
	q := w.vector("k0003")
	dead := w.brute(q, 2, "")[1].Key
	delete(w.where, dead)
	e := w.engine(t, q, 10, 8)
	e.rerank, e.rows = false, nil
	a := e.must(t)
	if len(a.Results) != 10 || !a.Complete || a.Results[0].Key != "k0003" {
		t.Fatalf("got %v", a.Results)
	}
	for _, r := range a.Results {
		exact := kernel.Distance64(kernel.L2, w.vector(r.Key), q)
		if r.Key == dead || math.Abs(r.Distance-exact) > 0.2*exact+0.5 {
			t.Errorf("%s: estimate %v, exact %v", r.Key, r.Distance, exact)
		}
	}
}

func TestCorruptPostings(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]delta.Record{
		"short code":       &delta.PostingDelta{RecordKey: "x", BinaryCode: []byte{1}},
		"wrong record":     &delta.SourceInstantMarker{DataInstant: "1"},
		"block of nothing": &delta.PostingBlock{BlockFormatVersion: 1, NumVectors: 5},
	} {
		w := newWorld(t, 50, 1, kernel.L2)
		key := delta.PostingKey(1, 0, 0, "x")
		if name == "block of nothing" {
			key = delta.BlockKey(1, 0, 0, 77)
		}
		w.record(key, record)
		err := w.engine(t, w.vector("k0001"), 5, 1).run(t.Context())
		if broken := new(*indexError); !errors.Is(err, storage.ErrCorrupt) || !errors.As(err, broken) || (*broken).records {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestQueryVectors(t *testing.T) {
	t.Parallel()
	column := avrox.Vector{Column: "v", Dim: 2, Element: avrox.ElementFloat}
	for _, c := range []struct {
		name string
		m    kernel.Metric
		v    []float64
		ok   bool
	}{
		{"plain", kernel.Cosine, []float64{1, 2}, true},
		{"short", kernel.L2, []float64{1}, false},
		{"empty", kernel.L2, nil, false},
		{"NaN", kernel.L2, []float64{1, math.NaN()}, false},
		{"infinite after narrowing", kernel.L2, []float64{1, 1e300}, false},
		{"zero for cosine", kernel.Cosine, []float64{0, 0}, false},
		{"zero after narrowing", kernel.Cosine, []float64{0, 1e-300}, false},
		{"zero for dot", kernel.Dot, []float64{0, 0}, true},
		{"short for cosine", kernel.Cosine, []float64{0, 1e-9}, true},
		{"zero for L2", kernel.L2, []float64{0, 0}, true},
	} {
		_, err := newQuery(c.m, column, c.v)
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, ErrUsage) || storage.Hint(err) == "") {
			t.Errorf("%s: got %v, hint %q", c.name, err, storage.Hint(err))
		}
	}
}
