package search

import (
	"context"
	"fmt"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// Asker asks one pinned index many queries and takes the rows from memory: what the index finds, without the cost of
// reading files for each query.
type Asker struct{ s *session }

// OpenAsker pins snapshot and index. rows are the table's rows by key.
func OpenAsker(ctx context.Context, d Deps, r Request, rows map[string]table.Row) (*Asker, error) {
	s, err := open(ctx, d, r)
	if err != nil {
		return nil, err
	}
	s.rows, s.view = memory(rows), &keeping{view: s.view, kept: map[string][]kept{}}
	return &Asker{s}, nil
}

// Ask answers from the index.
func (a *Asker) Ask(ctx context.Context, vector []float64) (*Answer, error) {
	s := *a.s
	s.request.Key, s.request.Vector, s.answer = "", vector, &Answer{}
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	err := s.indexed(ctx, ExactRerank)
	return s.answer, err
}

// keeping reads each prefix once.
type keeping struct {
	view postings
	kept map[string][]kept
}

type kept struct {
	key []byte
	rec avrox.Record
}

func (k *keeping) Scan(ctx context.Context, prefix []byte, fn func([]byte, avrox.Record) error) error {
	if _, ok := k.kept[string(prefix)]; !ok {
		k.kept[string(prefix)] = nil
		if err := k.view.Scan(ctx, prefix, func(key []byte, rec avrox.Record) error {
			k.kept[string(prefix)] = append(k.kept[string(prefix)], kept{key, rec})
			return nil
		}); err != nil {
			return err
		}
	}
	for _, r := range k.kept[string(prefix)] {
		if err := fn(r.key, r.rec); err != nil {
			return err
		}
	}
	return nil
}

type memory map[string]table.Row

func (m memory) fetch(_ context.Context, g table.Group, wanted []candidate, fn func(table.Row) error) error {
	for _, c := range wanted {
		row, ok := m[c.key]
		if !ok || row.Partition != g.Partition {
			return fmt.Errorf("row %s of %s: %w", c.key, g, storage.ErrNotFound)
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return nil
}
