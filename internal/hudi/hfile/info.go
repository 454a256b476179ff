package hfile

import "unsafe"

// parseInfo reads the payload of the file info block: PBUF, length, repeated {1: key, 2: value}. Values alias b.
func parseInfo(b []byte, off int64) ([]KV, error) {
	if len(b) < 5 || string(b[:4]) != magicInfoProto {
		return nil, corrupt(off, "file info does not start with %q", magicInfoProto)
	}
	n, k := uvarint(b[4:])
	if k == 0 || n != uint64(len(b)-4-k) {
		return nil, corrupt(off, "file info of %d bytes in a block of %d", n, len(b))
	}
	b = b[4+k:]
	var out []KV
	for len(b) > 0 {
		entry, rest, ok := field(b, 1)
		if !ok {
			return nil, corrupt(off, "file info entry %d", len(out))
		}
		b = rest
		key, entry, ok := field(entry, 1)
		if !ok {
			return nil, corrupt(off, "key of file info entry %d", len(out))
		}
		value, entry, ok := field(entry, 2)
		if !ok || len(entry) != 0 {
			return nil, corrupt(off, "value of file info entry %q", key)
		}
		out = append(out, KV{Key: string(key), Value: value})
	}
	return out, nil
}

// field takes a length-delimited protobuf field with the given number from the front of b.
func field(b []byte, num byte) (value, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != num<<3|2 {
		return nil, nil, false
	}
	n, k := uvarint(b[1:])
	if k == 0 || n > uint64(len(b)-1-k) {
		return nil, nil, false
	}
	b = b[1+k:]
	return b[:n:n], b[n:], true
}

func appendField(dst []byte, num byte, value []byte) []byte {
	dst = appendUvarint(append(dst, num<<3|2), uint64(len(value)))
	return append(dst, value...)
}

// appendInfo appends the payload of a file info block.
func appendInfo(dst []byte, entries []KV) []byte {
	var msg, entry []byte
	for _, e := range entries {
		entry = appendField(entry[:0], 1, []byte(e.Key))
		entry = appendField(entry, 2, e.Value)
		msg = appendField(msg, 1, entry)
	}
	dst = append(dst, magicInfoProto...)
	dst = appendUvarint(dst, uint64(len(msg)))
	return append(dst, msg...)
}

// Bytes is about what an opened file takes in memory: its tail, root index and file info. The index of a multi-level file, which look-ups read, is not in it.
func (r *Reader) Bytes() int64 {
	n := 256 + int64(cap(r.tail)) + int64(r.rootBytes) + int64(unsafe.Sizeof(entry{}))*int64(cap(r.root)+cap(r.metas)) + int64(len(r.schema))
	for _, e := range r.info {
		n += int64(len(e.Key) + len(e.Value))
	}
	return n
}
