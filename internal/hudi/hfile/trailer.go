package hfile

import "bytes"

// trailer is the fixed part at the end of a file.
type trailer struct {
	infoOffset, loadOnOpen int64
	indexBytes             uint64 // field 3; native writer: plain size of all cells
	totalBytes             uint64 // field 4; absent in native files
	roots, metas           int64
	entries                uint64
	levels                 int64
	first, last            int64
	comparator             string
	compression            Compression
	minor                  byte
	native                 bool
}

// Bits of the fields that were seen; the numbers are those of the protobuf message.
const (
	fieldTotal     = 4
	fieldEncrypt   = 13
	requiredFields = 1<<1 | 1<<2 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// parseTrailer reads the last 4096 bytes of a file; off is where they start. Everything that could hide a flipped
// bit is refused: unknown or repeated fields, padding that is not zero, unknown comparators.
func parseTrailer(b []byte, off int64) (trailer, error) {
	var t trailer
	if string(b[:8]) != magicTrailer {
		return t, corrupt(off, "trailer magic %q", b[:8])
	}
	version := b[trailerSize-4:]
	if major := int(version[1])<<16 | int(version[2])<<8 | int(version[3]); major != majorV3 {
		if major == 1 || major == 2 {
			return t, unsupported(off, "hfile version %d", major)
		}
		return t, corrupt(off, "hfile version %d", major)
	}
	t.minor = version[0]
	n, k := uvarint(b[8:])
	if k == 0 || n > uint64(trailerSize-4-8-k) {
		return t, corrupt(off, "trailer message of %d bytes", n)
	}
	msg, pad := b[8+k:8+k+int(n)], b[8+k+int(n):trailerSize-4]
	if len(bytes.TrimLeft(pad, "\x00")) != 0 {
		return t, corrupt(off, "trailer padding is not zero")
	}
	seen, err := t.fields(msg, off)
	if err != nil {
		return t, err
	}
	if seen&requiredFields != requiredFields {
		return t, corrupt(off, "trailer fields missing: have bits %b", seen)
	}
	hasTotal := seen&(1<<fieldTotal) != 0
	if t.minor != 0 && (t.minor > 3 || !hasTotal) {
		return t, corrupt(off, "minor version %d in a file of the native writer, or unknown", t.minor)
	}
	t.native = !hasTotal
	if t.levels < 1 || t.levels > 16 {
		return t, corrupt(off, "%d index levels", t.levels)
	}
	if t.loadOnOpen < 0 || t.infoOffset < t.loadOnOpen+2*headerSize || t.infoOffset > off-headerSize {
		return t, corrupt(off, "load-on-open at %d, file info at %d, trailer at %d", t.loadOnOpen, t.infoOffset, off)
	}
	return t, nil
}

// fields reads the protobuf message and returns a bit per field that was there.
func (t *trailer) fields(msg []byte, off int64) (seen uint32, err error) {
	for len(msg) > 0 {
		tag, k := uvarint(msg)
		if k != 1 {
			return 0, corrupt(off, "trailer field tag")
		}
		msg = msg[k:]
		num, wire := tag>>3, tag&7
		v, k := uvarint(msg)
		if k == 0 {
			return 0, corrupt(off, "trailer field %d is cut", num)
		}
		msg = msg[k:]
		want := uint64(0)
		if num == 11 || num == fieldEncrypt {
			want = 2
		}
		if num == 0 || num > fieldEncrypt || wire != want || seen&(1<<num) != 0 {
			return 0, corrupt(off, "trailer field %d of wire type %d is unknown or repeated", num, wire)
		}
		seen |= 1 << num
		if wire == 2 {
			if v > uint64(len(msg)) {
				return 0, corrupt(off, "trailer field %d of %d bytes", num, v)
			}
			if num == fieldEncrypt {
				return 0, unsupported(off, "encryption")
			}
			t.comparator = string(msg[:v])
			msg = msg[v:]
			switch t.comparator {
			case comparatorHudi, comparatorHBase, comparatorCell:
			default:
				return 0, corrupt(off, "comparator %q is not known", t.comparator)
			}
			continue
		}
		if err := t.set(num, v, off); err != nil {
			return 0, err
		}
	}
	return seen, nil
}

func (t *trailer) set(num, v uint64, off int64) error {
	// Counts and offsets fit the file; -1 is a first or last offset in a file without cells.
	if (num == 1 || num == 2 || num == 5 || num == 6 || num == 8) && v > uint64(off) {
		return corrupt(off, "trailer field %d is %d, beyond the file", num, v)
	}
	switch num {
	case 1:
		t.infoOffset = int64(v)
	case 2:
		t.loadOnOpen = int64(v)
	case 3:
		t.indexBytes = v
	case 4:
		t.totalBytes = v
	case 5:
		t.roots = int64(v)
	case 6:
		t.metas = int64(v)
	case 7:
		t.entries = v
	case 8:
		t.levels = int64(v)
	case 9:
		t.first = int64(v)
	case 10:
		t.last = int64(v)
	case 12:
		switch v {
		case 1:
			t.compression = GZ
		case 2:
			t.compression = None
		case 0, 3, 4, 5, 6:
			return unsupported(off, "compression codec %d", v)
		default:
			return corrupt(off, "compression codec %d", v)
		}
	}
	return nil
}

// append writes the trailer as Hudi's native writer does: no field 4, minor version 0.
func (t *trailer) append(dst []byte) []byte {
	var msg []byte
	put := func(num int, v uint64) { msg = appendUvarint(append(msg, byte(num<<3)), v) }
	put(1, uint64(t.infoOffset))
	put(2, uint64(t.loadOnOpen))
	put(3, t.indexBytes)
	put(5, uint64(t.roots))
	put(6, uint64(t.metas))
	put(7, t.entries)
	put(8, uint64(t.levels))
	put(9, uint64(t.first))
	put(10, uint64(t.last))
	msg = appendUvarint(append(msg, 11<<3|2), uint64(len(t.comparator)))
	msg = append(msg, t.comparator...)
	put(12, t.compression.codec())
	start := len(dst)
	dst = append(dst, magicTrailer...)
	dst = appendUvarint(dst, uint64(len(msg)))
	dst = append(dst, msg...)
	dst = append(dst, make([]byte, trailerSize-(len(dst)-start))...)
	dst[len(dst)-1] = majorV3
	return dst
}
