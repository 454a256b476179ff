package sink

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// clean deletes burned files and retired ones whose time has come, and takes them out of the state. The lease is held.
func (s *Sink) clean(ctx context.Context) error {
	st := s.current()
	now := s.cfg.Now()
	gone := map[string]bool{}
	for _, p := range st.Burned {
		gone[p] = true
	}
	for _, r := range st.Retired {
		if now.After(r.DeleteAfter) {
			gone[r.Path] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, p := range sortedKeys(gone) {
		if err := s.guard.Delete(ctx, s.fileOf(p)); err != nil {
			return fmt.Errorf("delete what is no longer in use: %w", err)
		}
	}
	next, _, err := s.swapOwned(ctx, anyIntent, "", func(st *mdt.State) error {
		st.Burned = slices.DeleteFunc(st.Burned, func(p string) bool { return gone[p] })
		for _, x := range withIntent(st) {
			x.Retired = slices.DeleteFunc(x.Retired, func(r mdt.Retired) bool { return gone[r.Path] })
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget what was deleted: %w", err)
	}
	s.publish(next)
	return nil
}

// withIntent returns the state and, if a commit is under way, the state after it.
func withIntent(st *mdt.State) []*mdt.State {
	if st.Intent == nil {
		return []*mdt.State{st}
	}
	return []*mdt.State{st, st.Intent.After}
}

func sortedKeys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// sweep deletes burned files, and files with our write token in index directories that the state does not name and whose
// id was allocated before: what an owner that was thought dead wrote after its batch had been taken back. Everything else
// is left alone. Directories of registered partitions are not touched. Runs after recovery, so there is no intent.
func (s *Sink) sweep(ctx context.Context) error {
	if err := s.clean(ctx); err != nil {
		return err
	}
	st := s.current()
	named := map[string]bool{}
	for _, f := range st.Live("") {
		named[f.Path] = true
	}
	for _, r := range st.Retired {
		named[r.Path] = true
	}
	if err := s.sweepLedger(ctx, st, named); err != nil {
		return err
	}
	tops, err := s.list(ctx, s.place.MDTDir)
	if err != nil {
		return err
	}
	places := []string{s.place.StateDir}
	for _, top := range tops {
		dir := path.Base(top.Path)
		if !top.IsDir || !strings.HasPrefix(dir, mdt.PartitionDir("")) {
			continue
		}
		places = append(places, top.Path)
		infos, err := s.list(ctx, top.Path)
		if err != nil {
			return err
		}
		var orphans []string
		for _, i := range infos {
			id, _, own := mdt.OwnName(path.Base(i.Path))
			if own && !i.IsDir && id <= st.LastTime && !named[dir+"/"+path.Base(i.Path)] {
				orphans = append(orphans, i.Path)
			}
		}
		if err := s.deleteOrphans(ctx, dir, orphans); err != nil {
			return err
		}
	}
	return s.sweepTemps(ctx, places)
}

func (s *Sink) deleteOrphans(ctx context.Context, dir string, orphans []string) error {
	if len(orphans) == 0 {
		return nil
	}
	l, err := s.look(ctx, []string{dir})
	if err == nil {
		err = s.checkStage(ctx, l, []string{dir}, nil)
	}
	if errors.Is(err, ErrHandedOver) || errors.Is(err, ErrNoMDT) {
		return nil // not ours any more; the next commit says so
	}
	if err != nil {
		return err
	}
	for _, p := range orphans {
		if err := s.guard.Delete(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// sweepTemps removes temporary files that killed writers left where we write. The timeline folder only if there is one.
func (s *Sink) sweepTemps(ctx context.Context, places []string) error {
	for _, dir := range append(places, s.place.TimelineDir()) {
		if _, err := s.guard.SweepTemps(ctx, dir); err != nil {
			return fmt.Errorf("sweep temporary files: %w", err)
		}
	}
	return nil
}

// clearReplaced deletes the retired files of indexes that a batch builds while none of their generations is in use, such as one made anew
// under the name of a dropped one: Hudi counts file groups by the files it sees. They leave the state together with the intent's arrival.
func (s *Sink) clearReplaced(ctx context.Context, before, after *mdt.State, files []staged) error {
	anew := map[string]bool{}
	for _, f := range files {
		if !f.Base {
			continue
		}
		if x := before.Indexes[f.Index]; x == nil {
			anew[f.Index] = true
		} else if _, active := x.Active(); x.Dropped || !active {
			anew[f.Index] = true
		}
	}
	gone := map[string]bool{}
	for _, r := range before.Retired {
		if !anew[r.Index] {
			continue
		}
		if err := s.guard.Delete(ctx, s.place.File(r.Path)); err != nil {
			return fmt.Errorf("delete files of the dropped index: %w", err)
		}
		gone[r.Path] = true
	}
	after.Retired = slices.DeleteFunc(after.Retired, func(r mdt.Retired) bool { return gone[r.Path] })
	return nil
}

// keepRetired returns the entries of now that are also in after.
func keepRetired(now, after []mdt.Retired) []mdt.Retired {
	named := map[string]bool{}
	for _, r := range after {
		named[r.Path] = true
	}
	return slices.DeleteFunc(slices.Clone(now), func(r mdt.Retired) bool { return !named[r.Path] })
}

// firstState makes the state of a table that has none. Times continue after whatever an earlier state that was lost may
// have allocated: our files that lie there, and completed-only deltacommits on the MDT timeline. storage.ErrRefused when one of them has a
// time that leaves no later one.
func (s *Sink) firstState(ctx context.Context) (*mdt.State, error) {
	l, err := s.look(ctx, nil)
	if err != nil {
		return nil, err
	}
	st := mdt.NewState()
	if s.place.IsBeside() {
		st.Table = mdt.NewTableID(s.place.Table, l.dataProps, l.data)
	}
	newest, _ := l.newest()
	notice(st, newest)
	// What lies beyond the last time that could ever be given out after the newest instant is not a lost state's.
	limit, err := timeline.AddMillis(newest, oldMillis)
	if err != nil || s.place.IsBeside() {
		limit = ""
	}
	after := func(file string, times ...string) error {
		t := slices.Max(times)
		if st.LastTime = max(st.LastTime, t); limit == "" || t <= limit {
			return nil
		}
		return &storage.Error{Op: "continue after", Path: file, Hint: "move that file away, it was not made for this table as it is; then run the same command again",
			Err: fmt.Errorf("it has the time %s, and the newest instant of the table is %s: no commit could get a later one: %w", t, newest, storage.ErrRefused)}
	}
	for _, i := range l.mdt.CompletedOf(timeline.DeltaCommit) {
		if i.Pending == "" && i.Plan == "" && !i.Derived {
			if err := after(s.place.TimelineDir()+"/"+i.File, i.Requested, i.Completed); err != nil {
				return nil, err
			}
		}
	}
	tops, err := s.list(ctx, s.place.MDTDir)
	if err != nil {
		return nil, err
	}
	for _, top := range tops {
		if !top.IsDir || !strings.HasPrefix(path.Base(top.Path), mdt.PartitionDir("")) {
			continue
		}
		infos, err := s.list(ctx, top.Path)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			id, _, own := mdt.OwnName(path.Base(i.Path))
			if completion, err := timeline.AddMillis(id, 1); own && err == nil {
				if err := after(i.Path, completion); err != nil {
					return nil, err
				}
			}
		}
	}
	return st, nil
}
