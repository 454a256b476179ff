package table

import (
	"context"
	"fmt"
	"slices"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// logs is what all logs of a slice say, by key.
type logs struct {
	byKey map[string]*record
	order []string // keys as they first occurred
}

// readLogs reads and folds all logs of a slice. want limits the keys; nil takes all.
func (t *Table) readLogs(ctx context.Context, s Slice, p *plan, want func(key string) bool) (*logs, error) {
	l := &logs{byKey: map[string]*record{}}
	if len(s.Logs) == 0 {
		return l, nil
	}
	if err := t.checkMerge(s); err != nil {
		return nil, err
	}
	blocks, err := t.effective(ctx, s, map[string][]logfile.Block{})
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		err := p.records(ctx, b, func(key string, r *record) error {
			if want != nil && !want(key) {
				return nil
			}
			return l.put(p, key, r)
		})
		if err != nil {
			return nil, blockError(s, b, err)
		}
	}
	return l, nil
}

func blockError(s Slice, b logfile.Block, err error) error {
	return &storage.Error{Op: "read log file", Path: s.Logs[b.File].Path,
		Err: fmt.Errorf("%s block of %s at byte %d: %w", b.Type, b.Instant(), b.Offset, err)}
}

// checkWritten refuses a log that a completed commit says it wrote and in which no block is that commit's: its rows would
// silently be missing.
func checkWritten(file *File, blocks []logfile.Block) error {
	if !slices.Contains(file.writers, file.Instant) || slices.ContainsFunc(blocks, func(b logfile.Block) bool { return b.Instant() == file.Instant }) {
		return nil
	}
	return &storage.Error{Op: "read log file", Path: file.Path, Hint: "the file is damaged: restore it from a copy",
		Err: fmt.Errorf("commit %s wrote it, and none of its %d blocks is of that instant: %w", file.Instant, len(blocks), storage.ErrCorrupt)}
}

// effective returns the blocks of a slice's logs that count, in merge order. read holds the blocks of files that were read
// already, by path, and takes in those read now.
func (t *Table) effective(ctx context.Context, s Slice, read map[string][]logfile.Block) ([]logfile.Block, error) {
	var blocks []logfile.Block
	of := make([][]logfile.Block, len(s.Logs))
	var calls []func() error
	for i := range s.Logs {
		file := &s.Logs[i]
		var ok bool
		if of[i], ok = read[file.Path]; ok {
			continue
		}
		calls = append(calls, func() error {
			for b, err := range logfile.Blocks(ctx, t.source(kindLog, file.Path, file.Size)) {
				if err != nil {
					return &storage.Error{Op: "read log file", Path: file.Path, Err: gone(err)}
				}
				of[i] = append(of[i], b)
			}
			return checkWritten(file, of[i])
		})
	}
	if err := storage.Together(t.Store, calls...); err != nil {
		return nil, err
	}
	for i := range s.Logs {
		read[s.Logs[i].Path] = of[i]
		for _, b := range of[i] {
			b.File = i
			blocks = append(blocks, b)
		}
	}
	if err := t.checkDamage(s, blocks); err != nil {
		return nil, err
	}
	blocks = logfile.Effective(blocks, s.keep)
	for _, b := range blocks {
		if err := checkBase(s, b); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

// checkMerge refuses tables whose rows are merged by rules that are not known here.
func (t *Table) checkMerge(s Slice) error {
	if mode := t.Props.MergeMode; mode != timeline.CommitTimeOrdering && mode != timeline.EventTimeOrdering {
		return fmt.Errorf("merge %s: merge mode %s: the result is decided by Java code: %w", s.Group, mode, storage.ErrUnsupported)
	}
	if mode := t.Props.PartialUpdateMode; mode != "" && mode != "NONE" {
		return fmt.Errorf("merge %s: partial update mode %s: %w", s.Group, mode, storage.ErrUnsupported)
	}
	return nil
}

// checkDamage refuses corrupt regions: they may hold committed rows. In a table that was version 6 a failed append leaves one, and a
// rollback command behind it says so; trailing bytes too few for a block are passed over as Hudi does.
func (t *Table) checkDamage(s Slice, blocks []logfile.Block) error {
	rolledBack := false
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		if _, ok := b.Rollback(); ok {
			rolledBack = true
		}
		if b.Type != logfile.TypeCorrupt || b.Trailing || rolledBack && t.wasVersion6() {
			continue
		}
		return &storage.Error{Op: "read log file", Path: s.Logs[b.File].Path, Hint: "the file is damaged: restore it from a copy",
			Err: fmt.Errorf("%d bytes at %d are no block (%s): %w", b.Size, b.Offset, b.Reason, storage.ErrCorrupt)}
	}
	return nil
}

// checkBase finds a missing base file: a block whose record positions refer to a base file was written onto one, so a slice
// without any cannot be whole.
func checkBase(s Slice, b logfile.Block) error {
	if s.Base != nil || b.Header[logfile.PositionsBaseInstant] == "" {
		return nil
	}
	return &storage.Error{Op: "find slice", Path: s.Group.String(), Hint: "the table's cleaner has taken it: use a later instant",
		Err: fmt.Errorf("its logs were written onto a base file of %s, which is not known: %w", b.Header[logfile.PositionsBaseInstant], ErrGone)}
}

// put folds a record onto what earlier ones of its key left.
func (l *logs) put(p *plan, key string, r *record) error {
	old := l.byKey[key]
	merged, err := p.fold(old, r)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	if old == nil {
		l.order = append(l.order, key)
	}
	l.byKey[key] = merged
	return nil
}

// records hands the records of one block to put, in their order.
func (p *plan) records(ctx context.Context, b logfile.Block, put func(key string, r *record) error) error {
	switch b.Type {
	case logfile.TypeDelete:
		deletes, err := b.Deletes()
		if err != nil {
			return err
		}
		for _, d := range deletes {
			if err := put(d.Key, &record{deleted: true, entry: true, order: deleteOrdering(d.Ordering)}); err != nil {
				return err
			}
		}
		return nil
	case logfile.TypeAvro:
		return p.avroBlock(b, put)
	case logfile.TypeHFile:
		return p.hfileBlock(ctx, b, put)
	case logfile.TypeParquet:
		return p.parquetBlock(ctx, b, put)
	case logfile.TypeCDC:
		return nil // change data is no part of a slice
	}
	return fmt.Errorf("block type %s: %w", b.Type, storage.ErrUnsupported)
}

// rowRecord makes a record of a row's values. has is nil for a whole row.
func (p *plan) rowRecord(vals []any, has []bool) (*record, error) {
	order, err := p.orderingOf(vals)
	if err != nil {
		return nil, err
	}
	if p.isDelete(vals) {
		return &record{deleted: true, order: order}, nil
	}
	return &record{order: order, vals: vals, has: has}, nil
}

// project resolves the plan against a block's own schema. Columns it lacks are NULL, in a partial block "not set".
func (p *plan) project(schemaText string, partial bool) (*avrox.Projection, []bool, error) {
	schema, err := avrox.ParseSchema(schemaText)
	if err != nil {
		return nil, nil, err
	}
	for i, at := range p.vectors {
		f, ok := schema.Field(p.names[at])
		if ok && (f.Type == avrox.Bytes || f.Type == avrox.Fixed && f.FixedSize == p.types[i].Bytes()) || !ok {
			continue
		}
		what := string(f.Type)
		if f.Type == avrox.Fixed {
			what = fmt.Sprintf("%d bytes", f.FixedSize)
		}
		return nil, nil, vectorMismatch(p.types[i], what)
	}
	proj, err := schema.Project(p.names...)
	if err != nil {
		return nil, nil, err
	}
	var has []bool
	if partial {
		has = make([]bool, len(p.names))
		for i := range has {
			has[i] = proj.Has(i)
		}
	}
	return proj, has, nil
}

func (p *plan) avroBlock(b logfile.Block, put func(string, *record) error) error {
	proj, has, err := p.project(b.Schema(), b.Partial())
	if err != nil {
		return err
	}
	records, err := b.AvroRecords()
	if err != nil {
		return err
	}
	for _, bin := range records {
		if err := p.avroRow(proj, has, bin, "", put); err != nil {
			return err
		}
	}
	return nil
}

// avroRow decodes one record; key is used when the record itself has none.
func (p *plan) avroRow(proj *avrox.Projection, has []bool, bin []byte, key string, put func(string, *record) error) error {
	vals := make([]any, len(p.names))
	if err := proj.Decode(bin, vals); err != nil {
		return err
	}
	for i, v := range vals {
		if b, ok := v.([]byte); ok { // aliases the block
			vals[i] = slices.Clone(b)
		}
	}
	if key == "" {
		var err error
		if key, err = p.keyOf(vals); err != nil {
			return err
		}
	}
	r, err := p.rowRecord(vals, has)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return put(key, r)
}

// hfileBlock reads a block that is a whole HFile: the cell's row is the record key, the value the record.
func (p *plan) hfileBlock(ctx context.Context, b logfile.Block, put func(string, *record) error) error {
	r, err := hfile.Open(ctx, storage.BytesSource(b.Content))
	if err != nil {
		return err
	}
	text := b.Schema()
	if text == "" {
		text = r.Schema()
	}
	proj, has, err := p.project(text, b.Partial())
	if err != nil {
		return err
	}
	for cell, err := range r.Scan(ctx, nil) {
		if err != nil {
			return err
		}
		if err := p.avroRow(proj, has, cell.Value, string(cell.Key), put); err != nil {
			return err
		}
	}
	return nil
}

// parquetBlock reads a block that is a whole Parquet file.
func (p *plan) parquetBlock(ctx context.Context, b logfile.Block, put func(string, *record) error) error {
	f, err := basefile.Open(ctx, storage.BytesSource(b.Content))
	if err != nil {
		return err
	}
	names, at, err := p.columnsOf(f, p.names)
	if err != nil {
		return err
	}
	var has []bool
	if b.Partial() {
		has = make([]bool, len(p.names))
		for _, i := range at {
			has[i] = true
		}
	}
	return f.Read(ctx, names, func(row basefile.Row) error {
		vals := make([]any, len(p.names))
		for j, i := range at {
			vals[i] = fromBase(f.ColumnKind(names[j]), row.Values[j])
		}
		key, err := p.keyOf(vals)
		if err != nil {
			return err
		}
		r, err := p.rowRecord(vals, has)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		return put(key, r)
	})
}

// columnsOf returns those of the plan's columns among wanted, its first ones, that a Parquet file has, and their places in the plan.
func (p *plan) columnsOf(f *basefile.File, wanted []string) (names []string, at []int, err error) {
	for _, v := range p.types {
		if err := checkVector(v, f); err != nil {
			return nil, nil, err
		}
	}
	for i, name := range wanted {
		if f.HasColumn(name) {
			names, at = append(names, name), append(at, i)
		}
	}
	return names, at, nil
}
