package avrox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

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
