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
	"tidemark/timeline"
)

// Recheck returns the check that the sink makes right before a commit point, and again when a successor
// finishes a commit (protocol 0.3 step 5): on the timeline as it is now, nothing that the state is about to call
// incorporated has gone, and every frontier that moves may stand where it goes. A frontier that does not move is
// not judged: a write with an old requested time may appear after it (decision 8 keeps it where it is), and that
// must not stop the commits after it from being covered. storage.ErrStale: throw the batch away and redo it.
func Recheck(place mdt.Place) func(context.Context, *mdt.State) error {
	return func(ctx context.Context, after *mdt.State) error {
		before, _, err := mdt.ReadState(ctx, place)
		if err != nil {
			return err
		}
		t, err := table.Open(ctx, place.Store)
		if err != nil {
			return err
		}
		l := &look{table: t, writes: t.Timeline.Writes(), pending: t.Timeline.Pending()}
		for _, name := range slices.Sorted(maps.Keys(after.Indexes)) {
			x := after.Indexes[name]
			if _, active := x.Active(); !active || x.Dropped {
				continue
			}
			gone, err := l.vanished(ctx, x)
			if err != nil {
				return err
			}
			if gone != "" {
				return fmt.Errorf("index %s: instant %s has gone from the timeline: %w", name, gone, storage.ErrStale)
			}
			if old := before.Indexes[name]; old != nil && old.Frontier == x.Frontier {
				continue
			}
			if ok, by := markers.Valid(x.Frontier.Completed, SetOf(x), l.writes, l.pending); !ok {
				return fmt.Errorf("index %s: instant %s speaks against frontier %s: %w", name, by.Requested, x.Frontier.Completed, storage.ErrStale)
			}
		}
		return nil
	}
}

// vanished returns an incorporated instant that was undone, "" if there is none. The archive's manifest is read
// only if an instant is missing.
func (l *look) vanished(ctx context.Context, x *mdt.Index) (string, error) {
	set := SetOf(x)
	if len(markers.Missing(set, l.writes)) == 0 {
		return "", nil
	}
	upto, err := timeline.ArchivedUpto(ctx, l.table.Store, table.HoodieDir, l.table.Props)
	if err != nil {
		return "", err
	}
	if gone := markers.Vanished(set, l.writes, l.table.Timeline.Earliest(), upto); len(gone) > 0 {
		return gone[0], nil
	}
	return "", nil
}
