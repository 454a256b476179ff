package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// Update changes the state without a commit: operator fields (paused, quarantine, skipped) at any time and without the
// lease, anything else (a drop) only while no commit is under way, ErrBusy otherwise. fn gets a private copy and may be
// called again when others changed the state meanwhile. Lease, times, intent and burned files cannot be changed; files that
// fn no longer names are retired. ErrNotFound when there is no state. ErrLeaseLost when this sink had the lease and lost it.
func (s *Sink) Update(ctx context.Context, fn func(st *mdt.State) error) error {
	next, _, err := s.swap(ctx, func(st *mdt.State) (*mdt.State, error) {
		if st == nil {
			return nil, &storage.Error{Op: "read", Path: s.place.StatePath(), Err: storage.ErrNotFound,
				Hint: "create an index first: tidemark index create"}
		}
		if held, epoch := s.lease(); epoch != 0 && (!held || st.Epoch != epoch || st.Owner != s.cfg.Owner) {
			return nil, s.lost()
		}
		work := st.Clone()
		if err := fn(work); err != nil {
			return nil, err
		}
		paused, quarantine, skipped := work.Paused, work.Quarantine, work.Skipped
		carry(work, st)
		work.Paused, work.Quarantine, work.Skipped = paused, quarantine, skipped
		work.Intent, work.Revision = st.Intent, st.Revision
		work.LastTime, work.NewestSeen, work.Allocated, work.Burned = st.LastTime, st.NewestSeen, st.Allocated, st.Burned
		same, err := sameData(st, work)
		if err != nil || same {
			return work, err
		}
		if st.Intent != nil {
			return nil, &storage.Error{Op: "change", Path: s.place.StatePath(), Err: ErrBusy, Hint: "try again in a moment"}
		}
		work.Revision++
		retire(st, work, s.cfg.Now().Add(s.cfg.Retention))
		if err := checkAfter(st, work, nil); err != nil {
			return nil, err
		}
		return work, nil
	})
	if err != nil {
		return fmt.Errorf("update state: %w", err)
	}
	s.publish(next)
	return nil
}

// Drop marks an index DROPPED and retires its files. Generation numbers stay used. Without a lease it settles a commit that
// a dead owner left, by taking the lease for a moment. ErrNotFound when there is no such index; a dropped one stays so. ErrHandedOver
// when a partition is no longer ours, ErrRefused when an operator has paused the table.
func (s *Sink) Drop(ctx context.Context, index string) error {
	drop := func(st *mdt.State) error {
		if err := mdt.NotPaused(s.place, st); err != nil {
			return err
		}
		return dropIndex(st, index)
	}
	if st, _, err := s.read(ctx); err == nil {
		if err := s.checkOurs(ctx, st); err != nil {
			return err
		}
	}
	err := s.Update(ctx, drop)
	if held, _ := s.lease(); held || !errors.Is(err, ErrBusy) {
		return err
	}
	if acquire := s.Acquire(ctx); acquire != nil {
		return errors.Join(err, acquire)
	}
	return errors.Join(s.Update(ctx, drop), s.Release(ctx))
}

func dropIndex(st *mdt.State, name string) error {
	x := st.Indexes[name]
	if x == nil {
		return &storage.Error{Op: "drop", Path: "index " + name, Err: storage.ErrNotFound, Hint: "tidemark index list shows the names"}
	}
	x.Dropped, x.Building, x.Covered, x.Frontier = true, nil, nil, mdt.Frontier{}
	for i := range x.Generations {
		x.Generations[i].State = mdt.GenDropped
	}
	of := func(f mdt.DataFile) bool { return f.Index == name }
	st.Base = slices.DeleteFunc(st.Base, of)
	for i := range st.Commits {
		c := &st.Commits[i]
		c.Files = slices.DeleteFunc(c.Files, of)
	}
	st.ForgetEvidence(name, nil)
	st.Commits = slices.DeleteFunc(st.Commits, func(c mdt.Commit) bool { return len(c.Files)+len(c.Covered) == 0 })
	st.Degraded = slices.DeleteFunc(st.Degraded, func(d mdt.DegradedGroup) bool { return d.Index == name })
	for _, other := range st.Indexes {
		if !other.Dropped {
			return nil
		}
	}
	// Nothing is left that this set speaks about; a new index starts from its own baseline.
	st.Restores = nil
	return nil
}

// carry copies lease and operator fields of the state as it is now into one that was computed before.
func carry(to, now *mdt.State) {
	to.Format, to.Epoch, to.Owner, to.Host, to.PID, to.ValidUntil = now.Format, now.Epoch, now.Owner, now.Host, now.PID, now.ValidUntil
	to.Paused, to.Quarantine, to.Skipped = now.Paused, now.Quarantine, now.Skipped
}

// sameData says whether two states differ in operator fields only.
func sameData(a, b *mdt.State) (bool, error) {
	a, b = a.Clone(), b.Clone()
	carry(a, b)
	x, err := mdt.EncodeState(a)
	if err != nil {
		return false, err
	}
	y, err := mdt.EncodeState(b)
	return bytes.Equal(x, y), err
}

// retire puts files that were live before and are not after on the retired list. Those of a generation that was never
// active have no readers and go at once.
func retire(before, after *mdt.State, deleteAfter time.Time) {
	known := map[string]bool{}
	for _, f := range after.Live("") {
		known[f.Path] = true
	}
	for _, r := range after.Retired {
		known[r.Path] = true
	}
	for _, f := range before.Live("") {
		if known[f.Path] {
			continue
		}
		r := mdt.Retired{Path: f.Path, Index: f.Index, DeleteAfter: deleteAfter.UTC()}
		if x := before.Indexes[f.Index]; x != nil && slices.Contains(x.Building, f) {
			r.DeleteAfter = time.Time{}
		}
		after.Retired = append(after.Retired, r)
	}
	for _, l := range after.Ledger {
		known[l.Path] = true
	}
	for _, l := range before.Ledger {
		if !known[l.Path] {
			after.Retired = append(after.Retired, mdt.Retired{Path: l.Path, DeleteAfter: deleteAfter.UTC()})
		}
	}
}

// checkAfter refuses a state in which a file of the batch is not named, a file is named that never existed, or a file
// group of an index has no base file: Hudi counts file groups by what is committed, so one without a base file would send
// every key to the wrong group.
func checkAfter(before, after *mdt.State, in *mdt.Intent) error {
	if err := after.Check(); err != nil {
		return err
	}
	known := map[mdt.DataFile]bool{}
	for _, f := range before.Live("") {
		known[f] = true
	}
	live := map[mdt.DataFile]bool{}
	for _, f := range after.Live("") {
		live[f] = true
	}
	if in != nil {
		for _, f := range in.Files {
			known[f] = true
			if !live[f] {
				return fmt.Errorf("file %s of the batch is not named: %w", f.Path, storage.ErrRefused)
			}
		}
	}
	bases := map[string]map[int]bool{}
	for f := range live {
		x := after.Indexes[f.Index]
		if !known[f] || x == nil || x.Dropped || f.Group >= x.FileGroups {
			return fmt.Errorf("file %s is named but does not belong there: %w", f.Path, storage.ErrRefused)
		}
		if f.Base {
			if bases[f.Index] == nil {
				bases[f.Index] = map[int]bool{}
			}
			bases[f.Index][f.Group] = true
		}
	}
	for name, x := range after.Indexes {
		if !x.Dropped && len(bases[name]) != x.FileGroups {
			return fmt.Errorf("index %s has base files for %d of %d file groups: %w", name, len(bases[name]), x.FileGroups, storage.ErrRefused)
		}
	}
	return nil
}
