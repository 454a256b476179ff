package hfile

import (
	"bytes"
	"encoding/binary"
	"sort"
	"unicode/utf8"
)

// entry is one line of an index: a block and a row that is not above the block's first row.
type entry struct {
	off, size int64
	row       []byte // of a data index; whole name of a meta block
}

// rowOf takes the row out of an index key or LASTKEY: all three forms start with a two-byte row length. What
// follows the row (nothing, or a cell's key) is not compared by Hudi.
func rowOf(key []byte) ([]byte, bool) {
	if len(key) < 2 {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(key))
	if n > MaxKey || n > len(key)-2 {
		return nil, false
	}
	if tail := len(key) - 2 - n; tail != 0 && tail < keyFixed-2 {
		return nil, false
	}
	return key[2 : 2+n], true
}

// parseRoot reads count entries of a root index payload. Key lengths are Hadoop VInts; files of Hudi 1.1.x wrote them as
// protobuf varints, which is tried when the right coding is impossible. A multi-level root has 16 bytes behind its entries.
func parseRoot(b []byte, off, count int64, data, midKey bool) ([]entry, error) {
	out, err := parseRootKeys(b, off, count, data, midKey, vint)
	if err == nil {
		return out, nil
	}
	alt, altErr := parseRootKeys(b, off, count, data, midKey, func(b []byte) (int64, int) {
		v, n := uvarint(b)
		return int64(v), n
	})
	if altErr != nil {
		return nil, err
	}
	return alt, nil
}

func parseRootKeys(b []byte, off, count int64, data, midKey bool, length func([]byte) (int64, int)) ([]entry, error) {
	if count > int64(len(b)/13) {
		return nil, corrupt(off, "%d index entries in %d bytes", count, len(b))
	}
	out := make([]entry, 0, count)
	for i := int64(0); i < count; i++ {
		if len(b) < 13 {
			return nil, corrupt(off, "index entry %d of %d is cut", i, count)
		}
		n, k := length(b[12:])
		if k == 0 || n < 0 || n > int64(len(b)-12-k) {
			return nil, corrupt(off, "index entry %d: key of %d bytes", i, n)
		}
		e, err := makeEntry(b, b[12+k:12+k+int(n)], off, data)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		b = b[12+k+int(n):]
	}
	if len(b) != 0 && !(midKey && len(b) == 16) {
		return nil, corrupt(off, "%d bytes behind %d index entries", len(b), count)
	}
	return out, nil
}

func makeEntry(b, key []byte, off int64, data bool) (entry, error) {
	e := entry{off: int64(binary.BigEndian.Uint64(b)), size: int64(int32(binary.BigEndian.Uint32(b[8:]))), row: key}
	if e.off < 0 || e.size < headerSize || e.off > off || e.size > off-e.off {
		return e, corrupt(off, "index points at %d bytes at %d, beyond itself", e.size, e.off)
	}
	if data {
		row, ok := rowOf(key)
		if !ok {
			return e, corrupt(off, "index key %x", key)
		}
		e.row = row
	}
	return e, nil
}

// parseBranch reads a leaf or intermediate index block: a table of relative offsets, then the entries.
func parseBranch(b []byte, off int64) ([]entry, error) {
	if len(b) < 8 {
		return nil, corrupt(off, "index block of %d bytes", len(b))
	}
	n := int64(int32(binary.BigEndian.Uint32(b)))
	if n < 1 || n > int64(len(b)-8)/16 {
		return nil, corrupt(off, "%d entries in an index block of %d bytes", n, len(b))
	}
	table, body := b[4:4+4*(n+1)], b[4+4*(n+1):]
	out := make([]entry, 0, n)
	at := int64(binary.BigEndian.Uint32(table))
	if at != 0 {
		return nil, corrupt(off, "first index entry at %d", at)
	}
	for i := int64(1); i <= n; i++ {
		next := int64(binary.BigEndian.Uint32(table[4*i:]))
		if next < at+12 || next > int64(len(body)) {
			return nil, corrupt(off, "index entry %d ends at %d of %d", i-1, next, len(body))
		}
		e, err := makeEntry(body[at:], body[at+12:next], off, true)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		at = next
	}
	if at != int64(len(body)) {
		return nil, corrupt(off, "%d bytes behind the index entries", int64(len(body))-at)
	}
	return out, nil
}

// floor returns the last block whose index row is not above row, -1 if there is none.
func floor(blocks []entry, row []byte) int {
	return sort.Search(len(blocks), func(i int) bool { return bytes.Compare(blocks[i].row, row) > 0 }) - 1
}

// floorUTF16 is floor in the order of UTF-16 units, in which Java sorts the keys of a log block. It differs from byte order
// only for text with supplementary characters beside U+E000..U+FFFF.
func floorUTF16(blocks []entry, row []byte) int {
	return sort.Search(len(blocks), func(i int) bool { return compareUTF16(blocks[i].row, row) > 0 }) - 1
}

// mayBeMisplaced says whether a row could lie elsewhere in UTF-16 order.
func mayBeMisplaced(row []byte) bool {
	for _, c := range row {
		if c >= 0xee {
			return true
		}
	}
	return false
}

// compareUTF16 compares two UTF-8 texts by UTF-16 units.
func compareUTF16(a, b []byte) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	for i > 0 && (i < len(a) && !utf8.RuneStart(a[i]) || i < len(b) && !utf8.RuneStart(b[i])) {
		i--
	}
	ra, na := utf8.DecodeRune(a[i:])
	rb, nb := utf8.DecodeRune(b[i:])
	if na == 0 || nb == 0 || (ra >= 0x10000) == (rb >= 0x10000) {
		return bytes.Compare(a[i:], b[i:])
	}
	// One is a surrogate pair (units from D800 on), the other one unit.
	if ra >= 0x10000 {
		if rb >= 0xe000 {
			return -1
		}
		return 1
	}
	if ra >= 0xe000 {
		return 1
	}
	return -1
}
