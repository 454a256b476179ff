package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	from "tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/sink"
)

// statusPause is the least time between two questions for a table's status while it catches up.
const statusPause = 5 * time.Second

// outcome is what became of one look at a table.
type outcome struct {
	err     error  // what stopped it
	waits   bool   // err is no failure: the table waits for something that a later look will find
	text    string // why the table stands still, for people; "" if it does not
	standby string // who holds the lease instead of us
	covered int
	more    bool // there is more to do at once
}

// watched is a turn that is under way, and what it holds.
type watched struct {
	t     *followed
	hints []from.Hint
	began time.Time
	timer *time.Timer

	mu      sync.Mutex // guards what follows
	slot    bool       // it has one of the follower's turns
	told    bool       // the hints have been told that the store does not answer
	doubted bool       // what a status said was taken back meanwhile
	over    bool
}

// watchEvery is how often a turn is looked after.
const watchEvery = time.Second

// watch begins to look after a turn: a table whose store does not answer gives its turn to another one and ends what waits for it, and what was
// said of the table is taken back when it is too old.
func (t *followed) watch(hints []from.Hint, began time.Time) *watched {
	w := &watched{t: t, hints: hints, began: began}
	every := max(min(t.f.cfg.Stuck/3, watchEvery), time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(every, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			w.timer.Reset(every)
			w.check(time.Now())
		}
	})
	return w
}

// check looks after the turn. w.mu is held.
func (w *watched) check(now time.Time) {
	t := w.t
	silent := now.Sub(w.began) // while it is being opened nobody counts its calls
	if meter := t.openMeter(); meter != nil {
		silent = meter.Stuck(now)
	}
	if silent < t.f.cfg.Stuck {
		t.mu.Lock()
		state, reason, doubted := t.doubt(now)
		t.mu.Unlock()
		if doubted {
			w.doubted = true
			t.say(func(v *TableView) { v.Reason = cmp.Or(v.Reason, reason) })
			t.replace(state, reason, "")
		}
		return
	}
	w.release()
	err := &storage.Error{Op: "follow table", Path: t.cfg.URL, Hint: "look at the store; the table goes on by itself when it answers",
		Err: fmt.Errorf("its store has not answered for %v", silent.Round(time.Second))}
	if !w.told {
		t.f.cfg.Log.Warn("store does not answer", "table", t.cfg.name(), "error", err)
	}
	t.say(func(v *TableView) { v.Reason, v.Error = err.Error(), err.Error() })
	t.replace(coverage.StateStalled, err.Error(), err.Hint)
	left, _ := t.take()
	if w.told {
		w.hints = nil
	}
	for _, h := range append(w.hints, left...) {
		endHint(h, err)
	}
	w.told, w.doubted = true, true
}

// openMeter is the store as it is now, for another goroutine than the loop's.
func (t *followed) openMeter() *indexer.Metered {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meter
}

// acquire waits for one of the follower's turns.
func (w *watched) acquire(ctx context.Context) error {
	select {
	case w.t.f.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slot = true
	return nil
}

// release gives the turn back. w.mu is held.
func (w *watched) release() {
	if w.slot {
		<-w.t.f.turns
		w.slot = false
	}
}

// end ends the watch and says whether the hints have been told already, and whether what was said of the table was taken back.
func (w *watched) end() (told, doubted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	w.release()
	return w.told, w.doubted
}

// look looks at the table and makes a pass if there is anything to do. loop is the loop's context, which says that no new pass is to
// begin; ctx is that of the work.
func (t *followed) look(ctx, loop context.Context, w *watched, whole bool) (o outcome) {
	if loop.Err() != nil {
		return outcome{err: loop.Err(), waits: true}
	}
	if o, ok := t.open(ctx); !ok {
		return o
	}
	defer func() {
		if errors.Is(o.err, storage.ErrNotFound) && !t.there(ctx) {
			o = t.gone(o.err)
		}
	}()
	if t.calm && !whole && time.Since(t.lookedAt) < t.f.cfg.Look {
		moved, err := t.idle(ctx)
		if err != nil {
			t.calm = false
			return outcome{err: err}
		}
		if !moved {
			return outcome{}
		}
	}
	t.calm, t.lookedAt = false, time.Now()
	d, err := t.due(ctx)
	switch {
	case err == nil && d.any && !t.f.cfg.Owns(d.name):
		o = outcome{waits: true, standby: elsewhere, text: "stands by: the table is " + elsewhere + "'s"}
	case err == nil && d.any:
		t.mu.Lock()
		t.working = d.work
		t.mu.Unlock()
		o = t.pass(ctx, loop, w)
	default:
		o = d.outcome
		o.err = err
		t.calm = err == nil && o.text == "" && !d.decided
	}
	if o.more && time.Since(t.statusAt) < statusPause {
		return o
	}
	if t.calm { // what changes from here on is seen by the next look
		if err := t.foot(ctx, d.rests); err != nil {
			t.calm, o.err = false, errors.Join(o.err, err)
		}
	}
	t.status(ctx, &o)
	return o
}

const (
	deletedText = "the table was deleted; it is waited for"
	missingHint = "look at its path in the configuration; the table is followed as soon as there is a .hoodie/hoodie.properties"
)

// open opens the table if it is not open.
func (t *followed) open(ctx context.Context) (outcome, bool) {
	if t.meter != nil {
		return outcome{}, true
	}
	place, err := t.f.cfg.Open(ctx, t.cfg)
	if err == nil {
		meter := indexer.Meter(place.Store, positive(t.cfg.Calls, max(1, t.f.cfg.Calls/t.f.cfg.Passes)))
		place.Store = meter
		t.place, t.tables = place, table.NewCache(meter)
		t.upkeep = t.newUpkeep()
		t.setMeter(meter)
		if t.there(ctx) {
			t.existed = true
			return outcome{}, true
		}
		t.setMeter(nil)
		err = storage.ErrNotFound
	}
	if errors.Is(err, storage.ErrNotFound) {
		if beside, is := t.besideMissing(err); is {
			return outcome{err: err, waits: true, text: beside}, false
		}
		err = &storage.Error{Op: "open table", Path: t.cfg.URL, Err: err, Hint: missingHint}
		if t.existed {
			return outcome{err: err, waits: true, text: deletedText}, false
		}
		return outcome{err: err, waits: true, text: "the table does not exist yet; it is waited for"}, false
	}
	return outcome{err: err}, false
}

// besideMissing says that not the table is missing, but the place beside it, if that is what an error means.
func (t *followed) besideMissing(err error) (string, bool) {
	var e *storage.Error
	if t.cfg.Sink == "" || !errors.As(err, &e) || from.Key(e.Path) != from.Key(t.cfg.Sink) {
		return "", false
	}
	return "the place beside the table, " + t.cfg.Sink + ", does not exist; it is waited for", true
}

func (t *followed) setMeter(m *indexer.Metered) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meter = m
}

// there says whether there is a table; an answer that cannot be had counts as one.
func (t *followed) there(ctx context.Context) bool {
	_, err := t.place.Store.Stat(ctx, table.HoodieDir+"/hoodie.properties")
	return !errors.Is(err, storage.ErrNotFound)
}

// gone closes a table that was deleted while it was followed.
func (t *followed) gone(err error) outcome {
	t.setMeter(nil)
	t.upkeep, t.tables, t.calm = nil, nil, false
	t.f.cfg.Log.Warn("table is gone", "table", t.cfg.name())
	return outcome{err: &storage.Error{Op: "follow table", Path: t.cfg.URL, Hint: missingHint, Err: fmt.Errorf("the table is gone: %w", err)}, waits: true,
		text: deletedText}
}

// newUpkeep is the upkeep of the table that has just been opened.
func (t *followed) newUpkeep() *indexer.Upkeep {
	cfg, log, name := t.f.cfg, t.f.cfg.Log, t.cfg.name()
	opt := indexer.UpkeepOptions{Lock: cfg.Lock, LeaseTrouble: func(err error) {
		log.Warn("lease was not given back", "table", name, "error", err)
	}}
	opt.Memory, opt.Tables, opt.Sink = cfg.Memory, t.tables, cfg.Sink
	opt.Memory.Changes = positive(t.cfg.Memory, cfg.Memory.Changes)
	opt.Sink.LockTrouble = func(err error) {
		log.Warn("lock not given back", "table", name, "error", err)
	}
	opt.Waiting = func(reason string) {
		log.Info("commit waits", "table", name, "reason", reason)
		t.say(func(v *TableView) { v.Reason = "a commit waits: " + reason })
	}
	opt.Table, opt.Observer, opt.Noticed = name, Observers(cfg.Observer, seer{t: t}), t.noticedAt
	return indexer.NewUpkeep(t.place, opt)
}

// pass makes one batch in its turn.
func (t *followed) pass(ctx, parent context.Context, w *watched) outcome {
	if err := w.acquire(parent); err != nil {
		return outcome{err: err, waits: true}
	}
	res, err := t.upkeep.Advance(ctx)
	var lease *sink.LeaseError
	if errors.As(err, &lease) {
		return outcome{err: err, waits: true, standby: lease.Owner, text: "stands by: " + lease.Error()}
	}
	o := outcome{err: err, covered: res.Processed}
	if err == nil {
		clear(t.attempts)
		o.more = res.More
		t.calm = !o.more && !decided(t.upkeep.State())
		return o
	}
	o.err = errors.Join(o.err, t.quarantine(ctx, err))
	return o
}

// status asks where the indexes stand and tells it.
func (t *followed) status(ctx context.Context, o *outcome) {
	began := time.Now()
	all, err := coverage.Status(ctx, t.at(t.place))
	if err != nil {
		o.err = errors.Join(o.err, err)
		return
	}
	t.statusAt = time.Now()
	for i := range all {
		all[i].Table = t.cfg.name()
	}
	if all[0].Index == nil && all[0].State != coverage.StateAbsent { // waiting for an index would lead nowhere
		o.text = all[0].Reason
	}
	var missing []string
	for _, name := range t.cfg.Indexes {
		if !slices.ContainsFunc(all, func(s coverage.IndexStatus) bool { return s.Index != nil && *s.Index == name }) {
			missing = append(missing, name)
		}
	}
	if t.missing = ""; len(missing) > 0 {
		t.missing = "the configuration names indexes that are not there: " + strings.Join(missing, ", ")
	}
	t.standing(all, began)
	t.f.cfg.Observer.State(t.cfg.name(), all)
}

// elsewhere is who works on a table that Owns says is not ours.
const elsewhere = "another process of the group"

// dueness is what a look found to do.
type dueness struct {
	outcome
	name    string // hoodie.table.name
	any     bool
	decided bool
	work    work
	rests   *footing // set without an error
}

// decided says whether an operator's decision, or the want of one, holds something up: such a table is looked at as a whole every time, so
// that another decision is noticed at once.
func decided(st *mdt.State) bool { return st.Paused || len(st.Quarantine)+len(st.Skipped) > 0 }

// due says whether a pass would do anything, without taking the lease, but for sweeping a table that has no index any more.
func (t *followed) due(ctx context.Context) (dueness, error) {
	found, err := t.upkeep.Due(ctx)
	switch none := (dueness{outcome: outcome{text: "no index yet; it is waited for", waits: true}}); {
	case err != nil:
		return dueness{}, err
	case found.State == nil:
		return none, nil
	case found.State.Paused:
		return dueness{outcome: outcome{text: "paused by an operator", waits: true}}, nil
	case found.Indexes == 0 && found.Aside == nil:
		if t.f.cfg.Owns(found.Props.Name) {
			if err := indexer.Sweep(ctx, t.place, indexer.CommitterOptions{Sink: t.f.cfg.Sink, Tables: t.tables}); err != nil {
				return dueness{}, err
			}
		}
		return none, nil
	}
	d := dueness{name: found.Props.Name, rests: restsOn(t.place, found.State, found.Props), any: found.Any, decided: decided(found.State),
		work: workOf(found.Instants)}
	if found.Stopped != "" {
		d.text = "commit " + found.Stopped + " was set aside after repeated failures: an operator must retry or skip it"
		d.waits = true
	}
	if !d.any {
		return d, found.Aside
	}
	return d, nil
}
