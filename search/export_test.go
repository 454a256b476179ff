package search

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

var fixtures sync.Map // name → *fixture

type fixture struct {
	once sync.Once
	st   *mem.Store
}

// Fixture returns a private copy of a fixture table in memory. The table is unpacked once.
func Fixture(t testing.TB, name string) *mem.Store {
	t.Helper()
	v, _ := fixtures.LoadOrStore(name, &fixture{})
	f := v.(*fixture)
	f.once.Do(func() {
		st, err := mem.FromDir(name, testkit.Table(t, name))
		if err != nil {
			t.Fatal(err)
		}
		f.st = st
	})
	if f.st == nil {
		t.Fatalf("fixture %s was not unpacked", name)
	}
	return f.st.Clone()
}

// Asker asks one pinned index many queries and takes the rows from memory: what the index finds, without the cost of
// reading files for each query.
type Asker struct{ s *session }

func pinAt(ctx context.Context, st storage.Store) (*snapshot, error) {
	return pin(ctx, st, table.NewCache(st), mdt.NewReader(st), nil, nil, begun{})
}

// OpenAsker pins snapshot and index, and asks the record index for all rows at once. rows are the table's rows by key.
func OpenAsker(ctx context.Context, d Deps, r Request, rows map[string]table.Row) (*Asker, error) {
	s, err := NewReader(d).open(ctx, r, [][]float64{nil}, false)
	if err == nil && s.broken != nil {
		err = s.broken
	}
	if err != nil {
		return nil, err
	}
	where, err := s.snapshot.locate(ctx, slices.Sorted(maps.Keys(rows)))
	if err != nil {
		return nil, err
	}
	s.live, s.rows = located(where), memory(rows)
	return &Asker{s}, nil
}

// Ask returns the k nearest rows by the index.
func (a *Asker) Ask(ctx context.Context, vector []float64, k int) (*Answer, error) {
	s := *a.s
	s.vectors, s.request.K = [][]float64{vector}, k
	asks := s.blank(ExactRerank, "")
	err := s.find(ctx, ExactRerank, asks)
	return asks[0].answer, err
}

// SearchUnreadable is Search with an index whose postings cannot be read, which comes out only during the scan.
func SearchUnreadable(ctx context.Context, d Deps, r Request, err error) (*Answer, error) {
	s, openErr := NewReader(d).open(ctx, r, [][]float64{r.Vector}, false)
	if openErr != nil {
		return nil, openErr
	}
	s.clusters = func(context.Context, int) (*cluster, error) { return nil, err }
	all, err := s.run(ctx, true)
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// located is a record index in memory.
type located map[string]table.Group

func (l located) locate(_ context.Context, keys []string) (map[string]table.Group, error) {
	out := map[string]table.Group{}
	for _, key := range keys {
		if g, ok := l[key]; ok {
			out[key] = g
		}
	}
	return out, nil
}

type memory map[string]table.Row

func (m memory) fetch(_ context.Context, g table.Group, wanted []candidate, fn func(table.Row) error) ([]string, error) {
	for _, c := range wanted {
		row, ok := m[c.key]
		if !ok || row.Partition != g.Partition {
			return nil, fmt.Errorf("row %s of %s: %w", c.key, g, storage.ErrNotFound)
		}
		if err := fn(row); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Indexed is Reader.Batch by the index even where the table has no record index, or none that can be read: then it is told where each row
// of the snapshot is. own reports that it was not.
func Indexed(ctx context.Context, r *Reader, q Request, vectors [][]float64) (all []*Answer, own bool, err error) {
	s, err := r.open(ctx, q, vectors, false)
	if err != nil {
		return nil, false, err
	}
	if s.broken == nil && s.snapshot.records != nil {
		all, err = s.run(ctx, true)
		return all, true, err
	}
	if s.broken != nil {
		return nil, false, s.broken
	}
	where, last := located{}, map[string]table.Written{}
	err = s.snapshot.scan(ctx, nil, table.Columns{}, func(row table.Row, at table.Written) error {
		if old, twice := last[row.Key]; !twice || at.Compare(old) > 0 {
			where[row.Key], last[row.Key] = at.Group, at
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	s.live = where
	asks := s.blank(q.Mode, "")
	err = s.find(ctx, q.Mode, asks)
	return answers(asks), false, err
}
