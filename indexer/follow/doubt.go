package follow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/coverage"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// work is what a turn found to do and has not ended yet.
type work struct {
	since time.Time
	n     int              // commits that are due in the index with most
	first timeline.Instant // the first and last of them; zero if none is
	last  timeline.Instant
}

// workOf is what is due.
func workOf(due []timeline.Instant) work {
	w := work{since: time.Now(), n: len(due)}
	if w.n > 0 {
		w.first, w.last = due[0], due[w.n-1]
	}
	return w
}

// leastAge is how much longer than its interval a table may be called fresh without another look, which takes its time, too.
const leastAge = 2 * time.Second

// bound is how old the look may be that a table is called fresh by.
func (t *followed) bound() time.Duration {
	interval := t.interval()
	return interval + max(interval/2, leastAge)
}

// doubt says what holds of a table that a look called fresh for too long without another one that ended: a pass is at work on it, or nobody
// knows. false: what was said still holds. t.mu is held.
func (t *followed) doubt(now time.Time) (coverage.State, string, bool) {
	age := now.Sub(t.view.confirmed)
	switch {
	case !t.view.Fresh || age <= t.bound():
		return "", "", false
	case t.working.n > 0:
		return coverage.StateCatchingUp, fmt.Sprintf("a pass is at work since %s on what is due, %d in all, the first is %s %s",
			t.working.since.UTC().Format("15:04:05Z"), t.working.n, t.working.first.Action, t.working.first.Requested), true
	}
	return coverage.StateStalled, fmt.Sprintf("not called fresh: the last look that has ended began %v ago", age.Round(time.Second)), true
}

// withdrawn is what is left of a status that does not hold any more.
func (t *followed) withdrawn(all []coverage.IndexStatus, state coverage.State, reason, next string, w work) []coverage.IndexStatus {
	out := slices.Clone(all)
	if len(out) == 0 {
		out = []coverage.IndexStatus{{Table: t.cfg.name()}}
	}
	for i, s := range out {
		out[i] = coverage.IndexStatus{Table: s.Table, Index: s.Index, Generation: s.Generation, State: state, Reason: reason, Next: next, Gaps: []coverage.Gap{}}
		if state != coverage.StateCatchingUp || w.n == 0 {
			continue
		}
		out[i].Frontier, out[i].FrontierAt, out[i].LagInstants = s.Frontier, s.FrontierAt, &w.n
		out[i].Latest = &coverage.Times{Requested: w.last.Requested, Completed: w.last.Completed}
		if s.Frontier != nil && !s.FrontierAt.IsZero() { // what the table's zone is
			oldest := max(time.Since(s.FrontierAt.Add(between(s.Frontier.Completed, w.first.Completed))), 0).Seconds()
			lag := between(s.Frontier.Completed, w.last.Completed).Seconds()
			out[i].OldestUncovered, out[i].LagSeconds = &oldest, &lag
		}
	}
	return out
}

// between is the time between two instant texts of one zone; 0 if it cannot be told.
func between(from, to string) time.Duration {
	a, err1 := timeline.InstantTime(from, time.UTC)
	b, err2 := timeline.InstantTime(to, time.UTC)
	if err1 != nil || err2 != nil {
		return 0
	}
	return max(b.Sub(a), 0)
}

// withdraw takes back what was said of a table that could not be looked at, or is not there: neither a state nor a lag from before holds.
// Without an index the table itself has the state.
func (t *followed) withdraw(o outcome) {
	state, reason := coverage.StateStalled, fmt.Sprintf("the table cannot be looked at: %v", o.err)
	if errors.Is(o.err, storage.ErrNotFound) {
		state = coverage.StateAbsent
		reason = cmp.Or(o.text, reason)
	}
	t.replace(state, reason, t.complete(storage.Hint(o.err)))
}

// replace tells everybody a state that no status said.
func (t *followed) replace(state coverage.State, reason, next string) {
	t.mu.Lock()
	all, w := slices.Clone(t.view.Indexes), t.working
	t.mu.Unlock()
	all = t.withdrawn(all, state, reason, next, w)
	t.standing(all, time.Now())
	t.f.cfg.Observer.State(t.cfg.name(), all)
}

// withhold makes a view claim nothing that no look has confirmed for too long. t.mu is held.
func (t *followed) withhold(v *TableView) {
	state, reason, doubted := t.doubt(time.Now())
	if !doubted {
		return
	}
	v.Fresh, v.State, v.Indexes = false, state, t.withdrawn(v.Indexes, state, reason, "", t.working)
	v.Reason = cmp.Or(v.Reason, reason)
}
