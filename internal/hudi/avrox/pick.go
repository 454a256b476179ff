package avrox

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/internal/storage"
)

// Picker reads chosen fields of simple types, of a record and of records in it, and skips the others. Only for an Enum it allocates
// memory. It takes the bytes that a Projection of the same top-level fields takes, and refuses those that it refuses. It is immutable and safe
// for concurrent use.
type Picker struct {
	schema *Schema
	steps  []pick
	n      int
}

// Picked is what a Picker found at one path.
type Picked struct {
	// Type is the type of the value, with its union unwrapped; Null: it is null; "": the schema has no such field, or a record around it is
	// null or is another branch of its union.
	Type FieldType
	// Int is the value of an Int or Long.
	Int int64
	// Bytes is the value of a String, Enum, Bytes or Fixed. It aliases what was decoded; that of an Enum, which lies in
	// the schema, is a copy.
	Bytes []byte
}

// Long returns a Long or Int, as Record.Long.
func (p Picked) Long() (int64, bool) { return p.Int, p.Type == Long || p.Type == Int }

// pick is one field of a record: where its value goes, or −1, and for each branch of its type, if any path leads into it, its fields.
type pick struct {
	name string
	typ  *node
	out  int
	in   [][]pick // of a type that is no union: one; nil: no path leads on
}

// Pick prepares reading fields by path: names with dots between them. A path that the schema does not have is allowed; nothing is
// found there. A path given twice, or a schema that is no record, is storage.ErrUnsupported.
func (s *Schema) Pick(paths ...string) (*Picker, error) {
	if s.root.kind != Object {
		return nil, fmt.Errorf("pick fields of Avro %s: not a record: %w", s.root.kind, storage.ErrUnsupported)
	}
	wanted := make(map[string]int, len(paths))
	for i, path := range paths {
		if _, twice := wanted[path]; twice || strings.Count(path, ".") >= maxDepth {
			return nil, fmt.Errorf("pick fields of Avro record %s: path %q twice or too long: %w", s.root.name, path, storage.ErrUnsupported)
		}
		wanted[path] = i
	}
	p := &Picker{schema: s, n: len(paths), steps: picks(s.root, "", wanted)}
	for len(p.steps) > 0 && p.steps[len(p.steps)-1].out < 0 && p.steps[len(p.steps)-1].in == nil {
		p.steps = p.steps[:len(p.steps)-1]
	}
	return p, nil
}

// picks returns what is to be done with the fields of a record at a path.
func picks(record *node, at string, wanted map[string]int) []pick {
	var out []pick
	for _, f := range record.fields {
		path := at + f.name
		x := pick{name: f.name, typ: f.typ, out: -1}
		if i, ok := wanted[path]; ok {
			x.out = i
		}
		into := false
		for w := range wanted {
			into = into || strings.HasPrefix(w, path+".")
		}
		if into {
			branches := []*node{f.typ}
			if f.typ.kind == Union {
				branches = f.typ.branches
			}
			for _, b := range branches {
				var in []pick
				if b.kind == Object {
					in = picks(b, path+".", wanted)
				}
				x.in = append(x.in, in)
			}
			if !slices.ContainsFunc(x.in, func(in []pick) bool { return in != nil }) {
				x.in = nil
			}
		}
		out = append(out, x)
	}
	return out
}

// Decode reads the record at the front of bin into out, one value per path. Fields of the record after the last one wanted are not looked
// at. Bytes that do not fit the schema are storage.ErrCorrupt.
func (p *Picker) Decode(bin []byte, out []Picked) error {
	if len(out) != p.n {
		return fmt.Errorf("decode Avro record %s: %d places for %d fields: %w", p.schema.root.name, len(out), p.n, storage.ErrUnsupported)
	}
	clear(out)
	if _, err := decodePicks(p.steps, bin, out, 1); err != nil {
		return fmt.Errorf("decode Avro record %s: %w", p.schema.root.name, err)
	}
	return nil
}

// decodePicks reads fields of a record, whose values are at a depth, and returns what follows.
func decodePicks(steps []pick, b []byte, out []Picked, depth int) ([]byte, error) {
	for i := range steps {
		x := &steps[i]
		var err error
		if x.out < 0 && x.in == nil {
			b, err = x.typ.skip(b, depth)
		} else {
			b, err = x.decode(b, out, depth)
		}
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", x.name, err)
		}
	}
	return b, nil
}

func (x *pick) decode(b []byte, out []Picked, depth int) ([]byte, error) {
	typ, in := x.typ, x.in
	if typ.kind == Union {
		i, rest, err := long(b)
		if err != nil {
			return nil, err
		}
		if i < 0 || i >= int64(len(typ.branches)) {
			return nil, corrupt("union branch %d of %d", i, len(typ.branches))
		}
		typ, b = typ.branches[i], rest
		depth++
		if in != nil {
			in = in[i : i+1]
		}
	}
	v := Picked{Type: typ.kind}
	var err error
	switch {
	case in != nil && in[0] != nil:
		b, err = decodePicks(in[0], b, out, depth+1)
	case typ.kind == Int:
		var n int32
		n, b, err = int32Value(b)
		v.Int = int64(n)
	case typ.kind == Long:
		v.Int, b, err = long(b)
	case typ.kind == String || typ.kind == Bytes:
		var size int
		if size, b, err = count(b, "length"); err == nil {
			v.Bytes, b = b[:size:size], b[size:]
		}
	case typ.kind == Fixed:
		v.Bytes, b, err = take(b, typ.size, typ.kind)
	case typ.kind == Enum:
		var symbol string
		symbol, b, err = typ.symbol(b)
		v.Bytes = []byte(symbol)
	default:
		b, err = typ.skip(b, depth)
	}
	if err == nil && x.out >= 0 {
		out[x.out] = v
	}
	return b, err
}
