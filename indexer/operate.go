package indexer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/sink"
	"tidemark/timeline"
)

// Decisions are what operators have decided about a table, as its state object keeps it.
type Decisions struct {
	Paused bool `json:"paused"`
	// Quarantined are the requested times of commits that were set aside after repeated failures, Skipped those that an operator
	// goes past. A commit may be both.
	Quarantined []string `json:"quarantined"`
	Skipped     []string `json:"skipped"`
}

// operate changes operator's fields of the state; the lease is not needed for that. storage.ErrNotFound without a state,
// mdt.ErrHandedOver where nothing may be written any more.
func operate(ctx context.Context, place mdt.Place, fn func(st *mdt.State) error) error {
	st, _, err := mdt.ReadState(ctx, place)
	if err != nil {
		return err
	}
	props, err := timeline.LoadProperties(ctx, place.Store, table.HoodieDir)
	if err != nil {
		return err
	}
	if err := notHandedOver(ctx, place, props, st); err != nil {
		return err
	}
	sk, err := sink.Open(ctx, place, sink.Config{})
	if err != nil {
		return err
	}
	return sk.Update(ctx, fn)
}

// decide is operate that returns what holds afterwards.
func decide(ctx context.Context, place mdt.Place, fn func(st *mdt.State) error) (*Decisions, error) {
	var now *Decisions
	err := operate(ctx, place, func(st *mdt.State) error {
		if err := fn(st); err != nil {
			return err
		}
		now = decisionsOf(st)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return now, nil
}

func decisionsOf(st *mdt.State) *Decisions {
	sorted := func(in []string) []string { return append([]string{}, in...) }
	return &Decisions{Paused: st.Paused, Quarantined: sorted(slices.Sorted(maps.Keys(st.Quarantine))), Skipped: sorted(slices.Sorted(maps.Keys(st.Skipped)))}
}

// Pause stops writing to a table until Resume, over restarts: by whoever follows it, and by Sync and Reconcile. A batch that is under
// way ends. Lag is counted as ever. storage.ErrNotFound for a table without a state.
func Pause(ctx context.Context, place mdt.Place) (*Decisions, error) {
	return decide(ctx, place, func(st *mdt.State) error {
		st.Paused = true
		return nil
	})
}

// Resume ends a Pause.
func Resume(ctx context.Context, place mdt.Place) (*Decisions, error) {
	return decide(ctx, place, func(st *mdt.State) error {
		st.Paused = false
		return nil
	})
}

// Retry makes a commit that was set aside or skipped due again; "" means all of them. instant is its requested or completion time.
// storage.ErrNotFound if that one was neither.
func Retry(ctx context.Context, place mdt.Place, instant string) (*Decisions, error) {
	names := map[string]bool{instant: true}
	if instant != "" {
		if i, err := find(ctx, place, instant); err == nil {
			names[i.Requested] = true
		}
	}
	return decide(ctx, place, func(st *mdt.State) error {
		before := len(st.Quarantine) + len(st.Skipped)
		maps.DeleteFunc(st.Quarantine, func(requested string, _ mdt.Quarantine) bool { return instant == "" || names[requested] })
		maps.DeleteFunc(st.Skipped, func(requested string, _ mdt.Skip) bool { return instant == "" || names[requested] })
		if instant != "" && len(st.Quarantine)+len(st.Skipped) == before {
			return &storage.Error{Op: "retry", Path: instant, Hint: "'tidemark status' names the commits that were",
				Err: fmt.Errorf("it was neither set aside nor skipped: %w", storage.ErrNotFound)}
		}
		return nil
	})
}

// MaxReason bounds the text that the state keeps of a decision, in bytes.
const MaxReason = 1000

// Skip lets later commits be marked although one completed data write is not, for a reason that is kept. The commit stays uncovered and the
// frontier where it is: the index is not fresh until it is covered, by Retry or by a reconcile. instant is its requested or completion
// time. storage.ErrNotFound when the timeline does not have it, storage.ErrRefused when it is pending, no data write, or covered by every
// index.
func Skip(ctx context.Context, place mdt.Place, instant, reason string) (*Decisions, error) {
	refuse := func(why, hint string) error {
		return &storage.Error{Op: "skip", Path: instant, Err: fmt.Errorf("%s: %w", why, storage.ErrRefused), Hint: hint}
	}
	if reason == "" || len(reason) > MaxReason {
		return nil, refuse(fmt.Sprintf("a reason of 1 to %d bytes is needed", MaxReason), "say why, for those who read it later: --reason TEXT")
	}
	i, err := find(ctx, place, instant)
	if err != nil {
		return nil, err
	}
	if !i.Action.IsWrite() {
		return nil, refuse(fmt.Sprintf("a %s changes no rows and is passed anyway", i.Action), "name a commit, deltacommit or replacecommit")
	}
	if i.State != timeline.Completed {
		return nil, refuse("it has not completed", "if its writer is dead, roll it back with Hudi's tools")
	}
	return decide(ctx, place, func(st *mdt.State) error {
		due := false
		for _, x := range st.Indexes {
			_, active := x.Active()
			due = due || active && !x.Dropped && !SetOf(x).Has(i)
		}
		if !due {
			return refuse("every index covers it", "there is nothing to skip")
		}
		if st.Skipped == nil {
			st.Skipped = map[string]mdt.Skip{}
		}
		st.Skipped[i.Requested] = mdt.Skip{Reason: reason, At: time.Now().UTC()}
		return nil
	})
}

// find returns an instant of the active timeline by its requested or completion time.
func find(ctx context.Context, place mdt.Place, instant string) (timeline.Instant, error) {
	_, tl, err := timeline.Open(ctx, place.Store, table.HoodieDir)
	if err != nil {
		return timeline.Instant{}, err
	}
	for _, i := range tl.Instants() {
		if i.Requested == instant || i.Completed == instant && instant != "" {
			return i, nil
		}
	}
	return timeline.Instant{}, &storage.Error{Op: "find instant", Path: instant, Err: storage.ErrNotFound,
		Hint: "'tidemark status' names the commits that are not covered"}
}

// tidy takes decisions about commits that every index covers by now, as a reconcile may have made it, out of the state.
func tidy(ctx context.Context, place mdt.Place, st *mdt.State) error {
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
	return operate(ctx, place, func(st *mdt.State) error {
		clean(st)
		return nil
	})
}
