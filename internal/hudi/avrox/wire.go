package avrox

import (
	"encoding/binary"
	"math"
)

// maxDataDepth bounds nesting of values under a recursive schema; without recursion the schema's own depth is less.
const maxDataDepth = 256

// long reads a zig-zag number of at most ten bytes.
func long(b []byte) (int64, []byte, error) {
	u, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, corrupt("number cut or longer than 64 bits, %d bytes left", len(b))
	}
	return int64(u>>1) ^ -int64(u&1), b[n:], nil
}

// count reads a number that counts or measures something in memory.
func count(b []byte, what string) (int, []byte, error) {
	v, b, err := long(b)
	if err != nil {
		return 0, nil, err
	}
	if v < 0 || v > int64(len(b)) {
		return 0, nil, corrupt("%s %d with %d bytes left", what, v, len(b))
	}
	return int(v), b, nil
}

func take(b []byte, n int, what FieldType) ([]byte, []byte, error) {
	if len(b) < n {
		return nil, nil, corrupt("%s of %d bytes with %d left", what, n, len(b))
	}
	return b[:n:n], b[n:], nil
}

// branch reads a union's branch number.
func (n *node) branch(b []byte) (*node, []byte, error) {
	i, b, err := long(b)
	if err != nil {
		return nil, nil, err
	}
	if i < 0 || i >= int64(len(n.branches)) {
		return nil, nil, corrupt("union branch %d of %d", i, len(n.branches))
	}
	return n.branches[i], b, nil
}

// blocks walks the blocks of an array or map and calls item for each member; item returns the rest. The byte size that may
// precede a block is checked against what is left and otherwise not used, so that every reader takes the same bytes. Items
// that take no bytes (lists of nulls) are refused: no length could bound them.
func blocks(b []byte, item func(b []byte) ([]byte, error)) ([]byte, error) {
	for {
		n, rest, err := long(b)
		if err != nil {
			return nil, err
		}
		if b = rest; n == 0 {
			return b, nil
		}
		if n < 0 {
			if n == math.MinInt64 {
				return nil, corrupt("block of %d items", n)
			}
			n = -n
			if _, b, err = count(b, "block size"); err != nil {
				return nil, err
			}
		}
		if n > int64(len(b)) {
			return nil, corrupt("block of %d items with %d bytes left", n, len(b))
		}
		for ; n > 0; n-- {
			before := len(b)
			if b, err = item(b); err != nil {
				return nil, err
			}
			if len(b) == before {
				return nil, corrupt("list item without bytes")
			}
		}
	}
}

// skip returns what follows one value of type n. It checks every length, so what it accepts is safe to decode.
func (n *node) skip(b []byte, depth int) ([]byte, error) {
	if depth > maxDataDepth {
		return nil, corrupt("values nested deeper than %d", maxDataDepth)
	}
	switch n.kind {
	case Null:
		return b, nil
	case Boolean:
		_, b, err := boolean(b)
		return b, err
	case Int:
		_, b, err := int32Value(b)
		return b, err
	case Long:
		_, b, err := long(b)
		return b, err
	case Float:
		_, b, err := take(b, 4, n.kind)
		return b, err
	case Double:
		_, b, err := take(b, 8, n.kind)
		return b, err
	case Fixed:
		_, b, err := take(b, n.size, n.kind)
		return b, err
	case Bytes, String:
		size, b, err := count(b, "length")
		if err != nil {
			return nil, err
		}
		return b[size:], nil
	case Enum:
		_, b, err := n.symbol(b)
		return b, err
	case Union:
		branch, b, err := n.branch(b)
		if err != nil {
			return nil, err
		}
		return branch.skip(b, depth+1)
	case Array:
		return blocks(b, func(b []byte) ([]byte, error) { return n.items.skip(b, depth+1) })
	case Map:
		return blocks(b, func(b []byte) ([]byte, error) {
			size, b, err := count(b, "length")
			if err != nil {
				return nil, err
			}
			return n.items.skip(b[size:], depth+1)
		})
	}
	var err error
	for i := range n.fields {
		if b, err = n.fields[i].typ.skip(b, depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func boolean(b []byte) (bool, []byte, error) {
	if len(b) == 0 || b[0] > 1 {
		return false, nil, corrupt("boolean cut or neither 0 nor 1")
	}
	return b[0] == 1, b[1:], nil
}

func int32Value(b []byte) (int32, []byte, error) {
	v, b, err := long(b)
	if err == nil && int64(int32(v)) != v {
		return 0, nil, corrupt("int %d is longer than 32 bits", v)
	}
	return int32(v), b, err
}

func (n *node) symbol(b []byte) (string, []byte, error) {
	i, b, err := long(b)
	if err != nil {
		return "", nil, err
	}
	if i < 0 || i >= int64(len(n.symbols)) {
		return "", nil, corrupt("enum symbol %d of %d", i, len(n.symbols))
	}
	return n.symbols[i], b, nil
}

// read decodes one value with its unions unwrapped. Bytes and fixed values alias b; everything else is a copy.
func (n *node) read(b []byte, depth int) (any, []byte, error) {
	if depth > maxDataDepth {
		return nil, nil, corrupt("values nested deeper than %d", maxDataDepth)
	}
	switch n.kind {
	case Null:
		return nil, b, nil
	case Boolean:
		return pass(boolean(b))
	case Int:
		return pass(int32Value(b))
	case Long:
		return pass(long(b))
	case Float:
		raw, b, err := take(b, 4, n.kind)
		if err != nil {
			return nil, nil, err
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(raw)), b, nil
	case Double:
		raw, b, err := take(b, 8, n.kind)
		if err != nil {
			return nil, nil, err
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), b, nil
	case Fixed:
		return pass(take(b, n.size, n.kind))
	case Bytes, String:
		size, b, err := count(b, "length")
		if err != nil {
			return nil, nil, err
		}
		if n.kind == String {
			return string(b[:size]), b[size:], nil
		}
		return b[:size:size], b[size:], nil
	case Enum:
		return pass(n.symbol(b))
	case Union:
		branch, b, err := n.branch(b)
		if err != nil {
			return nil, nil, err
		}
		return branch.read(b, depth+1)
	}
	return n.readComplex(b, depth)
}

func pass[T any](v T, rest []byte, err error) (any, []byte, error) {
	if err != nil {
		return nil, nil, err
	}
	return v, rest, nil
}

func (n *node) readComplex(b []byte, depth int) (any, []byte, error) {
	switch n.kind {
	case Array:
		list := []any{}
		b, err := blocks(b, func(b []byte) ([]byte, error) {
			v, b, err := n.items.read(b, depth+1)
			list = append(list, v)
			return b, err
		})
		return pass(list, b, err)
	case Map:
		m := map[string]any{}
		b, err := blocks(b, func(b []byte) ([]byte, error) {
			size, b, err := count(b, "length")
			if err != nil {
				return nil, err
			}
			v, rest, err := n.items.read(b[size:], depth+1)
			m[string(b[:size])] = v
			return rest, err
		})
		return pass(m, b, err)
	}
	rec := make(Record, len(n.fields))
	for _, f := range n.fields {
		v, rest, err := f.typ.read(b, depth+1)
		if err != nil {
			return nil, nil, err
		}
		rec[f.name], b = v, rest
	}
	return rec, b, nil
}
