package coverage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// history finds that what an index rests on is no longer what it was: our own commits on the metadata table's timeline, the baseline,
// the archived timeline, the newest commits and their files. It looks at listings and at sizes; what files hold is for verify and prove. An error means that something is damaged or cannot be read now.
func (g standing) history(ctx context.Context, x *mdt.Index) (*fallen, error) {
	return g.first(ctx, x, g.ours, g.baseline, g.astray, g.archived, g.files)
}

// byTheTable is the way out where a file cannot be had back.
const byTheTable = "restore the file from a copy; or, if what it says now is right: "

// commits finds a covered commit on the active timeline that is not what was taken in, and an instant of which nobody knows what it did.
func (g standing) commits(x *mdt.Index) *fallen {
	for _, i := range g.tl.Instants() {
		if i.State == timeline.Completed && !i.Action.Known() {
			return &fallen{state: StateStalled, next: "use a Tidemark that knows this action",
				reason: fmt.Sprintf("the timeline has a completed instant of the unknown action %s, which may have changed rows: %s", i.Action, i.File)}
		}
	}
	untaken := g.state.Untaken(x)
	for _, w := range g.tl.Writes() {
		if untaken(w) {
			return &fallen{state: StateStalled, next: forgedHint, then: "reconcile",
				reason: fmt.Sprintf("the state calls commit %s covered, and no commit of ours took it in", w.Requested)}
		}
		if w.Size == 0 && setOf(x).Has(w) {
			return damaged(w, w.File+" is empty")
		}
		if why := x.Changed(w); why != "" {
			return changed(w, why)
		}
	}
	return nil
}

// Emptied says that an index holds commits and that its table's timeline is empty, "" if not: no writer, archiver or restore leaves it so.
func Emptied(x *mdt.Index, tl *timeline.Timeline) string {
	if n := len(x.Baseline.Instants) + len(x.Covered); n > 0 && len(tl.Instants()) == 0 {
		return fmt.Sprintf("the active timeline is empty, and the index holds %s of it: someone deleted the files", count(n, "commit"))
	}
	return ""
}

// emptiedHint is the way out then.
const emptiedHint = "restore .hoodie/timeline from a copy"

// intact finds what the listing of the timeline alone tells: it is gone, or a covered commit is not what it was.
func (g standing) intact(_ context.Context, x *mdt.Index) (*fallen, error) {
	if why := Emptied(x, g.tl); why != "" {
		return &fallen{state: StateStalled, reason: why, next: emptiedHint}, nil
	}
	return g.commits(x), nil
}

// changed is why an index does not stand whose covered commit has another file now.
func changed(w timeline.Instant, why string) *fallen {
	return &fallen{state: StateBlocked, next: byTheTable, then: "reconcile",
		reason: fmt.Sprintf("commit %s, which the index holds, was changed since: %s %s", w.Requested, w.File, why)}
}

// damaged is why an index does not stand whose covered commit cannot be read any more.
func damaged(w timeline.Instant, why string) *fallen {
	return &fallen{state: StateBlocked, then: "reconcile",
		next:   fmt.Sprintf("restore its file from a copy; or roll %s back with Hudi's tools, then: ", w.Requested),
		reason: fmt.Sprintf("commit %s, which the index holds, was damaged since: %s", w.Requested, why)}
}

// ours finds that the metadata table's timeline has lost a commit of ours: its readers, and Hudi's services, no longer know the files.
// A restore of the table takes commits of ours off that timeline, whatever they cover, and leaves their files (docs/format/commit.md, Fold): they stay in
// use, and what the restore undid is told by the table's own timeline.
func (g standing) ours(ctx context.Context, x *mdt.Index) (*fallen, error) {
	return g.oursOn(ctx, x, true)
}

// lostOurs is ours for who reads the commit files anyway, and does not go by their sizes.
func (g standing) lostOurs(ctx context.Context, x *mdt.Index) (*fallen, error) {
	return g.oursOn(ctx, x, false)
}

func (g standing) oursOn(ctx context.Context, x *mdt.Index, sizes bool) (*fallen, error) {
	dir, err := listDir(ctx, g.place.Store, g.place.TimelineDir())
	if err != nil {
		return nil, err
	}
	there, short, restored := map[string]bool{}, map[string]string{}, "" // restored: requested time of the newest restore
	for _, info := range dir {
		id, rest, ok := strings.Cut(path.Base(info.Path), "_")
		switch {
		case ok && strings.HasSuffix(rest, ".deltacommit"):
			there[id] = true
			if sizes && info.Size < mdt.LeastCommitFile() {
				short[id] = fmt.Sprintf("commit file %s has %s", info.Path, count(int(info.Size), "byte"))
			}
		case ok && strings.HasSuffix(rest, ".restore"):
			restored = max(restored, id)
		}
	}
	var lost mdt.DataFile // of the newest commit that is not there
	for _, f := range g.state.Live(x.Name) {
		if why := short[f.ID]; why != "" {
			return &fallen{state: StateStalled, next: mdt.CommitFileHint(x.Name), reason: "what the index rests on was damaged: " + why}, nil
		}
		if f.ID > lost.ID && !there[f.ID] && !slices.Contains(x.Building, f) {
			lost = f
		}
	}
	if lost.ID == "" || lost.ID < restored {
		return nil, nil
	}
	p, err := timeline.LoadProperties(ctx, g.place.Store, g.place.File(".hoodie"))
	if err != nil {
		return nil, err
	}
	upto, err := timeline.NewArchive(g.place.Store, g.place.File(".hoodie"), p).Upto(ctx)
	if err != nil || upto >= lost.ID {
		return nil, err
	}
	if moved, err := g.movedOn(ctx, x); moved || err != nil {
		return nil, err
	}
	return &fallen{state: StateAbsent, noTable: len(there) == 0,
		reason: fmt.Sprintf("the timeline of the metadata table has lost commit %s, to which file %s of the index belongs", lost.ID, lost.Path)}, nil
}

// baseline finds a commit that the state counts to the baseline and that completed after the snapshot that was built from, in a state of
// a version that did not note what it took in. Others are told by commits, and all by prove and verify, which read the manifest record.
func (g standing) baseline(ctx context.Context, x *mdt.Index) (*fallen, error) {
	active := func(w timeline.Instant) bool { return x.Baseline.Instants[w.Requested] == w.Completed }
	if len(x.Seen) > 0 || !slices.ContainsFunc(g.tl.Writes(), active) {
		return nil, nil
	}
	view, err := mdt.OpenView(ctx, g.place, g.state, x.Name)
	if err != nil {
		return nil, err
	}
	view.Locate = delta.FileGroup
	gen, _ := x.Active()
	m, err := manifestOf(ctx, view, gen.Number)
	if gone(err) {
		if moved, err := g.movedOn(ctx, x); moved || err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest of index %s: %w", x.Name, err)
	}
	if why := Beyond(x, m); why != "" {
		return &fallen{state: StateStalled, next: forgedHint, then: "reconcile", reason: why}, nil
	}
	return nil, nil
}

// forgedHint comes before a command.
const forgedHint = "someone changed the state object: restore it from a copy; or, to compare the index with the whole table: "

// Beyond says that the state counts a commit to the baseline which completed after the snapshot that was built from; "" if it does not.
func Beyond(x *mdt.Index, m *delta.Manifest) string {
	newest := Times{}
	for requested, completed := range x.Baseline.Instants {
		if completed > newest.Completed {
			newest = Times{requested, completed}
		}
	}
	if m.BootstrapInstant == nil || newest.Completed <= *m.BootstrapInstant {
		return ""
	}
	return fmt.Sprintf("the state counts commit %s, completed %s, to the baseline, and the index was built from what had completed by %s",
		newest.Requested, newest.Completed, *m.BootstrapInstant)
}

// manifestOf reads the manifest record of a generation.
func manifestOf(ctx context.Context, view *mdt.View, generation uint32) (*delta.Manifest, error) {
	key := delta.ManifestKey(generation)
	found, err := view.Get(ctx, [][]byte{key})
	if err != nil {
		return nil, err
	}
	entry, ok := found[string(key)]
	if !ok {
		return nil, fmt.Errorf("generation %d has no manifest: %w", generation, storage.ErrCorrupt)
	}
	rec, err := delta.Decode(entry.Schema, entry.Value)
	m, ok := rec.(*delta.Manifest)
	if err == nil && !ok {
		err = storage.ErrCorrupt
	}
	if err != nil {
		return nil, fmt.Errorf("manifest of generation %d: %w", generation, err)
	}
	return m, nil
}

// archived compares the archived timeline's folder with what is known of it. A table that archived nothing since a commit of ours
// noted that there is no archive is not asked.
func (g standing) archived(ctx context.Context, x *mdt.Index) (*fallen, error) {
	was := g.state.Archive
	if was.Upto == "" && was.Earliest != "" && was.Earliest == g.tl.Earliest() {
		return nil, nil
	}
	a := timeline.NewArchive(g.place.Store, table.HoodieDir, g.props)
	err := a.Check(ctx, g.tl, was.Least())
	if errors.Is(err, storage.ErrCorrupt) {
		return &fallen{state: StateStalled, reason: err.Error(), then: "reconcile",
			next: "restore the archived timeline from a copy; where there is none, move its folder away, then: "}, nil
	}
	return nil, err
}
