package search

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
	"weak"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Reader answers queries on one table for as long as a process lives. What it has read it keeps while neither the table's timeline
// nor the state of its indexes moves: then a query costs one listing and two looks at a file, and the rows that it reads. It is safe for
// concurrent use.
type Reader struct {
	deps    Deps
	tables  *table.Cache
	records *timeline.Reader

	mu   sync.Mutex
	last *pinned // guarded by mu
}

// NewReader returns a reader that has read nothing yet.
func NewReader(d Deps) *Reader {
	if d.Table == "" {
		d.Table = d.Place.Store.URL()
	}
	if d.Cache == nil {
		d.Cache = NewCache(0)
	}
	r := &Reader{deps: d, tables: table.NewCache(d.Place.Store), records: mdt.NewReader(d.Place.Store)}
	r.tables.Keep(d.Cache.pages, d.Cache.footers)
	return r
}

// Search is Reader.Search for one query.
func Search(ctx context.Context, d Deps, q Request) (*Answer, error) {
	return NewReader(d).Search(ctx, q)
}

// Search answers one query at the newest completed snapshot. It reads the state object first and the timeline after it,
// so the index never knows more than the snapshot unless the table went back, which is not fresh. A file that is gone may have been
// replaced meanwhile: then everything is read again, once (docs/format/state.md, Readers).
//
// If the context's deadline comes, the answer holds the rows found so far and is not complete; if there are none, the error is
// context.DeadlineExceeded. So it is for BruteForce, which knows only at its end which copy of a row was written last.
//
// Kinds: ErrUsage for a query that cannot be asked, storage.ErrStale where the policy is FAIL and the index does not
// cover the snapshot (the answer then says so and has no rows), storage.ErrRefused for an approximate search without
// record index or an index of another column type, storage.ErrNotFound for a table, index, row or file that is not
// there, storage.ErrCorrupt and storage.ErrUnsupported for what cannot be read. Under FALLBACK no kind comes from the
// index: the table answers.
func (r *Reader) Search(ctx context.Context, q Request) (*Answer, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	all, err := r.answer(ctx, q, [][]float64{q.Vector})
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// Batch answers a query for many vectors at one snapshot: q without Key and Vector says what is common to them. The answers are those that
// Search gives for each. At most MaxBatch vectors are taken, and at most a million rows may be asked for; queries are answered as many
// at once as 500,000 candidates allow (1,000 queries for 10 rows with a refine factor of 50), which read each cluster once. Errors as
// Search; one that a single vector causes names it, and there are no answers then.
func (r *Reader) Batch(ctx context.Context, q Request, vectors [][]float64) ([]*Answer, error) {
	switch n := len(vectors); {
	case q.Key != "" || q.Vector != nil:
		return nil, wrong("put all vectors into the batch", "a batch has a key or a vector beside it")
	case n < 1 || n > MaxBatch:
		return nil, wrong("send more batches, each of fewer vectors", "a batch of %d queries, want 1 to %d", n, MaxBatch)
	case q.K > 0 && n > maxK/q.K:
		return nil, wrong("send more batches, or ask for fewer rows", "%d queries for %d rows each are more than %d rows", n, q.K, maxK)
	}
	q.Vector = vectors[0]
	if q.Vector == nil {
		q.Vector = []float64{}
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	return r.answer(ctx, q, vectors)
}

// errAgain says that a file is gone, and that state and timeline were not read again yet.
var errAgain = errors.New("read the state again")

func (r *Reader) answer(ctx context.Context, q Request, vectors [][]float64) ([]*Answer, error) {
	began := time.Now()
	all, index, err := r.once(ctx, q, vectors, false)
	if errors.Is(err, errAgain) {
		all, index, err = r.once(ctx, q, vectors, true)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = tooLate(err)
	}
	if r.deps.Observer != nil {
		s := Searched{Table: r.deps.Table, Index: index, Queries: len(vectors), Took: time.Since(began), Err: err}
		for _, a := range all {
			s.Mode = a.Mode
			s.Stats.add(a.Stats)
			if !a.Complete {
				s.Incomplete++
			}
		}
		r.deps.Observer.Searched(s)
	}
	return all, err
}

// once answers at one snapshot and state. Only the last attempt decides about files that are gone.
func (r *Reader) once(ctx context.Context, q Request, vectors [][]float64, last bool) (all []*Answer, index string, err error) {
	s, err := r.open(ctx, q, vectors, last)
	if s != nil {
		index = s.answer.Index
	}
	if err != nil {
		return nil, index, err
	}
	all, err = s.run(ctx, last)
	return all, index, err
}

// pinned is a snapshot with the state of the indexes, and what was read of both.
type pinned struct {
	state    *mdt.State
	snapshot *snapshot

	mu      sync.Mutex           // guards what follows
	info    storage.Info         // of the state object
	settled bool                 // info tells a newer state from this one
	fresh   map[string]Freshness // verdicts by index; only those that are fresh
	before  map[string]*loaded   // by index, of the pin before, to be taken over
	loaded  map[string]*loaded   // by index
}

// loaded is the active generation of an index with the view it is read from. What is read of it is kept in the Cache.
type loaded struct {
	view   *mdt.View
	index  *mdt.Index
	number uint32
	turn   chan struct{}                       // of one: whoever reads the generation, for all who wait for it
	used   weak.Pointer[generation.Generation] // what is in use, though it may not be kept; the turn guards it
}

// racy is how long after it was written a state object may yet be replaced without its time of change saying so.
const racy = 2 * time.Second

// pin returns the newest snapshot and state: those of the last query while nothing moved, unless anew.
func (r *Reader) pin(ctx context.Context, anew bool) (*pinned, error) {
	r.mu.Lock()
	old := r.last
	r.mu.Unlock()
	if anew {
		old = nil
	}
	p := &pinned{fresh: map[string]Freshness{}, loaded: map[string]*loaded{}}
	var stateErr error
	var b begun
	_ = storage.Together(r.deps.Place.Store, func() error { // the other half of the looks begins when the state was read
		stateErr = p.readState(ctx, r.deps.Place, old)
		return nil
	}, func() error {
		if old == nil {
			b = begin(ctx, r.deps.Place.Store, r.tables, r.records)
		}
		return nil
	})
	var before *snapshot
	if old != nil {
		before = old.snapshot
	}
	var err error
	if p.snapshot, err = pin(ctx, r.deps.Place.Store, r.tables, r.records, r.deps.Cache.blocks, before, b); err != nil { // a path that is no table has no state either: say the former
		return nil, err
	}
	if stateErr != nil {
		return nil, stateErr
	}
	if old != nil && p.state == old.state && p.snapshot == before {
		return old, nil
	}
	if old != nil {
		old.mu.Lock()
		p.before = maps.Clone(old.loaded)
		old.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = p
	if p.snapshot.unread != nil { // it may be readable next time
		r.last = nil
	}
	return p, nil
}

// readState takes over the state of an older pin if it has not changed since.
func (p *pinned) readState(ctx context.Context, place mdt.Place, old *pinned) error {
	var info storage.Info
	var statErr error
	stat := func() error {
		info, statErr = place.Store.Stat(ctx, place.StatePath())
		return nil
	}
	var st *mdt.State
	var tag string
	read := func() (err error) {
		st, tag, err = mdt.ReadState(ctx, place)
		return err
	}
	now := time.Now()
	if old == nil { // it is read in any case
		if err := storage.Together(place.Store, stat, read); err != nil {
			return err
		}
	} else {
		if _ = stat(); statErr == nil {
			old.mu.Lock()
			same := old.settled && info.Size == old.info.Size && info.ModTime.Equal(old.info.ModTime) && info.Tag == old.info.Tag
			old.mu.Unlock()
			if same {
				p.state, p.info, p.settled = old.state, info, true
				return nil
			}
		}
		if err := read(); err != nil {
			return err
		}
	}
	p.state, p.info = st, info
	p.settled = statErr == nil && (info.Tag != "" && info.Tag == tag || info.Tag == "" && !storage.IsBroad(place.Store) && now.Sub(info.ModTime) > racy)
	if old != nil && st.Sum != "" && st.Sum == old.state.Sum {
		p.state = old.state
		old.mu.Lock()
		old.info, old.settled = p.info, p.settled
		old.mu.Unlock()
	}
	return nil
}

// judge returns what the index covers. A verdict that it is fresh holds as long as the pin.
func (p *pinned) judge(ctx context.Context, d Deps, index string) (Freshness, error) {
	p.mu.Lock()
	f, ok := p.fresh[index]
	p.mu.Unlock()
	if ok {
		return f, nil
	}
	f, err := d.Freshness(ctx, p.snapshot.table, p.state, index)
	if err == nil && f.Fresh {
		p.mu.Lock()
		p.fresh[index] = f
		p.mu.Unlock()
	}
	return f, err
}

// load returns the active generation of an index, read once for a pin; what an older pin has read of the same files is taken over.
func (p *pinned) load(ctx context.Context, d Deps, x *mdt.Index, number uint32) (*loaded, *generation.Generation, error) {
	p.mu.Lock()
	l, was := p.loaded[x.Name], p.before[x.Name]
	p.mu.Unlock()
	if l != nil {
		g, err := l.generation(ctx, d.Cache)
		return l, g, err
	}
	view, err := mdt.OpenView(ctx, d.Place, p.state, x.Name)
	if err != nil {
		return nil, nil, err
	}
	view.LocatePrefix = clusterGroup
	l = &loaded{view: view, index: x, number: number, turn: make(chan struct{}, 1)}
	if was != nil && was.number == number && was.index.Column == x.Column && was.index.Dim == x.Dim && was.index.Element == x.Element &&
		maps.Equal(was.index.Options, x.Options) && slices.Equal(was.view.Files(), view.Files()) {
		l = was
	} else if was != nil {
		view.Inherit(was.view)
	}
	g, err := l.generation(ctx, d.Cache)
	if err != nil {
		return nil, nil, err
	}
	if was != nil && was != l {
		d.Cache.forget(was)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.loaded[x.Name]; first != nil { // another query was faster
		if first != l && l != was {
			d.Cache.forget(l)
		}
		return first, g, nil // of the same files
	}
	p.loaded[x.Name] = l
	delete(p.before, x.Name)
	return l, g, nil
}

// generation returns the generation, from the cache if it has it, or the one that another query is at work with. It is read by one at a time.
func (l *loaded) generation(ctx context.Context, cache *Cache) (*generation.Generation, error) {
	if g, ok := cache.centroids.Get(l); ok {
		return g, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	g := l.used.Value()
	if g == nil {
		var err error
		if g, err = generation.Load(ctx, l.view, l.index); err != nil {
			return nil, err
		}
		l.used = weak.Make(g)
	}
	cache.centroids.Put(l, g, g.Bytes())
	return g, nil
}

// cluster returns a cluster of the generation, from the cache if it has it.
func (l *loaded) cluster(ctx context.Context, cache *Cache, g *generation.Generation, id int) (*cluster, error) {
	key := cacheKey{l, id}
	if c, ok := cache.clusters.Get(key); ok {
		return c, nil
	}
	c, err := readCluster(ctx, l.view, g.Number, g.Shape(), id)
	if err == nil {
		cache.clusters.Put(key, c, c.bytes)
	}
	return c, err
}

// clusterGroup is the physical file group that holds a whole cluster; keys of any other prefix may be in all of them.
func clusterGroup(prefix []byte, n int) int {
	if cluster := delta.ClusterPrefix(0, 0); len(prefix) == len(cluster) && prefix[0] == cluster[0] {
		return delta.FileGroup(prefix, n)
	}
	return -1
}
