package avrox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"tidemark/internal/storage"

	"github.com/linkedin/goavro/v2"
)

// Decode decodes one record from the front of bin and returns it with the bytes that follow. Everything is copied.
// Bytes that do not fit the schema are storage.ErrCorrupt; a schema goavro cannot handle is storage.ErrUnsupported.
func (s *Schema) Decode(bin []byte) (Record, []byte, error) {
	if s.root.kind != Object {
		return nil, nil, fmt.Errorf("decode Avro %s: not a record: %w", s.root.kind, storage.ErrUnsupported)
	}
	// goavro allocates by the block counts it reads, so every length is checked first.
	rest, err := s.root.skip(bin, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("decode Avro record %s: %w", s.root.name, err)
	}
	s.once.Do(func() { s.codec, s.err = compile(s.root) })
	if s.err != nil {
		return nil, nil, s.err
	}
	native, left, err := s.codec.NativeFromBinary(bin[:len(bin)-len(rest)])
	if err != nil || len(left) != 0 {
		return nil, nil, fmt.Errorf("decode Avro record %s: %d bytes left, %v: %w", s.root.name, len(left), err, storage.ErrCorrupt)
	}
	v, err := s.root.unwrap(native)
	if err != nil {
		return nil, nil, fmt.Errorf("decode Avro record %s: %w", s.root.name, err)
	}
	return v.(Record), rest, nil
}

// unwrap turns goavro's form of a value into ours. goavro gives a union as a map with the branch's name, which looks like a
// map of one entry, so only the schema can tell.
func (n *node) unwrap(native any) (any, error) {
	switch n.kind {
	case Union:
		wrapped, ok := native.(map[string]any)
		if !ok || len(wrapped) != 1 {
			if native == nil && slices.ContainsFunc(n.branches, func(b *node) bool { return b.kind == Null }) {
				return nil, nil
			}
			break
		}
		for name, v := range wrapped {
			for _, b := range n.branches {
				if b.plainName() == name {
					return b.unwrap(v)
				}
			}
		}
	case Object:
		m, ok := native.(map[string]any)
		if !ok {
			break
		}
		rec := make(Record, len(n.fields))
		for i, f := range n.fields {
			v, err := f.typ.unwrap(m["f"+strconv.Itoa(i)])
			if err != nil {
				return nil, fmt.Errorf("field %s: %w", f.name, err)
			}
			rec[f.name] = v
		}
		return rec, nil
	case Array:
		list, ok := native.([]any)
		if !ok {
			break
		}
		out := make([]any, len(list))
		for i := range list {
			v, err := n.items.unwrap(list[i])
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case Map:
		m, ok := native.(map[string]any)
		if !ok {
			break
		}
		out := make(map[string]any, len(m))
		for k, item := range m {
			v, err := n.items.unwrap(item)
			if err != nil {
				return nil, err
			}
			out[k] = v
		}
		return out, nil
	case Enum:
		if s, ok := native.(string); ok && len(s) > 1 {
			if i, err := strconv.Atoi(s[1:]); err == nil && i < len(n.symbols) {
				return n.symbols[i], nil
			}
		}
	case Bytes, Fixed:
		if b, ok := native.([]byte); ok {
			return slices.Clone(b), nil
		}
	default:
		return native, nil
	}
	return nil, corrupt("%s decoded as %T", n.kind, native)
}

// compile makes a goavro codec for a plain copy of the schema: types, fields and symbols numbered instead of named, no
// logical types, no defaults. goavro would refuse names with a hyphen and some defaults, turn timestamps and decimals
// into Go types, and name the union branch of a VECTOR column by a namespace that the schema does not give it.
func compile(root *node) (*goavro.Codec, error) {
	text, err := json.Marshal(root.plain(map[*node]bool{}))
	if err != nil {
		return nil, fmt.Errorf("compile Avro schema %s: %v: %w", root.name, err, storage.ErrUnsupported)
	}
	codec, err := goavro.NewCodec(string(text))
	if err != nil {
		return nil, fmt.Errorf("compile Avro schema %s: %v: %w", root.name, err, storage.ErrUnsupported)
	}
	return codec, nil
}

func (n *node) plainName() string {
	switch n.kind {
	case Object, Fixed, Enum:
		return "t" + strconv.Itoa(n.id)
	}
	return string(n.kind)
}

func (n *node) plain(seen map[*node]bool) any {
	switch n.kind {
	case Array:
		return map[string]any{"type": "array", "items": n.items.plain(seen)}
	case Map:
		return map[string]any{"type": "map", "values": n.items.plain(seen)}
	case Union:
		list := make([]any, len(n.branches))
		for i, b := range n.branches {
			list[i] = b.plain(seen)
		}
		return list
	case Object, Fixed, Enum:
	default:
		return string(n.kind)
	}
	if seen[n] {
		return n.plainName()
	}
	seen[n] = true
	out := map[string]any{"type": string(n.kind), "name": n.plainName()}
	switch n.kind {
	case Fixed:
		out["size"] = n.size
	case Enum:
		symbols := make([]string, len(n.symbols))
		for i := range symbols {
			symbols[i] = "s" + strconv.Itoa(i)
		}
		out["symbols"] = symbols
	default:
		fields := make([]any, len(n.fields))
		for i, f := range n.fields {
			fields[i] = map[string]any{"name": "f" + strconv.Itoa(i), "type": f.typ.plain(seen)}
		}
		out["fields"] = fields
	}
	return out
}
