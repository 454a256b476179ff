package search

import (
	"context"
	"math"
	"slices"

	"tidemark/internal/hudi/table"
)

// measure gives the rows of approximate answers that have no estimate their exact distance: codes say nothing of a row that is longer than
// float32 arithmetic can hold, or for DOT_PRODUCT too short for a direction. They stand beside the best K, which are cut afterwards. A row that is not where the record index says is dropped, and
// the answer is not complete.
func (e *engine) measure(ctx context.Context, asks []*ask) error {
	wanted, all := wantedRows{}, map[*ask]int{}
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
			all[a] = n
		}
	}
	if len(all) == 0 {
		return nil
	}
	err := e.rank(ctx, wanted)
	for a, n := range all {
		sortResults(a.answer.Results)
		if missing := n - len(a.answer.Results); missing > 0 && err == nil {
			a.incomplete("the record index names %d rows that their file groups do not hold", missing)
		}
		a.done = len(a.answer.Results) == n
	}
	if err != nil && !e.cutShort(ctx, asks) {
		return err
	}
	return nil
}
