package indexer

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/lock"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Upkeep is the work at the indexes of one table, for a process that comes back to it again and again: Due says what there is to do, Advance
// does a bounded part of it. What one call has read of the table and found out about it holds for the next ones as far as nothing has changed.
// It starts nothing and holds nothing between calls, the lease neither, so it needs no end. It is not safe for concurrent use; any number of
// Upkeeps, of any processes, may be at one table, since the lease decides who writes.
type Upkeep struct {
	place mdt.Place
	opt   UpkeepOptions
	sk    *Committer // nil before the first Advance
}

// UpkeepOptions are what is not required of an Upkeep. The zero value works.
type UpkeepOptions struct {
	// SyncOptions are those of each Advance. MaxInstants defaults to what one batch may hold, 64.
	SyncOptions
	// Lock makes the lock of the table's commits before the first Advance; if it fails, so does that Advance, and the next one asks again.
	// Defaults to Sink.Lock.
	Lock func(place mdt.Place) (lock.Locker, error)
	// LeaseTrouble is told when an Advance could not give the lease back, which is part of its error, too: the lease ends by itself.
	// Defaults to nothing.
	LeaseTrouble func(err error)
}

// NewUpkeep returns the work at a table's indexes. It reads nothing.
func NewUpkeep(place mdt.Place, opt UpkeepOptions) *Upkeep {
	if opt.Tables == nil {
		opt.Tables = table.NewCache(place.Store)
	}
	if opt.MaxInstants <= 0 {
		opt.MaxInstants = maxBatchInstants
	}
	if opt.Sink.TempDir == "" {
		opt.Sink.TempDir = opt.Memory.TempDir
	}
	return &Upkeep{place: place, opt: opt}
}

// Due is what a look at a table found to do.
type Due struct {
	// State is what the look went by: nil if the table has none. With none, or a paused one, the look ended there, and nothing else is set.
	State *mdt.State
	// Props are the table's properties.
	Props *timeline.Properties
	// Indexes is how many indexes are in use and can be followed. With none of them, and none in Aside's way, the look ended there.
	Indexes int
	// Any says that an Advance would do something.
	Any bool
	// Instants are the commits that are due in the index with most of them, in completion order: shared, not to be changed.
	Instants []timeline.Instant
	// Stopped is the requested time of a commit that was set aside, so that nothing after it is marked before an operator has decided; "" if
	// none is.
	Stopped string
	// Aside is why an index was left out that cannot be followed and does not stand in the way of the others; nil if none was.
	Aside error
}

// Due looks at the table. It takes no lease and writes nothing, but that decisions about commits which every index covers by now are taken out
// of the state. Kinds as Sync, but that a table without a state or an index is no error.
func (u *Upkeep) Due(ctx context.Context) (Due, error) {
	st, _, err := mdt.ReadState(ctx, u.place)
	if errors.Is(err, storage.ErrNotFound) {
		return Due{}, nil
	}
	if err != nil {
		return Due{}, err
	}
	if err := tidy(ctx, u.place, st); err != nil || st.Paused {
		return Due{State: st}, err
	}
	found := &judged{} // what is due is judged once for a look and the batches that follow it
	if u.sk != nil {
		found = &u.sk.memo.judged
	}
	l, err := takeAfter(ctx, u.place, u.opt.Tables, found, st)
	if err != nil {
		return Due{}, err
	}
	m := &memo{}
	if err := l.setAside(m); err != nil {
		return Due{}, err
	}
	if err := l.reachBack(ctx, m); err != nil {
		return Due{}, err
	}
	all := l.cohorts()
	d := Due{State: st, Props: l.table.Props, Aside: m.aside}
	if len(all) == 0 && m.aside == nil {
		return d, nil
	}
	fresh, err := l.undone(ctx)
	if err != nil {
		return Due{}, err
	}
	d.Any = len(fresh) > 0 || st.Intent != nil
	for _, c := range all {
		if err := l.check(ctx, c); err != nil {
			return Due{}, err
		}
		d.Indexes += len(c.indexes)
		d.Any = d.Any || len(c.due) > 0 || l.moves(c) ||
			len(c.stopped) == 0 && slices.ContainsFunc(c.indexes, func(x *mdt.Index) bool { return x.Reconcile != "" })
		if len(c.due) > len(d.Instants) {
			d.Instants = c.due
		}
		if len(c.stopped) > 0 {
			d.Stopped = c.stopped[0]
		}
	}
	return d, nil
}

// Advance takes the lease, covers what is due up to the bound of instants, and gives the lease back. It does not wait for the lease: a
// *sink.LeaseError says who else has it. Other kinds as Sync; a commit whose own comparison failed is named by an *InstantError. What was
// covered before an error stays covered; the result, which is never nil, says how much.
func (u *Upkeep) Advance(ctx context.Context) (*SyncResult, error) {
	res := &SyncResult{}
	if err := u.open(ctx); err != nil {
		return res, err
	}
	if err := u.sk.Sink.Acquire(ctx); err != nil { // tried again by a later call, which watches it as well
		return res, err
	}
	u.opt.observe(*u.sk, u.place)
	err := loop(ctx, u.place, *u.sk, u.opt.SyncOptions, res)
	if trouble := u.sk.Release(context.WithoutCancel(ctx)); trouble != nil {
		if u.opt.LeaseTrouble != nil {
			u.opt.LeaseTrouble(trouble)
		}
		err = errors.Join(err, trouble)
	}
	return res, err
}

// open opens the committer if it is not open.
func (u *Upkeep) open(ctx context.Context) error {
	if u.sk != nil {
		return nil
	}
	cfg := u.opt.Sink
	if u.opt.Lock != nil {
		l, err := u.opt.Lock(u.place)
		if err != nil {
			return err
		}
		cfg.Lock = l
	}
	sk, err := OpenCommitter(ctx, u.place, CommitterOptions{Sink: cfg, Tables: u.opt.Tables, Waiting: u.opt.Waiting})
	if err != nil {
		return err
	}
	u.sk = &sk
	return nil
}

// State is the state as the last Advance left it, nil before: shared, not to be changed.
func (u *Upkeep) State() *mdt.State {
	if u.sk == nil {
		return nil
	}
	return u.sk.State()
}

// SetAside makes a commit of this requested time one that nothing after is marked before an operator has decided, for a reason and after so
// many attempts: for who has seen an Advance fail at it again and again. It needs no lease. Kinds as those of a write of the state.
func (u *Upkeep) SetAside(ctx context.Context, requested, reason string, attempts int) error {
	if err := u.open(ctx); err != nil {
		return err
	}
	return u.sk.Update(ctx, func(st *mdt.State) error {
		if st.Quarantine == nil {
			st.Quarantine = map[string]mdt.Quarantine{}
		}
		st.Quarantine[requested] = mdt.Quarantine{Reason: reason, Since: time.Now().UTC(), Attempts: attempts}
		return nil
	})
}
