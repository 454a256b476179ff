package coverage

import (
	"fmt"

	"tidemark/markers"
	"tidemark/timeline"
)

// Owed is how far an index is behind without the commits that an operator let be (skip). Gauges and alerts go by it: what was decided on
// purpose must not ring for ever (design, section 5). The index is no fresher by it.
type Owed struct {
	LagInstants     *int
	LagSeconds      *float64
	OldestUncovered *float64
	Horizon         Horizon
}

// Owes is the lag that somebody still has to do something about; see Owed.
func (s IndexStatus) Owes() Owed {
	if s.Owed != nil {
		return *s.Owed
	}
	return Owed{LagInstants: s.LagInstants, LagSeconds: s.LagSeconds, OldestUncovered: s.OldestUncovered, Horizon: s.Horizon}
}

// owed is a verdict without the commits that an operator let be, and how many these are.
func (l *look) owed(v Verdict) (Verdict, int) {
	var due []timeline.Instant
	for _, i := range v.Due {
		if _, skipped := l.state.Skipped[i.Requested]; !skipped {
			due = append(due, i)
		}
	}
	n := len(v.Due) - len(due)
	if n == 0 {
		return v, 0
	}
	lag := markers.Lag{Instants: max(v.Lag.Instants-n, 0), Latest: v.Lag.Latest, Upto: v.Lag.Upto}
	if len(due) > 0 {
		lag.FirstUncovered = due[0]
		for _, w := range l.tl.With(v.Archived).Writes() {
			if w.Completed < due[0].Completed {
				lag.Upto = max(lag.Upto, w.Completed)
			}
		}
	}
	v.Due, v.Lag = due, lag
	return v, n
}

// skips says what an operator let be, for the reason of an index; "" if nothing.
func (l *look) skips(v Verdict) string {
	n, first := 0, timeline.Instant{}
	for _, i := range v.Due {
		if _, skipped := l.state.Skipped[i.Requested]; skipped {
			if n++; n == 1 {
				first = i
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s skipped by an operator, %s first: %s", count(n, "commit"), first.Requested, l.state.Skipped[first.Requested].Reason)
}
