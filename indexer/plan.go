package indexer

import (
	"context"
	"errors"
	"maps"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/timeline"
)

// Planned is what a Sync would cover: one data instant for one index.
type Planned struct {
	Index     string
	Instant   timeline.Instant
	Operation string
	// Mode and Counts are what its marker would say.
	Mode   string
	Counts map[string]int64
}

// Plan compares what a Sync would compare and writes nothing: no lease, no state, no file. It returns what could
// be compared before an error, in completion order per group of indexes that stand at the same place. Kinds as
// Sync.
func Plan(ctx context.Context, place mdt.Place, opt SyncOptions) ([]Planned, error) {
	if _, err := takeLook(ctx, place, nil); err != nil {
		return nil, err
	}
	st, _, err := mdt.ReadState(ctx, place)
	if err != nil {
		return nil, err
	}
	l, err := takeLook(ctx, place, st)
	if err != nil {
		return nil, err
	}
	if err := notHandedOver(ctx, place, l.table.Props, st); err != nil { // a Sync would be refused
		return nil, err
	}
	if err := l.reachBack(ctx, &memo{}); err != nil {
		return nil, err
	}
	var out []Planned
	for _, c := range l.cohorts() {
		if err := l.check(ctx, c); err != nil {
			return out, err
		}
		if len(c.due) == 0 {
			continue
		}
		indexes, err := l.open(ctx, place, c)
		if err != nil {
			return out, err
		}
		planned, err := l.plan(ctx, c, indexes, opt, len(out))
		if out = append(out, planned...); err != nil {
			return out, err
		}
	}
	return out, nil
}

// notHandedOver refuses a table of which an aware engine has an index: mdt.ErrHandedOver.
func notHandedOver(ctx context.Context, place mdt.Place, p *timeline.Properties, st *mdt.State) error {
	for _, name := range slices.Sorted(maps.Keys(st.Indexes)) {
		if x := st.Indexes[name]; !x.Dropped {
			if err := mdt.CheckOurs(ctx, place, p, x.Dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan compares what is due in a cohort. before is how many instants count toward the bound already.
func (l *look) plan(ctx context.Context, c cohort, indexes []opened, opt SyncOptions, before int) ([]Planned, error) {
	var out []Planned
	due := len(c.due)
	for len(c.due) > 0 {
		limit := len(c.due)
		if opt.MaxInstants > 0 {
			limit = min(limit, opt.MaxInstants-before-len(out))
		}
		if limit <= 0 {
			break
		}
		observe := func(n int) {
			if opt.Progress != nil {
				opt.Progress(due-len(c.due)+n, due)
			}
		}
		t := opt.Memory.take(indexes, true)
		done, known, err := l.compare(ctx, c, indexes, t, limit, observe)
		err = errors.Join(err, t.close())
		for _, d := range done {
			c.courses[0].Cover([]timeline.Instant{d.instant})
			for i, x := range c.indexes {
				r := d.record(i, x.Name, "")
				out = append(out, Planned{Index: x.Name, Instant: d.instant, Operation: r.Operation, Mode: r.Mode, Counts: r.Counts})
			}
		}
		if err != nil {
			return out, err
		}
		for _, x := range c.indexes {
			x.Copies = known
		}
		c.due = c.due[len(done):]
	}
	return out, nil
}
