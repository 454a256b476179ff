package avrox

import (
	"fmt"

	"tidemark/internal/storage"
)

// Projection reads chosen top-level fields of a record and skips the others without decoding them. It is immutable and
// safe for concurrent use.
type Projection struct {
	schema *Schema
	steps  []step
	has    []bool
}

// step is one field of the record up to the last one wanted: where its value goes, or -1.
type step struct {
	typ *node
	out int
}

// Project prepares reading the named fields, in the order of the names. A name that the schema does not have is allowed,
// since a block may be older than a column: its value is nil and Has is false. A name given twice, or a schema that is
// no record, is storage.ErrUnsupported.
func (s *Schema) Project(names ...string) (*Projection, error) {
	if s.root.kind != Object {
		return nil, fmt.Errorf("project Avro %s: not a record: %w", s.root.kind, storage.ErrUnsupported)
	}
	at := make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := at[name]; twice {
			return nil, fmt.Errorf("project Avro record %s: field %q asked for twice: %w", s.root.name, name, storage.ErrUnsupported)
		}
		at[name] = i
	}
	p := &Projection{schema: s, has: make([]bool, len(names))}
	last := 0
	for i, f := range s.root.fields {
		out := -1
		if j, wanted := at[f.name]; wanted {
			out, last = j, i+1
			p.has[j] = true
		}
		p.steps = append(p.steps, step{typ: f.typ, out: out})
	}
	p.steps = p.steps[:last]
	return p, nil
}

// Has says whether the schema has the i-th field asked for.
func (p *Projection) Has(i int) bool { return p.has[i] }

// Decode reads the record at the front of bin into out, one value per name asked for, in the forms of Record. Bytes and
// fixed values alias bin. Fields after the last one wanted are not looked at, so the record's end is not found or checked.
// Bytes that do not fit the schema are storage.ErrCorrupt.
func (p *Projection) Decode(bin []byte, out []any) error {
	if len(out) != len(p.has) {
		return fmt.Errorf("decode Avro record %s: %d places for %d fields: %w", p.schema.root.name, len(out), len(p.has), storage.ErrUnsupported)
	}
	clear(out)
	for i, s := range p.steps {
		var err error
		if s.out < 0 {
			bin, err = s.typ.skip(bin, 1)
		} else {
			out[s.out], bin, err = s.typ.read(bin, 1)
		}
		if err != nil {
			return fmt.Errorf("decode Avro record %s: field %s: %w", p.schema.root.name, p.schema.root.fields[i].name, err)
		}
	}
	return nil
}
