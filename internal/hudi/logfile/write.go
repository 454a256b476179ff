package logfile

import (
	"encoding/binary"
	"math"
)

// AppendBlock appends one block: header entries in the given order, content, empty footer. The header must hold
// InstantTime, and SchemaKey for data. It does not check them.
func AppendBlock(dst []byte, typ BlockType, header []HeaderEntry, content []byte) []byte {
	return appendFrame(dst, typ, header, content, nil)
}

func appendFrame(dst []byte, typ BlockType, header []HeaderEntry, content []byte, footer []HeaderEntry) []byte {
	before, after := envelope(typ, header, int64(len(content)), footer)
	return append(append(append(dst, before...), content...), after...)
}

// Envelope returns what stands before and behind a block's content of the given size: before, content and after are what
// AppendBlock appends. It serves content that is not in memory.
func Envelope(typ BlockType, header []HeaderEntry, size int64) (before, after []byte) {
	return envelope(typ, header, size, nil)
}

func envelope(typ BlockType, header []HeaderEntry, size int64, footer []HeaderEntry) (before, after []byte) {
	before = append(before, magic...)
	before = binary.BigEndian.AppendUint64(before, 0) // size, known at the end
	before = binary.BigEndian.AppendUint32(before, 1) // log format version
	before = binary.BigEndian.AppendUint32(before, uint32(typ))
	before = appendEntries(before, header)
	before = binary.BigEndian.AppendUint64(before, uint64(size))
	after = appendEntries(nil, footer)
	frame := int64(len(before)+len(after)) + size + 8
	binary.BigEndian.PutUint64(before[len(magic):], uint64(frame-frameFixed))
	return before, binary.BigEndian.AppendUint64(after, uint64(frame-8))
}

func appendEntries(dst []byte, list []HeaderEntry) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(list)))
	for _, e := range list {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Key))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Value)))
		dst = append(dst, e.Value...)
	}
	return dst
}

// DeleteContent appends the content of a TypeDelete block. OrderingNone is written as IntWrapper 0, as Hudi does, unless it says Null.
func DeleteContent(dst []byte, deletes []Delete) []byte {
	dst = binary.BigEndian.AppendUint32(dst, contentVersion)
	size := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	if len(deletes) > 0 {
		dst = binary.AppendVarint(dst, int64(len(deletes)))
		for _, d := range deletes {
			dst = appendString(binary.AppendVarint(dst, 1), d.Key)
			dst = appendString(binary.AppendVarint(dst, 1), d.Partition)
			dst = appendOrdering(dst, d.Ordering)
		}
	}
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[size:], uint32(len(dst)-size-4))
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendVarint(dst, int64(len(s))), s...)
}

func appendOrdering(dst []byte, o Ordering) []byte {
	if o.Kind == OrderingNone {
		if o.Null {
			return append(dst, 0)
		}
		o = Ordering{Kind: OrderingInt}
	}
	dst = binary.AppendVarint(dst, int64(o.Kind))
	switch o.Kind {
	case OrderingBool:
		return append(dst, byte(o.Int))
	case OrderingFloat:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(o.Float)))
	case OrderingDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(o.Float))
	case OrderingBytes, OrderingString, OrderingDecimal:
		return appendString(dst, string(o.Bytes))
	case OrderingList:
		dst = binary.AppendVarint(binary.AppendVarint(dst, 1), int64(len(o.Parts)))
		for _, part := range o.Parts {
			dst = appendOrdering(dst, part)
		}
		return append(dst, 0)
	}
	return binary.AppendVarint(dst, o.Int)
}
