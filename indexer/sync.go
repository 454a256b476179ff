package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/coverage"
	"tidemark/indexer/copies"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/sink"
)

// SyncOptions bounds a Sync.
type SyncOptions struct {
	// MaxInstants stops after that many data instants. 0 means no bound.
	MaxInstants int
	// Progress is told after each instant how many are done and how many were due when the pass began. Defaults
	// to nothing.
	Progress func(done, due int)
	// Compared is told how many rows of an index have been compared, where a catch-up ends with a reconcile. Defaults to nothing.
	Compared func(index string, rows int64)
	// Waiting is told before the loop waits, with the reason. Defaults to nothing.
	Waiting func(reason string)
	// Memory bounds what a batch holds. The zero value works.
	Memory Memory
	// Tables is what this process knows of the table already: a process that syncs it again and again passes the same one.
	// Defaults to nothing.
	Tables *table.Cache
	// Sink configures the sink that is used. The zero value works.
	Sink sink.Config
	// FoldEvery is after how many commits of ours their log files are folded into base files. Defaults to 10.
	FoldEvery int
	// Observer is told of every commit that is covered. Defaults to nobody.
	Observer Observer
	// Table is the table's name for the observer. Defaults to its URL.
	Table string
	// Noticed says when a source first heard of the commit of a requested time, zero if none did. Defaults to nobody knows.
	Noticed func(requested string) time.Time
}

// progress is Progress for a pass of a call that has covered some instants before.
func (o SyncOptions) progress(before int) func(done, due int) {
	if o.Progress == nil {
		return nil
	}
	return func(done, due int) { o.Progress(before+done, before+due) }
}

// SyncResult is what a Sync did.
type SyncResult struct {
	// Processed is the number of data instants that were covered by this call, counted once per index that
	// needed them.
	Processed int
	// Commits are the ids of the metadata-table commits that were made.
	Commits []string
	// Folds are the ids of those that only folded log files into base files.
	Folds []string
	// Reconciled is what the reconcile found that ended a catch-up over files that were gone; empty if none was needed.
	Reconciled []Reconciled
	// Copies says what record keys that live more than once took.
	Copies copies.Stats

	// More says that there may be more to do at once: the bound ended the call, or a comparison with the whole table did, so that nothing
	// was looked at which came after its last look.
	More bool

	judged int // instants that were gone through to find out what is due
}

const (
	// staleRedos bounds how often a pass is redone because the table moved under it.
	staleRedos = 10
	// staleWait is the pause before a pass is redone, so that a writer in its last steps gets through them.
	staleWait = 200 * time.Millisecond
)

// Sync catches up: it covers every completed data write that the table's indexes do not cover, in completion
// order, and returns when nothing more can be done now. It takes the table's lease for as long as it works.
//
// What was processed before an error stays processed; the result says how much. Kinds: storage.ErrNotFound (no
// table, no index), ErrRefused (another owner, paused, handed over, the vector column is another one),
// ErrCorrupt (an instant or file cannot be read: it is not passed), ErrStale (covered history was undone),
// ErrUnsupported (the table must not be written).
func Sync(ctx context.Context, place mdt.Place, opt SyncOptions) (*SyncResult, error) {
	res := &SyncResult{}
	// Refuse what cannot be written before anything of the sink is touched.
	if opt.Tables == nil {
		opt.Tables = table.NewCache(place.Store)
	}
	if _, err := takeNext(ctx, place, opt.Tables, nil); err != nil {
		return res, err
	}
	if opt.Sink.TempDir == "" {
		opt.Sink.TempDir = opt.Memory.TempDir
	}
	sk, err := OpenCommitter(ctx, place, CommitterOptions{Waiting: opt.Waiting, Sink: opt.Sink, Tables: opt.Tables})
	if err != nil {
		return res, err
	}
	if err := sk.Acquire(ctx); err != nil {
		return res, err
	}
	opt.observe(sk, place)
	err = loop(ctx, place, sk, opt, res)
	return res, errors.Join(err, sk.Release(context.WithoutCancel(ctx)))
}

func loop(ctx context.Context, place mdt.Place, sk Committer, opt SyncOptions, res *SyncResult) error {
	redo := 0
	sk.memo.fold.every = opt.FoldEvery
	before := sk.memo.judged.count()
	defer func() { res.judged += sk.memo.judged.count() - before }()
	for {
		limit := maxBatchInstants
		if opt.MaxInstants > 0 {
			limit = min(limit, opt.MaxInstants-res.Processed)
		}
		if limit <= 0 {
			res.More = true
			return nil
		}
		n, id, err := pass(ctx, place, sk, limit, opt.progress(res.Processed), opt.Memory, &res.Copies)
		switch {
		case errors.Is(err, errRedo):
			if redo++; redo > staleRedos {
				return settled(err)
			}
			if err := sleep(ctx, staleWait); err != nil {
				return err
			}
		case err != nil:
			return err
		case id == "":
			if err := res.fold(ctx, sk); err != nil {
				return err
			}
			return finish(ctx, place, sk, opt, res)
		default:
			redo = 0
			res.Processed += n
			res.Commits = append(res.Commits, id)
			if err := res.fold(ctx, sk); err != nil {
				return err
			}
		}
	}
}

// fold folds if it is time, and remembers it.
func (r *SyncResult) fold(ctx context.Context, sk Committer) error {
	id, err := fold(ctx, sk)
	if id != "" {
		r.Folds = append(r.Folds, id)
	}
	return err
}

// errRedo marks a pass that found the table changed between its look and its commit.
var errRedo = errors.New("the table moved while a batch was made")

// pass looks at the table once and commits at most one batch. It returns the number of instants covered and the
// commit's id, empty if nothing was due. A failure that stopped the comparison is returned after what came before
// it was committed: by the next pass, which begins with it.
func pass(ctx context.Context, place mdt.Place, sk Committer, limit int, progress func(done, due int), m Memory, found *copies.Stats) (int, string, error) {
	sk.memo.steps = Steps{Looked: sk.memo.clock()}
	st := sk.State()
	if err := mdt.NotPaused(place, st); err != nil {
		return 0, "", err
	}
	l, err := takeAfter(ctx, place, sk.tables, &sk.memo.judged, st)
	if err != nil {
		return 0, "", err
	}
	sk.memo.fold.line = foldLine(l.Look)
	if err := l.setAside(sk.memo); err != nil {
		return 0, "", err
	}
	if err := l.reachBack(ctx, sk.memo); err != nil {
		return 0, "", err
	}
	all := l.cohorts()
	if len(all) == 0 {
		return 0, "", cmp.Or(sk.memo.aside, noActive(place))
	}
	for _, c := range all {
		if err := l.check(ctx, c); err != nil {
			return 0, "", err
		}
	}
	fresh, err := l.undone(ctx)
	if err != nil {
		return 0, "", err
	}
	if len(fresh) > 0 {
		if err := dealtWith(ctx, sk, fresh); err != nil {
			return 0, "", err
		}
	}
	for _, c := range all {
		n, id, err := l.advance(ctx, place, sk, c, limit, progress, m)
		if n > 0 {
			found.Add(l.copies)
		}
		if n > 0 || id != "" || err != nil {
			return n, id, err
		}
	}
	return 0, "", nil
}

// advance commits one batch of a cohort: due instants, or a frontier that may move without one. id is empty if
// there was neither.
func (l *look) advance(ctx context.Context, place mdt.Place, sk Committer, c cohort, limit int, progress func(done, due int), m Memory) (count int, id string, err error) {
	if len(c.due) == 0 && !l.moves(c) {
		return 0, "", nil
	}
	indexes, err := l.open(ctx, place, c)
	if err != nil {
		return 0, "", err
	}
	t := m.take(indexes, false)
	defer func() { err = errors.Join(err, t.close()) }()
	var done []covered
	var known *mdt.Copies
	if len(c.due) > 0 {
		observe := func(n int) {
			if progress != nil {
				progress(n, len(c.due))
			}
		}
		l.clock = sk.memo.clock
		done, known, err = l.compare(ctx, c, indexes, t, limit, observe)
		if len(done) == 0 && err != nil {
			return 0, "", moved(err)
		}
	}
	sk.memo.steps.Compared = sk.memo.clock()
	id, err = l.write(ctx, sk, c, indexes, t, done, known)
	if err != nil {
		return 0, "", moved(err)
	}
	for i, x := range c.indexes {
		sk.memo.tell(l, id, x.Name, i, done)
	}
	return len(done), id, nil
}

// check refuses a cohort that must not be followed.
func (l *look) check(ctx context.Context, c cohort) error {
	for _, x := range c.indexes {
		if err := l.checkColumn(x); err != nil {
			return err
		}
		if err := l.checkHistory(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// open loads a cohort's indexes.
func (l *look) open(ctx context.Context, place mdt.Place, c cohort) ([]opened, error) {
	indexes := make([]opened, len(c.indexes))
	for i, x := range c.indexes {
		o, err := openIndex(ctx, place, l.state, x)
		if err != nil {
			return nil, err
		}
		if why := coverage.Beyond(x, o.gen.Manifest); why != "" {
			return nil, &storage.Error{Op: "follow index", Path: x.Name, Err: fmt.Errorf("%s: %w", why, storage.ErrCorrupt),
				Hint: "someone changed the state object: restore it from a copy; or, to compare the index with the whole table: tidemark reconcile"}
		}
		indexes[i] = o
	}
	return indexes, nil
}

// moved turns what a moving table causes into errRedo: a stale batch, or a file that vanished since the look.
func moved(err error) error {
	var wait *sink.WaitError // the table must write first: looking again does not help
	if errors.As(err, &wait) || errors.Is(err, sink.ErrNoMDT) || errors.Is(err, sink.ErrFilesGone) {
		return err
	}
	if errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrNotFound) {
		return &redoError{err}
	}
	return err
}

// redoError is errRedo with its cause.
type redoError struct{ cause error }

func (e *redoError) Error() string        { return errRedo.Error() + ": " + e.cause.Error() }
func (e *redoError) Unwrap() error        { return e.cause }
func (e *redoError) Is(target error) bool { return target == errRedo }

// settled is the error when looking again has not helped: a file that is gone at every look is not one that vanished under it.
func settled(err error) error {
	if e := (*redoError)(nil); errors.As(err, &e) && errors.Is(e.cause, storage.ErrNotFound) {
		return e.cause
	}
	return err
}

// dealtWith records restores and rollbacks that undid nothing that an index covers.
func dealtWith(ctx context.Context, sk Committer, fresh map[string]string) error {
	return sk.Update(ctx, func(st *mdt.State) error {
		if st.Restores == nil {
			st.Restores = map[string]string{}
		}
		for requested, completed := range fresh {
			st.Restores[requested] = completed
		}
		return nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
