package search

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/generation"
	"tidemark/internal/hudi/table"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/rabitq"
)

// maxRerank is how many candidates a query looks up at most (RFC-109 section 6); a larger K raises it.
const maxRerank = 10_000

// locator says where rows live at the pinned snapshot: the record index. Absent keys are dead.
type locator interface {
	locate(ctx context.Context, keys []string) (map[string]table.Group, error)
}

// fetcher reads rows of one file slice at the pinned snapshot. fn is called at most once for each wanted key.
type fetcher interface {
	fetch(ctx context.Context, g table.Group, wanted []candidate, fn func(row table.Row) error) error
}

// engine answers one query from the index.
type engine struct {
	generation *generation.Generation
	view       postings
	live       locator
	rows       fetcher
	copies     *copies // of record keys that live more than once
	query      *query
	rotated    *rabitq.Query
	partitions map[string]bool // nil: all
	columns    []string
	k, nprobes int
	rerank     bool
	answer     *Answer

	places map[string]candidate // where the rows of an approximate answer live
}

// run probes, ranks and refills. It stops with K rows, or when every posting of every cluster has been looked at, or at
// the bound of candidates.
func (e *engine) run(ctx context.Context) error {
	g := e.generation
	most := max(maxRerank, e.k)
	limit := min(most, max(e.k, g.Options.RefineFactor*min(e.k, most)))
	order := ivf.ProbeOrder(g.Metric, g.Centroids, g.K, g.Dim, e.query.index, g.K)
	probes := min(e.nprobes, g.K)
	judged := map[string]struct{}{}
	e.places = map[string]candidate{}
	for {
		e.answer.Stats.Rounds++
		e.answer.Stats.Clusters = probes
		found, all, err := e.collect(ctx, order[:probes], limit)
		if err != nil {
			return &indexError{err: err}
		}
		found = slices.DeleteFunc(found, func(c candidate) bool { _, old := judged[c.key]; return old })
		for _, c := range found {
			judged[c.key] = struct{}{}
		}
		if err := e.judge(ctx, found); err != nil {
			return err
		}
		switch {
		case len(e.answer.Results) >= e.k:
			e.answer.Complete = true
			return nil
		case !all && limit < most:
			limit = min(most, 2*limit)
		case !all:
			e.incomplete("stopped after %d candidates", len(judged))
			return nil
		case probes < g.K:
			probes = min(g.K, 2*probes)
		default:
			e.answer.Complete = e.answer.Stats.Unresolved == 0
			if !e.answer.Complete {
				e.incomplete("the record index names %d rows that their file groups do not hold", e.answer.Stats.Unresolved)
			}
			return nil
		}
	}
}

func (e *engine) incomplete(format string, args ...any) {
	e.answer.Complete = false
	e.answer.because(format, args...)
}

// because adds a reason to the answer.
func (a *Answer) because(format string, args ...any) {
	if a.Reason != "" {
		a.Reason += "; "
	}
	a.Reason += fmt.Sprintf(format, args...)
}

// collect returns the limit best candidates of the clusters, best first, and whether they are all there are.
func (e *engine) collect(ctx context.Context, clusters []int, limit int) (found []candidate, all bool, err error) {
	g := e.generation
	e.answer.Stats.Scanned, e.answer.Stats.Pruned = 0, 0
	s := &scanner{view: e.view, generation: g.Number, shape: g.Shape(), partitions: e.partitions,
		best: &best{limit: limit}, stats: &e.answer.Stats}
	for _, c := range clusters {
		if err := s.cluster(ctx, c, e.rotated.Cluster(g.Rotated[c*g.Dim:(c+1)*g.Dim])); err != nil {
			return nil, false, err
		}
	}
	return s.best.sorted(), !s.best.dropped, nil
}

// judge asks the record index for the candidates in one batch, drops the dead, and turns the rest into results: by
// exact distance of their own rows, or by estimate.
func (e *engine) judge(ctx context.Context, found []candidate) error {
	if len(found) == 0 {
		return nil
	}
	keys := make([]string, len(found))
	for i, c := range found {
		keys[i] = c.key
	}
	stats := &e.answer.Stats
	stats.Candidates += len(found)
	where, err := e.live.locate(ctx, keys)
	if err != nil {
		return fmt.Errorf("look up %d candidates: %w", len(keys), err)
	}
	found, err = e.copied(ctx, found, where)
	if err != nil {
		return err
	}
	byGroup := map[table.Group][]candidate{}
	for _, c := range found {
		g, ok := where[c.key]
		if !ok {
			stats.Dead++
			continue
		}
		if g.Partition != c.locator.Partition || g.FileID != c.locator.FileID {
			stats.Moved++
			c.locator.Position, c.locator.BaseInstant = -1, "" // the hint is void: find the row by its key
		}
		if e.partitions != nil && !e.partitions[g.Partition] {
			continue
		}
		c.locator.Partition, c.locator.FileID = g.Partition, g.FileID
		if !e.rerank {
			e.answer.Results = append(e.answer.Results, Result{Key: c.key, Partition: g.Partition, Distance: c.estimate})
			e.places[c.key] = c
			continue
		}
		byGroup[g] = append(byGroup[g], c)
	}
	for _, g := range slices.SortedFunc(maps.Keys(byGroup), compareGroups) {
		if err := e.rank(ctx, g, byGroup[g]); err != nil {
			return err
		}
	}
	sortResults(e.answer.Results)
	return nil
}

// rank fetches the rows of one file group and adds their exact distances.
func (e *engine) rank(ctx context.Context, g table.Group, wanted []candidate) error {
	got := 0
	err := e.rows.fetch(ctx, g, wanted, func(row table.Row) error {
		got++
		if row.Position < 0 {
			e.answer.Stats.LogResidentFinalists++
		}
		if d, ok := e.query.distance(row.Vectors[0]); ok {
			e.answer.Results = append(e.answer.Results, Result{Key: row.Key, Partition: row.Partition, Distance: d,
				Row: rowOf(e.columns, row.Others)})
		}
		return nil
	})
	e.answer.Stats.Unresolved += len(wanted) - got
	return err
}

// attach reads the columns asked for into an approximate answer. A row that is not where the record index says is
// dropped, and the answer is not complete.
func (e *engine) attach(ctx context.Context) error {
	byGroup := map[table.Group][]candidate{}
	for _, r := range e.answer.Results {
		c := e.places[r.Key]
		g := table.Group{Partition: c.locator.Partition, FileID: c.locator.FileID}
		byGroup[g] = append(byGroup[g], c)
	}
	rows := map[string]map[string]any{}
	for _, g := range slices.SortedFunc(maps.Keys(byGroup), compareGroups) {
		if err := e.rows.fetch(ctx, g, byGroup[g], func(row table.Row) error {
			rows[row.Key] = rowOf(e.columns, row.Others)
			return nil
		}); err != nil {
			return err
		}
	}
	kept := e.answer.Results[:0]
	for _, r := range e.answer.Results {
		var ok bool
		if r.Row, ok = rows[r.Key]; ok {
			kept = append(kept, r)
		}
	}
	if missing := len(e.answer.Results) - len(kept); missing > 0 {
		e.answer.Stats.Unresolved += missing
		e.incomplete("the record index names %d rows that their file groups do not hold", missing)
	}
	e.answer.Results = kept
	return nil
}

func compareGroups(a, b table.Group) int {
	return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.FileID, b.FileID))
}

func sortResults(results []Result) {
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), strings.Compare(a.Key, b.Key), strings.Compare(a.Partition, b.Partition))
	})
}
