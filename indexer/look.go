package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidemark/coverage"
	"tidemark/indexer/copies"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/sink"
	"tidemark/timeline"
)

// look is the table as one pass sees it: one listing of the timeline and one state.
type look struct {
	markers.Look // of the active timeline, and after archive of the archive as far as it was asked

	writes []timeline.Instant // those of the look, after reachBack archived ones as well, in completion order; shared
	judged *judged
	table  *table.Table
	state  *mdt.State
	copies copies.Stats // of the batch compared last
	long   bool         // its timeline has archived instants: see reachBack
	hole   string       // why it is not known that the archive is whole, "" if it is: see holes
	beside bool         // the index lies beside the table, which may have no metadata table
	// aside are indexes that cannot be followed and do not stand in the way of the others: see setAside.
	aside map[string]bool
	clock func() time.Time // for the times of steps; nil: none are taken
	seen  sink.Seen        // the look itself, of the active timeline, for the commit of what is planned by it
}

// SetOf returns what an index incorporates, as its state says.
func SetOf(x *mdt.Index) markers.Set {
	return markers.Set{Baseline: x.Baseline.Instants, Before: x.Baseline.Before, Covered: x.Covered}
}

// takeLook looks at the table for the first and only time; see takeNext.
func takeLook(ctx context.Context, place mdt.Place, st *mdt.State) (*look, error) {
	return takeNext(ctx, place, table.NewCache(place.Store), st)
}

// takeNext looks at the table with what earlier looks have read of it.
func takeNext(ctx context.Context, place mdt.Place, tables *table.Cache, st *mdt.State) (*look, error) {
	return takeAfter(ctx, place, tables, &judged{}, st)
}

// takeAfter looks at the table with what earlier looks have read of it and found out.
func takeAfter(ctx context.Context, place mdt.Place, tables *table.Cache, j *judged, st *mdt.State) (*look, error) {
	began := time.Now()
	t, err := tables.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := place.CheckWritable(t.Props); err != nil {
		return nil, err
	}
	l := &look{Look: j.lookAt(t.Timeline), judged: j, table: t, state: st, beside: place.IsBeside(),
		seen: sink.Seen{Props: t.Props, Timeline: t.Timeline, At: began}}
	l.writes = l.Writes
	if st != nil {
		l.Began, l.Reached = st.Archive.Earliest, st.Archive.Upto
	}
	return l, nil
}

// claimOf returns what an index says about itself.
func claimOf(x *mdt.Index) markers.Claim {
	return markers.Claim{Set: SetOf(x), Frontier: markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed, Open: x.Frontier.Open}}
}

// archive looks into the archive as far as a claim cannot be judged without.
func (l *look) archive(ctx context.Context, c markers.Claim) error {
	return coverage.AskArchive(ctx, l.table.Archive(), &l.Look, c)
}

// reach is how far the archive reaches. It is asked only if the table has archived since a commit of ours noted it.
func (l *look) reach(ctx context.Context) mdt.SeenArchive {
	if was := l.state.Archive; l.Earliest == was.Earliest {
		return was
	}
	return mdt.ReachOf(ctx, l.table.Archive(), l.table.Timeline)
}

// cohort is the indexes that incorporate the same instants, so that one comparison serves them all.
type cohort struct {
	indexes []*mdt.Index       // by name
	courses []*markers.Course  // of each of them; the same instants are due in all
	due     []timeline.Instant // what may be marked of it
	stopped []string           // requested time of the commit that holds what is due after it: see allowed
}

// has says whether the indexes incorporate a completed data write.
func (c cohort) has(i timeline.Instant) bool { return c.courses[0].Has(i) }

// cohorts returns the active indexes grouped by what they do not incorporate of the look's writes, those with most to do first.
func (l *look) cohorts() []cohort {
	var out []cohort
next:
	for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
		x := l.state.Indexes[name]
		if _, ok := x.Active(); !ok || x.Dropped || l.aside[name] {
			continue
		}
		course := l.judged.course(l, x)
		for i := range out {
			if c := &out[i]; sameWrites(c.courses[0].Due(), course.Due()) {
				c.indexes, c.courses = append(c.indexes, x), append(c.courses, course)
				continue next
			}
		}
		c := cohort{indexes: []*mdt.Index{x}, courses: []*markers.Course{course}}
		c.due, c.stopped = allowed(l.state, course.Due())
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b cohort) int { return len(b.due) - len(a.due) })
	return out
}

// allowed cuts what is due down to what may be marked: skipped commits are left out, and nothing that completed after one that
// was set aside and not skipped is marked before an operator has decided. stopped are the latter's requested times.
func allowed(st *mdt.State, due []timeline.Instant) (out []timeline.Instant, stopped []string) {
	if len(st.Skipped)+len(st.Quarantine) == 0 {
		return due, nil
	}
	for _, i := range due {
		if _, skipped := st.Skipped[i.Requested]; skipped {
			continue
		}
		if _, aside := st.Quarantine[i.Requested]; aside {
			return out, append(stopped, i.Requested)
		}
		out = append(out, i)
	}
	return out, nil
}

// sameWrites says whether the same completed data writes are in two lists.
func sameWrites(a, b []timeline.Instant) bool {
	return slices.EqualFunc(a, b, func(x, y timeline.Instant) bool { return x.Requested == y.Requested && x.Completed == y.Completed })
}

// moves reports whether an index's frontier may move although nothing is due: a pending write that held it has
// been rolled back.
func (l *look) moves(c cohort) bool {
	for i, x := range c.indexes {
		if c.courses[i].Frontier().Completed != x.Frontier.Completed {
			return true
		}
	}
	return false
}

// notStray refuses a table whose timeline begins where none can.
func (l *look) notStray(ctx context.Context) error {
	why, err := coverage.Stray(ctx, l.table.Archive(), l.table.Timeline, l.state.Archive)
	if err != nil || why == "" {
		return err
	}
	return &storage.Error{Op: "follow table", Path: l.table.Store.URL(), Err: fmt.Errorf("%s: %w", why, storage.ErrCorrupt), Hint: coverage.StrayHint}
}

// checkHistory refuses to go on where covered history is no longer what it was: an incorporated instant that is
// gone without having been archived, or a frontier that fell behind the archive.
func (l *look) checkHistory(ctx context.Context, x *mdt.Index) error {
	c := claimOf(x)
	if err := l.archive(ctx, c); err != nil {
		return err
	}
	if why, err := coverage.Astray(ctx, l.table.Archive(), l.table.Timeline, x); err != nil {
		return err
	} else if why != "" {
		return &storage.Error{Op: "follow index", Path: x.Name, Err: fmt.Errorf("%s: %w", why, storage.ErrCorrupt),
			Hint: "someone changed the state object: restore it from a copy; or, to compare the index with the whole table: tidemark reconcile"}
	}
	untaken := l.state.Untaken(x)
	for _, w := range l.Writes { // what is archived is compared as a whole, with what is known of the archive
		if why := doubtOf(x, w, untaken); why != "" {
			return &storage.Error{Op: "follow index", Path: x.Name, Err: fmt.Errorf("covered commit %s %s: %w", w.Requested, why, storage.ErrCorrupt),
				Hint: "restore what was changed from a copy; or, to go by the table as it is now: tidemark reconcile"}
		}
	}
	if gone := l.Undone(c); len(gone) > 0 {
		return &storage.Error{Op: "follow index", Path: x.Name,
			Err:  fmt.Errorf("commit %s, which the index holds, is on the timeline no longer: it was rolled back or restored away, or its file is lost (%d in all): %w", gone[0], len(gone), storage.ErrStale),
			Hint: "the index holds rows that the table undid: tidemark reconcile makes it equal to the table again"}
	}
	return nil
}

// doubtOf says why an index cannot rely on a commit that its state calls incorporated, "" if it can.
func doubtOf(x *mdt.Index, w timeline.Instant, untaken func(timeline.Instant) bool) string {
	if untaken(w) {
		return "was never taken in by a commit of ours: someone changed the state object"
	}
	if why := x.Changed(w); why != "" {
		return "was changed since: its file " + w.File + " " + why
	}
	return ""
}

// undone returns the restores and rollbacks of the timeline that the state has not dealt with and that undid
// nothing that an index incorporates: they can be taken as dealt with. One that did undo such an instant is
// storage.ErrStale.
func (l *look) undone(ctx context.Context) (map[string]string, error) {
	fresh := map[string]string{}
	for _, i := range l.Unhandled(l.state.Restores) {
		targets, err := coverage.Undone(ctx, l.table.Store, l.table.Props, i)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
			x := l.state.Indexes[name]
			if x.Dropped {
				continue
			}
			if at := SetOf(x).Holds(targets); at != "" {
				return nil, &storage.Error{Op: "follow index", Path: name,
					Err:  fmt.Errorf("%s %s undid instant %s, which the index covers: %w", i.Action, i.Requested, at, storage.ErrStale),
					Hint: "the index holds rows that the table undid: tidemark reconcile makes it equal to the table again"}
			}
		}
		fresh[i.Requested] = i.Completed
	}
	return fresh, nil
}

// checkColumn refuses an index whose column is no longer what it was built on.
func (l *look) checkColumn(x *mdt.Index) error {
	if why := coverage.Emptied(x, l.table.Timeline); why != "" {
		return &storage.Error{Op: "follow index", Path: x.Name, Err: fmt.Errorf("%s: %w", why, storage.ErrCorrupt), Hint: "restore .hoodie/timeline from a copy"}
	}
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
