package indexer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
)

// Recheck returns the check that the sink makes right before a commit point, and again when a successor
// finishes a commit (protocol 0.3 step 5): on the timeline as it is now, nothing that the state is about to call
// incorporated has gone, and every index's frontier may stand where it does. storage.ErrStale: throw the batch
// away and redo it.
func Recheck(st storage.Store) func(context.Context, *mdt.State) error {
	return func(ctx context.Context, after *mdt.State) error {
		t, err := table.Open(ctx, st)
		if err != nil {
			return err
		}
		writes, pending := t.Timeline.Writes(), t.Timeline.Pending()
		for _, name := range slices.Sorted(maps.Keys(after.Indexes)) {
			x := after.Indexes[name]
			if _, active := x.Active(); !active || x.Dropped {
				continue
			}
			set := SetOf(x)
			if gone := markers.Vanished(set, writes, t.Timeline.Earliest()); len(gone) > 0 {
				return fmt.Errorf("index %s: instant %s has gone from the timeline: %w", name, gone[0], storage.ErrStale)
			}
			if ok, by := markers.Valid(x.Frontier.Completed, set, writes, pending); !ok {
				return fmt.Errorf("index %s: instant %s speaks against frontier %s: %w", name, by.Requested, x.Frontier.Completed, storage.ErrStale)
			}
		}
		return nil
	}
}
