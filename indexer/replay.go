package indexer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// ReplayOptions says which commits a Replay compares.
type ReplayOptions struct {
	// Index names one index. Defaults to all active ones.
	Index string
	// From and To are the first and the last commit in completion order, by requested or completion time, active or archived. They
	// default to the first and the last one that there are.
	From, To string
	// Progress is as in SyncOptions.
	Progress func(done, due int)
	// Memory is as in SyncOptions.
	Memory Memory
}

// Replay compares the commits of a range as a catch-up would that stood right before it, whether they are covered or not, and
// writes nothing. What it can say about commits whose files are gone follows from the postings of the index as it is now. Kinds
// as Sync; a bound that is no data write of either timeline is storage.ErrNotFound.
func Replay(ctx context.Context, place mdt.Place, opt ReplayOptions) ([]Planned, error) {
	st, _, err := mdt.ReadState(ctx, place)
	if err != nil {
		return nil, err
	}
	l, err := takeLook(ctx, place, st)
	if err != nil {
		return nil, err
	}
	if l.table, err = l.table.Since(ctx, ""); err != nil {
		return nil, err
	}
	l.long, l.writes = true, l.table.Timeline.Writes()
	set, due, err := l.span(opt.From, opt.To)
	if err != nil {
		return nil, err
	}
	all := l.Look
	all.Writes = l.writes
	c := cohort{courses: []*markers.Course{all.Course(markers.Claim{Set: set})}, due: due}
	for _, name := range slices.Sorted(maps.Keys(st.Indexes)) {
		x := st.Indexes[name]
		if _, active := x.Active(); !active || x.Dropped || opt.Index != "" && opt.Index != name {
			continue
		}
		if err := l.checkColumn(x); err != nil {
			return nil, err
		}
		c.indexes = append(c.indexes, x)
	}
	if len(c.indexes) == 0 {
		return nil, noActive(place)
	}
	indexes, err := l.open(ctx, place, c)
	if err != nil {
		return nil, err
	}
	return l.plan(ctx, c, indexes, SyncOptions{Progress: opt.Progress, Memory: opt.Memory}, 0)
}

// span returns the data writes of a range in completion order, and the set of those before it.
func (l *look) span(from, to string) (markers.Set, []timeline.Instant, error) {
	set := markers.Set{Covered: map[string]string{}}
	writes := l.writes
	first, last := 0, len(writes)-1
	for _, b := range []struct {
		at    string
		place *int
	}{{from, &first}, {to, &last}} {
		if b.at == "" {
			continue
		}
		inst, ok := l.table.Timeline.Find(b.at)
		if !ok || !inst.IsDataWrite() {
			return set, nil, &storage.Error{Op: "replay", Path: b.at, Hint: "name a completed commit by its requested or completion time: tidemark markers",
				Err: fmt.Errorf("no completed commit of the active or archived timeline: %w", storage.ErrNotFound)}
		}
		*b.place = slices.IndexFunc(writes, func(w timeline.Instant) bool { return w.Requested == inst.Requested && w.Completed == inst.Completed })
	}
	if first > last && len(writes) > 0 {
		return set, nil, &storage.Error{Op: "replay", Path: from, Hint: "turn --from and --to round",
			Err: fmt.Errorf("it completed after %s: %w", to, storage.ErrRefused)}
	}
	for _, w := range writes[:first] {
		set.Covered[w.Requested] = w.Completed
	}
	return set, writes[first : last+1], nil
}
