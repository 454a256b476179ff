package table

import (
	"context"
	"slices"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/logfile"
)

// Appended says whether two slices of a group stand on the same base file, or both on none, so that only their logs
// can differ: ReadAppended then reads what follows from those.
func Appended(before, after Slice) bool {
	if before.Base == nil || after.Base == nil {
		return before.Base == nil && after.Base == nil
	}
	return before.Base.Path == after.Base.Path
}

// blockID names a log block.
type blockID struct {
	path string
	at   int64
}

// keyed is a log record with its key.
type keyed struct {
	key string
	rec *record
}

// ReadAppended hands on, of two slices for which Appended holds, the rows that can differ: those whose keys occur in a log block that
// only one of the slices has (with its log blocks, a log compaction or a rollback changes which blocks count). Every
// other row is the same in both, in content and place. Each log is read once, and of the base file what holds those
// keys: by the record positions of the blocks where they refer to this base file and the keys found there agree, else by the key column.
// Both versions of a row come from one reading. Of a key that the base file holds more than once not every row need be handed on: ReadKeys does
// that.
func (t *Table) ReadAppended(ctx context.Context, before, after Slice, c Columns, fn func(after bool, r Row) error) error {
	p, err := t.plan(c, true)
	if err != nil {
		return err
	}
	a := &appended{t: t, p: p, slices: [2]Slice{before, after}, read: map[blockID][]keyed{}, keys: map[string]bool{}, at: map[string]int64{}}
	if err := a.readLogs(ctx); err != nil {
		return err
	}
	if len(a.keys) == 0 {
		return nil
	}
	var sides [2]*merger
	for i, s := range a.slices {
		l, err := a.fold(i)
		if err != nil {
			return err
		}
		sides[i] = &merger{t: t, p: p, s: s, logs: l, seen: map[string]bool{}, fn: func(r Row) error { return fn(i == 1, r) }}
	}
	if after.Base != nil {
		err := a.base(ctx, func(position int64, vals []any) error {
			if err := sides[0].row(position, vals); err != nil {
				return err
			}
			return sides[1].row(position, vals)
		})
		switch {
		case sides[0].stop != nil:
			return sides[0].stop
		case sides[1].stop != nil:
			return sides[1].stop
		case err != nil:
			return sides[1].failed(err)
		}
	}
	if err := sides[0].rest(); err != nil {
		return err
	}
	return sides[1].rest()
}

type appended struct {
	t      *Table
	p      *plan
	slices [2]Slice
	blocks [2][]logfile.Block
	read   map[blockID][]keyed // records of candidates, by block
	keys   map[string]bool     // the candidates
	at     map[string]int64    // their positions in the base file, as far as blocks say them
}

func (a *appended) id(side int, b logfile.Block) blockID {
	return blockID{a.slices[side].Logs[b.File].Path, b.Offset}
}

// readLogs finds the candidates and decodes their records.
func (a *appended) readLogs(ctx context.Context) (err error) {
	files := map[string][]logfile.Block{}
	has := [2]map[blockID]bool{{}, {}}
	for i, s := range a.slices {
		if len(s.Logs) == 0 {
			continue
		}
		if err := a.t.checkMerge(s); err != nil {
			return err
		}
		if a.blocks[i], err = a.t.effective(ctx, s, files); err != nil {
			return err
		}
		for _, b := range a.blocks[i] {
			has[i][a.id(i, b)] = true
		}
	}
	all := !a.ordered(has) || a.slices[1].Base == nil && a.slices[0].Instant != a.slices[1].Instant
	for i := range a.blocks {
		for _, b := range a.blocks[i] {
			if id := a.id(i, b); all || !has[1-i][id] {
				if err := a.candidates(ctx, i, b); err != nil {
					return err
				}
			}
		}
	}
	wanted := func(key string) bool { return a.keys[key] }
	for i := range a.blocks {
		for _, b := range a.blocks[i] {
			if _, done := a.read[a.id(i, b)]; done {
				continue
			}
			if err := a.decode(ctx, i, b, wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

// ordered says whether the blocks that both slices have stand in the same order in both, so that keys which only they name
// fold to the same.
func (a *appended) ordered(has [2]map[blockID]bool) bool {
	var common [2][]blockID
	for i := range a.blocks {
		for _, b := range a.blocks[i] {
			if id := a.id(i, b); has[1-i][id] {
				common[i] = append(common[i], id)
			}
		}
	}
	return slices.Equal(common[0], common[1])
}

// candidates decodes a block that makes its keys candidates, and notes their positions.
func (a *appended) candidates(ctx context.Context, side int, b logfile.Block) error {
	if _, done := a.read[a.id(side, b)]; done {
		return nil
	}
	if err := a.decode(ctx, side, b, nil); err != nil {
		return err
	}
	list := a.read[a.id(side, b)]
	for _, k := range list {
		a.keys[k.key] = true
	}
	base := a.slices[side].Base
	if base == nil {
		return nil
	}
	positions, instant, err := b.Positions()
	if err != nil {
		return blockError(a.slices[side], b, err)
	}
	if instant != base.Instant || len(positions) != len(list) {
		return nil
	}
	for i, k := range list {
		a.at[k.key] = int64(positions[i])
	}
	return nil
}

func (a *appended) decode(ctx context.Context, side int, b logfile.Block, want func(string) bool) error {
	list := []keyed{}
	err := a.p.records(ctx, b, func(key string, r *record) error {
		if want == nil || want(key) {
			list = append(list, keyed{key, r})
		}
		return nil
	})
	if err != nil {
		return blockError(a.slices[side], b, err)
	}
	a.read[a.id(side, b)] = list
	return nil
}

// fold joins what the blocks of one slice say about the candidates.
func (a *appended) fold(side int) (*logs, error) {
	l := &logs{byKey: map[string]*record{}}
	for _, b := range a.blocks[side] {
		for _, k := range a.read[a.id(side, b)] {
			if err := l.put(a.p, k.key, k.rec); err != nil {
				return nil, blockError(a.slices[side], b, err)
			}
		}
	}
	return l, nil
}

// base hands on the base rows of the candidates. vals is reused.
func (a *appended) base(ctx context.Context, fn func(position int64, vals []any) error) error {
	m := &merger{t: a.t, p: a.p, s: a.slices[1]}
	f, err := m.open(ctx)
	if err != nil {
		return err
	}
	if err := m.checkKeys(f); err != nil {
		return err
	}
	unknown := false
	for key := range a.keys {
		if at, ok := a.at[key]; !ok || at < 0 || at >= f.Rows() {
			unknown = true
		}
	}
	left := a.keys
	if !unknown {
		if left, err = a.atPositions(ctx, f, fn); err != nil || len(left) == 0 {
			return err
		}
	}
	return m.byKeys(ctx, f, func(key string) bool { return left[key] }, left, fn)
}

// atPositions reads the candidates where the log blocks say that they lie, and returns those that are not there.
func (a *appended) atPositions(ctx context.Context, f *basefile.File, fn func(int64, []any) error) (left map[string]bool, err error) {
	expect := map[int64]string{}
	positions := make([]int64, 0, len(a.keys))
	left = map[string]bool{}
	for key := range a.keys {
		at := a.at[key]
		if _, twice := expect[at]; twice {
			left[key] = true
			continue
		}
		expect[at] = key
		positions = append(positions, at)
	}
	slices.Sort(positions)
	names, at, err := a.p.columnsOf(f, a.p.names[:a.p.base])
	if err != nil {
		return nil, err
	}
	vals := make([]any, len(a.p.names))
	return left, f.ReadAt(ctx, names, positions, func(r basefile.Row) error {
		for j, i := range at {
			vals[i] = fromBase(f.ColumnKind(names[j]), r.Values[j])
		}
		key, err := a.p.keyOf(vals)
		if err != nil {
			return err
		}
		if key != expect[r.Position] {
			left[expect[r.Position]] = true
			return nil
		}
		return fn(r.Position, vals)
	})
}
