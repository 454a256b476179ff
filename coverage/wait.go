package coverage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// ErrUsage says that a request is wrong in itself, whatever the table is.
var ErrUsage = errors.New("wrong request")

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
	// Waiting is told why the instant is not covered, after the first look that is not the last, and when that changes. Defaults to nothing.
	Waiting func(reason string)
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

// CheckInstant returns an error in the chain of ErrUsage unless a text can be an instant's time: 14 or 17 digits.
func CheckInstant(text string) error {
	if len(text) != 14 && len(text) != 17 || strings.Trim(text, "0123456789") != "" {
		return fmt.Errorf("%q is no instant, which has 14 or 17 digits, such as 20261130021438827: %w", text, ErrUsage)
	}
	return nil
}

// Wait returns when the instant is covered, when the time is up (Covered is false), or with the context's error. An instant that
// the table does not know yet is waited for as well, since a caller may know of it before it completes, unless it lies before the
// active timeline and the archive does not have it either: storage.ErrNotFound. A text that is no instant is ErrUsage; a savepoint, clean or other instant that never gets a marker is storage.ErrUnsupported.
func Wait(ctx context.Context, d Deps, r WaitRequest) (*WaitResult, error) {
	if err := CheckInstant(r.Covers); err != nil {
		return nil, err
	}
	if r.Poll <= 0 {
		r.Poll = DefaultPoll
	}
	deadline := time.NewTimer(max(r.Timeout, 0))
	defer deadline.Stop()
	tick := time.NewTicker(r.Poll)
	defer tick.Stop()
	if d.Known == nil {
		d.Known = &Known{}
	}
	w := &waiter{deps: d, request: r, reader: timeline.NewReader(d.Place.Store, table.HoodieDir)}
	told := ""
	for {
		res, err := w.look(ctx)
		if err != nil || res.Covered || r.Timeout <= 0 {
			return res, err
		}
		if r.Waiting != nil && res.Reason != told {
			told = res.Reason
			r.Waiting(told)
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

// waiter looks for one instant again and again.
type waiter struct {
	deps    Deps
	request WaitRequest
	reader  *timeline.Reader
}

func (w *waiter) look(ctx context.Context) (*WaitResult, error) {
	place := w.deps.Place
	st, _, err := mdt.ReadState(ctx, place)
	if err != nil {
		return nil, err
	}
	x, err := pick(st, w.request.Index)
	if err != nil {
		return nil, err
	}
	props, tl, err := w.reader.Open(ctx)
	if err != nil {
		return nil, err
	}
	res := &WaitResult{}
	if x.Frontier.Completed != "" {
		res.Frontier = &Times{x.Frontier.Requested, x.Frontier.Completed}
	}
	if res.Reason, err = w.uncovered(ctx, props, tl, x); err == nil && res.Reason == "" {
		var found *fallen
		if found, err = (standing{place: place, state: st, props: props, tl: tl, known: w.deps.Known}).judge(ctx, x); found != nil {
			res.Reason = found.reason
		}
	}
	if err != nil {
		return nil, err
	}
	res.Covered = res.Reason == ""
	if !res.Covered && st.Paused { // nothing will cover it
		res.Reason += "; the table is paused by an operator, to go on: " + (&look{deps: w.deps}).command("resume", "")
	}
	return res, nil
}

// uncovered says why an index is not known to incorporate the instant; empty if it does.
func (w *waiter) uncovered(ctx context.Context, p *timeline.Properties, tl *timeline.Timeline, x *mdt.Index) (string, error) {
	at, set := w.request.Covers, setOf(x)
	found, other := false, timeline.Instant{}
	for _, i := range tl.Instants() {
		switch {
		case i.Requested != at && i.Completed != at:
		case !i.Action.IsWrite():
			other = i
		case i.State != timeline.Completed:
			return fmt.Sprintf("%s %s is %s", i.Action, i.Requested, i.State), nil
		case !set.Has(i):
			return fmt.Sprintf("%s %s is completed and not covered yet", i.Action, i.Requested), nil
		default:
			found = true // go on: completion times need not be unique
		}
	}
	switch {
	case found:
		return "", nil
	case other.Requested != "":
		return "", noMarker(at, other.Action)
	}
	row, ok, err := FindArchived(ctx, w.reader.Archive(p), tl, at)
	if err != nil {
		return "", fmt.Errorf("wait for %s: %w", at, err)
	}
	if !ok {
		_, base := set.Baseline[at]
		_, covered := set.Covered[at]
		if base || covered {
			return "not on the timeline any more: it was rolled back or restored away", nil
		}
		if earliest := tl.Earliest(); earliest != "" && at < earliest {
			return "", &storage.Error{Op: "wait for", Path: at, Hint: "name a commit of the table: tidemark markers",
				Err: fmt.Errorf("no instant of that time: the active timeline begins at %s, and the archive does not have it: %w", earliest, storage.ErrNotFound)}
		}
		return "not on the timeline", nil
	}
	if !row.Action.IsWrite() {
		return "", noMarker(at, row.Action)
	}
	return archivedUncovered(ctx, w.deps.Place.Store, p, tl, x, row)
}

func noMarker(at string, a timeline.Action) error {
	return &storage.Error{Op: "wait for", Path: at, Hint: "name a commit, deltacommit or replacecommit",
		Err: fmt.Errorf("a %s changes no rows and gets no marker: %w", a, storage.ErrUnsupported)}
}
