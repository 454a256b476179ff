package search

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/generation"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// session is one query, or a batch of them, at one pinned snapshot and generation.
type session struct {
	request    Request
	vectors    [][]float64 // without a key
	table      string      // as a word of a command
	mode       Mode
	policy     Policy
	snapshot   *snapshot
	index      *mdt.Index
	options    generation.Options
	column     avrox.Vector
	clusters   func(ctx context.Context, id int) (*cluster, error)
	generation *generation.Generation // nil: none is active, it is not asked, or it is broken
	broken     *indexError
	mismatch   string
	fresh      Freshness
	partitions map[string]bool // nil: all
	live       locator
	rows       fetcher
	answer     Answer // what all answers have in common
}

// open pins the snapshot and the generation.
func (r *Reader) open(ctx context.Context, q Request, vectors [][]float64, anew bool) (*session, error) {
	p, err := r.pin(ctx, anew)
	if err != nil {
		return nil, err
	}
	s := &session{request: q, vectors: vectors, table: mdt.Named(r.deps.Table, r.deps.Sink), snapshot: p.snapshot, live: p.snapshot,
		answer: Answer{Results: []Result{}, Snapshot: p.snapshot.requested}}
	if s.index, err = pick(p.state, q.Index); err != nil {
		return nil, err
	}
	s.answer.Index = s.index.Name
	if s.options, err = generation.ParseOptions(s.index.Options); err != nil {
		return s, fmt.Errorf("read options of index %s: %w", s.index.Name, err)
	}
	s.mode, s.policy = Mode(s.options.Mode), Policy(s.options.StalePolicy)
	if q.Mode != "" {
		s.mode = q.Mode
	}
	if q.Policy != "" {
		s.policy = q.Policy
	}
	if s.column, err = p.snapshot.table.Vector(s.index.Column); err != nil {
		return s, &storage.Error{Op: "search index", Path: s.index.Name, Err: err, Hint: storage.Hint(err) +
			"; no search can be answered without the column the index was built on: drop the index, then create one on a column that is there"}
	}
	if s.partitions, err = p.snapshot.choose(q.Partitions); err != nil {
		return s, err
	}
	if err = p.snapshot.table.CheckOthers(q.Columns, ErrUsage); err != nil { // no row may come that would be read
		return s, err
	}
	var judgeErr error
	err = storage.Together(r.deps.Place.Store, func() error {
		s.fresh, judgeErr = p.judge(ctx, r.deps, s.index.Name)
		if judgeErr != nil && (ctx.Err() != nil || s.policy == Fail && s.mode != BruteForce) {
			return judgeErr
		}
		return nil
	}, func() error { return s.load(ctx, r.deps, p) })
	if judgeErr != nil {
		s.fresh = Freshness{Reason: judgeErr.Error(), unknown: true}
	}
	s.answer.Fresh, s.answer.LagInstants = s.fresh.Fresh, s.fresh.LagInstants
	s.rows = &sliceReader{snapshot: p.snapshot, columns: table.Columns{Vectors: []string{s.column.Column}, Others: q.Columns}, fresh: s.fresh.Fresh}
	return s, err
}

// load reads the active generation, unless only the table will be asked. What cannot be read is kept in s.broken.
func (s *session) load(ctx context.Context, d Deps, p *pinned) error {
	active, ok := s.index.Active()
	if !ok {
		return nil
	}
	s.answer.Generation = &active.Number
	if s.mode == BruteForce {
		return nil
	}
	if p.snapshot.unread != nil {
		s.broken = &indexError{records: true, err: p.snapshot.unread}
		return nil
	}
	l, g, err := p.load(ctx, d, s.index, active.Number)
	if err != nil {
		s.broken = &indexError{err: err}
		return nil
	}
	s.generation = g
	s.clusters = func(ctx context.Context, id int) (*cluster, error) { return l.cluster(ctx, d.Cache, g, id) }
	if g := s.generation.Vector; g.Dim != s.column.Dim || g.Element != s.column.Element {
		s.mismatch = fmt.Sprintf("the index was built on %s, column %s is %s now", g, s.column.Column, s.column)
	}
	if s.request.NProbes > s.generation.K && s.mismatch == "" {
		return wrong(fmt.Sprintf("use at most %d, or leave nprobes out", s.generation.K),
			"nprobes is %d, the index has %d clusters", s.request.NProbes, s.generation.K)
	}
	return nil
}

func (s *session) situation() situation {
	at := situation{fresh: s.fresh, active: s.answer.Generation != nil, broken: s.broken, mismatch: s.mismatch, recordIndex: s.snapshot.records != nil}
	if s.broken != nil {
		at.remedy = s.remedy(s.broken)
	}
	return at
}

// run chooses the mode and answers. What turns out to be wrong with the index on the way makes it choose again. Only the last
// attempt decides about files that are gone; the others return errAgain.
func (s *session) run(ctx context.Context, last bool) ([]*Answer, error) {
	for { // a second time with s.broken set, which decide turns into BruteForce or an error
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !last && s.broken != nil && errors.Is(s.broken, storage.ErrNotFound) {
			return nil, errAgain
		}
		mode, why, err := decide(s.mode, s.policy, s.situation())
		switch {
		case err != nil && s.broken == nil && errors.Is(err, storage.ErrStale):
			asks := s.blank("", "")
			return answers(asks), err
		case err != nil:
			return nil, err
		}
		asks := s.blank(mode, why)
		switch err = s.find(ctx, mode, asks); {
		case err == nil:
			return answers(asks), nil
		case !last && errors.Is(err, table.ErrGone):
			return nil, errAgain
		case mode == BruteForce || !errors.As(err, &s.broken):
			return nil, err
		}
	}
}

// blank returns what is to be answered, without rows.
func (s *session) blank(mode Mode, why string) []*ask {
	asks := make([]*ask, len(s.vectors))
	for i := range asks {
		asks[i] = &ask{answer: s.blankAnswer(mode, why)}
	}
	return asks
}

func (s *session) blankAnswer(mode Mode, why string) *Answer {
	a := s.answer
	a.Results, a.Mode, a.Reason = []Result{}, mode, why
	if mode != "" && !s.fresh.Fresh && why == "" && (mode != BruteForce || s.fresh.unknown) {
		a.because("%s", s.fresh.why())
	}
	return &a
}

func answers(asks []*ask) []*Answer {
	out := make([]*Answer, len(asks))
	for i, a := range asks {
		out[i] = a.answer
	}
	return out
}

// find makes the query vectors and looks for their neighbours. Queries that codes cannot be compared with are decided about apart.
func (s *session) find(ctx context.Context, mode Mode, asks []*ask) error {
	for i, a := range asks {
		if err := s.ask(ctx, mode, a, i); err != nil {
			return err
		}
	}
	if mode == BruteForce {
		return s.brute(ctx, asks)
	}
	var coded, uncoded []*ask
	for i, a := range asks {
		why := a.query.uncoded()
		if why == "" {
			coded = append(coded, a)
			continue
		}
		at := s.situation()
		at.uncoded = why
		other, why, err := decide(s.mode, s.policy, at)
		if err != nil {
			return s.at(i, err)
		}
		a.answer = s.blankAnswer(other, why)
		uncoded = append(uncoded, a)
	}
	if len(uncoded) > 0 {
		if err := s.brute(ctx, uncoded); err != nil {
			return err
		}
	}
	if len(coded) == 0 {
		return nil
	}
	return s.indexed(ctx, mode, coded)
}

// at says which query of a batch an error is of.
func (s *session) at(i int, err error) error {
	if len(s.vectors) == 1 {
		return err
	}
	return &storage.Error{Op: "search", Path: fmt.Sprintf("query %d of %d", i+1, len(s.vectors)), Hint: storage.Hint(err), Err: err}
}

// ask makes the i-th query vector, from the request or from the row that is meant.
func (s *session) ask(ctx context.Context, mode Mode, a *ask, i int) error {
	given := s.vectors[i]
	if s.request.Key != "" {
		raw, err := s.vectorOf(ctx, s.request.Key, mode)
		if err != nil {
			return err
		}
		given = make([]float64, s.column.Dim)
		narrow := make([]float32, s.column.Dim)
		if ok, reason := kernel.Narrow(narrow, raw, s.column.Element.Kernel(), s.options.Metric); !ok {
			return wrong("give the key of another row, or a vector", "row %q has no vector to search with: %s", s.request.Key, reason)
		}
		kernel.ToFloat64(given, raw, s.column.Element.Kernel())
	}
	var err error
	if a.query, err = newQuery(s.options.Metric, s.column, given); err != nil {
		return s.at(i, err)
	}
	return nil
}

// vectorOf reads the stored vector of a row, wherever it lives. Of several copies of a key the last written one counts. A
// record index that cannot be read matters only where the index is asked: the row can be found without it.
func (s *session) vectorOf(ctx context.Context, key string, mode Mode) ([]byte, error) {
	var row *table.Row
	var last table.Written
	keep := func(r table.Row, at table.Written) error {
		if row == nil || at.Compare(last) > 0 {
			row, last = &r, at
		}
		return nil
	}
	c := table.Columns{Vectors: []string{s.column.Column}}
	var where map[string]table.Group
	known, copied := s.index.Copies.Find(key)
	everywhere := s.snapshot.records == nil || s.index.Copies != nil && s.index.Copies.More
	var err error
	if !everywhere {
		if where, err = s.snapshot.locate(ctx, []string{key}); err != nil && mode != BruteForce {
			return nil, err
		}
		everywhere = err != nil
	}
	var places []table.Group
	if g, ok := where[key]; ok {
		places = append(places, g)
	}
	for _, in := range known.Groups {
		if g := (table.Group{Partition: in.Partition, FileID: in.FileID}); copied && !slices.Contains(places, g) {
			places = append(places, g)
		}
	}
	if everywhere {
		places, err = nil, s.snapshot.everywhere(ctx, c, key, keep)
	}
	for _, g := range places {
		if err == nil {
			err = s.snapshot.byKey(ctx, g, c, map[string]bool{key: true}, keep)
		}
	}
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, &storage.Error{Op: "find row", Path: key, Err: storage.ErrNotFound, Hint: "the newest snapshot has no row of this key; search with --vector"}
	}
	return row.Vectors[0], nil
}

func (s *session) brute(ctx context.Context, asks []*ask) error {
	read, within := s.partitions, map[string]bool(nil)
	if read != nil && s.index.Copies != nil { // a later copy in another partition is the key's row
		read, within = nil, s.partitions
	}
	b := &bruteForce{scan: func(ctx context.Context, c table.Columns, fn found) error {
		return s.snapshot.scan(ctx, read, c, fn)
	}, within: within, asks: asks, column: s.column, columns: s.request.Columns, k: s.request.K}
	err := b.run(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = &lateError{fmt.Sprintf("the deadline came after %d rows: brute force has no answer before it has read all of the table", b.read)}
	}
	return err
}

func (s *session) indexed(ctx context.Context, mode Mode, asks []*ask) error {
	g := s.generation
	for _, a := range asks {
		var err error
		if a.rotated, err = rabitq.NewQuery(g.Rotation, g.Metric, g.Manifest.AssumeNormalized, a.query.index); err != nil {
			return err
		}
	}
	e := &engine{generation: g, column: s.column, clusters: s.clusters, live: s.live, rows: s.rows, copies: s.copies(), partitions: s.partitions, store: s.snapshot.table.Store,
		columns: s.request.Columns, k: s.request.K, nprobes: s.request.NProbes, rerank: mode == ExactRerank}
	if r, ok := s.rows.(*sliceReader); ok && storage.IsBroad(e.store) {
		e.ahead = r.ahead
	}
	if e.nprobes == 0 {
		e.nprobes = s.options.NProbes
	}
	if err := e.run(ctx, asks); err != nil {
		return err
	}
	if mode == Approximate {
		if err := e.measure(ctx, asks); err != nil {
			return err
		}
	}
	for _, a := range asks {
		a.answer.Results = a.answer.Results[:min(s.request.K, len(a.answer.Results))]
		if !s.fresh.Fresh && len(a.answer.Results) < s.request.K {
			a.incomplete("rows of commits that the index does not cover may be missing")
		}
		if mode == ExactRerank {
			continue
		}
		for i := range a.answer.Results { // only now: estimates below 0 keep their order
			a.answer.Results[i].Distance = settled(g.Metric, a.answer.Results[i].Distance)
		}
	}
	if mode == Approximate && len(s.request.Columns) > 0 {
		return e.attach(ctx, asks)
	}
	return nil
}
