package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"tidemark/diffing"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// reachBack lengthens the look by the archived data writes that an active index may not hold: those that completed after a
// frontier which fell behind the archive. Without such an index it reads nothing of the archive's content. Afterwards the
// ordinary pass works on archived and active instants alike, in completion order. storage.ErrStale where the archive does not
// reach back to the index.
func (l *look) reachBack(ctx context.Context, m *memo) error {
	if err := l.notStray(ctx); err != nil {
		return err
	}
	var behind []*mdt.Index
	var first *mdt.Index // of behind, whose frontier is the oldest
	for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
		x := l.state.Indexes[name]
		if _, active := x.Active(); !active || x.Dropped || l.aside[name] {
			continue
		}
		claim := claimOf(x)
		if err := l.archive(ctx, claim); err != nil {
			return err
		}
		if !l.Behind(claim) {
			continue
		}
		if first == nil || x.Frontier.Completed < first.Frontier.Completed {
			first = x
		}
		behind = append(behind, x)
	}
	if first == nil {
		return nil
	}
	long, err := l.table.Since(ctx, first.Frontier.Completed)
	if err != nil {
		return moved(err)
	}
	for _, x := range behind {
		if err := l.reaches(ctx, x); err != nil {
			return err
		}
	}
	l.table, l.long = long, true
	l.writes = long.Timeline.Writes()
	if !m.looked || m.earliest != l.Earliest {
		hole, err := l.holes(ctx, first)
		if err != nil {
			return err
		}
		m.looked, m.earliest, m.hole = true, l.Earliest, hole
	}
	l.hole = m.hole
	return nil
}

// memo is what a sync keeps from pass to pass.
type memo struct {
	looked   bool // for holes, while the active timeline began at earliest
	earliest string
	hole     string
	asides   map[string]bool
	aside    error // why the first of asides was set aside; nil if none was
	fold     foldRule
	judged   judged

	steps  Steps               // of the pass at hand
	report func(reported)      // nil: nobody is told
	folded func(time.Duration) // the same of folds

	noticed func(requested string) time.Time // nil: no source
	now     func() time.Time                 // nil: time.Now
}

// tell reports what a commit of the metadata table covers in one index, which is at place i of what was compared.
func (m *memo) tell(l *look, id, index string, i int, done []covered) {
	if m.report != nil {
		m.report(reported{look: l, id: id, steps: m.steps, index: index, place: i, done: done})
	}
}

// reaches refuses an index whose frontier the archive does not hold any more: what lay between is not known.
func (l *look) reaches(ctx context.Context, x *mdt.Index) error {
	f := x.Frontier
	if f.Completed == "" {
		return nil // everything that is archived, but for the baseline, is looked at
	}
	inst, ok := l.table.Timeline.Find(f.Requested)
	if !ok || inst.Completed != f.Completed {
		var err error
		if inst, ok, err = l.table.Archive().Find(ctx, f.Requested); err != nil {
			return err
		}
	}
	if ok && inst.Requested == f.Requested && inst.Completed == f.Completed {
		return nil
	}
	return &storage.Error{Op: "follow index", Path: x.Name, Hint: "tidemark reconcile makes it equal to the table as it is now",
		Err: fmt.Errorf("the archive does not hold the index's frontier, commit %s, any more, so commits after it may be missing: %w", f.Requested, storage.ErrStale)}
}

// setAside takes the indexes whose column is another one now out of the look, so that the others go on, and remembers why.
func (l *look) setAside(m *memo) error {
	l.aside, m.aside = map[string]bool{}, nil
	m.asides = l.aside
	for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
		x := l.state.Indexes[name]
		if _, active := x.Active(); !active || x.Dropped {
			continue
		}
		if err := l.checkColumn(x); errors.Is(err, storage.ErrRefused) {
			l.aside[name] = true
			m.aside = cmp.Or(m.aside, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// holes says why it is not known that the archive has every commit after an index's frontier; "" if it is. The witness is the table's own
// metadata table, which follows each data write under its requested time: it has the commit at which the catch-up begins, every write
// after it that the archive has, and none that neither timeline has. What it has and they have not may have been undone, so that proves
// nothing; but a catch-up that is not known to be whole ends with a reconcile, which is right whatever is missing.
func (l *look) holes(ctx context.Context, x *mdt.Index) (string, error) {
	dir := path.Join(mdt.Inside(l.table.Store).MDTDir, table.HoodieDir)
	props, tl, err := timeline.Open(ctx, l.table.Store, dir)
	if errors.Is(err, storage.ErrNotFound) && l.beside {
		return "the table has no metadata table that would tell of commits that are missing from its archive", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for gaps in the archive: %w", err)
	}
	begin, after := cmp.Or(x.Frontier.Requested, x.Baseline.Before), x.Frontier.Completed
	known, expected := map[string]bool{}, []string{begin}
	note := func(i timeline.Instant) {
		known[i.Requested] = true
		if i.IsDataWrite() && i.Requested > begin && i.Requested < l.Earliest {
			expected = append(expected, i.Requested)
		}
	}
	for _, i := range l.table.Timeline.Instants() {
		note(i)
	}
	for i, err := range l.table.Archive().Instants(ctx, "", "") {
		if err != nil {
			return "", err
		}
		note(i)
	}
	followed, hole := map[string]bool{}, ""
	look := func(i timeline.Instant) {
		if i.Action != timeline.DeltaCommit || i.State != timeline.Completed {
			return
		}
		followed[i.Requested] = true
		if i.Requested <= after || i.Requested >= l.Earliest || known[i.Requested] {
			return
		}
		if own, err := timeline.AddMillis(i.Requested, 1); err == nil && own == i.Completed {
			return // one of ours: a completion time a millisecond later is what no clock gives
		}
		hole = cmp.Or(hole, i.Requested)
	}
	for _, i := range tl.Instants() {
		look(i)
	}
	for i, err := range timeline.NewArchive(l.table.Store, dir, props).Instants(ctx, begin, l.Earliest) {
		if err != nil {
			return "", fmt.Errorf("look for gaps in the archive: %w", err)
		}
		look(i)
	}
	if hole != "" {
		return fmt.Sprintf("the metadata table followed %s, which neither timeline has", hole), nil
	}
	for _, at := range expected {
		if !followed[at] {
			return fmt.Sprintf("nothing tells whether the archive has every commit after %s: the metadata table did not follow %s", begin, at), nil
		}
	}
	return "", nil
}

// claim returns what an index says about itself, on the instants that the look has: an archived one that lies at or below its
// frontier, or was archived before its baseline was read, is incorporated although the state does not name it any more.
func (l *look) claim(x *mdt.Index) markers.Claim {
	c := claimOf(x)
	if !l.long {
		return c
	}
	covered := maps.Clone(c.Set.Covered)
	if covered == nil {
		covered = map[string]string{}
	}
	for _, w := range l.writes {
		if w.Archived && !c.Set.Has(w) && (w.Completed <= x.Frontier.Completed || w.Requested < x.Baseline.Before) {
			covered[w.Requested] = w.Completed
		}
	}
	c.Set.Covered = covered
	return c
}

// doubt says why an index must be compared with the whole table after a batch; "" if it need not be (design, decision 12).
func (l *look) doubt(done []covered) string {
	for _, d := range done {
		if d.unit {
			return fmt.Sprintf("the files of commit %s were gone when it was compared", d.instant.Requested)
		}
	}
	return l.hole
}

// finish ends a sync that has nothing more to cover: indexes that a catch-up over gone files left in doubt are compared with
// the whole table.
func finish(ctx context.Context, place mdt.Place, sk Committer, opt SyncOptions, res *SyncResult) error {
	var doubtful []string
	for name, x := range sk.State().Indexes {
		if _, active := x.Active(); active && !x.Dropped && x.Reconcile != "" && !sk.memo.asides[name] {
			doubtful = append(doubtful, name)
		}
	}
	if len(doubtful) == 0 {
		return sk.memo.aside
	}
	slices.Sort(doubtful)
	done, err := reconcile(ctx, place, sk, ReconcileOptions{only: doubtful, Progress: opt.Compared})
	if err != nil {
		return fmt.Errorf("compare with the whole table after the catch-up: %w", err)
	}
	res.Reconciled, res.More = done, len(done) > 0
	for _, r := range done {
		if r.Commit != "" && !slices.Contains(res.Commits, r.Commit) {
			res.Commits = append(res.Commits, r.Commit)
		}
		res.Processed += r.Covered
	}
	return sk.memo.aside
}

// unit fills in the instants that must be compared together, beginning with the first due one: normally it
// alone; with later ones as long as a touched group's slice is gone (design decision 12). A group is looked at when an instant
// touches it, and only then: the others' slices do not change. It has at
// least so many instants, where there are.
func (l *look) unit(ctx context.Context, src source, due []timeline.Instant, least int, req *diffing.Request) error {
	missing := map[table.Group]error{}
	var gone map[string]bool // files, once a slice is missed
	in := map[string]bool{}
	after := func(i timeline.Instant) bool { return in[i.Requested] || req.Incorporated(i) }
	for i, instant := range due {
		if err := ctx.Err(); err != nil {
			return err
		}
		meta, err := l.table.Commit(ctx, instant)
		if err != nil {
			return fmt.Errorf("read instant %s: %w", instant.Requested, err)
		}
		req.Instants, req.Metas = append(req.Instants, instant), append(req.Metas, meta)
		in[instant.Requested] = true
		lost := map[table.Group]bool{}
		for _, s := range meta.Stats {
			if s.Path != "" && gone[path.Join(s.Partition, path.Base(s.Path))] {
				lost[table.Group{Partition: s.Partition, FileID: s.FileID}] = true
			}
		}
		for _, g := range diffing.Touched([]*timeline.CommitMetadata{meta}) {
			if missing[g] != nil && lost[g] {
				continue // its own files are gone as well
			}
			_, _, err := src.Slice(g, after)
			if err == nil {
				delete(missing, g)
			} else if errors.Is(err, storage.ErrNotFound) {
				missing[g] = err
				if gone == nil {
					gone = src.files.Gone()
				}
			} else {
				return held(req.Instants[0], fmt.Errorf("find slice of %s after %s: %w", g, instant.Requested, err))
			}
		}
		if len(missing) == 0 && i+1 >= least {
			return nil
		}
	}
	if len(missing) == 0 {
		return nil
	}
	groups := slices.SortedFunc(maps.Keys(missing), func(a, b table.Group) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.FileID, b.FileID))
	})
	return &storage.Error{Op: "compare instant", Path: req.Instants[0].Requested,
		Err:  fmt.Errorf("no later commit replaced what is gone: %v: %w", missing[groups[0]], storage.ErrCorrupt),
		Hint: "the table itself is damaged there: repair it with Hudi's tools, or restore the file"}
}
