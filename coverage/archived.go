package coverage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// FindArchived returns the archived instant with that requested or, failing that, completion time (timeline.Archive.Find). An
// instant later than everything that has completed is not archived, so nothing is read for it. tl must have been listed before.
func FindArchived(ctx context.Context, a *timeline.Archive, tl *timeline.Timeline, at string) (timeline.Instant, bool, error) {
	newest := ""
	for _, i := range tl.Instants() {
		newest = max(newest, i.Completed)
	}
	if newest != "" && at > newest {
		return timeline.Instant{}, false, nil
	}
	return a.Find(ctx, at)
}

// archivedUncovered says why an archived data write is not known to be incorporated; empty if it is: it completed before the
// bootstrap's earliest active instant, or at or below a frontier that is known (RFC-109 section 9.1), or the state still names
// it; and no restore or rollback on the active timeline has undone it since.
func archivedUncovered(ctx context.Context, st storage.Store, p *timeline.Properties, tl *timeline.Timeline, x *mdt.Index, row timeline.Instant) (string, error) {
	completed := row.Completed
	set, earliest := setOf(x), tl.Earliest()
	frontier := markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed, Open: x.Frontier.Open}
	held := completed < set.Before || set.Baseline[row.Requested] == completed || set.Covered[row.Requested] == completed
	upto, err := timeline.NewArchive(st, table.HoodieDir, p).Upto(ctx)
	if err != nil {
		return "", err
	}
	below := completed <= frontier.Completed && markers.Known(frontier, set, earliest, upto)
	if !held && !below {
		return fmt.Sprintf("%s %s is archived, and not known to be covered", row.Action, row.Requested), nil
	}
	for _, a := range []timeline.Action{timeline.Restore, timeline.Rollback} {
		for _, i := range tl.CompletedOf(a) {
			if i.Completed <= completed {
				continue // a retry under the same time completed later
			}
			undone, err := Undone(ctx, st, p, i)
			if err != nil {
				return "", err
			}
			if slices.Contains(undone, row.Requested) {
				return fmt.Sprintf("%s %s undid it", i.Action, i.Requested), nil
			}
		}
	}
	return "", nil
}

// Undone returns the requested times of what a completed restore or rollback of the active timeline undid. One that cannot be read is
// storage.ErrCorrupt: what it undid is not known, so nobody may go on as if it had undone nothing.
func Undone(ctx context.Context, st storage.Store, p *timeline.Properties, i timeline.Instant) ([]string, error) {
	out, err := undoneBy(ctx, st, p, i)
	if errors.Is(err, storage.ErrCorrupt) {
		return nil, &storage.Error{Op: "read " + string(i.Action), Path: path.Join(p.TimelineDir(table.HoodieDir), i.File), Err: err,
			Hint: "what it undid is not known: restore its file from a copy, or run the " + string(i.Action) + " again with Hudi's tools"}
	}
	return out, err
}

func undoneBy(ctx context.Context, st storage.Store, p *timeline.Properties, i timeline.Instant) ([]string, error) {
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
	var out []string
	for _, r := range m.Instants {
		out = append(out, r.Requested)
	}
	return out, nil
}
