package timeline

import (
	"context"
	"fmt"
	"slices"

	"tidemark/internal/storage"
)

// Writes returns what a catch-up has to look at: the archived data writes that completed after a time ("" = all), by completion,
// then requested time. tl is the active timeline, listed before this call; what it has is left out, as is what a later
// restore or rollback, active or archived, undid. The index columns of every level file are read, since a name bounds requested times
// only and an instant may complete long after it was requested.
//
// An archived write that tl neither has nor lies before is storage.ErrStale: the archiver has passed tl, look again.
func (a *Archive) Writes(ctx context.Context, tl *Timeline, after string) ([]Instant, error) {
	all, err := a.since(ctx, tl, after)
	return slices.DeleteFunc(all, func(i Instant) bool { return !i.Action.IsWrite() }), err
}

// Passed returns the earliest active write if the archive has passed it by: it was requested no later than what the archive has, and is not
// in it. No archiver leaves that, so what is not on the active timeline and was requested after it need not be undone. tl must have been
// listed before. upto is how far the archive reaches.
func (a *Archive) Passed(ctx context.Context, tl *Timeline) (inst Instant, upto string, passed bool, err error) {
	n := slices.IndexFunc(tl.instants, func(i Instant) bool { return i.Action.IsWrite() && i.Requested == tl.earliest && !i.Archived })
	if tl.earliest == "" || n < 0 {
		return Instant{}, "", false, nil
	}
	if upto, err = a.Upto(ctx); err != nil || upto < tl.earliest {
		return Instant{}, upto, false, err
	}
	inst = tl.instants[n]
	row, found, err := a.Find(ctx, inst.Requested)
	return inst, upto, err == nil && !(found && row.Requested == inst.Requested), err
}

// since is Writes and the cleans: a file that a snapshot needs and that is gone is named by a clean that completed since.
func (a *Archive) since(ctx context.Context, tl *Timeline, after string) ([]Instant, error) {
	var out, undoers []Instant
	for inst, err := range a.Instants(ctx, "", "") {
		switch {
		case err != nil:
			return nil, err
		case inst.Action == Rollback || inst.Action == Restore:
			undoers = append(undoers, inst)
		case (inst.IsDataWrite() || inst.Action == Clean) && inst.Completed > after && !tl.has(inst):
			out = append(out, inst)
		}
	}
	slices.SortFunc(out, compare)
	if len(out) == 0 {
		return nil, nil
	}
	undone, err := a.undone(ctx, tl, undoers, out[0].Completed)
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(i Instant) bool { return undone[i.Requested] > i.Completed })
	for _, i := range out {
		if i.Action.IsWrite() && tl.earliest != "" && i.Requested >= tl.earliest {
			return nil, &storage.Error{Op: "read archive", Path: a.p.HistoryDir(a.dir), Hint: "the table archived meanwhile: try again",
				Err: fmt.Errorf("%s %s is archived, and the look at the active timeline begins at %s: %w",
					i.Action, i.Requested, tl.earliest, storage.ErrStale)}
		}
	}
	return out, nil
}

// undone returns what restores and rollbacks that completed after a time undid, with the completion time of the last one.
func (a *Archive) undone(ctx context.Context, tl *Timeline, archived []Instant, after string) (map[string]string, error) {
	out := map[string]string{}
	for _, inst := range slices.Concat(archived, tl.CompletedOf(Rollback), tl.CompletedOf(Restore)) {
		if inst.Completed <= after {
			continue
		}
		targets, err := a.targets(ctx, inst)
		if err != nil {
			return nil, err
		}
		for _, requested := range targets {
			out[requested] = max(out[requested], inst.Completed)
		}
	}
	return out, nil
}

// targets returns the requested times of what a completed restore or rollback, active or archived, undid.
func (a *Archive) targets(ctx context.Context, inst Instant) (requested []string, err error) {
	if inst.Action == Rollback {
		var m *RollbackMetadata
		if inst.Archived {
			m, err = a.Rollback(ctx, inst)
		} else {
			m, err = ReadRollback(ctx, a.st, a.dir, a.p, inst)
		}
		if err != nil {
			return nil, err
		}
		return m.Instants, nil
	}
	var m *RestoreMetadata
	if inst.Archived {
		m, err = a.Restore(ctx, inst)
	} else {
		m, err = ReadRestore(ctx, a.st, a.dir, a.p, inst)
	}
	if err != nil {
		return nil, err
	}
	for _, r := range m.Instants {
		requested = append(requested, r.Requested)
	}
	return requested, nil
}

// history is the longest history that a Reader has read, and of what.
type history struct {
	active *Timeline
	read   *manifest
	after  string
	tl     *Timeline
}

// Since returns tl with the archived data writes and cleans that completed after a time ("" = all; see Archive.Writes). Asked
// again with a later time it reads and sorts nothing while neither timeline has changed.
func (r *Reader) Since(ctx context.Context, p *Properties, tl *Timeline, after string) (*Timeline, error) {
	a := r.Archive(p)
	m, err := a.manifest(ctx)
	if err != nil {
		return nil, err
	}
	if m.version < 0 && len(m.orphans) == 0 {
		return tl, nil
	}
	r.mu.Lock()
	h := r.history
	r.mu.Unlock()
	if h.active != tl || h.read != m || h.after > after {
		archived, err := a.since(ctx, tl, after)
		if err != nil {
			return nil, err
		}
		h = history{active: tl, read: m, after: after, tl: tl}
		if len(archived) > 0 {
			h.tl = tl.With(archived)
		}
		r.mu.Lock()
		r.history = h
		r.mu.Unlock()
	}
	if h.after == after {
		return h.tl, nil
	}
	return h.tl.view(after), nil
}
