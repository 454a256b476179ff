package table

import (
	"context"
	"fmt"
	"slices"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
)

// ReadPositions hands the base file's rows at ascending positions to fn, in their order, reading only the pages that hold them. The logs
// of the slice are not looked at: a row is current exactly if its key is in none of them, which is what a locator with a position
// says. Compare SliceRow.Key with the key expected. The row is reused; Others belong to the receiver. A
// position behind the last row, or a slice without a base file, is storage.ErrNotFound. An error of fn ends the reading.
func (t *Table) ReadPositions(ctx context.Context, s Slice, c Columns, positions []int64, fn func(*SliceRow) error) error {
	p, err := t.plan(c, false)
	if err != nil {
		return err
	}
	if s.Base == nil {
		return fmt.Errorf("read positions of %s: the slice has no base file: %w", s.Group, storage.ErrNotFound)
	}
	m := &merger{t: t, p: p, s: s}
	f, err := m.open(ctx)
	if err != nil {
		return err
	}
	if n := len(positions); n > 0 && positions[n-1] >= f.Rows() {
		return &storage.Error{Op: "read base file", Path: s.Base.Path,
			Err: fmt.Errorf("row %d of %d: %w", positions[n-1], f.Rows(), storage.ErrNotFound)}
	}
	names, at, err := p.columnsOf(f, p.names[:p.base])
	if err == nil {
		err = m.checkKeys(f)
	}
	if err != nil {
		return m.failed(err)
	}
	b := newPlaced(p, f, names, at)
	err = f.ReadAt(ctx, names, positions, func(r basefile.Row) error {
		if err := b.set(r); err != nil {
			return fmt.Errorf("row %d: %w", r.Position, err)
		}
		if err := fn(&b.row); err != nil {
			m.stop = err
			return err
		}
		return nil
	})
	if err != nil {
		return m.failed(err)
	}
	return nil
}

// placed turns rows of a base file into rows of a slice.
type placed struct {
	p     *plan
	kinds []basefile.Kind
	at    []int // per column of the file its place in the plan
	key   int   // column of the file that is the key; −1: it is made of others
	date  int   // that is the commit; −1: there is none
	vecs  []int // columns of the file; −1: it has none
	vals  []any
	row   SliceRow
}

func newPlaced(p *plan, f *basefile.File, names []string, at []int) *placed {
	b := &placed{p: p, kinds: kindsOf(f, names), at: at, key: -1, date: -1, vals: make([]any, len(p.names))}
	if p.key >= 0 {
		if j := slices.Index(at, p.key); b.kinds[j] == basefile.String {
			b.key = j
		}
		b.date = slices.Index(at, p.commit)
	}
	for _, i := range p.vectors {
		b.vecs = append(b.vecs, slices.Index(at, i))
	}
	b.row.Vectors = make([][]byte, len(p.vectors))
	return b
}

// set takes in a row, which its texts and vectors alias.
func (b *placed) set(r basefile.Row) error {
	b.row.Position, b.row.Key, b.row.Commit = r.Position, nil, nil
	if b.key >= 0 {
		b.row.Key = r.Values[b.key]
	}
	if b.date >= 0 {
		b.row.Commit = r.Values[b.date]
	}
	for k, j := range b.vecs {
		b.row.Vectors[k] = nil
		if j >= 0 {
			b.row.Vectors[k] = r.Values[j]
		}
	}
	if b.row.Key != nil && len(b.p.others) == 0 {
		return nil
	}
	for j, i := range b.at {
		if !slices.Contains(b.p.vectors, i) || slices.Contains(b.p.others, i) {
			b.vals[i] = fromBase(b.kinds[j], r.Values[j])
		}
	}
	if b.row.Key == nil {
		key, err := b.p.keyOf(b.vals)
		if err != nil {
			return err
		}
		b.row.Key = []byte(key)
	}
	if len(b.p.others) > 0 {
		b.row.Others = make([]any, len(b.p.others))
		for k, i := range b.p.others {
			b.row.Others[k] = forPeople(b.vals[i])
		}
	}
	return nil
}
