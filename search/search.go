package search

import (
	"context"
	"fmt"

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
// so the index never knows more than the snapshot unless the table went back, which is not fresh.
//
// Kinds: ErrUsage for a query that cannot be asked, storage.ErrStale where the policy is FAIL and the index does not
// cover the snapshot (the answer then says so and has no rows), storage.ErrRefused for an approximate search without
// record index or an index of another column type, storage.ErrNotFound for a table, index, row or file that is not
// there, storage.ErrCorrupt and storage.ErrUnsupported for what cannot be read.
func Search(ctx context.Context, d Deps, r Request) (*Answer, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s, err := open(ctx, d, r)
	if err != nil {
		return nil, err
	}
	mode, why, err := decide(s.mode, s.policy, s.situation())
	if err != nil {
		return s.answer, err
	}
	s.answer.Mode, s.answer.Reason = mode, why
	if !s.fresh.Fresh && mode != BruteForce {
		s.answer.because("the index does not cover the newest snapshot: %s", s.fresh.Reason)
	}
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	if mode == BruteForce {
		err = s.brute(ctx)
	} else {
		err = s.indexed(ctx, mode)
	}
	if err != nil {
		return nil, err
	}
	return s.answer, nil
}

// session is one query at one pinned snapshot and generation.
type session struct {
	request    Request
	mode       Mode
	policy     Policy
	snapshot   *snapshot
	index      *mdt.Index
	options    generation.Options
	column     avrox.Vector
	view       postings
	generation *generation.Generation // nil: none is active
	mismatch   string
	fresh      Freshness
	query      *query
	partitions map[string]bool // nil: all
	rows       fetcher
	answer     *Answer
}

func (s *session) situation() situation {
	return situation{fresh: s.fresh, active: s.generation != nil, mismatch: s.mismatch, recordIndex: s.snapshot.records != nil}
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
	s := &session{request: r, snapshot: snap, answer: &Answer{Results: []Result{}, Snapshot: snap.requested}}
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
		return nil, err
	}
	if s.partitions, err = s.snapshot.choose(r.Partitions); err != nil {
		return nil, err
	}
	if s.fresh, err = d.Freshness(ctx, t, st, s.index.Name); err != nil {
		return nil, err
	}
	s.answer.Fresh, s.answer.LagInstants = s.fresh.Fresh, s.fresh.LagInstants
	s.rows = &sliceReader{snapshot: snap, columns: table.Columns{Vectors: []string{s.column.Column}, Others: r.Columns},
		fresh: s.fresh.Fresh, stats: &s.answer.Stats}
	return s, s.load(ctx, d.Place, st)
}

// load reads the active generation, unless only the table will be asked.
func (s *session) load(ctx context.Context, place mdt.Place, st *mdt.State) error {
	active, ok := s.index.Active()
	if !ok {
		return nil
	}
	s.answer.Generation = &active.Number
	if s.mode == BruteForce {
		return nil
	}
	view, err := mdt.OpenView(ctx, place, st, s.index.Name)
	if err != nil {
		return err
	}
	view.LocatePrefix = clusterGroup
	if s.generation, err = generation.Load(ctx, view, s.index); err != nil {
		return err
	}
	s.view = view
	if g := s.generation.Vector; g.Dim != s.column.Dim || g.Element != s.column.Element {
		s.mismatch = fmt.Sprintf("the index was built on %s, column %s is %s now", g, s.column.Column, s.column)
	}
	if s.request.NProbes > s.generation.K && s.mismatch == "" {
		return fmt.Errorf("nprobes is %d, the index has %d clusters: %w", s.request.NProbes, s.generation.K, ErrUsage)
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
func (s *session) ask(ctx context.Context) error {
	given := s.request.Vector
	if s.request.Key != "" {
		raw, err := s.vectorOf(ctx, s.request.Key)
		if err != nil {
			return err
		}
		given = make([]float64, s.column.Dim)
		narrow := make([]float32, s.column.Dim)
		if ok, reason := kernel.Narrow(narrow, raw, s.column.Element.Kernel(), s.options.Metric); !ok {
			return fmt.Errorf("row %q has no vector to search with: %s: %w", s.request.Key, reason, ErrUsage)
		}
		kernel.ToFloat64(given, raw, s.column.Element.Kernel())
	}
	var err error
	s.query, err = newQuery(s.options.Metric, s.column, given)
	return err
}

// vectorOf reads the stored vector of a row, wherever it lives. Of several copies of a key the last written one counts.
func (s *session) vectorOf(ctx context.Context, key string) ([]byte, error) {
	var row *table.Row
	keep := func(r table.Row) error {
		if row == nil || !s.snapshot.older(r, *row) {
			row = &r
		}
		return nil
	}
	c := table.Columns{Vectors: []string{s.column.Column}}
	var err error
	if s.snapshot.records == nil {
		err = s.snapshot.everywhere(ctx, c, key, keep)
	} else {
		var where map[string]table.Group
		where, err = s.snapshot.locate(ctx, []string{key})
		if g, ok := where[key]; ok {
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
	b := &bruteForce{scan: func(ctx context.Context, c table.Columns, fn func(table.Row) error) error {
		return s.snapshot.scan(ctx, s.partitions, c, fn)
	}, completion: s.snapshot.completion, query: s.query, column: s.column.Column, columns: s.request.Columns,
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
		return fmt.Errorf("%w: %w", err, ErrUsage)
	}
	nprobes := s.request.NProbes
	if nprobes == 0 {
		nprobes = s.options.NProbes
	}
	e := &engine{generation: g, view: s.view, live: s.snapshot, rows: s.rows, query: s.query, rotated: rotated,
		partitions: s.partitions, columns: s.request.Columns, k: s.request.K, nprobes: nprobes, rerank: mode == ExactRerank, answer: s.answer}
	if err := e.run(ctx); err != nil {
		return err
	}
	s.answer.Results = s.answer.Results[:min(s.request.K, len(s.answer.Results))]
	if !s.fresh.Fresh && len(s.answer.Results) < s.request.K {
		e.incomplete("rows of commits that the index does not cover may be missing")
	}
	if mode == Approximate && len(s.request.Columns) > 0 {
		return e.attach(ctx)
	}
	return nil
}
