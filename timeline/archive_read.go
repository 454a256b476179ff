package timeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// Instants returns the archived instants requested in [from, to], of every action, by requested time, then action; each once,
// although level files may overlap. An empty bound is open. Level files outside the range are not read.
func (a *Archive) Instants(ctx context.Context, from, to string) iter.Seq2[Instant, error] {
	return func(yield func(Instant, error) bool) {
		var rows []levelRow
		err := a.retry(ctx, func(m *manifest) (err error) {
			rows, err = a.rows(ctx, m, from, to)
			return err
		})
		if err != nil {
			yield(Instant{}, err)
			return
		}
		for _, r := range rows {
			if !yield(r.instant(), nil) {
				return
			}
		}
	}
}

// rows merges the index rows of a range.
func (a *Archive) rows(ctx context.Context, m *manifest, from, to string) ([]levelRow, error) {
	var rows []levelRow
	for _, f := range m.files {
		if f.max < from || to != "" && f.min > to {
			continue
		}
		l, err := a.level(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range l.rows {
			if r.requested >= from && (to == "" || r.requested <= to) {
				rows = append(rows, r)
			}
		}
	}
	// Of two rows of one instant the one with a completion time of its own comes first.
	slices.SortStableFunc(rows, func(x, y levelRow) int {
		if c := x.compare(y); c != 0 || x.derived == y.derived {
			return c
		}
		if y.derived {
			return -1
		}
		return 1
	})
	once := rows[:0]
	for _, r := range rows {
		if n := len(once); n > 0 && once[n-1].compare(r) == 0 {
			if last := once[n-1]; !r.derived && last.completed != r.completed {
				return nil, &storage.Error{Op: "read archive", Path: a.p.HistoryDir(a.dir), Hint: archiveHint,
					Err: damaged("%s %s is archived with two completion times, %s and %s", r.action, r.requested, last.completed, r.completed)}
			}
			continue
		}
		once = append(once, r)
	}
	return once, nil
}

// Find returns the archived instant with that requested or completion time; of several the data write requested then, the data
// write completed then, and only then others. Only for a data write's requested time is the range of level files known: for
// others the index columns of every file that begins before are read.
func (a *Archive) Find(ctx context.Context, at string) (inst Instant, ok bool, err error) {
	err = a.retry(ctx, func(m *manifest) error {
		best := 0
		pick := func(from string) error {
			rows, err := a.rows(ctx, m, from, at) // nothing completes before it is requested
			for _, r := range rows {
				rank := 0
				switch {
				case r.requested == at && r.action.IsWrite():
					rank = 4
				case r.completed == at && r.action.IsWrite():
					rank = 3
				case r.requested == at:
					rank = 2
				case r.completed == at:
					rank = 1
				}
				if rank > best {
					best, inst, ok = rank, r.instant(), true
				}
			}
			return err
		}
		inst, ok = Instant{}, false
		if err := pick(at); err != nil || best == 4 {
			return err
		}
		return pick("")
	})
	return inst, ok, err
}

// Commit returns the metadata of an archived commit, deltacommit or replacecommit. Digest is the SHA-256 of the same bytes that
// the active timeline's file had. A row without metadata (a commit that was empty when it was archived) is
// storage.ErrCorrupt: it proves nothing. An instant that is not archived is storage.ErrNotFound.
func (a *Archive) Commit(ctx context.Context, inst Instant) (*CommitMetadata, error) {
	if !inst.Action.IsWrite() || !inst.Archived {
		return nil, wrongAction(inst, "an archived commit")
	}
	m, err := a.metadata(ctx, inst)
	if err != nil {
		return nil, err
	}
	return m.(*CommitMetadata), nil
}

// metadata returns the metadata of a data write or clean. What is read ahead is kept as well.
func (a *Archive) metadata(ctx context.Context, inst Instant) (content, error) {
	if m := a.cache.get(a.key(inst.Requested, inst.Action)); m != nil {
		return m, nil
	}
	var out content
	err := a.content(ctx, inst, colMetadata, true, func(r levelRow, b []byte) error {
		wanted := r.requested == inst.Requested && r.action == inst.Action
		m, err := metadataOf(r.action, b)
		switch {
		case err != nil && wanted:
			return fmt.Errorf("%s %s: %w", r.action, r.requested, err)
		case err != nil || m == nil: // read ahead: an error is told when it is asked for
			return nil
		}
		a.cache.put(a.key(r.requested, r.action), m)
		if wanted {
			out = m
		}
		return nil
	})
	return out, err
}

// metadataOf parses the metadata of a data write or clean; nil: it is another action's.
func metadataOf(action Action, b []byte) (content, error) {
	switch {
	case action.IsWrite():
		m, err := parseCommit(b, action == ReplaceCommit)
		if err != nil {
			return nil, err
		}
		m.Digest = sha256.Sum256(b)
		return m, nil
	case action == Clean:
		if len(b) == 0 {
			return nil, damaged("no metadata in its row")
		}
		rec, err := one(b, cleanFields...)
		if err != nil {
			return nil, err
		}
		return cleanOf(rec), nil
	}
	return nil, nil
}

func (a *Archive) key(requested string, action Action) string {
	return path.Join(a.dir, "archived", requested) + "." + string(action)
}

// errNoRow says that the archive does not hold an instant. It is not storage.ErrNotFound, which a missing level file is.
var errNoRow = errors.New("not archived")

// content hands the bytes of one column of an instant to fn, and those of rows behind it when they are likely to be asked for
// next. The manifest is read anew only if the one read last does not do.
func (a *Archive) content(ctx context.Context, inst Instant, column string, ahead bool, fn func(r levelRow, b []byte) error) error {
	read := func(m *manifest) error {
		for _, f := range m.files {
			if inst.Requested < f.min || inst.Requested > f.max {
				continue
			}
			l, err := a.level(ctx, f)
			if err != nil {
				return err
			}
			row, ok := l.find(inst.Requested, inst.Action)
			if !ok || row.completed != inst.Completed {
				continue
			}
			positions := []int64{row.at}
			if ahead {
				positions = l.ahead(row.at)
			}
			return l.content(ctx, column, positions, func(at int64, b []byte) error { return fn(l.rows[l.byPosition[at]], b) })
		}
		return errNoRow
	}
	a.mu.Lock()
	m := a.current
	a.mu.Unlock()
	if m != nil {
		if err := read(m); err == nil || !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, errNoRow) {
			return err
		}
	}
	err := a.retry(ctx, read)
	if errors.Is(err, errNoRow) {
		return &storage.Error{Op: "read archive", Path: a.p.HistoryDir(a.dir), Hint: "the timeline has changed since it was read: try again",
			Err: fmt.Errorf("%s %s: %w: %w", inst.Action, inst.Requested, errNoRow, storage.ErrNotFound)}
	}
	return err
}

// Clean returns the metadata of an archived clean. Errors as Commit, also for the following.
func (a *Archive) Clean(ctx context.Context, inst Instant) (*CleanMetadata, error) {
	if inst.Action != Clean || !inst.Archived {
		return nil, wrongAction(inst, "an archived clean")
	}
	m, err := a.metadata(ctx, inst)
	if err != nil {
		return nil, err
	}
	return m.(*CleanMetadata), nil
}

// Rollback returns the metadata of an archived rollback.
func (a *Archive) Rollback(ctx context.Context, inst Instant) (*RollbackMetadata, error) {
	return archivedRecord(ctx, a, inst, colMetadata, inst.Action == Rollback, rollbackFields, func(r avrox.Record) *RollbackMetadata { m := rollbackOf(r); return &m })
}

// Restore returns the metadata of an archived restore.
func (a *Archive) Restore(ctx context.Context, inst Instant) (*RestoreMetadata, error) {
	return archivedRecord(ctx, a, inst, colMetadata, inst.Action == Restore, restoreFields, restoreOf)
}

// Savepoint returns the metadata of an archived savepoint.
func (a *Archive) Savepoint(ctx context.Context, inst Instant) (*SavepointMetadata, error) {
	return archivedRecord(ctx, a, inst, colMetadata, inst.Action == Savepoint, savepointFields, savepointOf)
}

// CompactionPlan returns the plan of an archived compaction or log compaction.
func (a *Archive) CompactionPlan(ctx context.Context, inst Instant) (*CompactionPlan, error) {
	return archivedRecord(ctx, a, inst, colPlan, inst.Action == Commit || inst.Action == DeltaCommit, compactionFields, compactionPlanOf)
}

// ClusteringPlan returns the plan of an archived clustering, or the requested file of another replacecommit.
func (a *Archive) ClusteringPlan(ctx context.Context, inst Instant) (*ClusteringPlan, error) {
	return archivedRecord(ctx, a, inst, colPlan, inst.Action == ReplaceCommit, clusteringFields, clusteringPlanOf)
}

func archivedRecord[T any](ctx context.Context, a *Archive, inst Instant, column string, fits bool, fields []string, convert func(avrox.Record) *T) (*T, error) {
	if !inst.Archived || !fits {
		return nil, wrongAction(inst, "an archived instant of that kind")
	}
	var out *T
	err := a.content(ctx, inst, column, false, func(_ levelRow, b []byte) error {
		if len(b) == 0 {
			return damaged("%s of %s %s is not in its row", column, inst.Action, inst.Requested)
		}
		rec, err := one(b, fields...)
		if err != nil {
			return fmt.Errorf("%s of %s %s: %w", column, inst.Action, inst.Requested, err)
		}
		out = convert(rec)
		return nil
	})
	return out, err
}
