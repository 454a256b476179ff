package indexer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/sink"
)

// recheck returns the check that the sink makes right before a commit point, and again when a successor
// finishes a commit (docs/format/commit.md, Steps and crashes, step 5): on the timeline as it is now, nothing that the state is about to call
// incorporated has gone, and every frontier that moves may stand where it goes. A frontier that does not move is
// not judged: a write with an old requested time may appear after it (decision 8 keeps it where it is), and that
// must not stop the commits after it from being covered. storage.ErrStale: throw the batch away and redo it.
func (j *judged) recheck(tables *table.Cache) func(context.Context, sink.Standing) error {
	return func(ctx context.Context, now sink.Standing) error {
		t := tables.At(now.Props, now.Timeline)
		l := &look{Look: j.lookAt(t.Timeline), table: t}
		before, after := now.Before, now.After
		l.Began, l.Reached = after.Archive.Earliest, after.Archive.Upto
		for _, name := range slices.Sorted(maps.Keys(after.Indexes)) {
			x := after.Indexes[name]
			if _, active := x.Active(); !active || x.Dropped {
				continue
			}
			var old markers.Claim
			if b := before.Indexes[name]; b != nil {
				old = claimOf(b)
			}
			if err := l.archive(ctx, claimOf(x)); err != nil {
				return err
			}
			switch at, gone := l.Against(old, claimOf(x)); {
			case gone:
				return fmt.Errorf("index %s: instant %s has gone from the timeline: %w", name, at, storage.ErrStale)
			case at != "":
				return fmt.Errorf("index %s: instant %s speaks against frontier %s: %w", name, at, x.Frontier.Completed, storage.ErrStale)
			}
		}
		return nil
	}
}
