package follow

import (
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
)

// Observer is told what happens to tables that are followed. What holds of an indexer.Observer holds of it.
type Observer interface {
	indexer.Observer
	// Noticed says that a source has heard of a commit at a time. instant (its requested time) and trace (W3C traceparent) may be "".
	Noticed(table, instant, trace string, at time.Time)
	// State says where the indexes of a table stand. It is called after passes and at least once a minute.
	State(table string, all []coverage.IndexStatus)
	// Pass says that a pass over a table has ended: a look that found nothing to do, or one batch; with what stopped it, or nil.
	Pass(table string, err error, took time.Duration)
}

// Silent is an Observer that does nothing. Embed it to implement a part.
type Silent struct{}

var _ Observer = Silent{}

// Noticed implements Observer.
func (Silent) Noticed(string, string, string, time.Time) {}

// Covered implements Observer.
func (Silent) Covered(indexer.CoveredInstant) {}

// State implements Observer.
func (Silent) State(string, []coverage.IndexStatus) {}

// Pass implements Observer.
func (Silent) Pass(string, error, time.Duration) {}

// Folded implements Observer.
func (Silent) Folded(string, time.Duration) {}

// Observers tells all of several; nil ones are left out.
func Observers(all ...Observer) Observer {
	var out observers
	for _, o := range all {
		if o != nil {
			out = append(out, o)
		}
	}
	return out
}

type observers []Observer

func (all observers) Noticed(table, instant, trace string, at time.Time) {
	for _, o := range all {
		o.Noticed(table, instant, trace, at)
	}
}

func (all observers) Covered(c indexer.CoveredInstant) {
	for _, o := range all {
		o.Covered(c)
	}
}

func (all observers) State(table string, states []coverage.IndexStatus) {
	for _, o := range all {
		o.State(table, states)
	}
}

func (all observers) Folded(table string, took time.Duration) {
	for _, o := range all {
		o.Folded(table, took)
	}
}

func (all observers) Pass(table string, err error, took time.Duration) {
	for _, o := range all {
		o.Pass(table, err, took)
	}
}
