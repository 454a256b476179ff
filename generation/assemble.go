package generation

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// groupBytes is the size of posting records that one physical file group is meant for (design, decision 20).
const groupBytes = 128 << 20

// row is one indexable row of the snapshot. Its vector is row i of the corpus.
type row struct {
	key string
	at  delta.Locator
}

// corpus holds the indexable rows of the snapshot in a fixed order: slices by partition and file id, inside a slice
// by position, then the rows of its logs by key.
type corpus struct {
	dim     int
	rows    []row
	vectors []float32 // len(rows) × dim, row-major
}

func (c *corpus) vector(i int) []float32 { return c.vectors[i*c.dim : (i+1)*c.dim] }

// postings is what the rows of a corpus become.
type postings struct {
	records  [][]delta.KV // per cluster: blocks and deltas, ascending by key; Group is not set yet
	counters []delta.Counters
	segments []int
	blocks   int
	deltas   int
	bytes    int64
}

// assign returns the cluster of every row and the largest distance in each cluster. The result does not depend on
// workers.
func (g *Generation) assign(ctx context.Context, c *corpus, workers int, progress func(done, total int64)) (clusters []int32, radii []float32, err error) {
	n := len(c.rows)
	clusters, distances := make([]int32, n), make([]float32, n)
	const span = 1024
	err = inParallel(ctx, workers, (n+span-1)/span, func(i int) error {
		from, to := i*span, min(n, (i+1)*span)
		g.router.NearestAll(c.vectors[from*c.dim:to*c.dim], clusters[from:to], distances[from:to])
		return nil
	}, func(done int) { progress(int64(min(n, done*span)), int64(n)) })
	if err != nil {
		return nil, nil, err
	}
	radii = make([]float32, g.K)
	for i, cl := range clusters {
		// Negative distances (dot product) are no radius.
		radii[cl] = max(radii[cl], distances[i])
	}
	return clusters, radii, nil
}

// encode turns assigned rows into blocks and, for rows that live in a log, deltas (a block cannot hold position −1).
// Clusters are packed independently, so the result does not depend on workers.
func (g *Generation) encode(ctx context.Context, c *corpus, clusters []int32, workers int, progress func(done, total int64)) (*postings, error) {
	members := make([][]int32, g.K)
	for i, cl := range clusters {
		members[cl] = append(members[cl], int32(i))
	}
	out := &postings{records: make([][]delta.KV, g.K), counters: make([]delta.Counters, g.K), segments: make([]int, g.K)}
	for cl := range members {
		out.segments[cl] = delta.SegmentCount(int64(len(members[cl])))
	}
	err := inParallel(ctx, workers, g.K, func(cl int) error {
		kvs, logs, err := g.encodeCluster(c, cl, out.segments[cl], members[cl])
		out.records[cl] = kvs
		out.counters[cl] = delta.Counters{Live: int64(len(members[cl])), Delta: int64(logs)}
		return err
	}, func(done int) { progress(int64(done), int64(g.K)) })
	if err != nil {
		return nil, err
	}
	for cl, kvs := range out.records {
		out.deltas += int(out.counters[cl].Delta)
		out.blocks += len(kvs) - int(out.counters[cl].Delta)
		for _, kv := range kvs {
			out.bytes += int64(len(kv.Key) + len(kv.Value))
		}
	}
	return out, nil
}

func (g *Generation) encodeCluster(c *corpus, cluster, segments int, members []int32) (kvs []delta.KV, logs int, err error) {
	bySegment := make([][]delta.Posting, segments)
	deltas := make([][]delta.KV, segments)
	var codes []rabitq.Code
	const together = 256 // vectors encoded at once
	for n, i := range members {
		if n%together == 0 {
			codes = g.encodeRows(c, cluster, members[n:min(n+together, len(members))])
		}
		r := c.rows[i]
		s, code := delta.SegmentOf(r.key, segments), codes[n%together]
		if r.at.Position == delta.LogPosition {
			key := delta.PostingKey(g.Number, uint32(cluster), uint16(s), r.key)
			deltas[s] = append(deltas[s], delta.KV{Key: key, Value: delta.EncodeRecord(nil, delta.NewPosting(r.key, r.at, code))})
			logs++
			continue
		}
		bySegment[s] = append(bySegment[s], delta.Posting{RecordKey: r.key, Locator: r.at, Code: code})
	}
	for s := range bySegment {
		blocks, err := delta.PackSegment(g.shape(), g.Number, uint32(cluster), uint16(s), int(g.Manifest.VectorsPerBlock), bySegment[s])
		if err != nil {
			return nil, 0, err
		}
		delta.SortKV(deltas[s])
		kvs = append(append(kvs, blocks...), deltas[s]...)
	}
	return kvs, logs, nil
}

// encodeRows encodes rows of one cluster.
func (g *Generation) encodeRows(c *corpus, cluster int, rows []int32) []rabitq.Code {
	vectors := make([]float32, 0, len(rows)*c.dim)
	for _, i := range rows {
		vectors = append(vectors, c.vector(int(i))...)
	}
	rotated := g.Rotated[cluster*g.Dim : (cluster+1)*g.Dim]
	return g.Encoder.EncodeAll(vectors, func(int) []float32 { return rotated })
}

// fileGroups is the number of physical file groups for posting records of that size (design, decision 20).
func fileGroups(bytes int64) int {
	return int(min(max(1, (bytes+groupBytes-1)/groupBytes), MaxFileGroups))
}

// trained returns a generation that can route and encode: everything but its records is known.
func trained(o Options, number uint32, dim int, centroids []float32) *Generation {
	g := &Generation{Number: number, Metric: o.Metric, Bits: o.Bits, Dim: dim, K: len(centroids) / dim, Centroids: centroids}
	g.prepare(o.Seed, o.Levels)
	return g
}

// prepare derives what routing and encoding need from centroids and seed.
func (g *Generation) prepare(seed int64, levels string) {
	g.Rotation = rabitq.NewRotation(g.Dim, seed)
	g.Encoder = rabitq.NewEncoder(g.Rotation, g.Bits)
	if levels == LevelsWide {
		g.Encoder = g.Encoder.With(rabitq.Wide)
	}
	g.Rotated = g.Rotation.ApplyAll(g.Centroids)
	g.router = kernel.NewRouter(g.Metric, g.Centroids, g.K, g.Dim)
}

// workersOr is the number of goroutines to use: the given one, or GOMAXPROCS.
func workersOr(given int) int {
	if given > 0 {
		return given
	}
	return runtime.GOMAXPROCS(0)
}

// inParallel calls fn for 0 to n−1 from a number of goroutines and waits for them. The first error in the order of
// the arguments is returned. done, if not nil, is called with a growing count, from one goroutine at a time.
func inParallel(ctx context.Context, workers, n int, fn func(i int) error, done func(count int)) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, n)
	var mu sync.Mutex // guards count and calls of done
	count := 0
	var wg sync.WaitGroup
	for range min(workersOr(workers), n) {
		wg.Go(func() {
			for ctx.Err() == nil && !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = fn(i); errs[i] != nil {
					failed.Store(true)
				}
				if done != nil {
					mu.Lock()
					count++
					done(count)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
