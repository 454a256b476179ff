package avrox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"tidemark/internal/storage"
)

// WriteContainer returns an object container file with one block of one record, codec null and the schema text as given.
// rec holds Go values by field name: nil, bool, int, int32, int64, float32, float64, string, []byte, lists, maps and
// records (map[string]any or Record). A nullable field that is missing is null. Maps are written in key order, so equal
// arguments give equal bytes. A value that does not fit its type is storage.ErrUnsupported.
//
// The encoder is ours because goavro writes maps in Go's map order and picks a sync marker of its own.
func WriteContainer(schemaJSON string, rec map[string]any, sync [16]byte) ([]byte, error) {
	schema, err := ParseSchema(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("write Avro container: %w", err)
	}
	data, err := schema.root.append(nil, rec, 0)
	if err != nil {
		return nil, fmt.Errorf("write Avro container: %w", err)
	}
	out := slices.Clone(Magic)
	out = appendLong(out, 2)
	for _, kv := range [][2]string{{"avro.codec", "null"}, {"avro.schema", schemaJSON}} {
		out = appendString(out, kv[0])
		out = appendString(out, kv[1])
	}
	out = append(out, 0)
	out = append(out, sync[:]...)
	out = appendLong(out, 1)
	out = appendLong(out, int64(len(data)))
	out = append(out, data...)
	return append(out, sync[:]...), nil
}

func appendLong(dst []byte, v int64) []byte {
	return binary.AppendUvarint(dst, uint64(v)<<1^uint64(v>>63))
}

func appendString(dst []byte, s string) []byte {
	return append(appendLong(dst, int64(len(s))), s...)
}

// append encodes v as type n. Of a union it takes the first branch that v fits.
func (n *node) append(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxDataDepth {
		return nil, misfit(n, v)
	}
	switch n.kind {
	case Null:
		if v == nil {
			return dst, nil
		}
	case Boolean:
		if b, ok := v.(bool); ok {
			if b {
				return append(dst, 1), nil
			}
			return append(dst, 0), nil
		}
	case Int, Long:
		i, ok := integer(v)
		if ok && (n.kind == Long || int64(int32(i)) == i) {
			return appendLong(dst, i), nil
		}
	case Float:
		if f, ok := v.(float32); ok {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(f)), nil
		}
	case Double:
		if f, ok := v.(float64); ok {
			return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
		}
	case String:
		if s, ok := v.(string); ok {
			return appendString(dst, s), nil
		}
	case Bytes:
		if b, ok := v.([]byte); ok {
			return append(appendLong(dst, int64(len(b))), b...), nil
		}
	case Fixed:
		if b, ok := v.([]byte); ok && len(b) == n.size {
			return append(dst, b...), nil
		}
	case Enum:
		if s, ok := v.(string); ok {
			if i := slices.Index(n.symbols, s); i >= 0 {
				return appendLong(dst, int64(i)), nil
			}
		}
	case Union:
		return n.appendUnion(dst, v, depth)
	case Array:
		return n.appendArray(dst, v, depth)
	default:
		return n.appendKeyed(dst, v, depth)
	}
	return nil, misfit(n, v)
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func (n *node) appendUnion(dst []byte, v any, depth int) ([]byte, error) {
	var last error
	for i, b := range n.branches {
		if (b.kind == Null) != (v == nil) {
			continue
		}
		out, err := b.append(appendLong(dst, int64(i)), v, depth+1)
		if err == nil {
			return out, nil
		}
		last = err
	}
	if last != nil {
		return nil, last
	}
	return nil, misfit(n, v)
}

func (n *node) appendArray(dst []byte, v any, depth int) ([]byte, error) {
	var list []any
	switch v := v.(type) {
	case []any:
		list = v
	case []string:
		for _, s := range v {
			list = append(list, s)
		}
	default:
		return nil, misfit(n, v)
	}
	if len(list) > 0 {
		dst = appendLong(dst, int64(len(list)))
	}
	var err error
	for _, item := range list {
		if dst, err = n.items.append(dst, item, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, 0), nil
}

func (n *node) appendKeyed(dst []byte, v any, depth int) ([]byte, error) {
	m, ok := v.(map[string]any)
	if rec, is := v.(Record); is {
		m, ok = rec, true
	}
	if texts, is := v.(map[string]string); is && n.kind == Map {
		m, ok = make(map[string]any, len(texts)), true
		for k, s := range texts {
			m[k] = s
		}
	}
	if !ok {
		return nil, misfit(n, v)
	}
	var err error
	if n.kind == Map {
		if len(m) > 0 {
			dst = appendLong(dst, int64(len(m)))
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if dst, err = n.items.append(appendString(dst, k), m[k], depth+1); err != nil {
				return nil, fmt.Errorf("key %q: %w", k, err)
			}
		}
		return append(dst, 0), nil
	}
	known := 0
	for _, f := range n.fields {
		if _, ok := m[f.name]; ok {
			known++
		}
		if dst, err = f.typ.append(dst, m[f.name], depth+1); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	if known != len(m) {
		return nil, fmt.Errorf("record %s: %d values for fields it does not have: %w", n.name, len(m)-known, storage.ErrUnsupported)
	}
	return dst, nil
}

func misfit(n *node, v any) error {
	return fmt.Errorf("%T does not fit %s %s: %w", v, n.kind, n.name, storage.ErrUnsupported)
}
