package search

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

const (
	benchRows     = 100_000
	benchDim      = 128
	benchClusters = 256
	benchProbes   = 16
	benchQueries  = 100
)

// large is a table of 100,000 × 128 and its index: postings as the index stores them, rows in memory.
type large struct {
	g       *generation.Generation
	schema  *avrox.Schema
	rand    *rand.Rand
	vectors [][]float32
	queries [][]float32
	records map[int]map[string][]byte // by cluster and key
	at      []int32                   // cluster of each row
	codes   []rabitq.Code             // of each row
	router  *kernel.Router
	kept    []*cluster
	project []float32
	centres []float32
}

const latent = 32

// vector draws one of 1000 clumps in 32 dimensions, projected to 128, with a little noise.
func (l *large) vector() []float32 {
	centre := l.rand.IntN(1000)
	z := make([]float32, latent)
	for i := range z {
		z[i] = l.centres[centre*latent+i] + 0.8*float32(l.rand.NormFloat64())
	}
	v := make([]float32, benchDim)
	for j := range v {
		for i, x := range z {
			v[j] += x * l.project[j*latent+i]
		}
		v[j] += 0.05 * float32(l.rand.NormFloat64())
	}
	return v
}

func newLarge(b *testing.B, clusters int) *large {
	b.Helper()
	l := &large{rand: rand.New(rand.NewPCG(11, 12)), records: map[int]map[string][]byte{}, kept: make([]*cluster, clusters)}
	l.centres, l.project = make([]float32, 1000*latent), make([]float32, benchDim*latent)
	for _, s := range [][]float32{l.centres, l.project} {
		for i := range s {
			s[i] = float32(l.rand.NormFloat64())
		}
	}
	flat := make([]float32, 0, benchRows*benchDim)
	for range benchRows {
		v := l.vector()
		flat = append(flat, v...)
		l.vectors = append(l.vectors, v)
	}
	for range benchQueries {
		l.queries = append(l.queries, l.vector())
	}
	centroids, k, err := ivf.Train(b.Context(), flat, benchRows, benchDim, ivf.TrainConfig{K: clusters, MaxIter: 5, Metric: kernel.L2}, nil)
	if err != nil || k != clusters {
		b.Fatal(k, err)
	}
	rot := rabitq.NewRotation(benchDim, 42)
	l.g = &generation.Generation{Number: 1, Manifest: &delta.Manifest{}, Options: generation.Default(), Metric: kernel.L2, Bits: 4, Dim: benchDim, K: k,
		Centroids: centroids, Rotated: rot.ApplyAll(centroids), Rotation: rot, Encoder: rabitq.NewEncoder(rot, 4)}
	if l.schema, err = avrox.ParseSchema(delta.SchemaJSON); err != nil {
		b.Fatal(err)
	}
	l.router = kernel.NewRouter(kernel.L2, centroids, k, benchDim)
	l.at = make([]int32, benchRows)
	l.router.NearestAll(flat, l.at, nil)
	l.codes = l.g.Encoder.EncodeAll(flat, func(i int) []float32 { return l.rotated(l.at[i]) })
	l.build(b)
	return l
}

func (l *large) rotated(c int32) []float32 { return l.g.Rotated[int(c)*benchDim : (int(c)+1)*benchDim] }

func rowKey(i int) string { return fmt.Sprintf("row-%08d", i) }

// build packs all rows afresh into the clusters there are.
func (l *large) build(b *testing.B) {
	packed := make([][]delta.Posting, l.g.K)
	for i, c := range l.at {
		packed[c] = append(packed[c], delta.Posting{RecordKey: rowKey(i), Locator: delta.Locator{FileID: "f", BaseInstant: "1", Position: int64(i)}, Code: l.codes[i]})
	}
	for c, rows := range packed {
		kvs, err := delta.PackSegment(l.g.Shape(), 1, uint32(c), 0, delta.VectorsPerBlock(benchDim, 4, false), rows)
		if err != nil {
			b.Fatal(err)
		}
		l.records[c] = map[string][]byte{}
		for _, kv := range kvs {
			l.records[c][string(kv.Key)] = kv.Value
		}
	}
	clear(l.kept)
}

// put writes a posting as sync does and returns its bytes, without those that a file adds.
func (l *large) put(c int32, i int, r delta.Record) int {
	key, value := string(delta.PostingKey(1, uint32(c), 0, rowKey(i))), delta.EncodeRecord(nil, r)
	l.records[int(c)][key] = value
	return len(key) + len(value)
}

// posting is the delta of a row.
func (l *large) posting(i int, position int64) *delta.PostingDelta {
	return delta.NewPosting(rowKey(i), delta.Locator{FileID: "f", BaseInstant: "2", Position: position}, l.codes[i])
}

// update changes some rows as a commit to logs does: deltas and tombstones. It returns their bytes.
func (l *large) update(rows int) (written int) {
	for range rows {
		i := l.rand.IntN(benchRows)
		l.vectors[i] = l.vector()
		c, _ := l.router.Nearest(l.vectors[i])
		if old := l.at[i]; int(old) != c {
			written += l.put(old, i, &delta.Tombstone{DeleteInstant: "2", DeleteReason: delta.ReasonManual})
		}
		l.at[i], l.codes[i] = int32(c), l.g.Encoder.Encode(l.vectors[i], l.rotated(int32(c)))
		written += l.put(l.at[i], i, l.posting(i, -1))
	}
	clear(l.kept)
	return written
}

// refresh moves all rows, as a commit does that writes every base file anew.
func (l *large) refresh() (written int) {
	for i, c := range l.at {
		written += l.put(c, i, l.posting(i, int64(i)))
	}
	clear(l.kept)
	return written
}

func (l *large) ScanEntries(_ context.Context, prefix []byte, fn func(mdt.Entry) error) error {
	k, err := delta.ParseKey(append(slices.Clone(prefix), delta.PostingKey(1, 0, 0, "x")[len(prefix):]...))
	if err != nil {
		return err
	}
	all := l.records[int(k.Cluster)]
	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := fn(mdt.Entry{Key: []byte(key), Value: all[key], Schema: l.schema}); err != nil {
			return err
		}
	}
	return nil
}

func (l *large) locate(_ context.Context, keys []string) (map[string]table.Group, error) {
	out := make(map[string]table.Group, len(keys))
	for _, k := range keys {
		out[k] = table.Group{FileID: "f"}
	}
	return out, nil
}

func (l *large) fetch(_ context.Context, _ table.Group, wanted []candidate, fn func(table.Row) error) ([]string, error) {
	for _, c := range wanted {
		var i int
		if _, err := fmt.Sscanf(c.key, "row-%d", &i); err != nil {
			return nil, err
		}
		if err := fn(table.Row{Key: c.key, Vectors: [][]byte{storedRaw(l.vectors[i]...)}}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// engine is one with all clusters in memory.
func (l *large) engine(b *testing.B, k, refine int, rerank bool) *engine {
	b.Helper()
	for id := range l.kept {
		if l.kept[id] == nil {
			var err error
			if l.kept[id], err = readCluster(b.Context(), l, 1, l.g.Shape(), id); err != nil {
				b.Fatal(err)
			}
		}
	}
	g := *l.g
	g.Options.RefineFactor = refine
	return &engine{generation: &g, column: avrox.Vector{Column: "v", Dim: benchDim, Element: avrox.ElementFloat}, live: l, rows: l, k: k, nprobes: benchProbes,
		rerank: rerank, clusters: func(_ context.Context, id int) (*cluster, error) { return l.kept[id], nil }}
}

func (l *large) ask(b *testing.B, e *engine, i int) *ask {
	b.Helper()
	wide := make([]float64, benchDim)
	for j, x := range l.queries[i] {
		wide[j] = float64(x)
	}
	query, err := newQuery(kernel.L2, e.column, wide)
	if err != nil {
		b.Fatal(err)
	}
	rotated, err := rabitq.NewQuery(e.generation.Rotation, kernel.L2, false, l.queries[i])
	if err != nil {
		b.Fatal(err)
	}
	return &ask{query: query, rotated: rotated, answer: &Answer{}}
}

// truth returns the keys of the k nearest rows of each query.
func (l *large) truth(k int) []map[string]bool {
	out := make([]map[string]bool, len(l.queries))
	type near struct {
		d float64
		i int
	}
	for qi, q := range l.queries {
		best := make([]near, 0, len(l.vectors))
		for i, v := range l.vectors {
			best = append(best, near{kernel.Distance64(kernel.L2, v, q), i})
		}
		slices.SortFunc(best, func(a, b near) int { return cmp.Compare(a.d, b.d) })
		out[qi] = map[string]bool{}
		for _, n := range best[:k] {
			out[qi][rowKey(n.i)] = true
		}
	}
	return out
}

func share(found []string, of map[string]bool) float64 {
	n := 0
	for _, key := range found {
		if of[key] {
			n++
		}
	}
	return float64(n) / float64(len(of))
}

// recall asks several engines all queries, in turns, and returns the mean recall of their answers and the median time of one.
func (l *large) recall(b *testing.B, truth []map[string]bool, engines ...*engine) (recall []float64, p50 []time.Duration) {
	b.Helper()
	recall, p50 = make([]float64, len(engines)), make([]time.Duration, len(engines))
	took := make([][]time.Duration, len(engines))
	for round := range 5 {
		for i := range l.queries {
			for n, e := range engines {
				a := l.ask(b, e, i)
				began := time.Now()
				if err := e.run(b.Context(), []*ask{a}); err != nil {
					b.Fatal(err)
				}
				took[n] = append(took[n], time.Since(began))
				if round > 0 {
					continue
				}
				keys := make([]string, 0, e.k)
				for _, r := range a.answer.Results[:e.k] {
					keys = append(keys, r.Key)
				}
				recall[n] += share(keys, truth[i]) / float64(len(l.queries))
			}
		}
	}
	for n, all := range took {
		slices.Sort(all)
		p50[n] = all[len(all)/2]
	}
	return recall, p50
}

// BenchmarkQuery asks warm queries for 10 rows.
func BenchmarkQuery(b *testing.B) {
	l := newLarge(b, benchClusters)
	for _, mode := range []Mode{Approximate, ExactRerank} {
		e := l.engine(b, 10, 50, mode == ExactRerank)
		b.Run(string(mode), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := e.run(b.Context(), []*ask{l.ask(b, e, i%benchQueries)}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(mode)+"/batch of 100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				asks := make([]*ask, benchQueries)
				for i := range asks {
					asks[i] = l.ask(b, e, i)
				}
				if err := e.run(b.Context(), asks); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// endable is how many postings no order of scoring could have kept from being ended: those beyond the bound that the heap has in the end.
func (l *large) endable(b *testing.B, e *engine, i, limit, probes int) (n int) {
	a := l.ask(b, e, i)
	a.limit, a.probes, a.best = limit, probes, newBest(limit)
	a.order = e.generation.Probes(a.query.index, probes)
	ids, probed := scanOrder([]*ask{a})
	if err := e.scan(b.Context(), []*ask{a}, ids, probed); err != nil {
		b.Fatal(err)
	}
	most := a.best.most()
	for _, id := range ids {
		q := a.rotated.Cluster(l.rotated(int32(id)))
		for _, block := range l.kept[id].blocks {
			for row := range block.factors.Len() {
				f := block.factors.At(row)
				if _, optimistic := q.Pass1(block.signRow(row), &f); optimistic > most {
					n++
				}
			}
		}
		q.Release()
	}
	return n
}

// BenchmarkPruning: which share of postings pass 1 ends, the most that any order could end, and what that costs in recall: against ranking every posting by its whole estimate,
// in points of a hundred.
func BenchmarkPruning(b *testing.B) {
	for _, clusters := range []int{benchClusters, 4 * benchClusters} {
		l := newLarge(b, clusters)
		for _, probes := range []int{benchProbes, 4 * benchProbes} {
			l.pruning(b, probes)
		}
	}
}

func (l *large) pruning(b *testing.B, probes int) {
	truth := l.truth(10)
	for _, heap := range []int{10, 500} {
		b.Run(fmt.Sprintf("%d of %d clusters/heap of %d", probes, l.g.K, heap), func(b *testing.B) {
			var pruned, scanned, most int
			var lost float64
			for b.Loop() {
				pruned, scanned, most, lost = 0, 0, 0, 0
				for i := range l.queries {
					top := func(limit int) ([]string, *Answer) {
						e := l.engine(b, heap, 1, false)
						a := l.ask(b, e, i)
						a.limit, a.probes = limit, probes
						if err := e.collect(b.Context(), []*ask{a}); err != nil {
							b.Fatal(err)
						}
						var keys []string
						for _, c := range a.found[:min(heap, len(a.found))] {
							keys = append(keys, c.key)
						}
						return keys, a.answer
					}
					with, answer := top(heap)
					without, all := top(benchRows)
					if all.Stats.Pruned != 0 {
						b.Fatal("pruned")
					}
					pruned += answer.Stats.Pruned
					most += l.endable(b, l.engine(b, heap, 1, false), i, heap, probes)
					scanned += answer.Stats.Scanned
					lost += 100 * (share(without, truth[i]) - share(with, truth[i])) / benchQueries
				}
			}
			b.ReportMetric(100*float64(pruned)/float64(scanned), "pruned-%")
			b.ReportMetric(100*float64(most)/float64(scanned), "most-%")
			b.ReportMetric(lost, "recall-lost-points")
			b.ReportMetric(float64(scanned)/benchQueries, "postings/query")
		})
	}
}

// cpu is the processor time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBatch asks the same 64 queries one by one and as one batch, in turns, and compares the processor time.
func BenchmarkBatch(b *testing.B) {
	const batch = 64
	l := newLarge(b, benchClusters)
	for _, mode := range []Mode{Approximate, ExactRerank} {
		e := l.engine(b, 10, 50, mode == ExactRerank)
		b.Run(string(mode), func(b *testing.B) {
			var single, together time.Duration
			for b.Loop() {
				began := cpu(b)
				for i := range batch {
					if err := e.run(b.Context(), []*ask{l.ask(b, e, i)}); err != nil {
						b.Fatal(err)
					}
				}
				between := cpu(b)
				asks := make([]*ask, batch)
				for i := range asks {
					asks[i] = l.ask(b, e, i)
				}
				if err := e.run(b.Context(), asks); err != nil {
					b.Fatal(err)
				}
				single, together = single+between-began, together+cpu(b)-between
			}
			queries := float64(batch * b.N)
			b.ReportMetric(queries/single.Seconds(), "single/cpu-s")
			b.ReportMetric(queries/together.Seconds(), "batch/cpu-s")
			b.ReportMetric(single.Seconds()/together.Seconds(), "batch-gain")
		})
	}
}

// BenchmarkUpkeep: 20 commits of 1 % each, never folded, against an index of the same rows built afresh on the same centroids. As logs:
// the rows that changed are deltas. As rewritten files, the worst case: each commit moves every row. Rows come from memory on both sides.
func BenchmarkUpkeep(b *testing.B) {
	l := newLarge(b, benchClusters)
	for _, how := range []string{"logs", "files"} {
		written, changed := 0, 0
		for range 20 {
			n := l.update(benchRows / 100)
			changed, written = changed+n, written+n
			if how == "files" {
				written += l.refresh()
			}
		}
		truth := l.truth(10)
		kept := l.records
		for _, mode := range []Mode{Approximate, ExactRerank} {
			old := l.engine(b, 10, 50, mode == ExactRerank)
			clusters := slices.Clone(l.kept)
			old.clusters = func(_ context.Context, id int) (*cluster, error) { return clusters[id], nil }
			l.records = map[int]map[string][]byte{}
			l.build(b)
			fresh := l.engine(b, 10, 50, mode == ExactRerank)
			b.Run(how+"/"+string(mode), func(b *testing.B) {
				var recall []float64
				var p50 []time.Duration
				for b.Loop() {
					recall, p50 = l.recall(b, truth, old, fresh)
				}
				b.ReportMetric(float64(p50[0])/float64(p50[1]), "p50/fresh")
				b.ReportMetric(100*(recall[1]-recall[0]), "recall-lost-points")
				b.ReportMetric(100*recall[1], "recall-fresh-%")
				b.ReportMetric(float64(written)/float64(changed), "written/changed")
			})
			l.records = kept
			clear(l.kept)
		}
		if how == "logs" { // the second begins from blocks, too
			l.records = map[int]map[string][]byte{}
			l.build(b)
		}
	}
}
