package table

import (
	"context"
	"fmt"

	"tidemark/internal/hudi/basefile"
)

// SliceRow is one row of a slice as Rows and ReadPositions hand it on. Its byte slices alias pages: they are valid until the next row is
// asked for, and must not be changed.
type SliceRow struct {
	Key []byte
	// Vectors are the raw stored bytes per vector column; nil is NULL.
	Vectors [][]byte
	// Position and Commit are as in Row.
	Position int64
	Commit   []byte
	// Others are as in Row, of ReadPositions only.
	Others []any
}

// Rows walks the rows of a slice in the order of ReadMerged, one at a time (see Table.Rows). A row of the base file that no log
// names costs no allocation. It is not safe for concurrent use.
type Rows struct {
	m     *merger
	scan  *basefile.Scanner // nil: no base file, or all of it was walked
	at    []int             // per column of the file its place in the plan
	kinds []basefile.Kind
	key   int // places among the file's columns; −1: it has none
	date  int
	vecs  []int
	vals  []any
	log   int // the next key of the logs
	row   SliceRow
}

// Rows opens a slice in front of its first row: logs are read and folded at once, the base file as it is walked. Where the slice
// is walked in step with another one, twin, base file pages of the same bytes are decoded once. c.Others is not read.
func (t *Table) Rows(ctx context.Context, s Slice, c Columns, twin *Rows) (*Rows, error) {
	p, err := t.plan(Columns{Vectors: c.Vectors}, len(s.Logs) > 0)
	if err != nil {
		return nil, err
	}
	m := &merger{t: t, p: p, s: s, seen: map[string]bool{}}
	if m.logs, err = t.readLogs(ctx, s, p, nil); err != nil {
		return nil, err
	}
	r := &Rows{m: m, key: -1, date: -1}
	r.row.Vectors = make([][]byte, len(p.vectors))
	if s.Base != nil {
		if err := r.openBase(ctx); err != nil {
			return nil, err
		}
	}
	if twin != nil {
		pair(r, twin)
	}
	return r, nil
}

func (r *Rows) openBase(ctx context.Context) error {
	m := r.m
	f, err := m.open(ctx)
	if err != nil {
		return err
	}
	names, at, err := m.p.columnsOf(f, m.p.names[:m.p.base])
	if err == nil {
		err = m.checkKeys(f)
	}
	if err == nil {
		r.scan, err = f.Scan(names)
	}
	if err != nil {
		return m.failed(err)
	}
	r.at, r.vals, r.vecs = at, make([]any, len(m.p.names)), make([]int, len(m.p.vectors))
	for j, name := range names {
		r.kinds = append(r.kinds, f.ColumnKind(name))
		switch i := at[j]; i {
		case m.p.key:
			r.key = j
		case m.p.commit:
			r.date = j
		}
	}
	for k, i := range m.p.vectors {
		r.vecs[k] = -1
		for j := range at {
			if at[j] == i {
				r.vecs[k] = j
			}
		}
	}
	return nil
}

// pair lets two slices' base files share pages.
func pair(a, b *Rows) {
	if a.scan == nil || b.scan == nil || len(a.at) != len(b.at) {
		return
	}
	for i := range a.at {
		if a.m.p.names[a.at[i]] != b.m.p.names[b.at[i]] {
			return
		}
	}
	basefile.Pair(a.scan, b.scan)
}

// Next moves to the next row; nil: there is none. The row is reused.
func (r *Rows) Next(ctx context.Context) (*SliceRow, error) {
	for r.scan != nil {
		ok, err := r.scan.Next(ctx)
		if err != nil {
			return nil, r.m.failed(err)
		}
		if !ok {
			r.scan = nil
			break
		}
		if ok, err = r.base(r.scan.Row()); err != nil {
			return nil, r.m.failed(err)
		}
		if ok {
			return &r.row, nil
		}
	}
	for r.log < len(r.m.logs.order) {
		key, vals, err := r.m.only(r.log)
		if r.log++; err != nil {
			return nil, err
		}
		if vals != nil {
			r.set(key, -1, vals)
			return &r.row, nil
		}
	}
	return nil, nil
}

// base takes in a row of the base file; false: the slice does not show it.
func (r *Rows) base(f basefile.Row) (bool, error) {
	if r.key >= 0 && f.Values[r.key] != nil && !r.m.logs.has(f.Values[r.key]) {
		r.row.Key, r.row.Position, r.row.Commit = f.Values[r.key], f.Position, nil
		if r.date >= 0 {
			r.row.Commit = f.Values[r.date]
		}
		for k, j := range r.vecs {
			r.row.Vectors[k] = nil
			if j >= 0 {
				r.row.Vectors[k] = f.Values[j]
			}
		}
		return true, nil
	}
	for j, i := range r.at {
		r.vals[i] = fromBase(r.kinds[j], f.Values[j])
	}
	key, err := r.m.p.keyOf(r.vals)
	if err != nil {
		return false, fmt.Errorf("row %d: %w", f.Position, err)
	}
	position, vals, err := r.m.merge(key, f.Position, r.vals)
	if err != nil || vals == nil {
		return false, err
	}
	r.set(key, position, vals)
	return true, nil
}

func (r *Rows) set(key string, position int64, vals []any) {
	r.row.Key, r.row.Position, r.row.Commit = []byte(key), position, nil
	if r.m.p.commit >= 0 {
		if c, ok := vals[r.m.p.commit].(string); ok {
			r.row.Commit = []byte(c)
		}
	}
	for k, i := range r.m.p.vectors {
		r.row.Vectors[k], _ = vals[i].([]byte)
	}
}

// has says whether any log names the key.
func (l *logs) has(key []byte) bool { return len(l.byKey) > 0 && l.byKey[string(key)] != nil }
