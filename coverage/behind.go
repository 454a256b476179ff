package coverage

import (
	"context"
	"errors"
	"fmt"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// reachBack completes the verdict on an index whose frontier fell behind the archive: it counts what was archived and not
// followed, or says why that cannot be known. It reads the archive's index columns.
func (l *look) reachBack(ctx context.Context, x *mdt.Index, v *Verdict) error {
	a := timeline.NewArchive(l.deps.Place.Store, table.HoodieDir, l.props)
	f := x.Frontier
	if f.Completed != "" {
		inst, ok := l.tl.Find(f.Requested)
		if !ok || inst.Completed != f.Completed {
			var err error
			if inst, ok, err = a.Find(ctx, f.Requested); err != nil {
				return err
			}
		}
		if !ok || inst.Requested != f.Requested || inst.Completed != f.Completed {
			v.Cut = true
			v.Reason = fmt.Sprintf("commits before %s were archived, and the archive does not hold commit %s any more, up to which the index is complete", l.tl.Earliest(), f.Requested)
			return nil
		}
	}
	archived, err := a.Writes(ctx, l.tl, f.Completed)
	if errors.Is(err, storage.ErrStale) {
		return nil // the archiver has just passed: the next look counts
	}
	if err != nil {
		return err
	}
	set := setOf(x)
	for _, i := range archived {
		if !set.Has(i) && i.Requested >= set.Before {
			v.Archived = append(v.Archived, i)
		}
	}
	all := l.tl.With(v.Archived).Writes()
	v.Reached = true
	v.Lag = markers.Measure(set, all, f.Completed)
	v.Due = set.Due(all)
	if len(v.Due) == 0 { // what was archived is all held: a sync only has to say so
		v.Reason = "the frontier is to be moved past what was archived"
		return nil
	}
	v.Reason = fmt.Sprintf("%s not covered, the first is %s %s", count(len(v.Due), "commit"), v.Due[0].Action, v.Due[0].Requested)
	if n := len(v.Archived); n > 0 {
		v.Reason += fmt.Sprintf("; %d of them archived", n)
	}
	return nil
}
