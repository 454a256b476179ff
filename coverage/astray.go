package coverage

import (
	"context"
	"fmt"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/timeline"
)

// Stray says that the active timeline begins with a commit below what the archive has, where no archiver leaves one; "" if it does not. What
// was archived after it then looks unfinished, to Hudi's readers as well, so that nothing can be said of the table. was is what a commit
// of ours noted of the archive: without a sign that something is wrong nothing is read. tl must have been listed before.
func Stray(ctx context.Context, a *timeline.Archive, tl *timeline.Timeline, was mdt.SeenArchive) (string, error) {
	if e := tl.Earliest(); e == "" || was.Earliest == "" || e >= was.Earliest && e > was.Upto {
		return "", nil
	}
	i, upto, passed, err := a.Passed(ctx, tl)
	if err != nil || !passed {
		return "", err
	}
	return fmt.Sprintf("%s %s is on the active timeline, and the archive, which does not have it, reaches up to %s: someone put it there, a writer's clock was wrong, or the savepoint that kept it was deleted",
		i.Action, i.Requested, upto), nil
}

// StrayHint is the way out then.
const StrayHint = "if it is no commit of this table, move its files out of .hoodie/timeline, else roll it back with Hudi's tools; one that a savepoint kept is archived by a next write"

// Astray says that the state's frontier of an index is no commit of either timeline, or an active one that it does not call covered; "" if it
// is right, if it does not reach into the active timeline, or if what it names was undone, which is told otherwise. Only a frontier that has left the active timeline is looked for in
// the archive. tl must have been listed before.
func Astray(ctx context.Context, a *timeline.Archive, tl *timeline.Timeline, x *mdt.Index) (string, error) {
	f := x.Frontier
	if f.Completed == "" || f.Completed < tl.Earliest() || x.Baseline.Instants[f.Requested] == f.Completed || x.Covered[f.Requested] == f.Completed {
		return "", nil
	}
	is := func(i timeline.Instant) bool { return i.Requested == f.Requested && i.Completed == f.Completed }
	if inst, ok := tl.Find(f.Requested); ok && is(inst) && !inst.Archived {
		return fmt.Sprintf("the state says that the index is complete up to commit %s, completed %s, and does not call that commit covered", f.Requested, f.Completed), nil
	}
	inst, ok, err := a.Find(ctx, f.Requested)
	if err != nil || ok && is(inst) {
		return "", err
	}
	return fmt.Sprintf("the state says that the index is complete up to commit %s, completed %s, and neither timeline has such a commit", orNone(f.Requested), f.Completed), nil
}

// astray finds a timeline that begins where none can, and a frontier that is none.
func (g standing) astray(ctx context.Context, x *mdt.Index) (*fallen, error) {
	a := timeline.NewArchive(g.place.Store, table.HoodieDir, g.props)
	why, err := Stray(ctx, a, g.tl, g.state.Archive)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return &fallen{state: StateStalled, reason: why, next: StrayHint}, nil
	}
	if why, err = Astray(ctx, a, g.tl, x); err != nil || why == "" {
		return nil, err
	}
	return &fallen{state: StateStalled, reason: why, next: forgedHint, then: "reconcile"}, nil
}
