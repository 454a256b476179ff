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

// recover settles the intent that is in the state, if any: R1 for STAGING, R2 for COMMITTING. Being taken back is a success
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
	_, err = s.underLock(ctx, func() error { return s.settle(ctx, st.Intent, nil) })
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

// settle ends an intent that is COMMITTING: visible (step 8), or taken back with a *burnedError. was is the look of step 5
// where this owner has just created the commit file, so that only what may have changed since is looked at; else nil. Any other error
// leaves the intent for the next owner.
func (s *Sink) settle(ctx context.Context, in *mdt.Intent, was *look) error {
	s.allowCommit(in)
	var l *look
	var err error
	if was != nil {
		if l, err = s.lookAgain(ctx, was); err == nil {
			err = l.checkRestores(in.After)
		}
	} else if l, err = s.look(ctx, dirs(in.After)); err == nil {
		err = s.holds(ctx, l, in)
	}
	if errors.Is(err, ErrNoMDT) {
		// Our create may have made a skeleton of a metadata table that is gone.
		if del := s.guard.Delete(ctx, s.place.CommitPath(in.ID, in.Completion)); del != nil {
			return errors.Join(err, del)
		}
	}
	if err != nil && !decides(err) {
		return err
	}
	if err == nil && was == nil {
		err = s.finishCommit(ctx, l, in)
		if err != nil && !decides(err) {
			return err
		}
	}
	if err != nil {
		if burn := s.burn(ctx, in); burn != nil {
			return notBurned(burn, err)
		}
		return &burnedError{why: err}
	}
	return s.show(ctx, in)
}

// finishCommit is R2's question to the timeline: the commit file is there, active or archived, or may still be created with
// the same bytes. Otherwise an error that decides.
func (s *Sink) finishCommit(ctx context.Context, l *look, in *mdt.Intent) error {
	got, _, err := s.guard.ReadFile(ctx, s.place.CommitPath(in.ID, in.Completion))
	if err == nil {
		if !bytes.Equal(got, in.Commit) {
			return fmt.Errorf("commit file of %s has other bytes: %w", in.ID, errTaken)
		}
		return nil
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if there, err := s.archived(ctx, l, in.ID); err != nil || there {
		return err
	}
	if earliest := l.data.Earliest(); in.ID <= earliest {
		return stale("id %s is not above the earliest active instant %s", in.ID, earliest)
	}
	if err := s.createCommit(ctx, in); err != nil {
		return err
	}
	// Step 8 looks once more after the commit point.
	after, err := s.lookAgain(ctx, l)
	if errors.Is(err, ErrNoMDT) {
		return errors.Join(err, s.guard.Delete(ctx, s.place.CommitPath(in.ID, in.Completion)))
	}
	if err != nil {
		return err
	}
	return after.checkRestores(in.After)
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
