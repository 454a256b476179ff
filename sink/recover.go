package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// abortTime bounds taking back a batch after the caller's context ended.
const abortTime = 10 * time.Second

// recover settles the intent that is in the state, if any: R1 for STAGING, R2 for COMMITTING (docs/format/commit.md). Being taken back is a success
// here. The lease is held.
func (s *Sink) recover(ctx context.Context) error {
	st, _, err := s.read(ctx)
	if err != nil {
		return err
	}
	s.publish(st)
	if st.Intent == nil {
		return nil
	}
	if st.Intent.State == mdt.Staging {
		return s.burn(ctx, st.Intent)
	}
	_, err = s.underLock(ctx, func() error { return s.settle(ctx, st.Intent) })
	var b *burnedError
	if errors.As(err, &b) {
		return nil
	}
	return err
}

// burnedError says that an intent was taken back, and why.
type burnedError struct{ why error }

func (b *burnedError) Error() string { return "taken back: " + b.why.Error() }
func (b *burnedError) Unwrap() error { return b.why }

// decides says whether a failed check is a verdict about the intent, and not a failure to look.
func decides(err error) bool {
	return errors.Is(err, storage.ErrStale) || errors.Is(err, ErrNoMDT) || errors.Is(err, ErrFilesGone) || errors.Is(err, ErrHandedOver)
}

// lastLook is what the look of step 8 said.
type lastLook struct {
	err     error        // of undoneSince, or what speaks against the intent before that
	mdtFile storage.Info // properties of the metadata table as they were at step 5
}

// settle ends an intent that is COMMITTING, of which it is not known how far it came (R2): it is visible then, or taken back with a
// *burnedError. Any other error leaves the intent for the next owner.
func (s *Sink) settle(ctx context.Context, in *mdt.Intent) error {
	var v lastLook
	l, err := s.look(ctx, dirs(in.After))
	if err == nil {
		err = s.holds(ctx, l, in)
	}
	if err == nil {
		v, err = s.finishCommit(ctx, l, in)
	}
	if err != nil {
		v.err = err
	}
	return s.conclude(ctx, in, v)
}

// conclude is the rest of step 8: the commit is shown, or taken back with a *burnedError where that look decides so. Any other error
// leaves the intent. That the metadata table is there is seen after step 7, since a create makes a skeleton of one that is gone; at
// once with the swap where the store allows it: one that is gone leaves the index without files, whatever the state names.
func (s *Sink) conclude(ctx context.Context, in *mdt.Intent, v lastLook) error {
	shown, err := false, v.err
	if err == nil {
		err = storage.Together(s.guard, func() error { return s.checkMDT(ctx, v.mdtFile) }, func() error {
			err := s.show(ctx, in)
			shown = err == nil
			return err
		})
	}
	if errors.Is(err, ErrNoMDT) {
		s.allowCommit(in)
		del := s.guard.Delete(ctx, s.place.CommitPath(in.ID, in.Completion))
		s.commitPath.Store(nil)
		if del != nil {
			return errors.Join(err, del)
		}
	}
	if err == nil || shown || !decides(err) {
		return err
	}
	if burn := s.burn(ctx, in); burn != nil {
		return notBurned(burn, err)
	}
	return &burnedError{why: err}
}

// finishCommit is R2's question to the timeline: the commit file is there, active or archived, or may still be created with
// the same bytes. Otherwise an error that decides. l is the look at the table.
func (s *Sink) finishCommit(ctx context.Context, l *look, in *mdt.Intent) (lastLook, error) {
	there := lastLook{mdtFile: l.mdtFile}
	got, _, err := s.guard.ReadFile(ctx, s.place.CommitPath(in.ID, in.Completion))
	if err == nil {
		if !bytes.Equal(got, in.Commit) {
			return there, fmt.Errorf("commit file of %s has other bytes: %w", in.ID, errTaken)
		}
		return there, nil
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return there, err
	}
	if archived, err := s.archived(ctx, l, in.ID); err != nil || archived {
		return there, err
	}
	if earliest := l.data.Earliest(); in.ID <= earliest {
		return there, stale("id %s is not above the earliest active instant %s", in.ID, earliest)
	}
	return s.createAndLook(ctx, in, l)
}

// show is step 8's compare-and-swap: the state after becomes the state.
func (s *Sink) show(ctx context.Context, in *mdt.Intent) error {
	next, _, err := s.swapOwned(ctx, mdt.Committing, in.ID, func(st *mdt.State) error {
		after := st.Intent.After
		carry(after, st)
		after.Intent = nil
		after.LastTime = max(after.LastTime, st.LastTime)
		after.Burned = st.Burned
		for i := range after.Commits {
			if after.Commits[i].ID == in.ID && after.Commits[i].VisibleAt.IsZero() {
				after.Commits[i].VisibleAt = s.cfg.Now().UTC()
			}
		}
		*st = *after
		return nil
	})
	if err != nil {
		return err
	}
	s.commitPath.Store(nil)
	s.publish(next)
	return nil
}

// takeBack is R1 after a failed step 4 or 5; it returns the cause. It runs even if ctx has ended.
func (s *Sink) takeBack(ctx context.Context, in *mdt.Intent, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	if err := s.burn(ctx, in); err != nil {
		return notBurned(err, cause)
	}
	return cause
}

// notBurned is the error when R1 failed after cause. When the lease turns out to be lost that alone counts: a successor may
// have deleted what was looked for.
func notBurned(burn, cause error) error {
	if errors.Is(burn, ErrLeaseLost) {
		return fmt.Errorf("%w (before: %s)", burn, cause)
	}
	return fmt.Errorf("%w (and taking it back: %w)", cause, burn)
}

// burn is R1: the intent is taken out of the state, its files go to burned, and are deleted.
func (s *Sink) burn(ctx context.Context, in *mdt.Intent) error {
	next, _, err := s.swapOwned(ctx, in.State, in.ID, func(st *mdt.State) error {
		for _, f := range st.Intent.Files {
			st.Burned = append(st.Burned, f.Path)
		}
		st.LastTime = max(st.LastTime, st.Intent.Completion)
		st.Intent = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("take back %s: %w", in.ID, err)
	}
	s.commitPath.Store(nil)
	s.publish(next)
	return s.clean(ctx)
}
