package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/sink"
)

// call is a call of the store, or a file change of the writer, that waits for its turn.
type call struct {
	op, path string
	turn     chan fault.Outcome
}

// process is one Tidemark, or the writer: it runs on its own goroutine and stops at every call until the scheduler lets it go on.
type process struct {
	name string
	s    *sim

	mu      sync.Mutex // guards the fields below
	calls   []*call    // parked; more than one while the lease is renewed beside the work
	running bool
	err     error

	clock  time.Duration // how far its clock is off
	stale  int           // by how many changes its listings are late
	dead   bool
	number int // of its images, so that each has a process id
}

// ask parks a call and returns what becomes of it.
func (p *process) ask(op, path string) fault.Outcome {
	c := &call{op: op, path: path, turn: make(chan fault.Outcome)}
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	return <-c.turn
}

// parked returns the call that is next, nil if none waits.
func (p *process) parked() *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 0 {
		return nil
	}
	best := 0
	for i, c := range p.calls {
		if c.op+c.path < p.calls[best].op+p.calls[best].path {
			best = i
		}
	}
	return p.calls[best]
}

func (p *process) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// answer lets a parked call go on.
func (p *process) answer(c *call, o fault.Outcome) {
	p.mu.Lock()
	for i := range p.calls {
		if p.calls[i] == c {
			p.calls = append(p.calls[:i], p.calls[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	c.turn <- o
}

// start begins a piece of work as a new image of the process.
func (p *process) start(work func(context.Context, mdt.Place, sink.Config) error) {
	p.number++
	number := p.number
	p.dead = false
	p.mu.Lock()
	p.running, p.err = true, nil
	p.mu.Unlock()
	lag := mem.Lagging{Store: p.s.store, Behind: func(string) int { return p.stale }}
	store := fault.New(&watched{lag, p}, fault.Config{Decide: p.ask})
	cfg := sink.Config{Host: "host", PID: p.pid(number), Owner: p.owner(),
		Now:   p.now,
		Alive: p.s.alive}
	go func() {
		err := work(context.Background(), mdt.Inside(store), cfg)
		p.mu.Lock()
		p.running, p.err = false, err
		p.mu.Unlock()
	}()
}

// owner names the newest image in the lease.
func (p *process) owner() string { return fmt.Sprintf("%s-%d", p.name, p.number) }

// now is what its clock says.
func (p *process) now() time.Time { return time.Now().Add(p.clock) }

func (p *process) pid(number int) int { return 1000*int(p.name[0]) + number }

// alive says whether the image with a process id runs.
func (s *sim) alive(pid int) bool {
	for _, p := range s.tidemarks {
		if p.pid(p.number) == pid {
			return p.busy() && !p.dead
		}
	}
	return false
}

// sync is what a Tidemark does when a hint comes.
func syncOnce(limit int) func(context.Context, mdt.Place, sink.Config) error {
	return func(ctx context.Context, place mdt.Place, cfg sink.Config) error {
		_, err := indexer.Sync(ctx, place, indexer.SyncOptions{Sink: cfg, MaxInstants: limit})
		return err
	}
}

// reconcileOnce is what an operator does when status says so.
func reconcileOnce(ctx context.Context, place mdt.Place, cfg sink.Config) error {
	_, err := indexer.Reconcile(ctx, place, indexer.ReconcileOptions{Sink: cfg})
	return err
}

// foldOnce folds whatever has logs. A sync does so when it is time, which is seldom in so small a table.
func foldOnce(ctx context.Context, place mdt.Place, cfg sink.Config) error {
	c, err := indexer.OpenCommitter(ctx, place, indexer.CommitterOptions{Sink: cfg})
	if err != nil {
		return err
	}
	if err := c.Acquire(ctx); err != nil {
		return err
	}
	_, err = c.Fold(ctx, sink.Fold{Keep: generation.Keeper})
	return errors.Join(err, c.Release(context.WithoutCancel(ctx)))
}

// watched notes writes of a Tidemark outside our places.
type watched struct {
	storage.Store
	p *process
}

var own = storage.AllowOwn(".hoodie/.tidemark", ".hoodie/metadata")

func (w *watched) check(op, path string) {
	if !own(path) {
		w.p.s.fail("%s wrote outside its places: %s %s", w.p.name, op, path)
	}
}

func (w *watched) Create(ctx context.Context, path string, data []byte) (storage.Info, error) {
	w.check("create", path)
	w.p.s.created(path)
	return w.Store.Create(ctx, path, data)
}

func (w *watched) CreateFrom(ctx context.Context, path string, size int64, open storage.Open) (storage.Info, error) {
	w.check("create", path)
	return w.Store.CreateFrom(ctx, path, size, open)
}

func (w *watched) Replace(ctx context.Context, path string, data []byte, tag string) (storage.Info, error) {
	w.check("replace", path)
	place := mdt.Inside(w.p.s.store)
	if path != place.StatePath() {
		return w.Store.Replace(ctx, path, data, tag)
	}
	old, now, err := mdt.ReadState(context.WithoutCancel(ctx), place)
	if err != nil {
		w.p.s.fail("the state object cannot be read: %v", err)
	}
	if w.p.s.profile.blind {
		tag = now
	}
	info, err := w.Store.Replace(ctx, path, data, tag)
	if err == nil && old != nil {
		if next, err := mdt.DecodeState(data); err != nil {
			w.p.s.fail("%s wrote a state that cannot be read: %v", w.p.owner(), err)
		} else {
			w.p.s.replaced(w.p, old, next)
		}
	}
	return info, err
}

func (w *watched) Delete(ctx context.Context, path string) error {
	w.check("delete", path)
	w.p.s.deleted(w.p, path)
	return w.Store.Delete(ctx, path)
}

// expected says whether a Tidemark may end like that: killed, another owner, a table that moved too fast, covered history undone.
func expected(err error) bool {
	var lease *sink.LeaseError
	var wait *sink.WaitError
	return err == nil || errors.As(err, &lease) || errors.As(err, &wait) || errors.Is(err, sink.ErrLeaseLost) || errors.Is(err, fault.ErrKilled) ||
		errors.Is(err, fault.ErrUnknown) || errors.Is(err, storage.ErrStale) || errors.Is(err, sink.ErrBusy)
}
