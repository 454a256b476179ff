package coverage

import (
	"context"
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// DefaultPoll is how often Wait looks.
const DefaultPoll = time.Second

// WaitRequest is what to wait for.
type WaitRequest struct {
	// Index may be empty when the table has one.
	Index string
	// Covers is an instant by requested or completion time.
	Covers string
	// Timeout bounds the waiting. 0 looks once.
	Timeout time.Duration
	// Poll is the pause between looks. Defaults to DefaultPoll.
	Poll time.Duration
}

// WaitResult is the answer of Wait.
type WaitResult struct {
	// Covered says that the instant is incorporated and not undone (design, decision 10).
	Covered bool `json:"covered"`
	// Frontier is the index's durable frontier; null if there is none.
	Frontier *Times `json:"frontier"`
	// Reason says why the instant is not covered.
	Reason string `json:"reason,omitempty"`
}

// Wait returns when the instant is covered, when the time is up (Covered is false), or with the context's error. An instant that
// the table does not know yet is waited for as well, since a caller may know of it before it completes. A savepoint, clean
// or other instant that never gets a marker is storage.ErrUnsupported.
func Wait(ctx context.Context, d Deps, r WaitRequest) (*WaitResult, error) {
	if r.Poll <= 0 {
		r.Poll = DefaultPoll
	}
	deadline := time.NewTimer(max(r.Timeout, 0))
	defer deadline.Stop()
	tick := time.NewTicker(r.Poll)
	defer tick.Stop()
	for {
		res, err := waitOnce(ctx, d, r)
		if err != nil || res.Covered || r.Timeout <= 0 {
			return res, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return res, nil
		case <-tick.C:
		}
	}
}

func waitOnce(ctx context.Context, d Deps, r WaitRequest) (*WaitResult, error) {
	st, _, err := mdt.ReadState(ctx, d.Place)
	if err != nil {
		return nil, err
	}
	x, err := pick(st, r.Index)
	if err != nil {
		return nil, err
	}
	_, tl, err := timeline.Open(ctx, d.Place.Store, table.HoodieDir)
	if err != nil {
		return nil, err
	}
	res := &WaitResult{}
	if x.Frontier.Completed != "" {
		res.Frontier = &Times{x.Frontier.Requested, x.Frontier.Completed}
	}
	res.Covered, res.Reason, err = covers(tl, x, r.Covers)
	return res, err
}

// covers says whether an index incorporates an instant, by requested or completion time.
func covers(tl *timeline.Timeline, x *mdt.Index, at string) (bool, string, error) {
	set := setOf(x)
	inst, active := tl.Find(at)
	switch {
	case active && inst.IsDataWrite():
		if set.Has(inst) {
			return true, "", nil
		}
		return false, fmt.Sprintf("%s %s is completed and not covered yet", inst.Action, inst.Requested), nil
	case active && inst.State == timeline.Completed:
		return false, "", &storage.Error{Op: "wait for", Path: at, Hint: "name a commit, deltacommit or replacecommit",
			Err: fmt.Errorf("a %s changes no rows and gets no marker: %w", inst.Action, storage.ErrUnsupported)}
	case active:
		return false, fmt.Sprintf("%s %s is %s", inst.Action, inst.Requested, inst.State), nil
	}
	// Not on the active timeline: archived, undone, or unknown. What was requested before the earliest active instant is
	// archived; it is in if the frontier proves that nothing archived was missed.
	if earliest := tl.Earliest(); earliest == "" || at >= earliest {
		return false, "no such instant on the active timeline", nil
	}
	_, base := set.Baseline[at]
	_, covered := set.Covered[at]
	frontier := markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed}
	if base || covered || markers.Known(frontier, set, tl.Earliest(), true) {
		return true, "", nil
	}
	return false, "archived, and not known to be covered", nil
}
