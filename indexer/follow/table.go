package follow

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	from "tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

const (
	// maxWaiting bounds the hints of a table that wait to be told of the end of a pass.
	maxWaiting = 10_000
	// maxNoticed bounds the commits that a source has heard of and that are not covered yet.
	maxNoticed = 4096
	// eager is what part of the interval passes between looks at a table that has just had a commit.
	eager = 5
	// firstBackoff doubles with every failure in a row, up to maxBackoff.
	firstBackoff = time.Second
	maxBackoff   = 5 * time.Minute
	// leastPause keeps a storm of hints from running into a failure again and again.
	leastPause = time.Second
)

// followed is one table with its loop.
type followed struct {
	f      *Follower
	cfg    TableConfig
	cancel context.CancelFunc // of the loop; nil before it runs; guarded by f.mu
	after  <-chan struct{}    // closed when the loop that was at this table before has ended; nil: there was none
	ended  chan struct{}      // closed when the loop has ended, or was never begun and is not wanted any more
	once   sync.Once          // of closing ended
	woken  chan struct{}      // capacity 1: somebody has something new

	// Of the loop alone.
	place    mdt.Place
	meter    *indexer.Metered // nil: the table is not open
	tables   *table.Cache
	existed  bool           // it was open once
	known    coverage.Known // what its status has looked at already; safe for concurrent use
	upkeep   *indexer.Upkeep
	calm     bool          // the last look found nothing to do and nothing that an operator may change
	footing  *footing      // set while calm: what a look without news compares
	lookedAt time.Time     // when the table was last looked at as a whole
	statusAt time.Time     // when its status was last asked for
	pause    time.Duration // until the next look
	failures int           // in a row
	failedAt time.Time
	missing  string         // which indexes of the configuration are not there, for people
	attempts map[string]int // failures of commits that cannot be compared, by requested time

	mu      sync.Mutex // guards what follows
	hints   []from.Hint
	noticed map[string]time.Time
	whole   bool // the next look is to be a whole one
	working work // what the turn under way is at
	view    TableView
	passed  chan struct{} // closed and replaced when a look or pass has ended
}

func newFollowed(f *Follower, cfg TableConfig) *followed {
	return &followed{f: f, cfg: cfg, ended: make(chan struct{}), woken: make(chan struct{}, 1), attempts: map[string]int{},
		noticed: map[string]time.Time{}, passed: make(chan struct{}),
		view: TableView{Name: cfg.name(), URL: cfg.URL, Sink: cfg.Sink, Reason: "not looked at yet"}}
}

// stop ends the loop. f.mu is held.
func (t *followed) stop() {
	if t.cancel != nil {
		t.cancel()
		return
	}
	t.once.Do(func() { close(t.ended) })
}

func endHint(h from.Hint, err error) {
	if h.Done != nil {
		go h.Done(err)
	}
}

// hint keeps a hint for the next pass and wakes the loop.
func (t *followed) hint(h from.Hint) {
	t.mu.Lock()
	t.view.Hints++
	t.view.HintedAt = h.Received
	_, known := t.noticed[h.Instant]
	if h.Instant != "" && !known {
		if len(t.noticed) >= maxNoticed {
			clear(t.noticed)
		}
		t.noticed[h.Instant] = h.Received
	}
	full := h.Done != nil && len(t.hints) >= maxWaiting
	if h.Done != nil && !full {
		t.hints = append(t.hints, h)
	}
	t.mu.Unlock()
	if !known {
		t.f.cfg.Observer.Noticed(t.cfg.name(), h.Instant, h.Trace, h.Received)
	}
	if full {
		endHint(h, refused("too many hints of this table wait for a pass", "the table is looked at all the same"))
	}
	t.wake(false)
}

// wake makes the loop look now. whole: at everything, not only for a new commit.
func (t *followed) wake(whole bool) {
	t.mu.Lock()
	t.whole = t.whole || whole
	t.mu.Unlock()
	select {
	case t.woken <- struct{}{}:
	default: // it is awake already, or will be
	}
}

// take returns the hints that wait and whether the next look is to be a whole one.
func (t *followed) take() (hints []from.Hint, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hints, whole, t.hints, t.whole = t.hints, t.whole, nil, false
	return hints, whole
}

// noticedAt is when a source first heard of a commit; zero if none did.
func (t *followed) noticedAt(requested string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.noticed[requested]
}

// run is the table's loop.
func (t *followed) run(ctx context.Context) {
	defer t.once.Do(func() { close(t.ended) })
	defer func() {
		left, _ := t.take()
		for _, h := range left {
			endHint(h, refused("the daemon is about to stop, or the table is no longer followed", "the next start looks at every table"))
		}
		t.say(func(v *TableView) { v.Stopped = true })
	}()
	if t.after != nil {
		select {
		case <-t.after:
		case <-ctx.Done():
			return
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.woken:
			// A failure is not run into again at once, however many hints come.
			if wait := leastPause - time.Since(t.failedAt); t.failures > 0 && wait > 0 {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
		case <-timer.C:
		}
		timer.Reset(t.turn(ctx))
	}
}

// turn looks at the table once, makes a pass if there is anything to do, and returns how long to wait until the next look.
func (t *followed) turn(ctx context.Context) time.Duration {
	select { // what woke us is dealt with by this turn
	case <-t.woken:
	default:
	}
	hints, whole := t.take()
	began := time.Now()
	// What is under way may end its batch when the loop is to end.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		grace := time.AfterFunc(t.f.cfg.Grace, cancel)
		context.AfterFunc(work, func() { grace.Stop() })
	})()
	w := t.watch(hints, began)
	o := t.look(work, ctx, w, whole)
	told, doubted := w.end()
	if told {
		hints = nil
	}
	t.mu.Lock()
	t.working.n = 0
	t.mu.Unlock()
	for _, h := range hints {
		endHint(h, o.err)
	}
	took := time.Since(began)
	failed := o.err
	if o.waits && !errors.Is(o.err, storage.ErrNotFound) { // for another process, or the end: no failure, as a table is that is not there
		failed = nil
	}
	t.f.cfg.Observer.Pass(t.cfg.name(), failed, took)
	if saw := !t.statusAt.Before(began); o.err != nil && ctx.Err() == nil && (!saw || o.waits && errors.Is(o.err, storage.ErrNotFound)) {
		t.withdraw(o)
	} else if !saw && o.err == nil && t.calm {
		t.say(func(v *TableView) { v.confirmed = began })
	}
	if doubted && o.err == nil { // what was said meanwhile may have come after this look's status
		t.calm, o.more = false, true
	}
	t.settle(o, took)
	t.mu.Lock()
	close(t.passed)
	t.passed = make(chan struct{})
	t.mu.Unlock()
	return t.next(o)
}

// next says when to look again.
func (t *followed) next(o outcome) time.Duration {
	interval := t.interval()
	switch {
	case o.err != nil && !o.waits:
		t.failures++
		t.failedAt = time.Now()
		t.pause = min(firstBackoff<<min(t.failures-1, 20), maxBackoff)
		if t.failures == 1 || o.text != "" && t.failures&(t.failures-1) == 0 {
			err := o.err
			if hint := storage.Hint(err); t.complete(hint) != hint { // rooms below do not know how the user names the table
				err = &storage.Error{Op: "follow", Err: o.err, Hint: t.complete(hint)}
			}
			t.f.cfg.Log.Warn("pass failed", "table", t.cfg.name(), "error", err, "failures", t.failures, "again_in", t.pause)
		}
		return t.pause
	case o.more:
		t.failures = 0
		return 0
	}
	if t.failures > 0 && o.text == "" { // a pass that goes no further because a commit was set aside is no success
		t.f.cfg.Log.Info("pass succeeded again", "table", t.cfg.name(), "failures", t.failures)
	}
	t.failures = 0
	if o.covered > 0 || t.pause == 0 {
		t.pause = interval / eager
	} else {
		t.pause = min(2*t.pause, interval)
	}
	return t.spread(t.pause)
}

func (t *followed) interval() time.Duration { return positive(t.cfg.Interval, t.f.cfg.Interval) }

func (t *followed) maxAttempts() int {
	if t.cfg.Attempts != 0 {
		return t.cfg.Attempts
	}
	return t.f.cfg.Attempts
}

// spread makes a wait shorter by up to a tenth, by the table's name, so that tables are not all looked at in one moment.
func (t *followed) spread(d time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.cfg.name())) // never fails
	return d - d/10*time.Duration(h.Sum32()%100)/100
}

// at is the table, opened at a place, for coverage.
func (t *followed) at(place mdt.Place) coverage.Deps {
	return coverage.Deps{Place: place, Table: t.cfg.URL, Sink: t.cfg.Sink, ZoneOffset: t.cfg.ZoneOffset, Known: &t.known}
}

// complete names the table in commands that are proposed without it.
func (t *followed) complete(text string) string { return mdt.Complete(text, t.cfg.URL, t.cfg.Sink) }
