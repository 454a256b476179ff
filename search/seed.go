package search

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"

	"tidemark/internal/vector/rabitq"
)

// A heap prunes little until it is full, and then only as well as what is in it. So the rows that the integers of pass 1 place best are
// scored before all others, whatever cluster they are in: as many as the heap takes. What is left then meets a bound that hardly moves any
// more. The answer does not depend on the order, see hit.
//
// For that, clusters and what pass 1 says of them are held until the end of a round, the nearest clusters of each query first, up to
// seedBytes. Rows of clusters beyond it are scored last, in one go.

// seedBytes bounds what the queries of a round hold of pass 1.
const seedBytes = 32 << 20

// seedRows bounds the postings of the clusters that they hold.
const seedRows = 1 << 18

// round is the scan of one round: the clusters that its queries probe, those first that are nearest to one of them.
type round struct {
	*engine
	ids      []int
	probed   [][]*ask   // queries by the place of their cluster in ids
	held     []*cluster // by the same; nil: not held
	pairs    [][]pair   // of those held, by query
	rows     atomic.Int64
	bytes    atomic.Int64
	scanners sync.Pool
	mu       sync.Mutex // guards the answers' stats
}

// pair is a cluster and a query.
type pair struct {
	query  *rabitq.ClusterQuery
	bounds []float64 // of the rows of all blocks, one behind the other
}

// scan scores clusters for the queries that probe them.
func (e *engine) scan(ctx context.Context, ids []int, probed map[int][]*ask) error {
	r := &round{engine: e, ids: ids, probed: make([][]*ask, len(ids)), held: make([]*cluster, len(ids)), pairs: make([][]pair, len(ids)),
		scanners: sync.Pool{New: func() any { return &scanner{shape: e.generation.Shape(), partitions: e.partitions} }}}
	for i, id := range ids {
		r.probed[i] = probed[id]
	}
	if err := r.each(ctx, r.hold, r.seed); err != nil {
		return err
	}
	for _, asks := range probed {
		for _, a := range asks {
			if a.spread.all != nil {
				a.near, a.spread.all = a.spread.nth(a.limit+1), nil
			}
		}
	}
	held := func(_ context.Context, i int) (*cluster, error) { return r.held[i], nil }
	if err := r.each(ctx, held, r.near); err != nil {
		return err
	}
	return r.each(ctx, func(ctx context.Context, i int) (*cluster, error) {
		if r.held[i] != nil {
			return r.held[i], nil
		}
		return e.clusters(ctx, ids[i])
	}, r.rest)
}

// each calls fn for each query of each cluster that get returns.
func (r *round) each(ctx context.Context, get func(ctx context.Context, i int) (*cluster, error), fn func(s *scanner, c *cluster, i, j int)) error {
	return r.engine.each(ctx, len(r.ids), func(ctx context.Context, i int) error {
		c, err := get(ctx, i)
		if err != nil || c == nil {
			return err
		}
		s := r.scanners.Get().(*scanner)
		defer r.scanners.Put(s)
		for j := range r.probed[i] {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fn(s, c, i, j)
		}
		return nil
	})
}

func (r *round) count(a *ask, scanned, pruned int) {
	r.mu.Lock()
	a.answer.Stats.Scanned += scanned
	a.answer.Stats.Pruned += pruned
	r.mu.Unlock()
}

func (r *round) query(a *ask, i int) *rabitq.ClusterQuery {
	g := r.generation
	return a.rotated.Cluster(g.Rotated[r.ids[i]*g.Dim : (r.ids[i]+1)*g.Dim])
}

// hold reads a cluster if it may be held.
func (r *round) hold(ctx context.Context, i int) (*cluster, error) {
	if r.bytes.Load() >= seedBytes || r.rows.Load() >= cmp.Or(r.seedRows, seedRows) {
		return nil, nil
	}
	c, err := r.clusters(ctx, r.ids[i])
	if err != nil {
		return nil, err
	}
	asks := len(r.probed[i])
	r.rows.Add(int64(c.rows()))
	r.bytes.Add(int64(asks) * int64(8*c.rows()+2048*rabitq.SignBytes(r.generation.Dim)))
	r.held[i], r.pairs[i] = c, make([]pair, asks)
	return c, nil
}

func (r *round) seed(s *scanner, c *cluster, i, j int) {
	a := r.probed[i][j]
	q := r.query(a, i)
	bounds := s.bounds(c, q)
	r.pairs[i][j] = pair{q, bounds}
	a.spread.add(bounds)
	r.count(a, len(bounds), 0)
}

func (r *round) near(s *scanner, c *cluster, i, j int) {
	a := r.probed[i][j]
	r.count(a, 0, s.near(c, r.pairs[i][j], a.near, a.best))
}

func (r *round) rest(s *scanner, c *cluster, i, j int) {
	a := r.probed[i][j]
	if r.held[i] != nil {
		r.count(a, 0, s.far(c, r.pairs[i][j], a.near, a.best))
		r.pairs[i][j].query.Release()
		return
	}
	q := r.query(a, i)
	r.count(a, c.rows(), s.cluster(c, q, a.best))
	q.Release()
}

// spread counts bounds of one query, to find the one that is about the nth smallest. It is safe for concurrent use.
type spread struct {
	mu  sync.Mutex
	all [][]float64 // guarded by mu
}

func (s *spread) add(bounds []float64) {
	s.mu.Lock()
	s.all = append(s.all, bounds)
	s.mu.Unlock()
}

// bins is how fine a spread is looked at.
const bins = 2048

// nth returns a number that at least n bounds do not exceed, and not many more; +Inf if there are not so many.
func (s *spread) nth(n int) float64 {
	low, high, total := math.Inf(1), math.Inf(-1), 0
	for _, bounds := range s.all {
		for _, x := range bounds {
			if !math.IsInf(x, 0) { // a number that is none passes neither comparison
				if x < low {
					low = x
				}
				if x > high {
					high = x
				}
			}
		}
		total += len(bounds)
	}
	if total <= n || !(low < high) || math.IsInf(high-low, 0) {
		return math.Inf(1)
	}
	var count [bins]int
	scale := (bins - 1) / (high - low)
	for _, bounds := range s.all {
		for _, x := range bounds {
			if x <= high {
				count[int(max(0, (x-low)*scale))]++
			}
		}
	}
	for i, c := range count {
		if n -= c; n <= 0 {
			return low + float64(i+1)/scale
		}
	}
	return math.Inf(1)
}

// bounds returns what the integers of pass 1 say of the rows of a cluster.
func (s *scanner) bounds(c *cluster, q *rabitq.ClusterQuery) []float64 {
	bounds, at := make([]float64, c.rows()), 0
	for _, b := range c.blocks {
		q.Bounds(bounds[at:at+len(b.factors)], s.scan(b, q), b.factors)
		at += len(b.factors)
	}
	return bounds
}

// near scores the rows whose bounds do not exceed a limit.
func (s *scanner) near(c *cluster, p pair, limit float64, to *best) (pruned int) {
	most, at := to.most(), 0
	for _, b := range c.blocks {
		for i, x := range p.bounds[at : at+len(b.factors)] {
			if !(x > limit) && s.row(b, i, p.query, to, &most) {
				pruned++
			}
		}
		at += len(b.factors)
	}
	s.flush(to)
	return pruned
}

// far scores the other rows, if the heap may still want them.
func (s *scanner) far(c *cluster, p pair, limit float64, to *best) (pruned int) {
	most, at := to.most(), 0
	for _, b := range c.blocks {
		for i, x := range p.bounds[at : at+len(b.factors)] {
			if x > limit && (x > most || s.row(b, i, p.query, to, &most)) {
				pruned++
			}
		}
		at += len(b.factors)
	}
	s.flush(to)
	return pruned
}
