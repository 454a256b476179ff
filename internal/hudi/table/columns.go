package table

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// The meta columns that are used here.
const (
	keyColumn       = "_hoodie_record_key"
	commitColumn    = "_hoodie_commit_time"
	operationColumn = "_hoodie_operation"
	deletedColumn   = "_hoodie_is_deleted"
	operationDelete = "D"
)

// Columns chooses what to read beside key and commit time.
type Columns struct {
	// Vectors are VECTOR columns; Row.Vectors holds their raw stored bytes in this order.
	Vectors []string
	// Others are any other top-level columns; Row.Others holds their values in this order.
	Others []string
}

// Row is one row of a slice. Everything in it belongs to the receiver.
type Row struct {
	Key, Partition string
	// Vectors are the raw stored bytes per vector column asked for; nil is NULL. A value from a log may have another length than
	// the column's type says: that is the row's fault and left to the caller.
	Vectors [][]byte
	// Others are int64, float64, string, bool, []byte or nil, raw: logical types are not applied.
	Others []any
	// Position is the row's ordinal in the slice's base file; −1 exactly if its key occurs in any log of the slice.
	Position int64
	// CommitTime is the requested time of the commit that last wrote the row; empty on tables without meta columns.
	CommitTime string
}

// plan says which columns are read and what they are for. Every column stands once in names.
type plan struct {
	props   *timeline.Properties
	names   []string
	key     int   // the stored key, −1 on tables without meta columns
	keys    []int // else the columns that the key is made of
	commit  int   // −1 on tables without meta columns
	vectors []int
	types   []avrox.Vector // per vector
	others  []int
	order   []int        // ordering columns; empty in commit-time ordering
	deleted int          // _hoodie_is_deleted
	op      int          // _hoodie_operation
	custom  int          // the configured delete column, −1 if none
	decimal map[int]bool // ordering columns whose bytes are a decimal
	base    int          // names[:base] are read of base files: a row's delete mark counts in logs only
}

// plan resolves columns against the table. Ordering columns are needed only where there are logs to merge.
func (t *Table) plan(c Columns, merge bool) (*plan, error) {
	if err := t.Props.CheckReadable(); err != nil {
		return nil, err
	}
	p := &plan{props: t.Props, key: -1, commit: -1, custom: -1, decimal: map[int]bool{}}
	if t.Props.MetaFields {
		p.key, p.commit = p.add(keyColumn), p.add(commitColumn)
	} else if err := t.virtualKey(p); err != nil {
		return nil, err
	}
	for _, name := range c.Vectors {
		v, err := t.Vector(name)
		if err != nil {
			return nil, err
		}
		p.vectors, p.types = append(p.vectors, p.add(name)), append(p.types, v)
	}
	for _, name := range c.Others {
		if err := t.checkOther(name, storage.ErrUnsupported); err != nil {
			return nil, err
		}
		p.others = append(p.others, p.add(name))
	}
	if merge && t.Props.MergeMode == timeline.EventTimeOrdering {
		for _, name := range t.Props.OrderingFields {
			at := p.add(name)
			p.order = append(p.order, at)
			if t.Schema == nil {
				continue
			}
			if f, ok := t.Schema.Field(name); ok && f.Logical == "decimal" {
				p.decimal[at] = true
			}
		}
	}
	p.base = len(p.names)
	p.deleted, p.op = p.add(deletedColumn), p.add(operationColumn)
	if t.Props.DeleteKey != "" {
		p.custom = p.add(t.Props.DeleteKey)
	}
	return p, nil
}

func (p *plan) add(name string) int {
	if i := slices.Index(p.names, name); i >= 0 {
		return i
	}
	p.names = append(p.names, name)
	return len(p.names) - 1
}

// CheckOthers refuses names that Columns.Others cannot have: those of no column, and of columns whose types are not simple. The error is of
// the caller's kind. A read says the same, but only where there is a file to read, and as storage.ErrUnsupported.
func (t *Table) CheckOthers(names []string, kind error) error {
	for _, name := range names {
		if err := t.checkOther(name, kind); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) checkOther(name string, kind error) error {
	if slices.Contains([]string{keyColumn, commitColumn, operationColumn, "_hoodie_commit_seqno", "_hoodie_partition_path", "_hoodie_file_name"}, name) {
		return nil
	}
	if t.Schema == nil {
		return nil
	}
	f, ok := t.Schema.Field(name)
	hint, what := "", ""
	switch {
	case !ok:
		hint, what = "name a column of the table", "the table has no such column"
	case f.Type == avrox.Object || f.Type == avrox.Array || f.Type == avrox.Map || f.Type == avrox.Union:
		hint, what = "leave it out: only columns of simple types are shown", "a "+string(f.Type)
	default:
		return nil
	}
	return &storage.Error{Op: "read column", Path: name, Hint: hint, Err: fmt.Errorf("%s: %w", what, kind)}
}

// fromBase turns a raw value of a base file into the form that log records have: int32, int64, float32, float64, bool, string, []byte.
func fromBase(k basefile.Kind, raw []byte) any {
	if raw == nil {
		return nil
	}
	switch k {
	case basefile.Bool:
		return raw[0] != 0
	case basefile.Int32:
		return int32(binary.LittleEndian.Uint32(raw))
	case basefile.Int64:
		return int64(binary.LittleEndian.Uint64(raw))
	case basefile.Float:
		return math.Float32frombits(binary.LittleEndian.Uint32(raw))
	case basefile.Double:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw))
	case basefile.String:
		return string(raw)
	}
	return slices.Clone(raw)
}

// forPeople widens numbers: what Row.Others holds.
func forPeople(v any) any {
	switch x := v.(type) {
	case int32:
		return int64(x)
	case float32:
		return float64(x)
	}
	return v
}

// isDelete says whether a row, given by its values, marks itself as deleted.
func (p *plan) isDelete(vals []any) bool {
	if d, ok := vals[p.deleted].(bool); ok && d {
		return true
	}
	if op, ok := vals[p.op].(string); ok && op == operationDelete {
		return true
	}
	if p.custom < 0 || vals[p.custom] == nil {
		return false
	}
	return fmt.Sprint(vals[p.custom]) == p.props.DeleteMarker
}

// checkVector says whether a column of a file can hold the vector type: file-level, an error; a missing column is NULL.
func checkVector(v avrox.Vector, f *basefile.File) error {
	k, width := f.ColumnKind(v.Column), f.ColumnWidth(v.Column)
	if k == basefile.None || k == basefile.Fixed && width == v.Bytes() {
		return nil
	}
	what := k.String()
	if k == basefile.Fixed {
		what = fmt.Sprintf("%d bytes", width)
	}
	return vectorMismatch(v, what)
}

func vectorMismatch(v avrox.Vector, what string) error {
	return &storage.Error{Op: "read column", Path: v.Column, Hint: "the column's type has changed: build the index anew after all files were rewritten",
		Err: fmt.Errorf("stored as %s, the table says %s of %d bytes: %w", what, v, v.Bytes(), storage.ErrUnsupported)}
}
