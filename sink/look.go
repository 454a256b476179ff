package sink

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// dataDir is the data table's .hoodie directory, relative to the store's root.
const dataDir = ".hoodie"

// look is what both timelines and both hoodie.properties said at one time, and what was in the directories of indexes.
type look struct {
	dataProps, mdtProps *timeline.Properties
	data, mdt           *timeline.Timeline
	mdtFile             storage.Info              // of mdtProps; no path: it was not looked for
	listed              map[string][]storage.Info // by directory, relative to the MDT root
	defs                *mdt.Definitions          // nil: not read
}

// look reads both timelines, lists directories of indexes, and makes the calls of also, all at once where the store allows it: none depends
// on another, and what they say is judged in this order. ErrNoMDT when the metadata table, its properties or its timeline are not
// there; ErrUnsupported when the table's version is not one that may be written.
func (s *Sink) look(ctx context.Context, dirs []string, also ...func() error) (*look, error) {
	l := &look{listed: map[string][]storage.Info{}}
	calls := append(also, func() error { return s.lookAtData(ctx, l) }, func() error { return s.lookAtMDT(ctx, l) })
	lists := make([][]storage.Info, len(dirs))
	for i, dir := range dirs {
		calls = append(calls, func() (err error) {
			lists[i], err = s.listIndex(ctx, dir)
			return err
		})
	}
	var defs *mdt.Definitions
	if !s.place.IsBeside() && len(dirs) > 0 {
		file := mdt.DefinitionsPath(s.known.Load()) // where they were at the look before: checkStage reads them if they are elsewhere now
		calls = append(calls, func() (err error) {
			defs, err = mdt.ReadDefinitions(ctx, s.place.Store, file)
			if errors.Is(err, storage.ErrCorrupt) {
				return nil // what else is found counts first
			}
			return err
		})
	}
	if err := storage.Together(s.guard, calls...); err != nil {
		return nil, err
	}
	for i, dir := range dirs {
		l.listed[dir] = lists[i]
	}
	l.defs = defs
	s.known.Store(l.dataProps)
	// Beside the table nobody upgrades our metadata table with it; versions 8 and 9 have the same files.
	if l.mdtProps.Version != l.dataProps.Version && !s.place.IsBeside() || l.mdtProps.Layout != 2 ||
		l.mdtProps.TimelineDir(s.place.File(".hoodie")) != s.place.TimelineDir() {
		return nil, &storage.Error{Op: "read", Path: s.place.MDTDir, Hint: "finish the upgrade of the table with its own writer",
			Err: fmt.Errorf("metadata table of version %d beside a table of version %d, or its timeline elsewhere: %w",
				l.mdtProps.Version, l.dataProps.Version, storage.ErrUnsupported)}
	}
	return l, nil
}

func (s *Sink) lookAtData(ctx context.Context, l *look) (err error) {
	if l.dataProps, l.data, err = s.data.Open(ctx); err != nil {
		return fmt.Errorf("read data timeline: %w", err)
	}
	return s.checkWritable(l.dataProps)
}

// checkWritable says whether a table of these properties may be written beside. ErrNoMDT when it has no metadata table.
func (s *Sink) checkWritable(p *timeline.Properties) error {
	err := s.place.CheckWritable(p)
	switch {
	case err == nil:
		return nil
	case !slices.Contains(p.MetadataPartitions, "files") && p.CheckReadable() == nil:
		return fmt.Errorf("check table: %w: %w", err, ErrNoMDT)
	}
	return fmt.Errorf("check table: %w", err)
}

// lookAtMDT takes a glance only: what counts is whether single times are on that timeline, and whether it is there.
func (s *Sink) lookAtMDT(ctx context.Context, l *look) error {
	g, err := s.metadata.Glance(ctx)
	if err == nil {
		l.mdtProps, l.mdt, l.mdtFile = g.Props, g.Timeline, g.File
	}
	if errors.Is(err, storage.ErrNotFound) && s.place.IsBeside() {
		// Our own metadata table has no timeline folder before its first commit.
		l.mdt = &timeline.Timeline{}
		l.mdtProps, err = timeline.LoadProperties(ctx, s.place.Store, s.place.File(".hoodie"))
	}
	if errors.Is(err, storage.ErrNotFound) {
		hint := "a writer with hoodie.metadata.enable=false deletes it: enable it, write once, then create the index again"
		if s.place.IsBeside() {
			hint = "it was deleted from the place beside the table: drop the index and create it again"
		}
		return &storage.Error{Op: "read", Path: s.place.MDTDir, Err: fmt.Errorf("%w (%w)", ErrNoMDT, err), Hint: hint}
	}
	if err != nil {
		return fmt.Errorf("read metadata table's timeline: %w", err)
	}
	return nil
}

// undoneSince is the look of step 8: it returns an error that decides if a restore or rollback, or what step 1 would refuse, is on the data table since was.
func (s *Sink) undoneSince(ctx context.Context, in *mdt.Intent, was *look) error {
	now := &look{}
	if err := s.lookAtData(ctx, now); err != nil {
		return err
	}
	if now.data == was.data && now.dataProps == was.dataProps {
		return nil
	}
	now, err := s.look(ctx, nil)
	if err != nil {
		return err
	}
	return now.checkRestores(in.After)
}

// checkMDT returns ErrNoMDT unless the metadata table is there: file are its properties as they were; with others a look decides.
func (s *Sink) checkMDT(ctx context.Context, file storage.Info) error {
	if file.Path == "" { // beside, before the first commit
		return nil
	}
	info, err := s.guard.Stat(ctx, file.Path)
	if err == nil && info.Size == file.Size && info.ModTime.Equal(file.ModTime) {
		return nil
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	_, err = s.look(ctx, nil)
	return err
}

// newest returns the newest requested or completion time of a completed data-table instant, in 17 digits, and the newest
// modification time of a file of the data timeline.
func (l *look) newest() (at string, file time.Time) {
	for _, i := range l.data.Instants() {
		if i.ModTime.After(file) {
			file = i.ModTime
		}
		if i.State != timeline.Completed {
			continue
		}
		times := []string{i.Requested, i.Completed}
		if i.Derived {
			times = times[:1] // a modification time, not one of the sequence
		}
		for _, t := range times {
			if t, err := timeline.AddMillis(t, 0); err == nil && t > at {
				at = t
			}
		}
	}
	return at, file
}

// checkCommitFiles returns storage.ErrCorrupt when the commit file of one of the files in use is below the size that all of them have.
func (s *Sink) checkCommitFiles(l *look, files []mdt.DataFile) error {
	for _, f := range files {
		i, ok := l.mdt.Find(f.ID)
		if ok && i.Requested == f.ID && i.State == timeline.Completed && i.Size < mdt.LeastCommitFile() {
			return mdt.DamagedCommitFile(s.place.TimelineDir()+"/"+i.File, f.Index, fmt.Errorf("%d bytes: %w", i.Size, storage.ErrCorrupt))
		}
	}
	return nil
}

// taken says whether a time is on either timeline, as a requested or a completion time.
func (l *look) taken(t string) bool {
	if _, ok := l.mdt.Find(t); ok {
		return true
	}
	return l.onData(t)
}

func (l *look) onData(t string) bool {
	_, ok := l.data.Find(t)
	return ok
}

// checkRestores returns ErrStale when a completed restore or rollback is on the data timeline that the state has not
// dealt with.
func (l *look) checkRestores(st *mdt.State) error {
	for _, a := range []timeline.Action{timeline.Restore, timeline.Rollback} {
		for _, i := range l.data.CompletedOf(a) {
			if done, ok := st.Restores[i.Requested]; !ok || done != i.Completed && !i.Derived {
				return stale("%s %s is not dealt with", i.Action, i.Requested)
			}
		}
	}
	return nil
}

// checkStage returns ErrHandedOver when one of the index directories belongs to an engine that knows vector indexes (see mdt.CheckListed),
// and ErrFilesGone when one of the files that should be there is missing or has another size. It goes by what the look has listed, and
// lists what it has not.
func (s *Sink) checkStage(ctx context.Context, l *look, dirs []string, files []mdt.DataFile) error {
	sizes := map[string]int64{}
	listed := map[string]bool{}
	list := func(dir string) (infos []storage.Info, err error) {
		listed[dir] = true
		infos, ok := l.listed[dir]
		if !ok {
			infos, err = s.listIndex(ctx, dir)
		}
		for _, i := range infos {
			sizes[i.Path] = i.Size
		}
		return infos, err
	}
	defs := func() (_ *mdt.Definitions, err error) {
		if file := mdt.DefinitionsPath(l.dataProps); l.defs == nil || l.defs.Path != file {
			l.defs, err = mdt.ReadDefinitions(ctx, s.place.Store, file)
		}
		return l.defs, err
	}
	for _, dir := range dirs {
		infos, err := list(dir)
		if err != nil {
			return err
		}
		if err := mdt.CheckListed(s.place, l.dataProps, dir, infos, defs); err != nil {
			return err
		}
	}
	for _, f := range files {
		if dir := path.Dir(f.Path); !listed[dir] {
			if _, err := list(dir); err != nil {
				return err
			}
		}
		size, ok := sizes[s.place.File(f.Path)]
		if ok && size == f.Size {
			continue
		}
		what := "missing"
		if ok {
			what = fmt.Sprintf("%d bytes instead of %d", size, f.Size)
		}
		return &storage.Error{Op: "check", Path: s.place.File(f.Path), Err: fmt.Errorf("%s: %w", what, ErrFilesGone),
			Hint: "the index is absent: drop it and create it again"}
	}
	return nil
}

func (s *Sink) listIndex(ctx context.Context, dir string) ([]storage.Info, error) {
	infos, err := s.list(ctx, s.place.File(dir))
	if err != nil {
		return nil, fmt.Errorf("list partition: %w", err)
	}
	return infos, nil
}

// checkOurs is checkStage for all indexes of a state, before anything is written: not even the lease is taken on a table whose
// partitions were handed over.
func (s *Sink) checkOurs(ctx context.Context, st *mdt.State) error {
	all := dirs(st)
	if len(all) == 0 {
		return nil
	}
	p, err := timeline.LoadProperties(ctx, s.place.Store, dataDir)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	return s.checkStage(ctx, &look{dataProps: p}, all, nil)
}

// checkBefore looks whether anything may be written for a state, before the lease is taken.
func (s *Sink) checkBefore(ctx context.Context, st *mdt.State) error {
	if err := s.checkOurs(ctx, st); err != nil || st.Table == nil {
		return err
	}
	p, data, err := s.data.Open(ctx)
	if err != nil {
		return fmt.Errorf("read data timeline: %w", err)
	}
	return s.checkTable(ctx, &look{dataProps: p, data: data}, st)
}

// checkTable refuses a state that lies beside another table than the one that was looked at.
func (s *Sink) checkTable(ctx context.Context, l *look, st *mdt.State) error {
	return mdt.SameTable(ctx, st.Table, l.dataProps, l.data, timeline.NewArchive(s.place.Store, dataDir, l.dataProps))
}

// list is List with a missing directory as an empty one.
func (s *Sink) list(ctx context.Context, dir string) ([]storage.Info, error) {
	infos, err := s.guard.List(ctx, dir)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	return infos, err
}

// dirs returns the directories of all indexes that are not dropped, sorted.
func dirs(st *mdt.State) []string {
	var out []string
	for _, x := range st.Indexes {
		if !x.Dropped {
			out = append(out, x.Dir)
		}
	}
	sort.Strings(out)
	return out
}

// archived says whether an instant is in the MDT's archived timeline. Hudi's archiver of a metadata table never passes the earliest instant on the
// data table's active timeline (docs/format/commit.md, Fold): what lies above that is not archived, and the archive is not asked.
func (s *Sink) archived(ctx context.Context, l *look, requested string) (bool, error) {
	if earliest := l.data.Earliest(); earliest != "" && requested > earliest {
		return false, nil
	}
	for _, err := range timeline.NewArchive(s.place.Store, s.place.File(".hoodie"), l.mdtProps).Instants(ctx, requested, requested) {
		if err != nil {
			return false, fmt.Errorf("look into the metadata table's archived timeline: %w", err)
		}
		return true, nil
	}
	return false, nil
}
