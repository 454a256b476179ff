package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// Search answers one query at the newest completed snapshot. It reads the state object first and the timeline after it,
// so the index never knows more than the snapshot unless the table went back, which is not fresh. A file of the index that
// is gone may have been replaced meanwhile: then everything is read again, once (protocol 0.2).
//
// Kinds: ErrUsage for a query that cannot be asked, storage.ErrStale where the policy is FAIL and the index does not
// cover the snapshot (the answer then says so and has no rows), storage.ErrRefused for an approximate search without
// record index or an index of another column type, storage.ErrNotFound for a table, index, row or file that is not
// there, storage.ErrCorrupt and storage.ErrUnsupported for what cannot be read. Under FALLBACK no kind comes from the
// index: the table answers.
func Search(ctx context.Context, d Deps, r Request) (*Answer, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	a, err := once(ctx, d, r, false)
	if errors.Is(err, errAgain) {
		a, err = once(ctx, d, r, true)
	}
	return a, err
}

// errAgain says that a file of the index is gone and that the state was not read again yet.
var errAgain = errors.New("read the state again")

// once answers at one snapshot and state.
func once(ctx context.Context, d Deps, r Request, last bool) (*Answer, error) {
	s, err := open(ctx, d, r)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, last)
}

// run chooses the mode and answers. What turns out to be wrong with the index on the way makes it choose again. Only the last
// run decides about files of the index that are gone; the others return errAgain.
func (s *session) run(ctx context.Context, last bool) (*Answer, error) {
	blank := *s.answer
	for { // a second time with s.broken or s.short set, which decide turns into BruteForce or an error
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !last && s.broken != nil && errors.Is(s.broken, storage.ErrNotFound) {
			return nil, errAgain
		}
		mode, why, err := decide(s.mode, s.policy, s.situation())
		switch {
		case err != nil && s.broken == nil && errors.Is(err, storage.ErrStale):
			return s.answer, err
		case err != nil:
			return nil, err
		}
		*s.answer = blank
		s.answer.Mode, s.answer.Reason = mode, why
		if !s.fresh.Fresh && why == "" && (mode != BruteForce || s.fresh.unknown) {
			s.answer.because("%s", s.fresh.why())
		}
		switch err = s.find(ctx, mode); {
		case err == nil:
			return s.answer, nil
		case mode != BruteForce && errors.As(err, &s.broken):
		case mode != BruteForce && errors.Is(err, rabitq.ErrZeroQuery):
			s.short = true
		default:
			return nil, err
		}
	}
}

// find makes the query vector and looks for its neighbours.
func (s *session) find(ctx context.Context, mode Mode) error {
	if err := s.ask(ctx, mode); err != nil {
		return err
	}
	if mode == BruteForce {
		return s.brute(ctx)
	}
	return s.indexed(ctx, mode)
}

// session is one query at one pinned snapshot and generation.
type session struct {
	request    Request
	table      string // as a word of a command
	mode       Mode
	policy     Policy
	snapshot   *snapshot
	index      *mdt.Index
	options    generation.Options
	column     avrox.Vector
	view       postings
	generation *generation.Generation // nil: none is active, it is not asked, or it is broken
	broken     *indexError
	mismatch   string
	short      bool
	fresh      Freshness
	query      *query
	partitions map[string]bool // nil: all
	live       locator
	rows       fetcher
	answer     *Answer
}

func (s *session) situation() situation {
	at := situation{fresh: s.fresh, active: s.answer.Generation != nil, broken: s.broken, mismatch: s.mismatch,
		recordIndex: s.snapshot.records != nil, short: s.short}
	if s.broken != nil {
		at.remedy = s.remedy(s.broken)
	}
	return at
}

// open pins the snapshot and the generation.
func open(ctx context.Context, d Deps, r Request) (*session, error) {
	st, _, stateErr := mdt.ReadState(ctx, d.Place)
	snap, err := pin(ctx, d.Place.Store)
	if err != nil { // a path that is no table has no state either: say the former
		return nil, err
	}
	if stateErr != nil {
		return nil, stateErr
	}
	t := snap.table
	s := &session{request: r, table: word(cmp.Or(d.Table, d.Place.Store.URL())), snapshot: snap, live: snap,
		answer: &Answer{Results: []Result{}, Snapshot: snap.requested}}
	if s.index, err = pick(st, r.Index); err != nil {
		return nil, err
	}
	s.answer.Index = s.index.Name
	if s.options, err = generation.ParseOptions(s.index.Options); err != nil {
		return nil, fmt.Errorf("read options of index %s: %w", s.index.Name, err)
	}
	s.mode, s.policy = Mode(s.options.Mode), Policy(s.options.StalePolicy)
	if r.Mode != "" {
		s.mode = r.Mode
	}
	if r.Policy != "" {
		s.policy = r.Policy
	}
	if s.column, err = t.Vector(s.index.Column); err != nil {
		return nil, &storage.Error{Op: "search index", Path: s.index.Name, Err: err, Hint: storage.Hint(err) +
			"; no search can be answered without the column the index was built on: drop the index, then create one on a column that is there"}
	}
	if s.partitions, err = s.snapshot.choose(r.Partitions); err != nil {
		return nil, err
	}
	if s.fresh, err = d.Freshness(ctx, t, st, s.index.Name); err != nil {
		if ctx.Err() != nil || s.policy == Fail && s.mode != BruteForce {
			return nil, err
		}
		s.fresh = Freshness{Reason: err.Error(), unknown: true}
	}
	s.answer.Fresh, s.answer.LagInstants = s.fresh.Fresh, s.fresh.LagInstants
	s.rows = &sliceReader{snapshot: snap, columns: table.Columns{Vectors: []string{s.column.Column}, Others: r.Columns},
		fresh: s.fresh.Fresh, stats: &s.answer.Stats}
	return s, s.load(ctx, d.Place, st)
}

// load reads the active generation, unless only the table will be asked. What cannot be read is kept in s.broken.
func (s *session) load(ctx context.Context, place mdt.Place, st *mdt.State) error {
	active, ok := s.index.Active()
	if !ok {
		return nil
	}
	s.answer.Generation = &active.Number
	if s.mode == BruteForce {
		return nil
	}
	if s.snapshot.unread != nil {
		s.broken = &indexError{records: true, err: s.snapshot.unread}
		return nil
	}
	view, err := mdt.OpenView(ctx, place, st, s.index.Name)
	if err != nil {
		s.broken = &indexError{err: err}
		return nil
	}
	view.LocatePrefix = clusterGroup
	if s.generation, err = generation.Load(ctx, view, s.index); err != nil {
		s.broken = &indexError{err: err}
		return nil
	}
	s.view = view
	if g := s.generation.Vector; g.Dim != s.column.Dim || g.Element != s.column.Element {
		s.mismatch = fmt.Sprintf("the index was built on %s, column %s is %s now", g, s.column.Column, s.column)
	}
	if s.request.NProbes > s.generation.K && s.mismatch == "" {
		return wrong(fmt.Sprintf("use at most %d, or leave nprobes out", s.generation.K),
			"nprobes is %d, the index has %d clusters", s.request.NProbes, s.generation.K)
	}
	return nil
}

// clusterGroup is the physical file group that holds a whole cluster; keys of any other prefix may be in all of them.
func clusterGroup(prefix []byte, n int) int {
	if cluster := delta.ClusterPrefix(0, 0); len(prefix) == len(cluster) && prefix[0] == cluster[0] {
		return delta.FileGroup(prefix, n)
	}
	return -1
}

// ask makes the query vector, from the request or from the row that is meant.
func (s *session) ask(ctx context.Context, mode Mode) error {
	given := s.request.Vector
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
	s.query, err = newQuery(s.options.Metric, s.column, given)
	return err
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

func (s *session) brute(ctx context.Context) error {
	read, within := s.partitions, map[string]bool(nil)
	if read != nil && s.index.Copies != nil { // a later copy in another partition is the key's row
		read, within = nil, s.partitions
	}
	b := &bruteForce{scan: func(ctx context.Context, c table.Columns, fn found) error {
		return s.snapshot.scan(ctx, read, c, fn)
	}, within: within, query: s.query, column: s.column.Column, columns: s.request.Columns,
		k: s.request.K, stats: &s.answer.Stats}
	found, err := b.run(ctx)
	if err != nil {
		return err
	}
	s.answer.Complete = true
	s.answer.Results = append(s.answer.Results, found...)
	return nil
}

func (s *session) indexed(ctx context.Context, mode Mode) error {
	g := s.generation
	rotated, err := rabitq.NewQuery(g.Rotation, g.Metric, g.Manifest.AssumeNormalized, s.query.index)
	if err != nil {
		return err
	}
	nprobes := s.request.NProbes
	if nprobes == 0 {
		nprobes = s.options.NProbes
	}
	e := &engine{generation: g, view: s.view, live: s.live, rows: s.rows, copies: s.copies(), query: s.query, rotated: rotated,
		partitions: s.partitions, columns: s.request.Columns, k: s.request.K, nprobes: nprobes, rerank: mode == ExactRerank, answer: s.answer}
	if err := e.run(ctx); err != nil {
		return err
	}
	s.answer.Results = s.answer.Results[:min(s.request.K, len(s.answer.Results))]
	if !s.fresh.Fresh && len(s.answer.Results) < s.request.K {
		e.incomplete("rows of commits that the index does not cover may be missing")
	}
	if mode != Approximate {
		return nil
	}
	for i := range s.answer.Results { // only now: estimates below 0 keep their order
		s.answer.Results[i].Distance = settled(g.Metric, s.answer.Results[i].Distance)
	}
	if len(s.request.Columns) > 0 {
		return e.attach(ctx)
	}
	return nil
}
