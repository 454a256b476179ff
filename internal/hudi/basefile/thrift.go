package basefile

import (
	"encoding/binary"
	"fmt"

	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// maxThriftDepth bounds nesting. Parquet's own structures nest 6 deep.
const maxThriftDepth = 32

// unmarshal decodes the Thrift structure at the front of b into v and returns its length. The engine takes memory for a list by
// the length written in front of it, so every length is checked against the bytes left first; a panic of the engine
// becomes storage.ErrCorrupt. Strings and byte slices in v alias b.
func unmarshal[T format.FileMetaData | format.PageHeader | format.OffsetIndex | format.ColumnIndex](b []byte, v *T) (n int, err error) {
	n, err = thriftStruct(b, 0)
	if err != nil {
		return 0, err
	}
	defer func() {
		if p := recover(); p != nil {
			n, err = 0, fmt.Errorf("decode Thrift: %v: %w", p, storage.ErrCorrupt)
		}
	}()
	var protocol thrift.CompactProtocol
	r := protocol.NewReaderFromBytes(b[:n])
	if err := thrift.NewDecoder(r).Decode(v); err != nil {
		return 0, fmt.Errorf("decode Thrift: %w: %w", err, storage.ErrCorrupt)
	}
	return n, nil
}

// errThriftShort says that a structure does not end within the bytes given: with more bytes it may.
var errThriftShort = fmt.Errorf("thrift structure does not end: %w", storage.ErrCorrupt)

// thriftStruct returns the length of the compact-protocol structure at the front of b, looking at every length in it.
func thriftStruct(b []byte, depth int) (int, error) {
	if depth > maxThriftDepth {
		return 0, fmt.Errorf("thrift nested deeper than %d: %w", maxThriftDepth, storage.ErrCorrupt)
	}
	at := 0
	for {
		if at >= len(b) {
			return 0, errThriftShort
		}
		head := b[at]
		at++
		if head == 0 {
			return at, nil
		}
		if head>>4 == 0 { // long form: the field id follows
			n, err := thriftVarint(b[at:])
			if err != nil {
				return 0, err
			}
			at += n
		}
		n, err := thriftValue(b[at:], head&15, depth, false)
		if err != nil {
			return 0, err
		}
		at += n
	}
}

// thriftValue returns the length of a value of the compact type t. Booleans lie in the field header, but in one byte each
// inside a list.
func thriftValue(b []byte, t byte, depth int, inList bool) (int, error) {
	switch t {
	case 1, 2:
		if !inList {
			return 0, nil
		}
		return need(b, 1)
	case 3:
		return need(b, 1)
	case 4, 5, 6:
		return thriftVarint(b)
	case 7:
		return need(b, 8)
	case 8:
		size, n := binary.Uvarint(b)
		if n <= 0 {
			return thriftVarint(b)
		}
		if size > uint64(len(b)-n) {
			return 0, errThriftShort
		}
		return n + int(size), nil
	case 9, 10:
		return thriftList(b, depth)
	case 12:
		return thriftStruct(b, depth+1)
	}
	return 0, fmt.Errorf("thrift type %d: %w", t, storage.ErrCorrupt)
}

func thriftList(b []byte, depth int) (int, error) {
	if len(b) == 0 {
		return 0, errThriftShort
	}
	if depth > maxThriftDepth {
		return 0, fmt.Errorf("thrift nested deeper than %d: %w", maxThriftDepth, storage.ErrCorrupt)
	}
	at, count, elem := 1, uint64(b[0]>>4), b[0]&15
	if count == 15 {
		var n int
		if count, n = binary.Uvarint(b[1:]); n <= 0 {
			return thriftVarint(b[1:])
		}
		at += n
	}
	if count > uint64(len(b)-at) { // every element takes at least one byte
		return 0, errThriftShort
	}
	for range count {
		n, err := thriftValue(b[at:], elem, depth+1, true)
		if err != nil {
			return 0, err
		}
		at += n
	}
	return at, nil
}

func thriftVarint(b []byte) (int, error) {
	_, n := binary.Uvarint(b)
	if n > 0 {
		return n, nil
	}
	if n == 0 {
		return 0, errThriftShort
	}
	return 0, fmt.Errorf("thrift integer too long: %w", storage.ErrCorrupt)
}

func need(b []byte, n int) (int, error) {
	if len(b) < n {
		return 0, errThriftShort
	}
	return n, nil
}
