package coverage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// archiveLook finds one instant in the archived timeline and reads the archive again only after it has changed.
type archiveLook struct {
	files []timeline.ArchiveFile
	row   timeline.ArchivedRow
	found bool
}

// archiveAttempts bounds how often the archive is read again while it is merged under the reader.
const archiveAttempts = 3

// FindArchived returns the archived instant with that requested or, failing that, completion time.
func FindArchived(ctx context.Context, st storage.Store, p *timeline.Properties, tl *timeline.Timeline, at string) (timeline.ArchivedRow, bool, error) {
	return new(archiveLook).find(ctx, st, p, tl, at)
}

// find returns the archived instant with that requested or, failing that, completion time; of several with the same time a
// data write goes before others. An instant later than everything that has completed is not archived, so nothing is read
// for it.
func (a *archiveLook) find(ctx context.Context, st storage.Store, p *timeline.Properties, tl *timeline.Timeline, at string) (timeline.ArchivedRow, bool, error) {
	newest, any := "", false
	for _, i := range tl.Instants() {
		newest, any = max(newest, i.Completed), true
	}
	if any && at > newest {
		return timeline.ArchivedRow{}, false, nil
	}
	for attempt := 1; ; attempt++ {
		err := a.read(ctx, st, p, at)
		if err == nil || attempt == archiveAttempts || !errors.Is(err, storage.ErrNotFound) {
			return a.row, a.found, err
		}
	}
}

func (a *archiveLook) read(ctx context.Context, st storage.Store, p *timeline.Properties, at string) error {
	files, err := timeline.ArchiveFiles(ctx, st, table.HoodieDir, p)
	if err != nil || a.files != nil && slices.Equal(files, a.files) {
		return err
	}
	*a = archiveLook{}
	newest := slices.Clone(files)
	slices.SortFunc(newest, func(x, y timeline.ArchiveFile) int { return cmp.Compare(y.Max, x.Max) })
	rows, best := mdt.ArchiveReader(st), 0
	for _, f := range newest {
		if at < f.Min || best > 0 && at > f.Max { // nothing completes before it is requested
			continue
		}
		all, err := rows(ctx, f.Path, f.Size)
		if err != nil {
			return fmt.Errorf("look for instant %s in the archive: %w", at, err)
		}
		for _, r := range all {
			rank := 0
			switch {
			case r.Requested == at && r.Action.IsWrite():
				rank = 4
			case r.Completed == at && r.Action.IsWrite():
				rank = 3
			case r.Requested == at:
				rank = 2
			case r.Completed == at:
				rank = 1
			}
			if rank > best {
				best, a.row, a.found = rank, r, true
			}
		}
	}
	a.files = files
	return nil
}

// archivedUncovered says why an archived data write is not known to be incorporated; empty if it is: it completed before the
// bootstrap's earliest active instant, or at or below a frontier that is known (RFC-109 section 9.1), or the state still names
// it; and no restore or rollback on the active timeline has undone it since.
func archivedUncovered(ctx context.Context, st storage.Store, p *timeline.Properties, tl *timeline.Timeline, x *mdt.Index, row timeline.ArchivedRow) (string, error) {
	completed := cmp.Or(row.Completed, row.Requested) // as Hudi's own readers do for instants of old writers
	set, earliest := setOf(x), tl.Earliest()
	frontier := markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed, Open: x.Frontier.Open}
	held := completed < set.Before || set.Baseline[row.Requested] == completed || set.Covered[row.Requested] == completed
	below := completed <= frontier.Completed && markers.Known(frontier, set, earliest, true)
	if !held && !below {
		return fmt.Sprintf("%s %s is archived, and not known to be covered", row.Action, row.Requested), nil
	}
	for _, a := range []timeline.Action{timeline.Restore, timeline.Rollback} {
		for _, i := range tl.CompletedOf(a) {
			if i.Completed <= completed {
				continue // a retry under the same time completed later
			}
			undone, err := targets(ctx, st, p, i)
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

// targets returns the requested times of what a completed restore or rollback undid.
func targets(ctx context.Context, st storage.Store, p *timeline.Properties, i timeline.Instant) ([]string, error) {
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
