package search

import (
	"context"
	"math"
	"slices"

	"tidemark/internal/hudi/table"
)

// measure gives the rows of approximate answers that have no estimate their exact distance: codes say nothing of a row that is longer than
// float32 arithmetic can hold, or of which a factor or the estimate is no finite number. They stand beside the best K, which are cut afterwards.
// A row that is not where the record index says, or whose vector cannot be compared any more, is dropped; where less than K remain, the answer is
// not complete unless every posting has been looked at and only the latter are missing, which are no rows of the answer.
func (e *engine) measure(ctx context.Context, asks []*ask) error {
	type before struct{ results, unresolved int }
	wanted, all := wantedRows{}, map[*ask]before{}
	for _, a := range asks {
		n := len(a.answer.Results)
		a.answer.Results = slices.DeleteFunc(a.answer.Results, func(r Result) bool {
			if !math.IsInf(r.Distance, 0) && !math.IsNaN(r.Distance) {
				return false
			}
			c := a.places[r.Key]
			wanted.add(table.Group{Partition: c.locator.Partition, FileID: c.locator.FileID}, c, a)
			return true
		})
		if len(a.answer.Results) < n {
			all[a] = before{n, a.answer.Stats.Unresolved}
		}
	}
	if len(all) == 0 {
		return nil
	}
	err := e.rank(ctx, wanted)
	for a, b := range all {
		sortResults(a.answer.Results)
		n := len(a.answer.Results)
		if err != nil {
			a.done = a.done && n == b.results
			continue
		}
		if n >= e.k {
			continue
		}
		absent := a.answer.Stats.Unresolved - b.unresolved
		if absent > 0 {
			a.incomplete("the record index names %d rows that their file groups do not hold", absent)
		}
		if unusable := b.results - n - absent; unusable > 0 && !(a.all && a.probes >= e.generation.K) {
			a.incomplete("%d rows have no vector any more that can be compared: others may be missing in their place", unusable)
		}
	}
	if err != nil && !e.cutShort(ctx, asks) {
		return err
	}
	return nil
}
