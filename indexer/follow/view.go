package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	from "tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// TableView is what a Follower knows of one table. Its JSON form is that of /v1/tables.
type TableView struct {
	Name string `json:"name"` // as the configuration has it
	URL  string `json:"url"`  // of the table's base path
	// Sink is the place beside the table where its indexes lie; "" for inside.
	Sink string `json:"sink,omitempty"`
	// State is the worst of its indexes' states; "" before the first look.
	State coverage.State `json:"state"`
	// Fresh is only said by a look that began about one interval ago at most.
	Fresh bool `json:"fresh"`
	// Reason says why the table is not followed at this moment: it does not exist, another process holds its lease, a pass failed.
	Reason string `json:"reason,omitempty"`
	// StandsBy is who holds the table's lease instead of this process.
	StandsBy string `json:"stands_by_for,omitempty"`
	// Error is what stopped the last pass; Failures is how many in a row were stopped, RetryAt when the next one is.
	Error    string    `json:"error,omitempty"`
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
	// Looks counts looks at the table, Passes those that had something to do, Covered the commits that they covered.
	Looks   int64 `json:"looks"`
	Passes  int64 `json:"passes"`
	Covered int64 `json:"covered"`
	// Hints counts the hints that named the table. The times are zero before the first hint, look, or commit covered.
	Hints     int64     `json:"hints"`
	HintedAt  time.Time `json:"hinted_at,omitzero"`
	LookedAt  time.Time `json:"looked_at,omitzero"`
	CoveredAt time.Time `json:"covered_at,omitzero"`
	// Indexes is where the indexes stood at StatusAt.
	Indexes  []coverage.IndexStatus `json:"indexes"`
	StatusAt time.Time              `json:"status_at,omitzero"`
	// Lag is how far behind the worst index was, over time, the newest last.
	Lag []LagPoint `json:"-"`
	// Recent are the commits covered last, the newest last.
	Recent []indexer.CoveredInstant `json:"-"`
	// confirmed is when the last look began that found Fresh to hold.
	confirmed time.Time
	// Stopped says that the table is not followed any more.
	Stopped bool `json:"-"`
}

// LagPoint is the lag at a moment.
type LagPoint struct {
	At       time.Time
	Instants int     // completed data writes that are not covered
	Seconds  float64 // coverage.IndexStatus.LagSeconds
}

const (
	// lagPoints and lagEvery bound the lag that is kept: two hours of a table that is looked at each minute.
	lagPoints = 120
	lagEvery  = 10 * time.Second
	// recentCommits bounds the commits that are kept.
	recentCommits = 12
)

// order is that of the states (design, section 5): the first that holds is shown.
var order = []coverage.State{coverage.StateUnsupported, coverage.StateAbsent, coverage.StateHandedOver, coverage.StateFailClosed, coverage.StateBlocked,
	coverage.StateStalled, coverage.StatePaused, coverage.StateCatchingUp, coverage.StateDegraded, coverage.StateWaiting, coverage.StateFresh}

// Worst is the state of several indexes together: the first, in the order of the states, that one of them has. Indexes that are being
// built count only where there is no other one.
func Worst(all []coverage.IndexStatus) (coverage.State, bool) {
	finished := slices.ContainsFunc(all, func(s coverage.IndexStatus) bool { return !s.Building })
	at, fresh := len(order)-1, len(all) > 0
	for _, s := range all {
		if s.Building && finished {
			continue
		}
		if n := slices.Index(order, s.State); n >= 0 && n < at {
			at = n
		}
		fresh = fresh && s.Fresh
	}
	if len(all) == 0 {
		return "", false
	}
	return order[at], fresh
}

// Trouble says that no look or pass will make the table fresh before somebody acts, or its store answers again.
func (v TableView) Trouble() bool {
	switch v.State {
	case coverage.StateUnsupported, coverage.StateAbsent, coverage.StateHandedOver, coverage.StateFailClosed, coverage.StateBlocked, coverage.StateStalled:
		return true
	}
	return v.Error != ""
}

func (t *followed) say(fn func(v *TableView)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fn(&t.view)
}

// settle notes what became of a look.
func (t *followed) settle(o outcome, _ time.Duration) {
	t.say(func(v *TableView) {
		v.Looks++
		v.LookedAt = time.Now()
		v.Error, v.Failures, v.RetryAt = "", 0, time.Time{}
		v.Reason, v.StandsBy = cmp.Or(o.text, t.missing), o.standby
		if o.err != nil && !o.waits {
			v.Error, v.Failures = o.err.Error(), t.failures+1
			v.RetryAt = time.Now().Add(min(firstBackoff<<min(t.failures, 20), maxBackoff))
			if v.Reason == "" {
				v.Reason = v.Error
				if h := storage.Hint(o.err); h != "" {
					v.Reason += "; " + t.complete(h)
				}
			}
		}
		if o.covered > 0 {
			v.Passes++
			v.Covered += int64(o.covered)
			v.CoveredAt = time.Now()
		}
	})
}

// standing notes where the indexes stand, as a look found that began at a moment.
func (t *followed) standing(all []coverage.IndexStatus, began time.Time) {
	t.say(func(v *TableView) {
		now := time.Now()
		v.confirmed = began
		before := v.State
		v.Indexes, v.StatusAt = all, now
		v.State, v.Fresh = Worst(all)
		p, known := LagPoint{At: now}, false
		for _, s := range all {
			if s.LagInstants != nil {
				known, p.Instants = true, max(p.Instants, *s.LagInstants)
			}
			if s.LagSeconds != nil {
				p.Seconds = max(p.Seconds, *s.LagSeconds)
			}
		}
		if n := len(v.Lag); known && n > 0 && now.Sub(v.Lag[n-1].At) < lagEvery {
			v.Lag[n-1].Instants, v.Lag[n-1].Seconds = max(v.Lag[n-1].Instants, p.Instants), max(v.Lag[n-1].Seconds, p.Seconds)
		} else if known {
			if n == lagPoints {
				v.Lag = append(v.Lag[:0], v.Lag[1:]...)
			}
			v.Lag = append(v.Lag, p)
		}
		if before != v.State {
			reason := ""
			for _, s := range all {
				if s.State == v.State {
					reason = s.Reason
				}
			}
			t.f.cfg.Log.Info("state changed", "table", t.cfg.name(), "from", string(before), "to", string(v.State), "reason", reason)
		}
	})
}

// seer keeps the commits that were covered last.
type seer struct {
	Silent
	t *followed
}

// Covered implements Observer.
func (s seer) Covered(c indexer.CoveredInstant) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	v := &s.t.view
	if len(v.Recent) == recentCommits {
		v.Recent = append(v.Recent[:0], v.Recent[1:]...)
	}
	v.Recent = append(v.Recent, c)
}

// snapshot is a copy of the view.
func (t *followed) snapshot() TableView {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view
	v.Lag, v.Recent, v.Indexes = slices.Clone(v.Lag), slices.Clone(v.Recent), slices.Clone(v.Indexes)
	if v.Indexes == nil {
		v.Indexes = []coverage.IndexStatus{}
	}
	t.withhold(&v)
	return v
}

// Tables returns what is known of all tables, by name.
func (f *Follower) Tables() []TableView {
	f.mu.Lock()
	all := make([]*followed, 0, len(f.tables))
	for _, t := range f.tables {
		all = append(all, t)
	}
	f.mu.Unlock()
	out := make([]TableView, 0, len(all))
	for _, t := range all {
		out = append(out, t.snapshot())
	}
	slices.SortFunc(out, func(a, b TableView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Table returns what is known of one table, named by its name or one of its paths.
func (f *Follower) Table(name string) (TableView, bool) {
	t := f.table(name)
	if t == nil {
		return TableView{}, false
	}
	return t.snapshot(), true
}

// Ready says whether every table has been looked at once, with whatever result; else which has not. From then on it holds until the end, for
// tables that come by a reload, too.
func (f *Follower) Ready() (bool, string) {
	f.mu.Lock()
	stopped, ready := f.stopped || f.ctx == nil, f.ready
	f.mu.Unlock()
	switch {
	case stopped:
		return false, "not started, or about to stop"
	case ready:
		return true, ""
	}
	for _, v := range f.Tables() {
		if v.Looks == 0 && v.Error == "" {
			return false, "table " + v.Name + " has not been looked at yet"
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = true
	return true, ""
}

// Place opens a table that is followed, for questions and decisions about it. storage.ErrNotFound for another one.
func (f *Follower) Place(ctx context.Context, name string) (mdt.Place, TableConfig, error) {
	t := f.table(name)
	if t == nil {
		return mdt.Place{}, TableConfig{}, &storage.Error{Op: "find table", Path: name, Err: storage.ErrNotFound, Hint: "/v1/tables lists the tables that are followed"}
	}
	p, err := f.cfg.Open(ctx, t.cfg)
	return p, t.cfg, err
}

// Known is what the daemon has looked at already of a table that is followed, for those who ask about it; nil for another one.
func (f *Follower) Known(name string) *coverage.Known {
	t := f.table(name)
	if t == nil {
		return nil
	}
	return &t.known
}

// leastLook is how long a look at an instant may take though the caller does not want to wait as long for a later one.
const leastLook = 10 * time.Second

// WaitCovered wakes the loop of a table and returns when all its indexes, or the one named, cover an instant; or when the time is up, with
// what is known then. Without a timeout it looks once. The error is that of coverage.Wait, at once where waiting leads nowhere: an unknown
// index, none at all, an instant before the timeline; storage.ErrNotFound, too, for a table that is not followed.
func (f *Follower) WaitCovered(ctx context.Context, name string, req coverage.WaitRequest) (*coverage.WaitResult, error) {
	t := f.table(name)
	if t == nil {
		_, _, err := f.Place(ctx, name)
		return nil, err
	}
	first, cancelFirst := context.WithTimeout(ctx, max(req.Timeout, leastLook))
	defer cancelFirst()
	ctx, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	done := make(chan error, 1)
	t.mu.Lock()
	passed := t.passed
	t.mu.Unlock()
	f.Hint(from.Hint{Table: t.cfg.URL, Instant: req.Covers, Done: func(err error) { done <- err }})
	r, err := f.covers(first, t, req.Index, req.Covers)
	if err != nil && first.Err() == nil {
		return nil, err
	}
	var failed error
	for {
		switch {
		case err != nil && ctx.Err() != nil:
			return &coverage.WaitResult{Reason: "the time is up"}, nil
		case err != nil && !errors.Is(err, storage.ErrNotFound):
			return nil, err
		case err != nil:
			r = &coverage.WaitResult{Reason: err.Error()}
		case r.Covered:
			return r, nil
		}
		if failed != nil {
			r.Reason += "; the last pass failed: " + failed.Error()
		}
		select {
		case <-ctx.Done():
			return r, nil
		case failed = <-done:
		case <-passed:
		}
		if ctx.Err() != nil { // both at once: another look would not end
			return r, nil
		}
		t.mu.Lock()
		passed = t.passed
		t.mu.Unlock()
		r, err = f.covers(ctx, t, req.Index, req.Covers)
	}
}

// covers looks once whether the indexes cover an instant.
func (f *Follower) covers(ctx context.Context, t *followed, index, instant string) (*coverage.WaitResult, error) {
	place, err := f.cfg.Open(ctx, t.cfg)
	if errors.Is(err, storage.ErrNotFound) {
		err = &storage.Error{Op: "open table", Path: t.cfg.URL, Err: err, Hint: missingHint}
	}
	if err != nil {
		return nil, err
	}
	names := []string{index}
	if index == "" {
		st, _, err := mdt.ReadState(ctx, place)
		if err != nil {
			return nil, err
		}
		names = nil
		for name, x := range st.Indexes {
			if _, active := x.Active(); active && !x.Dropped {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	if len(names) == 0 {
		return nil, &storage.Error{Op: "find index", Path: t.cfg.URL, Err: storage.ErrNotFound, Hint: "tidemark index create makes one"}
	}
	r := &coverage.WaitResult{}
	for _, name := range names {
		if r, err = coverage.Wait(ctx, t.at(place), coverage.WaitRequest{Index: name, Covers: instant}); err != nil || !r.Covered {
			break
		}
	}
	return r, err
}
