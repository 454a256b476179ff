package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// look is the table as one pass sees it: one listing of the timeline and one state.
type look struct {
	table   *table.Table
	state   *mdt.State
	writes  []timeline.Instant
	pending []timeline.Instant
}

// SetOf returns what an index incorporates, as its state says.
func SetOf(x *mdt.Index) markers.Set {
	return markers.Set{Baseline: x.Baseline.Instants, Before: x.Baseline.Before, Covered: x.Covered}
}

func takeLook(ctx context.Context, place mdt.Place, st *mdt.State) (*look, error) {
	t, err := table.Open(ctx, place.Store)
	if err != nil {
		return nil, err
	}
	if err := t.Props.CheckWritable(); err != nil {
		return nil, err
	}
	return &look{table: t, state: st, writes: t.Timeline.Writes(), pending: t.Timeline.Pending()}, nil
}

// cohort is the indexes that incorporate the same instants, so that one comparison serves them all.
type cohort struct {
	set     markers.Set
	indexes []*mdt.Index // by name
	due     []timeline.Instant
}

// cohorts returns the active indexes grouped by what they incorporate of the active timeline, those with most
// to do first.
func (l *look) cohorts() []cohort {
	by := map[string]*cohort{}
	for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
		x := l.state.Indexes[name]
		if _, ok := x.Active(); !ok || x.Dropped {
			continue
		}
		set := SetOf(x)
		var key strings.Builder
		for _, w := range l.writes {
			if set.Has(w) {
				key.WriteString(w.Requested + ",")
			}
		}
		c := by[key.String()]
		if c == nil {
			c = &cohort{set: set, due: set.Due(l.writes)}
			by[key.String()] = c
		}
		c.indexes = append(c.indexes, x)
	}
	out := make([]cohort, 0, len(by))
	for _, c := range by {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b cohort) int {
		if d := len(b.due) - len(a.due); d != 0 {
			return d
		}
		return strings.Compare(a.indexes[0].Name, b.indexes[0].Name)
	})
	return out
}

// moves reports whether an index's frontier may move although nothing is due: a pending write that held it has
// been rolled back.
func (l *look) moves(c cohort) bool {
	for _, x := range c.indexes {
		f := markers.Compute(markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed}, c.set, l.writes, l.pending)
		if f.Completed != x.Frontier.Completed {
			return true
		}
	}
	return false
}

// checkHistory refuses to go on where covered history is no longer what it was: an incorporated instant that is
// gone without having been archived, or a frontier that fell behind the archive.
func (l *look) checkHistory(ctx context.Context, x *mdt.Index) error {
	set, earliest := SetOf(x), l.table.Timeline.Earliest()
	f := markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed}
	known := markers.Known(f, set, earliest, true)
	if known && len(markers.Missing(set, l.writes)) == 0 {
		return nil
	}
	upto, err := timeline.ArchivedUpto(ctx, l.table.Store, table.HoodieDir, l.table.Props)
	if err != nil {
		return err
	}
	if gone := markers.Vanished(set, l.writes, earliest, upto); len(gone) > 0 {
		return &storage.Error{Op: "follow index", Path: x.Name,
			Err:  fmt.Errorf("covered instant %s was rolled back or restored away (%d in all): %w", gone[0], len(gone), storage.ErrStale),
			Hint: "the index holds rows that the table undid: drop it and create it again"}
	}
	if !known && upto != "" {
		return &storage.Error{Op: "follow index", Path: x.Name,
			Err:  fmt.Errorf("frontier %s is older than the earliest active instant %s, and the archive in between was not followed: %w", orNone(f.Completed), earliest, storage.ErrStale),
			Hint: "drop the index and create it again; sync more often than the table archives"}
	}
	return nil
}

// undone returns the restores and rollbacks of the timeline that the state has not dealt with and that undid
// nothing that an index incorporates: they can be taken as dealt with. One that did undo such an instant is
// storage.ErrStale.
func (l *look) undone(ctx context.Context) (map[string]string, error) {
	fresh := map[string]string{}
	for _, i := range l.table.Timeline.Instants() {
		if i.State != timeline.Completed || i.Action != timeline.Rollback && i.Action != timeline.Restore {
			continue
		}
		if l.state.Restores[i.Requested] == i.Completed {
			continue
		}
		targets, err := l.targets(ctx, i)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
			x := l.state.Indexes[name]
			if x.Dropped {
				continue
			}
			for _, at := range targets {
				_, base := x.Baseline.Instants[at]
				_, cov := x.Covered[at]
				if base || cov {
					return nil, &storage.Error{Op: "follow index", Path: name,
						Err:  fmt.Errorf("%s %s undid instant %s, which the index covers: %w", i.Action, i.Requested, at, storage.ErrStale),
						Hint: "the index holds rows that the table undid: drop it and create it again"}
				}
			}
		}
		fresh[i.Requested] = i.Completed
	}
	return fresh, nil
}

// targets returns the requested times that a rollback or restore undid.
func (l *look) targets(ctx context.Context, i timeline.Instant) ([]string, error) {
	st, p := l.table.Store, l.table.Props
	if i.Action == timeline.Rollback {
		m, err := timeline.ReadRollback(ctx, st, table.HoodieDir, p, i)
		if err != nil {
			return nil, err
		}
		return m.Instants, nil
	}
	m, err := timeline.ReadRestore(ctx, st, table.HoodieDir, p, i)
	if err != nil {
		return nil, err
	}
	var times []string
	for _, r := range m.Instants {
		times = append(times, r.Requested)
	}
	return times, nil
}

// checkColumn refuses an index whose column is no longer what it was built on.
func (l *look) checkColumn(x *mdt.Index) error {
	v, err := l.table.Vector(x.Column)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrUnsupported) {
		return &storage.Error{Op: "follow index", Path: x.Name, Hint: "drop the index and create it on the column as it is now",
			Err: fmt.Errorf("vector column %s: %w: %w", x.Column, err, storage.ErrRefused)}
	}
	if err != nil {
		return err
	}
	if v.Dim != x.Dim || v.Element != x.Element {
		return &storage.Error{Op: "follow index", Path: x.Name, Hint: "drop the index and create it on the column as it is now",
			Err: fmt.Errorf("vector column %s is now %s, the index was built on %d × %s: %w", x.Column, v, x.Dim, x.Element, storage.ErrRefused)}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
