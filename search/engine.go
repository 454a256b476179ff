package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"tidemark/generation"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// maxRerank is how many candidates a round of a query has at most (RFC-109 section 6); a larger K raises it. Those without an estimate come
// beside them, no more than as many again.
const maxRerank = 10_000

// candidatesAtOnce bounds the candidates of the queries that are answered together, and with them the memory: about 300 bytes each. Those
// without an estimate at most double it, see voids.
const candidatesAtOnce = 500_000

// locator says where rows live at the pinned snapshot: the record index. Absent keys are dead.
type locator interface {
	locate(ctx context.Context, keys []string) (map[string]table.Group, error)
}

// fetcher reads rows of one file slice at the pinned snapshot. fn is called at most once for each wanted key, one at a time; the row's
// vectors are valid during the call and must not be changed, other values are its own. mismatched are the keys of which a position showed
// another row. Safe for concurrent use.
type fetcher interface {
	fetch(ctx context.Context, g table.Group, wanted []candidate, fn func(row table.Row) error) (mismatched []string, err error)
}

// engine answers queries from the index, all of them together: each cluster is read once in a round for all queries that probe
// it, the record index is asked once in a round, and each file group is read once.
type engine struct {
	generation *generation.Generation
	column     avrox.Vector
	clusters   func(ctx context.Context, id int) (*cluster, error) // safe for concurrent use
	live       locator
	rows       fetcher
	copies     *copies         // of record keys that live more than once
	partitions map[string]bool // nil: all
	columns    []string
	k, nprobes int
	rerank     bool
	seedRows   int64 // see seed.go
	store      storage.Store
	ahead      func(ctx context.Context, asks []*ask) []func() error // see sliceReader; nil: nothing
}

// ask is one query and what is known of its answer.
type ask struct {
	query   *query
	rotated *rabitq.Query
	answer  *Answer

	order  []int // clusters, nearest first
	probes int   // of those, probed in this round
	limit  int   // candidates of this round
	best   *best
	bounds [][]float64          // of the rows held, by cluster
	near   float64              // bound up to which these are scored first
	judged map[string]struct{}  // candidates of earlier rounds
	found  []candidate          // of this round
	all    bool                 // there are no more in the probed clusters
	void   int                  // rows of the probed clusters without an estimate
	met    int                  // of those, candidates of this round or an earlier one
	places map[string]candidate // where the rows of an approximate answer live
	done   bool
	cut    bool // the deadline came before it was done, as its reason says
}

// spare is how many times K candidates an approximate answer ranks by estimate at first, unless the index asks for fewer, so that rows
// that are dead can be replaced. None is fetched; more would change next to nothing.
const spare = 4

// limits returns how many candidates a query looks at in its first round and at most.
func (e *engine) limits() (first, most int) {
	most = max(maxRerank, e.k)
	factor := e.generation.Options.RefineFactor
	if !e.rerank {
		factor = min(factor, spare)
	}
	return min(most, max(e.k, factor*min(e.k, most))), most
}

// run answers queries, as many at once as memory allows. If the deadline comes, answers that have rows are cut short and say so; without
// any row it is the error.
func (e *engine) run(ctx context.Context, asks []*ask) error {
	first, _ := e.limits()
	for at, together := 0, max(1, candidatesAtOnce/first); at < len(asks); at += together {
		err := e.together(ctx, asks[at:min(len(asks), at+together)])
		if err != nil && !e.cutShort(ctx, asks) {
			return err
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// cutShort marks the answers that the deadline found unfinished. It reports false if that is not what happened, or if no row is known.
func (e *engine) cutShort(ctx context.Context, asks []*ask) bool {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !slices.ContainsFunc(asks, func(a *ask) bool { return len(a.answer.Results) > 0 }) {
		return false
	}
	for _, a := range asks {
		if !a.done && !a.cut {
			a.cut, a.best, a.found, a.judged = true, nil, nil, nil
			a.incomplete("the deadline came after %d candidates: nearer rows may be missing", a.answer.Stats.Candidates)
		}
	}
	return true
}

// together answers queries in rounds. Each stops with K rows, or when every posting of every cluster has been looked at, or at the
// bound of candidates.
func (e *engine) together(ctx context.Context, asks []*ask) error {
	first, _ := e.limits()
	for _, a := range asks {
		a.limit, a.probes = first, min(e.nprobes, e.generation.K)
		a.places = map[string]candidate{}
	}
	for open := asks; len(open) > 0; {
		if err := e.collect(ctx, open); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return &indexError{err: err}
		}
		if err := e.judge(ctx, open); err != nil {
			return err
		}
		var next []*ask
		for _, a := range open {
			if e.settle(a); !a.done {
				next = append(next, a)
			}
		}
		open = next
	}
	return nil
}

// settle decides whether a query needs another round, and how wide.
func (e *engine) settle(a *ask) {
	g, stats := e.generation, &a.answer.Stats
	_, most := e.limits()
	switch {
	case len(a.answer.Results) >= e.k:
		a.answer.Complete, a.done = true, true
	case !a.all && a.limit < most:
		a.limit = min(most, 2*a.limit)
	case !a.all:
		a.incomplete("stopped after %d candidates", stats.Candidates)
		a.done = true
	case a.probes < g.K:
		a.probes = min(g.K, 2*a.probes)
	default:
		a.done = true
		a.answer.Complete = stats.Unresolved == 0
		if !a.answer.Complete {
			a.incomplete("the record index names %d rows that their file groups do not hold", stats.Unresolved)
		}
	}
	if a.done && a.met < a.void { // of which any may be the nearest
		a.incomplete("%d rows have no estimate, only %d of them were measured", a.void, a.met)
	}
	if !a.done {
		if a.judged == nil {
			a.judged = make(map[string]struct{}, len(a.found))
		}
		for _, c := range a.found {
			a.judged[c.key] = struct{}{}
		}
	}
	a.found = nil
}

func (a *ask) incomplete(format string, args ...any) {
	a.answer.Complete = false
	a.answer.because(format, args...)
}

// because adds a reason to the answer.
func (a *Answer) because(format string, args ...any) {
	if a.Reason != "" {
		a.Reason += "; "
	}
	a.Reason += fmt.Sprintf(format, args...)
}

// voids is how many rows without an estimate each of n queries takes that have limit candidates with one: as many as maxRerank while all of them stay
// within candidatesAtOnce, otherwise no more than it has others, so that the memory of a batch at most doubles.
func voids(n, limit int) int { return max(limit, min(maxRerank, candidatesAtOnce/n)) }

// collect sets the best candidates of each query. A cluster is read once and scored for all queries that probe it; clusters are read by
// several goroutines, those first that are nearest to a query.
func (e *engine) collect(ctx context.Context, asks []*ask) error {
	g := e.generation
	for _, a := range asks {
		a.best = newBest(a.limit)
		a.best.void = newBest(voids(len(asks), a.limit))
		stats := &a.answer.Stats
		stats.Rounds++
		stats.Clusters, stats.Scanned, stats.Pruned = a.probes, 0, 0
		if len(a.order) < a.probes {
			a.order = g.Probes(a.query.index, a.probes)
		}
	}
	ids, probed := scanOrder(asks)
	if err := e.scan(ctx, asks, ids, probed); err != nil {
		return err
	}
	for _, a := range asks {
		void, left := a.best.void.met, a.best.void.left()
		a.found, a.all = a.best.take(a.judged)
		a.met += withoutEstimate(a.found)
		if a.void = void; left == 0 {
			a.met = void // some of which may have the same key
		}
		a.best = nil
	}
	return nil
}

// scanOrder returns the clusters that queries probe, those first that are nearest to one of them, and for each the queries.
func scanOrder(asks []*ask) (ids []int, probed [][]*ask) {
	if len(asks) == 1 {
		ids = asks[0].order[:asks[0].probes]
		return ids, slices.Repeat([][]*ask{asks}, len(ids))
	}
	by, rank := map[int][]*ask{}, map[int]int{}
	for _, a := range asks {
		for i, c := range a.order[:a.probes] {
			if old, seen := rank[c]; !seen || i < old {
				rank[c] = i
			}
			by[c] = append(by[c], a)
		}
	}
	ids = slices.SortedFunc(maps.Keys(by), func(a, b int) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) })
	for _, c := range ids {
		probed = append(probed, by[c])
	}
	return ids, probed
}

// callsAtOnce is how many clusters and file groups are read at once from a store that waits for a network.
const callsAtOnce = 32

// each calls fn for 0 to n−1, in that order, by as many goroutines as there are processors, or calls that a store answers at once; the
// first error ends it. Where that is one, it is the caller's: a new goroutine grows its stack anew, which takes longer than a small cluster.
func (e *engine) each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	workers := runtime.GOMAXPROCS(0)
	if storage.IsBroad(e.store) {
		workers = callsAtOnce
	}
	var next atomic.Int64
	inner := ctx
	work := func() error {
		for i := int(next.Add(1)) - 1; i < n && inner.Err() == nil; i = int(next.Add(1)) - 1 {
			if err := fn(inner, i); err != nil {
				return err
			}
		}
		return nil
	}
	if workers = min(workers, n); workers <= 1 {
		if err := work(); err != nil {
			return err
		}
		return ctx.Err()
	}
	var group *errgroup.Group
	group, inner = errgroup.WithContext(ctx)
	for range workers {
		group.Go(work)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// judge turns candidates into results. The best K of an approximate answer, and those without an estimate (see measure), are all it needs if they are alive; the others are looked up
// only if some are not. In later rounds they all are: nearer rows may have come behind those that an answer has.
func (e *engine) judge(ctx context.Context, asks []*ask) error {
	if e.rerank || asks[0].answer.Stats.Rounds > 1 {
		return e.judgeAll(ctx, asks)
	}
	found := make([][]candidate, len(asks))
	for i, a := range asks {
		found[i], a.found = a.found, a.found[:min(e.k+withoutEstimate(a.found), len(a.found))]
	}
	if err := e.judgeAll(ctx, asks); err != nil {
		return err
	}
	var short []*ask
	for i, a := range asks {
		first, estimated := e.k+withoutEstimate(found[i]), len(a.answer.Results)
		for _, r := range a.answer.Results {
			if math.IsInf(r.Distance, -1) {
				estimated--
			}
		}
		if estimated < e.k && len(found[i]) > first {
			a.found = found[i][first:]
			short = append(short, a)
		}
	}
	err := e.judgeAll(ctx, short)
	for i, a := range asks {
		a.found = found[i]
	}
	return err
}

// judgeAll asks the record index for the candidates in one batch, drops the dead, and turns the rest into results: by
// exact distance of their own rows, or by estimate.
func (e *engine) judgeAll(ctx context.Context, asks []*ask) error {
	var keys []string
	known := map[string]struct{}{}
	for _, a := range asks {
		a.answer.Stats.Candidates += len(a.found)
		for _, c := range a.found {
			if _, twice := known[c.key]; !twice {
				known[c.key] = struct{}{}
				keys = append(keys, c.key)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var where map[string]table.Group
	calls := []func() error{func() (err error) {
		where, err = e.live.locate(ctx, keys)
		return err
	}}
	if e.ahead != nil && e.rerank { // most rows are where their postings say
		calls = append(calls, e.ahead(ctx, asks)...)
	}
	if err := storage.Together(e.store, calls...); err != nil {
		return fmt.Errorf("look up %d candidates: %w", len(keys), err)
	}
	apart, err := e.copied(ctx, asks, where)
	if err != nil {
		return err
	}
	wanted := wantedRows{}
	for _, a := range asks {
		for _, c := range a.found {
			if apart[c.key] {
				continue
			}
			g, ok := where[c.key]
			if !ok {
				a.answer.Stats.Dead++
				continue
			}
			if g.Partition != c.locator.Partition || g.FileID != c.locator.FileID {
				a.answer.Stats.Moved++
				c.locator.Position, c.locator.BaseInstant = -1, "" // the hint is void: find the row by its key
			}
			if e.partitions != nil && !e.partitions[g.Partition] {
				continue
			}
			c.locator.Partition, c.locator.FileID = g.Partition, g.FileID
			if !e.rerank {
				a.answer.Results = append(a.answer.Results, Result{Key: c.key, Partition: g.Partition, Distance: c.estimate})
				a.places[c.key] = c
				continue
			}
			wanted.add(g, c, a)
		}
	}
	err = e.rank(ctx, wanted)
	for _, a := range asks {
		sortResults(a.answer.Results)
	}
	return err
}

func sortResults(results []Result) {
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), strings.Compare(a.Key, b.Key), strings.Compare(a.Partition, b.Partition))
	})
}
