package hfile

// Two codings of integers occur in one file: protobuf varints in file info and trailer, Hadoop's VInt in the index and
// behind each cell.

// uvarint reads a protobuf varint of at most 10 bytes; n is 0 if the bytes are cut or too long.
func uvarint(b []byte) (v uint64, n int) {
	for i, c := range b {
		if i == 9 && c > 1 || i > 9 {
			return 0, 0
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// appendUvarint appends a protobuf varint.
func appendUvarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// vint reads a Hadoop VInt or VLong: one byte for -112..127, else a first byte that gives sign and count of
// the big-endian bytes behind it; n is 0 if the bytes are cut.
func vint(b []byte) (v int64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	first := int8(b[0])
	if first >= -112 {
		return int64(first), 1
	}
	n = int(-112 - first)
	negative := first < -120
	if negative {
		n = int(-120 - first)
	}
	if len(b) < 1+n {
		return 0, 0
	}
	var u uint64
	for _, c := range b[1 : 1+n] {
		u = u<<8 | uint64(c)
	}
	if negative {
		return int64(^u), 1 + n
	}
	return int64(u), 1 + n
}

// appendVint appends a Hadoop VInt of v >= 0.
func appendVint(dst []byte, v int) []byte {
	if v <= 127 {
		return append(dst, byte(v))
	}
	n := 0
	for u := v; u > 0; u >>= 8 {
		n++
	}
	dst = append(dst, byte(-112-n))
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}
