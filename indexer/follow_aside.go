package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// instantError says which commit could not be compared.
type instantError struct {
	requested string
	err       error
}

func (e *instantError) Error() string { return e.err.Error() }
func (e *instantError) Unwrap() error { return e.err }

// allowed cuts what is due down to what may be marked: skipped commits are left out, and nothing that completed after one that
// was set aside and not skipped is marked before an operator has decided. stopped are the latter's requested times.
func allowed(st *mdt.State, due []timeline.Instant) (out []timeline.Instant, stopped []string) {
	if len(st.Skipped)+len(st.Quarantine) == 0 {
		return due, nil
	}
	for _, i := range due {
		if _, skipped := st.Skipped[i.Requested]; skipped {
			continue
		}
		if _, aside := st.Quarantine[i.Requested]; aside {
			return out, append(stopped, i.Requested)
		}
		out = append(out, i)
	}
	return out, nil
}

// quarantine counts a failure of a commit and sets the commit aside when it has failed too often: its bytes are not what they must be,
// or of a kind that is not handled, so that trying again leads nowhere. A store that fails says nothing about a commit. The
// frontier stays where it is (design, decision 16).
func (t *followed) quarantine(ctx context.Context, sk Committer, err error) error {
	var at *instantError
	if !errors.As(err, &at) || !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
		return nil
	}
	t.attempts[at.requested]++
	n, most := t.attempts[at.requested], t.maxAttempts()
	if most < 0 || n < most {
		return nil
	}
	updated := sk.Update(ctx, func(st *mdt.State) error {
		if st.Quarantine == nil {
			st.Quarantine = map[string]mdt.Quarantine{}
		}
		st.Quarantine[at.requested] = mdt.Quarantine{Reason: at.Error(), Since: time.Now().UTC(), Attempts: n}
		return nil
	})
	if updated != nil {
		return fmt.Errorf("set commit %s aside: %w", at.requested, updated)
	}
	delete(t.attempts, at.requested)
	t.f.cfg.Log.Error("commit set aside", "table", t.cfg.name(), "instant", at.requested, "attempts", n, "error", err)
	return nil
}

// tidy takes decisions about commits that every index covers by now, as a reconcile may have made it, out of the state.
func (t *followed) tidy(ctx context.Context, st *mdt.State) error {
	if len(st.Quarantine)+len(st.Skipped) == 0 {
		return nil
	}
	done := func(st *mdt.State, requested string) bool {
		found := false
		for _, x := range st.Indexes {
			if _, active := x.Active(); !active || x.Dropped {
				continue
			}
			if _, covered := x.Covered[requested]; !covered {
				return false
			}
			found = true
		}
		return found
	}
	clean := func(st *mdt.State) bool {
		before := len(st.Quarantine) + len(st.Skipped)
		maps.DeleteFunc(st.Quarantine, func(requested string, _ mdt.Quarantine) bool { return done(st, requested) })
		maps.DeleteFunc(st.Skipped, func(requested string, _ mdt.Skip) bool { return done(st, requested) })
		return len(st.Quarantine)+len(st.Skipped) < before
	}
	if !clean(st) {
		return nil
	}
	return operate(ctx, t.place, func(st *mdt.State) error {
		clean(st)
		return nil
	})
}
