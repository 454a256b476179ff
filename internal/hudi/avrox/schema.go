package avrox

import (
	"fmt"
	"sync"

	"tidemark/internal/storage"

	"github.com/linkedin/goavro/v2"
)

// FieldType names an Avro type, as in a schema text.
type FieldType string

// The Avro types.
const (
	Null    FieldType = "null"
	Boolean FieldType = "boolean"
	Int     FieldType = "int"
	Long    FieldType = "long"
	Float   FieldType = "float"
	Double  FieldType = "double"
	Bytes   FieldType = "bytes"
	String  FieldType = "string"
	Fixed   FieldType = "fixed"
	Enum    FieldType = "enum"
	Array   FieldType = "array"
	Map     FieldType = "map"
	Object  FieldType = "record"
	Union   FieldType = "union"
)

const (
	// maxDepth bounds nesting, in schemas and in data. Hudi's own schemas nest 8 deep; user schemas stay far below this.
	maxDepth = 64
	// maxFixed bounds the size of a fixed type: 64 MiB, more than a vector of any known model by four orders.
	maxFixed = 64 << 20
	// maxEmpty bounds the values without bytes in a record (null columns, records without fields), since no length check
	// bounds them: nested, a short schema could mean more of them than there is time for. Hudi's schemas have none.
	maxEmpty = 256
	// maxInterned bounds the schemas kept. A table has a handful; past the bound all are dropped and parsed again.
	maxInterned = 512
)

// node is one type of a schema. Named types are shared, so a recursive schema is a graph.
type node struct {
	kind     FieldType
	name     string // full name of a named type
	id       int    // number of a named type within its schema
	logical  string
	size     int // fixed
	empty    int // how many values a value that takes no bytes consists of, 0 for types that take bytes
	symbols  []string
	fields   []field
	items    *node // array items, map values
	branches []*node
	vector   *Vector // of a fixed with the vector attributes; Column and Nullable are set per field
	problem  string  // why a type that calls itself a vector is none
}

type field struct {
	name string
	typ  *node
}

// Field is one top-level field of a record schema.
type Field struct {
	Name string
	// Type is the type of the value; of a union with null it is the type of the other branch, of any other union Union.
	Type FieldType
	// Nullable says that the field is a union with a null branch.
	Nullable bool
	// FixedSize is the number of bytes of a Fixed value, else 0.
	FixedSize int
	// Logical is the logical type's name (timestamp-millis, decimal, …), empty if there is none. Values stay raw.
	Logical string
	// Items is the type of an array's items or a map's values, without null, else empty.
	Items FieldType
	// Vector is set for a VECTOR column.
	Vector *Vector
	// VectorProblem says why a type that calls itself a vector cannot be used as one. Empty for all other fields.
	VectorProblem string
}

// Schema is a parsed Avro schema. It is immutable and safe for concurrent use.
type Schema struct {
	text   string
	root   *node
	fields []Field

	once  sync.Once
	codec *goavro.Codec
	err   error
}

var interned = struct {
	sync.Mutex // guards byText
	byText     map[string]*Schema
}{byText: map[string]*Schema{}}

// ParseSchema parses an Avro schema text. Equal texts give the same *Schema. Named types are resolved wherever they are
// defined, also by bare name from another namespace, which is how Hudi writes the second VECTOR column of one type.
// A text that is no Avro schema is storage.ErrCorrupt.
func ParseSchema(text string) (*Schema, error) {
	interned.Lock()
	s := interned.byText[text]
	interned.Unlock()
	if s != nil {
		return s, nil
	}
	root, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse Avro schema: %w", err)
	}
	s = &Schema{text: text, root: root}
	for _, f := range root.fields {
		s.fields = append(s.fields, describe(f))
	}
	interned.Lock()
	defer interned.Unlock()
	if first := interned.byText[text]; first != nil {
		return first, nil
	}
	if len(interned.byText) >= maxInterned {
		clear(interned.byText)
	}
	interned.byText[text] = s
	return s, nil
}

// Text returns the schema as it was given to ParseSchema.
func (s *Schema) Text() string { return s.text }

// Name returns the full name of the schema's record, empty for other types.
func (s *Schema) Name() string { return s.root.name }

// Fields returns the fields of a record schema in order, nil for other types. The slice is shared: do not change it.
func (s *Schema) Fields() []Field { return s.fields }

// Field returns the top-level field of that name.
func (s *Schema) Field(name string) (Field, bool) {
	for _, f := range s.fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Vectors returns the top-level VECTOR columns in field order. Vectors inside other types are not among them.
func (s *Schema) Vectors() []Vector {
	var out []Vector
	for _, f := range s.fields {
		if f.Vector != nil {
			out = append(out, *f.Vector)
		}
	}
	return out
}

func describe(f field) Field {
	typ, nullable := f.typ.value()
	out := Field{Name: f.name, Type: typ.kind, Nullable: nullable, Logical: typ.logical, VectorProblem: typ.problem}
	if typ.kind == Fixed {
		out.FixedSize = typ.size
	}
	if typ.items != nil {
		item, _ := typ.items.value()
		out.Items = item.kind
	}
	if typ.vector != nil {
		v := *typ.vector
		v.Column, v.Nullable = f.name, nullable
		out.Vector = &v
	}
	return out
}

// value returns the type a value of n has, and whether it may be null: a union of null and one other type is that type.
func (n *node) value() (*node, bool) {
	if n.kind != Union {
		return n, n.kind == Null
	}
	var only *node
	nullable, others := false, 0
	for _, b := range n.branches {
		if b.kind == Null {
			nullable = true
			continue
		}
		only = b
		others++
	}
	if others == 1 {
		return only, nullable
	}
	return n, nullable
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, storage.ErrCorrupt)...)
}
