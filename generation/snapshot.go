package generation

import (
	"fmt"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// snapshot is what a bootstrap reads: everything completed up to one completion time, on one look at the timeline.
type snapshot struct {
	cut      table.Cut
	newest   timeline.Instant // newest data write in it
	baseline mdt.Baseline
	frontier markers.Frontier
	restores map[string]string // completed restores and rollbacks on the timeline: their effect is in what is read
}

// snapshotOf returns the latest snapshot, or the one of what was completed by the completion of the instant asOf.
func snapshotOf(t *table.Table, asOf string) (snapshot, error) {
	writes := t.Timeline.Writes()
	refuse := func(hint, format string, args ...any) (snapshot, error) {
		return snapshot{}, &storage.Error{Op: "choose snapshot", Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	if len(writes) == 0 {
		return refuse("write to the table first", "the table has no completed write on its active timeline: %w", storage.ErrRefused)
	}
	upto := writes[len(writes)-1].Completed
	if asOf != "" {
		at, ok := t.Timeline.Find(asOf)
		switch {
		case !ok:
			return refuse("take an instant of the active timeline, by requested or completion time", "instant %s: %w", asOf, storage.ErrNotFound)
		case at.State != timeline.Completed:
			return refuse("wait until it has completed, or take an earlier one", "%s %s is %s: %w", at.Action, asOf, at.State, storage.ErrRefused)
		}
		upto = at.Completed
	}
	s := snapshot{cut: table.Cut{Upto: upto}, restores: map[string]string{}}
	// An instant that completed before the earliest active one was requested is archived, so it is in every snapshot
	// that can be read. Any other needs its own entry: its completion time may be taken before its file is seen
	// (design, decision 8).
	s.baseline = mdt.Baseline{Instants: map[string]string{}, Before: t.Timeline.Earliest()}
	for _, w := range writes {
		if w.Completed <= upto {
			s.baseline.Instants[w.Requested] = w.Completed
			s.newest = w
		}
	}
	if s.newest.Requested == "" {
		return refuse("take a later instant", "no write had completed by %s: %w", asOf, storage.ErrRefused)
	}
	for _, a := range []timeline.Action{timeline.Restore, timeline.Rollback} {
		for _, i := range t.Timeline.CompletedOf(a) {
			s.restores[i.Requested] = i.Completed
		}
	}
	s.frontier = s.frontierOn(t.Timeline)
	return s, nil
}

// frontierOn is the largest frontier that a timeline allows an index which holds just this snapshot.
func (s snapshot) frontierOn(tl *timeline.Timeline) markers.Frontier {
	set := markers.Set{Baseline: s.baseline.Instants, Before: s.baseline.Before}
	return markers.Compute(markers.Frontier{}, set, tl.Writes(), tl.Pending())
}
