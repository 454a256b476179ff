package avrox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
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

type parser struct {
	named map[string]*node
}

func parse(text string) (*node, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, corrupt("not JSON: %v", err)
	}
	if dec.More() {
		return nil, corrupt("text after the schema")
	}
	p := &parser{named: map[string]*node{}}
	return p.parse(raw, "", 0)
}

// attrs are the members of a schema object that matter here. Those with a free form stay raw.
type attrs struct {
	Type        json.RawMessage `json:"type"`
	Name        string          `json:"name"`
	Namespace   *string         `json:"namespace"`
	Fields      []attrsField    `json:"fields"`
	Items       json.RawMessage `json:"items"`
	Values      json.RawMessage `json:"values"`
	Size        *int64          `json:"size"`
	Symbols     []string        `json:"symbols"`
	LogicalType json.RawMessage `json:"logicalType"`
	Dimension   json.RawMessage `json:"dimension"`
	ElementType json.RawMessage `json:"elementType"`
}

type attrsField struct {
	Name string          `json:"name"`
	Type json.RawMessage `json:"type"`
}

func (p *parser) parse(raw json.RawMessage, space string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, corrupt("types nested deeper than %d", maxDepth)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, corrupt("type missing")
	}
	switch raw[0] {
	case '"':
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, corrupt("type name: %v", err)
		}
		return p.reference(name, space)
	case '[':
		return p.union(raw, space, depth)
	case '{':
		return p.object(raw, space, depth)
	}
	return nil, corrupt("type is neither a name, a list nor an object")
}

func (p *parser) union(raw json.RawMessage, space string, depth int) (*node, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, corrupt("union: %v", err)
	}
	if len(list) == 0 {
		return nil, corrupt("union without branches")
	}
	n := &node{kind: Union}
	for _, item := range list {
		b, err := p.parse(item, space, depth+1)
		if err != nil {
			return nil, err
		}
		if b.kind == Union {
			return nil, corrupt("union directly inside a union")
		}
		n.branches = append(n.branches, b)
	}
	return n, nil
}

func (p *parser) object(raw json.RawMessage, space string, depth int) (*node, error) {
	var a attrs
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, corrupt("type object: %v", err)
	}
	var kind string
	if json.Unmarshal(a.Type, &kind) != nil {
		return p.parse(a.Type, space, depth+1) // {"type": {…}} and {"type": […]}
	}
	switch FieldType(kind) {
	case Array, Map:
		return p.container(FieldType(kind), a, space, depth)
	case Object, "error":
		return p.record(a, space, depth)
	case Fixed:
		return p.fixed(a, space)
	case Enum:
		n := &node{kind: Enum, symbols: a.Symbols}
		return n, p.define(n, a, space)
	}
	n, err := p.reference(kind, space)
	if err != nil || n.name != "" {
		return n, err
	}
	n.logical = text(a.LogicalType)
	return n, nil
}

func (p *parser) container(kind FieldType, a attrs, space string, depth int) (*node, error) {
	items := a.Items
	if kind == Map {
		items = a.Values
	}
	item, err := p.parse(items, space, depth+1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return &node{kind: kind, items: item}, nil
}

func (p *parser) record(a attrs, space string, depth int) (*node, error) {
	n := &node{kind: Object}
	if err := p.define(n, a, space); err != nil {
		return nil, err
	}
	inner := ""
	if i := strings.LastIndexByte(n.name, '.'); i >= 0 {
		inner = n.name[:i]
	}
	seen := map[string]bool{}
	for _, f := range a.Fields {
		if f.Name == "" || seen[f.Name] {
			return nil, corrupt("record %s: field name %q is empty or used twice", n.name, f.Name)
		}
		seen[f.Name] = true
		typ, err := p.parse(f.Type, inner, depth+1)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		n.fields = append(n.fields, field{name: f.Name, typ: typ})
	}
	return n, n.weigh()
}

// weigh sets how many empty values a record's value is, and refuses too many.
func (n *node) weigh() error {
	total, bytes := 0, false
	for _, f := range n.fields {
		total += f.typ.empty
		bytes = bytes || f.typ.empty == 0
	}
	if total > maxEmpty {
		return corrupt("record %s: %d values without bytes, at most %d are handled", n.name, total, maxEmpty)
	}
	if !bytes {
		n.empty = 1 + total
	}
	return nil
}

func (p *parser) fixed(a attrs, space string) (*node, error) {
	if a.Size == nil || *a.Size < 0 || *a.Size > maxFixed {
		return nil, corrupt("fixed %s: size missing or not within 0 to %d", a.Name, maxFixed)
	}
	n := &node{kind: Fixed, size: int(*a.Size), logical: text(a.LogicalType)}
	if n.size == 0 {
		n.empty = 1
	}
	if n.logical == "vector" {
		n.vector, n.problem = parseVector(n.size, a)
	}
	return n, p.define(n, a, space)
}

// define enters a named type under its full name.
func (p *parser) define(n *node, a attrs, space string) error {
	if a.Name == "" {
		return corrupt("%s without a name", n.kind)
	}
	n.name = a.Name
	if !strings.Contains(a.Name, ".") {
		if a.Namespace != nil {
			space = *a.Namespace
		}
		if space != "" {
			n.name = space + "." + a.Name
		}
	}
	if p.named[n.name] != nil {
		return corrupt("type %s defined twice", n.name)
	}
	n.id = len(p.named)
	p.named[n.name] = n
	return nil
}

// reference resolves a type name: a primitive, else a named type in the enclosing namespace, else in none.
func (p *parser) reference(name, space string) (*node, error) {
	switch FieldType(name) {
	case Null:
		return &node{kind: Null, empty: 1}, nil
	case Boolean, Int, Long, Float, Double, Bytes, String:
		return &node{kind: FieldType(name)}, nil
	}
	if space != "" && !strings.Contains(name, ".") {
		if n := p.named[space+"."+name]; n != nil {
			return n, nil
		}
	}
	if n := p.named[name]; n != nil {
		return n, nil
	}
	return nil, corrupt("unknown type %q", name)
}

// text returns a JSON string's value, and "" for anything else: attributes of a free form never make a schema invalid.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, storage.ErrCorrupt)...)
}
