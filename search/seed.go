package search

import (
	"cmp"
	"context"
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
	pairs    [][]*pair  // by the same, for each query
	rows     atomic.Int64
	bytes    atomic.Int64
	scanners sync.Pool
}

// pair is a cluster and a query.
type pair struct {
	query           *rabitq.ClusterQuery
	bounds          []float64 // of the rows of all blocks, one behind the other; only of a cluster that is held
	near            int       // of those, scored first
	scanned, pruned int
}

// pairs are those that were counted: their memory would else be made and cleared for each cluster.
var pairs = sync.Pool{New: func() any { return &pair{} }}

// scan scores clusters for the queries that probe them.
func (e *engine) scan(ctx context.Context, asks []*ask, ids []int, probed [][]*ask) error {
	r := &round{engine: e, ids: ids, probed: probed, held: make([]*cluster, len(ids)), pairs: make([][]*pair, len(ids)),
		scanners: sync.Pool{New: func() any { return &scanner{shape: e.generation.Shape(), partitions: e.partitions} }}}
	if err := r.each(ctx, r.hold, r.seed); err != nil {
		return err
	}
	if err := r.limit(ctx, asks); err != nil {
		return err
	}
	held := func(_ context.Context, i int) (*cluster, error) { return r.held[i], nil }
	if err := r.each(ctx, held, r.near); err != nil {
		return err
	}
	if err := r.each(ctx, func(ctx context.Context, i int) (*cluster, error) {
		if r.held[i] != nil {
			return r.held[i], nil
		}
		return e.clusters(ctx, ids[i])
	}, r.rest); err != nil {
		return err
	}
	r.count()
	return nil
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

func (r *round) query(a *ask, i int) *rabitq.ClusterQuery {
	g := r.generation
	return a.rotated.Cluster(g.Rotated[r.ids[i]*g.Dim : (r.ids[i]+1)*g.Dim])
}

// pair makes the pair of a cluster and its jth query.
func (r *round) pair(c *cluster, i, j int) *pair {
	p := pairs.Get().(*pair)
	*p = pair{query: r.query(r.probed[i][j], i), bounds: p.bounds[:0], scanned: c.rows()}
	if r.pairs[i] == nil {
		r.pairs[i] = make([]*pair, len(r.probed[i]))
	}
	r.pairs[i][j] = p
	return p
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
	r.rows.Add(int64(c.rows()))
	if asks := r.probed[i]; len(asks) > 0 {
		r.bytes.Add(int64(len(asks)) * int64(8*c.rows()+asks[0].rotated.ClusterBytes()))
	}
	r.held[i] = c
	return c, nil
}

func (r *round) seed(s *scanner, c *cluster, i, j int) {
	p := r.pair(c, i, j)
	p.bounds = s.scan(p.bounds, c, p.query)
	s.void(c, r.probed[i][j].best)
}

// limit sets the bound up to which rows of each query are scored first: as many as its heap takes.
func (r *round) limit(ctx context.Context, asks []*ask) error {
	for i, c := range r.held {
		for j, a := range r.probed[i] {
			if c != nil {
				a.bounds = append(a.bounds, r.pairs[i][j].bounds)
			}
		}
	}
	return r.engine.each(ctx, len(asks), func(_ context.Context, i int) error {
		s := r.scanners.Get().(*scanner)
		defer r.scanners.Put(s)
		a := asks[i]
		a.near, a.bounds = s.nth(a.bounds, a.limit+1), nil
		return nil
	})
}

func (r *round) near(s *scanner, c *cluster, i, j int) {
	a := r.probed[i][j]
	s.near(c, r.pairs[i][j], a.near, a.best)
}

func (r *round) rest(s *scanner, c *cluster, i, j int) {
	a := r.probed[i][j]
	if r.held[i] != nil {
		s.far(c, r.pairs[i][j], a.near, a.best)
	} else {
		p := r.pair(c, i, j)
		p.pruned = s.all(c, p.query, a.best)
		s.void(c, a.best)
	}
	r.pairs[i][j].query.Release()
}

// count adds up what was done for each query, once all of it is.
func (r *round) count() {
	for i, all := range r.pairs {
		for j, p := range all {
			stats := &r.probed[i][j].answer.Stats
			stats.Scanned += p.scanned
			stats.Pruned += p.pruned
			p.query = nil
			pairs.Put(p)
		}
	}
}
