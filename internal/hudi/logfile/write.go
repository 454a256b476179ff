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
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint64(dst, 0) // size, known at the end
	dst = binary.BigEndian.AppendUint32(dst, 1) // log format version
	dst = binary.BigEndian.AppendUint32(dst, uint32(typ))
	dst = appendEntries(dst, header)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(content)))
	dst = append(dst, content...)
	dst = appendEntries(dst, footer)
	frame := len(dst) + 8 - start
	binary.BigEndian.PutUint64(dst[start+len(magic):], uint64(frame-frameFixed))
	return binary.BigEndian.AppendUint64(dst, uint64(frame-8))
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

// DeleteContent appends the content of a TypeDelete block. OrderingNone is written as IntWrapper 0, as Hudi does.
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
	}
	return binary.AppendVarint(dst, o.Int)
}
