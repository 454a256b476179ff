package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
)

// ReadMerged hands every row of a slice to fn: the base file's rows in file order, each merged with what the logs say about its key, then
// rows that only the logs have, in the order of their first occurrence. A key occurs once, except where the base file holds it
// several times: then the first copy is merged with the logs and the others are handed on as they are. A file that vanished since
// the slice was found is ErrGone. An error of fn ends the reading.
func (t *Table) ReadMerged(ctx context.Context, s Slice, c Columns, fn func(Row) error) error {
	p, err := t.plan(c, len(s.Logs) > 0)
	if err != nil {
		return err
	}
	l, err := t.readLogs(ctx, s, p, nil)
	if err != nil {
		return err
	}
	m := &merger{t: t, p: p, s: s, logs: l, seen: map[string]bool{}, fn: fn}
	if s.Base != nil {
		if err := m.base(ctx); err != nil {
			return err
		}
	}
	return m.rest()
}

// ReadKeys is ReadMerged for some keys only: the base file's key column is read whole, its other columns only where the keys
// lie.
func (t *Table) ReadKeys(ctx context.Context, s Slice, c Columns, keys map[string]bool, fn func(Row) error) error {
	return t.wanted(ctx, s, c, func(key string) bool { return keys[key] }, keys, fn)
}

// ScanKeys is ReadKeys without vectors for keys that cannot be listed: of the base file the key column is read whole.
func (t *Table) ScanKeys(ctx context.Context, s Slice, wanted func(key string) bool, fn func(Row) error) error {
	return t.wanted(ctx, s, Columns{}, wanted, nil, fn)
}

// wanted hands on the merged rows of the wanted keys; keys lists them, or is nil where that cannot be done.
func (t *Table) wanted(ctx context.Context, s Slice, c Columns, wanted func(key string) bool, keys map[string]bool, fn func(Row) error) error {
	p, err := t.plan(c, len(s.Logs) > 0)
	if err != nil {
		return err
	}
	m := &merger{t: t, p: p, s: s, seen: map[string]bool{}, fn: fn}
	var f *basefile.File
	err = storage.Together(t.Store, func() (err error) {
		m.logs, err = t.readLogs(ctx, s, p, wanted)
		return err
	}, func() (err error) {
		if s.Base != nil {
			f, err = m.open(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	if s.Base != nil {
		if err := m.byKeys(ctx, f, wanted, keys, m.row); err != nil {
			return m.failed(err)
		}
	}
	return m.rest()
}

// merger joins base rows with folded log records.
type merger struct {
	t    *Table
	p    *plan
	s    Slice
	logs *logs
	seen map[string]bool // log keys that met a base row
	fn   func(Row) error
	// stop is an error of fn, which is not dressed up as a failure to read.
	stop error
}

// guessedTail holds the footer of a file of Hudi's, of which a bloom filter takes 430 kB, with the page indexes in front of it.
const guessedTail = 512 << 10

// openBase returns the slice's base file with its footer, which is kept.
func (t *Table) openBase(ctx context.Context, file *File) (*basefile.File, error) {
	footers := t.cache.footers
	if footers == nil {
		t.own.Do(func() { t.footers = basefile.NewFooters(basefile.FooterBytes) })
		footers = t.footers
	}
	tail := int64(0)
	if storage.IsBroad(t.Store) {
		tail = guessedTail
	}
	// The properties tell this table from another one that lay at its path, with files of the same names.
	name := fmt.Sprintf("%s/%s#%d@%s", t.Store.URL(), file.Path, file.Size, t.Props.Stamp)
	return footers.OpenTail(ctx, t.source(kindBase, file.Path, file.Size), tail, name, t.cache.pages)
}

// BaseRows returns how many rows the slice's base file holds, 0 without one. It reads the footer only.
func (t *Table) BaseRows(ctx context.Context, s Slice) (int64, error) {
	if s.Base == nil {
		return 0, nil
	}
	m := &merger{t: t, s: s}
	f, err := m.open(ctx)
	if err != nil {
		return 0, err
	}
	return f.Rows(), nil
}

func (m *merger) open(ctx context.Context) (*basefile.File, error) {
	f, err := m.t.openBase(ctx, m.s.Base)
	if err != nil {
		return nil, m.failed(err)
	}
	return f, nil
}

func (m *merger) failed(err error) error {
	if m.stop != nil {
		return m.stop
	}
	return &storage.Error{Op: "read base file", Path: m.s.Base.Path, Err: gone(err)}
}

// gone makes a vanished data file ErrGone.
func gone(err error) error {
	if errors.Is(err, storage.ErrNotFound) && !errors.Is(err, ErrGone) {
		return fmt.Errorf("%v: %w", err, ErrGone)
	}
	return err
}

// base reads the base file.
func (m *merger) base(ctx context.Context) error {
	f, err := m.open(ctx)
	if err != nil {
		return err
	}
	names, at, err := m.p.columnsOf(f, m.p.names[:m.p.base])
	if err == nil {
		err = m.checkKeys(f)
	}
	if err != nil {
		return m.failed(err)
	}
	kinds := kindsOf(f, names)
	vals := make([]any, len(m.p.names))
	err = f.Read(ctx, names, func(r basefile.Row) error {
		for j, i := range at {
			vals[i] = fromBase(kinds[j], r.Values[j])
		}
		return m.row(r.Position, vals)
	})
	if err != nil {
		return m.failed(err)
	}
	return nil
}

func kindsOf(f *basefile.File, names []string) []basefile.Kind {
	kinds := make([]basefile.Kind, len(names))
	for i, name := range names {
		kinds[i] = f.ColumnKind(name)
	}
	return kinds
}

// keyColumns are the columns that make the record key.
func (m *merger) keyColumns() []int {
	if m.p.key >= 0 {
		return []int{m.p.key}
	}
	return m.p.keys
}

func (m *merger) checkKeys(f *basefile.File) error {
	for _, i := range m.keyColumns() {
		if !f.HasColumn(m.p.names[i]) {
			return fmt.Errorf("no key column %s: %w", m.p.names[i], storage.ErrCorrupt)
		}
	}
	return nil
}

// found is a base row that holds a wanted key: its position, and the values of the key columns.
type found struct {
	position int64
	vals     []any
}

// find returns the rows of the wanted keys from the key columns alone. keys (nil: not known) are all keys that can be wanted: then
// pages of a stored key column whose bounds hold none of them are not read.
func (m *merger) find(ctx context.Context, f *basefile.File, wanted func(string) bool, keys map[string]bool) ([]found, error) {
	at := m.keyColumns()
	names, kinds := make([]string, len(at)), make([]basefile.Kind, len(at))
	for j, i := range at {
		names[j] = m.p.names[i]
		kinds[j] = f.ColumnKind(names[j])
	}
	var out []found
	vals := make([]any, len(m.p.names))
	each := func(r basefile.Row) error {
		for j, i := range at {
			vals[i] = fromBase(kinds[j], r.Values[j])
		}
		key, err := m.p.keyOf(vals)
		if err == nil && wanted(key) {
			x := found{position: r.Position, vals: make([]any, len(at))}
			for j, i := range at {
				x.vals[j] = vals[i]
			}
			out = append(out, x)
		}
		return err
	}
	var err error
	if m.p.key >= 0 && keys != nil {
		err = f.ReadHolding(ctx, names[0], slices.Sorted(maps.Keys(keys)), each)
	} else {
		err = f.Read(ctx, names, each)
	}
	return out, err
}

// byKeys hands on the base rows of the wanted keys (see find): the key columns are read first, the other columns only where the keys
// were found. vals is reused.
func (m *merger) byKeys(ctx context.Context, f *basefile.File, wanted func(string) bool, keys map[string]bool, fn func(position int64, vals []any) error) error {
	if err := m.checkKeys(f); err != nil {
		return err
	}
	list, err := m.find(ctx, f, wanted, keys)
	if err != nil || len(list) == 0 {
		return err
	}
	all, places, err := m.p.columnsOf(f, m.p.names[:m.p.base])
	if err != nil {
		return err
	}
	var names []string
	var at []int
	for j, name := range all {
		if !slices.Contains(m.keyColumns(), places[j]) {
			names, at = append(names, name), append(at, places[j])
		}
	}
	positions := make([]int64, len(list))
	for i := range list {
		positions[i] = list[i].position
	}
	next := 0
	vals := make([]any, len(m.p.names))
	return f.ReadAt(ctx, names, positions, func(r basefile.Row) error {
		for k, i := range m.keyColumns() {
			vals[i] = list[next].vals[k]
		}
		next++
		for j, i := range at {
			vals[i] = fromBase(f.ColumnKind(names[j]), r.Values[j])
		}
		return fn(r.Position, vals)
	})
}

// row merges one base row and hands it on. vals is reused.
func (m *merger) row(position int64, vals []any) error {
	key, err := m.p.keyOf(vals)
	if err != nil {
		return fmt.Errorf("row %d: %w", position, err)
	}
	position, vals, err = m.merge(key, position, vals)
	if err != nil || vals == nil {
		return err
	}
	return m.emit(key, position, vals)
}

// merge returns a base row as the slice shows it, nil if it does not. Whether the base row marks itself as deleted is not asked: Hudi asks
// that of log records only, and shows such a row of a bulk insert (tables marked_mor, marked_cow).
func (m *merger) merge(key string, position int64, vals []any) (int64, []any, error) {
	log := m.logs.byKey[key]
	if log == nil || m.seen[key] { // of several copies of a key only the first one is merged
		if log != nil {
			position = -1
		}
		return position, vals, nil
	}
	m.seen[key] = true
	order, err := m.p.orderingOf(vals)
	if err != nil {
		return 0, nil, fmt.Errorf("row %d: %w", position, err)
	}
	out, keep, err := m.p.final(&record{order: order, vals: vals}, log)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("row %d, key %q: %w", position, key, err)
	case keep:
		return -1, vals, nil
	case out != nil:
		return -1, out.vals, nil
	}
	return 0, nil, nil
}

// rest hands on what only the logs have.
func (m *merger) rest() error {
	for i := range m.logs.order {
		key, vals, err := m.only(i)
		if err == nil && vals != nil {
			err = m.emit(key, -1, vals)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// only returns the row of the i-th key of the logs if the base file has none; nil: no row.
func (m *merger) only(i int) (string, []any, error) {
	key := m.logs.order[i]
	r := m.logs.byKey[key]
	if m.seen[key] || r.deleted {
		return key, nil, nil
	}
	if r.has != nil {
		return key, nil, fmt.Errorf("read logs of %s: partial update of key %q, which no older version completes: %w", m.s.Group, key, storage.ErrCorrupt)
	}
	return key, r.vals, nil
}

func (m *merger) emit(key string, position int64, vals []any) error {
	row := Row{Key: key, Partition: m.s.Partition, Position: position}
	if m.p.commit >= 0 {
		row.CommitTime, _ = vals[m.p.commit].(string)
	}
	if len(m.p.vectors) > 0 {
		row.Vectors = make([][]byte, len(m.p.vectors))
		for i, at := range m.p.vectors {
			row.Vectors[i], _ = vals[at].([]byte)
		}
	}
	if len(m.p.others) > 0 {
		row.Others = make([]any, len(m.p.others))
		for i, at := range m.p.others {
			row.Others[i] = forPeople(vals[at])
		}
	}
	if err := m.fn(row); err != nil {
		m.stop = err
		return err
	}
	return nil
}
