package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/spill"
	"tidemark/internal/storage"
	"tidemark/internal/storage/retry"
	"tidemark/timeline"
)

// Batch is one commit as its caller describes it.
type Batch struct {
	// Kind says what it is: "bootstrap", "activate", "sync", …
	Kind string
	// Revision is the State().Revision that the batch was computed from; when the state has moved on Commit returns
	// ErrStale. Defaults to the revision of the sink's newest State().
	Revision int64
	// Build makes the records once the times are allocated. It must be deterministic: an attempt that had to be given up
	// is built again with other times.
	Build func(id, completion string) ([]FileRecords, error)
	// Apply changes the state as it is to be once the batch is visible; pure. Every file must be put into Base, Commits or an
	// index's Building. Files that are no longer named are retired by the sink. Lease, times, burned and intent are the
	// sink's and restored after Apply.
	Apply func(st *mdt.State, id, completion string, files []mdt.DataFile) error
	// Recheck is the caller's check at step 5 on the timelines as they are now. An error takes the batch back and is
	// returned; its kind should be ErrStale when redoing helps. Defaults to none. See also Config.Recheck.
	Recheck func(ctx context.Context) error
	// NewestData is the newest data-table instant that the caller saw. Defaults to what the sink sees itself.
	NewestData timeline.Instant
	// Seen is the look that the batch was planned by: Commit takes none of its own before it stages, unless that look is old. What only
	// a look of its own would have found is found by that of step 5, and costs another attempt. Defaults to none.
	Seen *Seen

	fold bool // all evidence goes to the ledger, and no commit is left in the list
}

// Seen is a look at the data table.
type Seen struct {
	Props    *timeline.Properties
	Timeline *timeline.Timeline
	At       time.Time // when it began, of time.Now
}

// seenFor is how long after a caller's look a batch is staged by it. It decides nothing: a batch that took longer is more likely to be
// staged in vain, and a look costs little beside it.
const seenFor = 10 * time.Second

// commitAttempts bounds how often Commit takes a new id because a name or a time turned out to be taken.
const commitAttempts = 3

// commitBudget is what one commit may lose to a store in trouble, all its calls together: a call alone is repeated for up to two
// minutes, and a commit makes about 30. Who gives up leaves the lease to others, and the next commit settles what was begun.
const commitBudget = 5 * time.Minute

// errTaken says that a time or a name of this attempt is someone else's; another id helps.
var errTaken = fmt.Errorf("name or time is taken: %w", storage.ErrStale)

// Commit makes the batch visible as one deltacommit and returns its id (docs/format/commit.md, Steps and crashes, steps 1 and 3 to 8). It blocks until
// it is visible to our readers or certainly not. ErrStale: nothing is visible; reload the state and redo. *WaitError: no id
// may be taken now. ErrLeaseLost, ErrHandedOver, ErrNoMDT, ErrFilesGone: stop. After any other error the outcome is
// settled by the next Commit or Acquire, of this or another process.
func (s *Sink) Commit(ctx context.Context, b Batch) (id string, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	ctx = retry.WithBudget(ctx, commitBudget)
	if known := s.current(); b.Revision == 0 && known != nil {
		b.Revision = known.Revision
	}
	for attempt := 1; ; attempt++ {
		id, err := s.commitOnce(ctx, b)
		if err == nil {
			return id, nil
		}
		b.Seen = nil // what was in the way may be what it does not show
		if !errors.Is(err, errTaken) && !errors.Is(err, lock.ErrLost) || attempt == commitAttempts {
			return "", fmt.Errorf("commit %s: %w", b.Kind, err)
		}
	}
}

func (s *Sink) commitOnce(ctx context.Context, b Batch) (string, error) {
	st, at, err := s.begin(ctx, b.Revision)
	if err != nil {
		return "", err
	}
	space := spill.NewSpace(s.cfg.TempDir, s.cfg.Memory)
	defer func() { _ = space.Close() }()                       // its file has no name any more: nothing is left behind
	files, ledger, in, err := s.prepare(ctx, space, b, st, at) // steps 1 and 3
	if wait := (*WaitError)(nil); errors.As(err, &wait) && at.Before(wait.Until) {
		// The store's time may be later than at our last write.
		b.Seen = nil
		if st, at, err = s.renewed(ctx, b.Revision); err != nil {
			return "", err
		}
		files, ledger, in, err = s.prepare(ctx, space, b, st, at)
	}
	if err != nil {
		return "", err
	}
	if err := s.keepEvidence(ctx, in.After, ledger); err != nil {
		return "", err
	}
	if err := s.clearReplaced(ctx, st, in.After, files); err != nil {
		return "", err
	}
	if _, err = s.stage(ctx, st, in); err != nil {
		return "", err
	}
	if err := s.createFiles(ctx, files); err != nil { // step 4
		return "", s.takeBack(ctx, in, err)
	}
	// What was staged is read back together with the look of step 5, unless that takes long: the look would be old at the commit point,
	// or the table's lock held for longer.
	compare := func() error { return s.compareFiles(ctx, files) }
	if s.cfg.Lock != nil || !atOnce(files) {
		if err := compare(); err != nil {
			return "", s.takeBack(ctx, in, err)
		}
		compare = func() error { return nil }
	}
	var later lastLook
	ran, err := s.underLock(ctx, func() (err error) {
		later, err = s.publishCommit(ctx, in, compare, b.Recheck)
		return err
	})
	if !ran {
		return "", s.takeBack(ctx, in, err)
	}
	if err != nil {
		return "", err
	}
	if err := s.conclude(ctx, in, later); err != nil { // step 8
		return "", err
	}
	// What cannot be deleted now stays listed and is tried again by the next commit or owner; the batch is visible.
	_ = s.clean(ctx)
	return in.ID, nil
}

// publishCommit is steps 5 to 7, and the look of step 8. compare is what is left of step 4.
func (s *Sink) publishCommit(ctx context.Context, in *mdt.Intent, compare func() error, recheck func(context.Context) error) (later lastLook, err error) {
	l, err := s.recheck(ctx, in, compare, recheck) // step 5
	if err == nil {
		err = s.stillLocked(ctx)
	}
	if err != nil {
		return later, s.takeBack(ctx, in, err)
	}
	_, _, err = s.swapOwned(ctx, mdt.Staging, in.ID, func(st *mdt.State) error { // step 6
		st.Intent.State = mdt.Committing
		for i, c := range st.Intent.After.Commits {
			if c.ID == in.ID {
				st.Intent.After.Commits[i].StagedAt = s.cfg.Now().UTC()
			}
		}
		return nil
	})
	if err != nil {
		return later, err
	}
	in.State = mdt.Committing
	later, err = s.createAndLook(ctx, in, l) // step 7: the commit point for Hudi's readers
	if errors.Is(err, lock.ErrLost) {
		return later, s.takeBack(ctx, in, err)
	}
	return later, err
}

// begin is the first half of step 1: see that the state is still the one the batch was computed from, and settle what an earlier attempt
// left. It returns the state and the store's time of a write of ours. As long as this sink has written last and nothing speaks against
// it, nothing is asked: the swap of step 3 compares that state, prolongs the lease, and is refused to an owner that has lost it.
func (s *Sink) begin(ctx context.Context, want int64) (*mdt.State, time.Time, error) {
	w := s.wrote.Load()
	held, epoch := s.lease()
	if w != nil && held && w.state.Epoch == epoch && w.state.Owner == s.cfg.Owner && w.state.Intent == nil && w.state.Revision == want {
		s.publish(w.state)
		return w.state, w.at, nil
	}
	return s.renewed(ctx, want)
}

// renewed is begin with the lease prolonged first.
func (s *Sink) renewed(ctx context.Context, want int64) (*mdt.State, time.Time, error) {
	st, at, err := s.renew(ctx)
	if err != nil {
		return nil, at, err
	}
	if st.Intent != nil {
		if err := s.recover(ctx); err != nil {
			return nil, at, fmt.Errorf("settle the attempt before: %w", err)
		}
		if st, at, err = s.renew(ctx); err != nil {
			return nil, at, err
		}
	}
	s.publish(st)
	if st.Revision != want {
		return nil, at, stale("state is at revision %d, the batch was computed from %d", st.Revision, want)
	}
	return st, at, nil
}

// prepare is the second half of step 1 and the first of step 3: look at the table, allocate, build, and work out the state
// after. It writes nothing but what does not fit in memory, to the space. ledger is the file that keepEvidence is to create; nil if none.
func (s *Sink) prepare(ctx context.Context, space *spill.Space, b Batch, st *mdt.State, at time.Time) (files []staged, ledger []byte, in *mdt.Intent, err error) {
	l, err := s.firstLook(ctx, b.Seen, st)
	if err != nil {
		return nil, nil, nil, err
	}
	after := st.Clone()
	after.Intent = nil
	for _, t := range []string{b.NewestData.Requested, b.NewestData.Completed} {
		if t, err := timeline.AddMillis(t, 0); err == nil && !b.NewestData.Derived {
			notice(after, t)
		}
	}
	newest, file := l.newest()
	if b.NewestData.ModTime.After(file) {
		file = b.NewestData.ModTime
	}
	id, completion, err := allocate(after, seen{newest: newest, file: file, now: at, taken: l.taken, onData: l.onData, alone: s.place.IsBeside()})
	if err != nil {
		return nil, nil, nil, err
	}
	records, err := b.Build(id, completion)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("build records: %w", err)
	}
	files, err = s.encode(space, id, st.Epoch, records)
	if err != nil {
		return nil, nil, nil, err
	}
	in = &mdt.Intent{State: mdt.Staging, Kind: b.Kind, ID: id, Completion: completion}
	for _, f := range files {
		in.Files = append(in.Files, f.DataFile)
	}
	if in.After, ledger, err = s.apply(ctx, b, st, after, in); err != nil {
		return nil, nil, nil, err
	}
	if err := l.checkRestores(in.After); err != nil {
		return nil, nil, nil, err
	}
	known := dirs(st)
	fresh := slices.DeleteFunc(dirs(in.After), func(dir string) bool { return slices.Contains(known, dir) })
	if err := s.checkStage(ctx, l, fresh, nil); err != nil { // the others were looked at above, and are again before step 7
		return nil, nil, nil, err
	}
	var covered []mdt.CoveredInstant
	for _, c := range in.After.Commits {
		if c.ID == id {
			covered = c.Covered
		}
	}
	in.Commit, err = mdt.CommitFile(id, st.Epoch, in.Files, covered)
	return files, ledger, in, err
}

// firstLook is the look of step 1, and its checks: the caller's, if it is young and the data table's properties in it speak against nothing.
// Whatever it does not show is looked for at step 5, before anything is decided.
func (s *Sink) firstLook(ctx context.Context, seen *Seen, st *mdt.State) (*look, error) {
	if seen == nil || time.Since(seen.At) > seenFor {
		l, err := s.look(ctx, dirs(st))
		if err != nil {
			return nil, err
		}
		if err := s.checkTable(ctx, l, st); err != nil {
			return nil, err
		}
		if err := s.checkCommitFiles(l, st.Live("")); err != nil {
			return nil, err
		}
		return l, s.checkStage(ctx, l, dirs(st), st.Live(""))
	}
	l := &look{dataProps: seen.Props, data: seen.Timeline, mdt: &timeline.Timeline{}}
	if err := s.checkWritable(l.dataProps); err != nil {
		return nil, err
	}
	for _, dir := range dirs(st) {
		err := mdt.CheckListed(s.place, l.dataProps, dir, nil, func() (*mdt.Definitions, error) { return &mdt.Definitions{}, nil })
		if err != nil {
			return nil, err
		}
	}
	return l, s.checkTable(ctx, l, st)
}

// apply runs the batch's Apply on after and returns the state that becomes visible, and the ledger file that it needs.
func (s *Sink) apply(ctx context.Context, b Batch, before, after *mdt.State, in *mdt.Intent) (*mdt.State, []byte, error) {
	lastTime, newestSeen, allocated := after.LastTime, after.NewestSeen, after.Allocated
	if err := b.Apply(after, in.ID, in.Completion, append([]mdt.DataFile(nil), in.Files...)); err != nil {
		return nil, nil, fmt.Errorf("apply to state: %w", err)
	}
	carry(after, before)
	after.Intent = nil
	after.LastTime, after.NewestSeen, after.Allocated = lastTime, newestSeen, allocated
	after.Burned = before.Burned
	after.Revision = before.Revision + 1
	ledger, err := s.moveEvidence(ctx, after, in.ID, b.fold)
	if err != nil {
		return nil, nil, err
	}
	retire(before, after, s.cfg.Now().Add(s.cfg.Retention))
	if err := checkAfter(before, after, in); err != nil {
		return nil, nil, fmt.Errorf("apply to state: %w", err)
	}
	return after, ledger, nil
}

// stage is the end of step 3: the intent, with file names and commit bytes, is in the state before any file exists.
func (s *Sink) stage(ctx context.Context, base *mdt.State, in *mdt.Intent) (*mdt.State, error) {
	st, _, err := s.swapOwned(ctx, "", "", func(st *mdt.State) error {
		if st.Revision != base.Revision {
			return stale("state moved to revision %d", st.Revision)
		}
		intent := *in // in goes on to COMMITTING
		st.Intent = &intent
		st.LastTime, st.NewestSeen, st.Allocated = in.After.LastTime, in.After.NewestSeen, in.After.Allocated
		st.Retired = keepRetired(st.Retired, in.After.Retired)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.allowCommit(in)
	return st, nil
}

func (s *Sink) allowCommit(in *mdt.Intent) {
	p := s.place.CommitPath(in.ID, in.Completion)
	s.commitPath.Store(&p)
}

// createOnce creates a file, and resolves a lost race or an unknown outcome by reading: nil when our bytes are there,
// errTaken when someone else's are.
func (s *Sink) createOnce(ctx context.Context, path string, content []byte) error {
	_, err := s.guard.Create(ctx, path, content)
	return s.resolve(path, err, func() (bool, error) {
		got, _, err := s.guard.ReadFile(ctx, path)
		return err == nil && bytes.Equal(got, content), err
	})
}

// resolve finds out what a create that returned err has come to; same says whether our bytes are there.
func (s *Sink) resolve(path string, err error, same func() (bool, error)) error {
	if err == nil {
		return nil
	}
	var content *storage.ContentError
	if errors.As(err, &content) || isOutcomeKnown(err) && !errors.Is(err, storage.ErrExists) {
		return err
	}
	ours, readErr := same()
	switch {
	case readErr == nil && ours:
		return nil
	case readErr == nil:
		return &storage.Error{Op: "create", Path: path, Err: errTaken}
	case errors.Is(readErr, storage.ErrNotFound):
		return err
	}
	return errors.Join(err, readErr)
}

// createCommit is step 7, with the bytes that the intent holds.
func (s *Sink) createCommit(ctx context.Context, in *mdt.Intent) error {
	if err := s.stillLocked(ctx); err != nil {
		return err
	}
	s.allowCommit(in)
	return s.createOnce(ctx, s.place.CommitPath(in.ID, in.Completion), in.Commit)
}

// createAndLook is step 7 and the look of step 8, at once where the store allows it: whoever reads judges undoings anew, those that come after that
// look no less than those that come after step 8 (docs/protocol.md). was is the look of step 5.
func (s *Sink) createAndLook(ctx context.Context, in *mdt.Intent, was *look) (later lastLook, err error) {
	later.mdtFile = was.mdtFile
	err = storage.Together(s.guard, func() error { return s.createCommit(ctx, in) }, func() error {
		later.err = s.undoneSince(ctx, in, was)
		return nil
	})
	return later, err
}

// recheck is step 5: everything that must still hold just before the commit point. It returns its look.
func (s *Sink) recheck(ctx context.Context, in *mdt.Intent, compare func() error, more func(context.Context) error) (*look, error) {
	l, err := s.look(ctx, dirs(in.After), compare)
	if err != nil {
		return nil, err
	}
	gone, err := s.archived(ctx, l, in.ID)
	if err != nil {
		return nil, err
	}
	if gone {
		return nil, fmt.Errorf("id %s is in the archived timeline: %w", in.ID, errTaken)
	}
	// As in allocate: a compaction of the metadata table has the millisecond before a data-table instant.
	if after, err := timeline.AddMillis(in.Completion, 1); err != nil || l.onData(after) {
		return nil, fmt.Errorf("time %s is that before an instant of the table: %w", in.Completion, errTaken)
	}
	if err := s.holds(ctx, l, in); err != nil {
		return nil, err
	}
	if more != nil {
		if err := more(ctx); err != nil {
			return nil, fmt.Errorf("check again: %w", err)
		}
	}
	return l, nil
}

// holds says whether the intent may become visible on a table that looks like l: its times are free (or its own commit
// file has them), restores are dealt with, the partitions are ours, all files are there, and Config.Recheck agrees.
func (s *Sink) holds(ctx context.Context, l *look, in *mdt.Intent) error {
	own := in.ID + "_" + in.Completion + ".deltacommit"
	for _, t := range []string{in.ID, in.Completion} {
		if i, ok := l.mdt.Find(t); ok && i.File != own || l.onData(t) {
			return fmt.Errorf("time %s is on a timeline: %w", t, errTaken)
		}
	}
	if err := l.checkRestores(in.After); err != nil {
		return err
	}
	if err := s.checkTable(ctx, l, in.After); err != nil {
		return err
	}
	older := slices.DeleteFunc(in.After.Live(""), func(f mdt.DataFile) bool { return f.ID == in.ID })
	if err := s.checkCommitFiles(l, older); err != nil {
		return err
	}
	if err := s.checkStage(ctx, l, dirs(in.After), in.After.Live("")); err != nil {
		return err
	}
	if s.cfg.Recheck == nil {
		return nil
	}
	if err := s.cfg.Recheck(ctx, Standing{Before: s.current(), After: in.After, Props: l.dataProps, Timeline: l.data}); err != nil {
		return fmt.Errorf("check again: %w", err)
	}
	return nil
}
