package logfile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"

	roaring "github.com/RoaringBitmap/roaring/v2"
)

const (
	contentVersion = 3       // version in front of Avro and delete content
	maxPositions   = 1 << 27 // positions of one block; a row takes more than one byte of a block, which is below 2 GiB
)

// AvroRecords returns the records of a TypeAvro or TypeCDC block as raw Avro binary; they alias Content.
func (b Block) AvroRecords() ([][]byte, error) {
	if b.Type != TypeAvro && b.Type != TypeCDC {
		return nil, b.unsupported("%s has no Avro records", b.Type)
	}
	c := b.Content
	if len(c) < 8 {
		return nil, b.corrupt("content of %d bytes", len(c))
	}
	if v := int32(binary.BigEndian.Uint32(c)); v < 1 || v > contentVersion {
		return nil, b.unsupported("content version %d", v)
	}
	n := int64(int32(binary.BigEndian.Uint32(c[4:])))
	c = c[8:]
	if n < 0 || n > int64(len(c)/4) {
		return nil, b.corrupt("%d records in %d bytes", n, len(c))
	}
	out := make([][]byte, 0, n)
	for i := int64(0); i < n; i++ {
		if len(c) < 4 {
			return nil, b.corrupt("record %d of %d is cut", i, n)
		}
		size := int64(int32(binary.BigEndian.Uint32(c)))
		if size < 0 || size > int64(len(c)-4) {
			return nil, b.corrupt("record %d of %d bytes, %d are left", i, size, len(c)-4)
		}
		out = append(out, c[4:4+size:4+size])
		c = c[4+size:]
	}
	if len(c) != 0 {
		return nil, b.corrupt("%d bytes behind the records", len(c))
	}
	return out, nil
}

// AvroContent appends the content of a TypeAvro block: records of raw Avro binary.
func AvroContent(dst []byte, records [][]byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, contentVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(records)))
	for _, r := range records {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(r)))
		dst = append(dst, r...)
	}
	return dst
}

// Positions returns the row positions of the block's records, ascending, and the base file instant that they refer to. No
// positions is nil and no error. They are void unless the slice's base file is of that instant.
func (b Block) Positions() ([]uint64, string, error) {
	text, ok := b.Header[RecordPositions]
	if !ok {
		return nil, "", nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, "", b.corrupt("positions: %v", err)
	}
	out, reason := parsePositions(raw)
	if reason != "" {
		return nil, "", b.corrupt("positions: %s", reason)
	}
	return out, b.Header[PositionsBaseInstant], nil
}

// parsePositions reads the portable form of a 64-bit roaring bitmap: u64le count of buckets, then per bucket the high 32
// bits and a 32-bit bitmap. Buckets ascend. A few bytes can stand for 2^32 positions, so the number is bounded before anything
// is laid out.
func parsePositions(raw []byte) (out []uint64, reason string) {
	if len(raw) < 8 {
		return nil, "bitmap is cut"
	}
	buckets := binary.LittleEndian.Uint64(raw)
	raw = raw[8:]
	if buckets > uint64(len(raw)/4) {
		return nil, "more buckets than bytes"
	}
	last := int64(-1)
	for range buckets {
		if len(raw) < 4 {
			return nil, "bucket is cut"
		}
		high := binary.LittleEndian.Uint32(raw)
		if int64(high) <= last {
			return nil, "buckets do not ascend"
		}
		last = int64(high)
		bm := roaring.New()
		r := bytes.NewReader(raw[4:])
		if _, err := bm.ReadFrom(r); err != nil {
			return nil, err.Error()
		}
		if err := bm.Validate(); err != nil {
			return nil, err.Error()
		}
		raw = raw[len(raw)-r.Len():]
		if uint64(len(out))+bm.GetCardinality() > maxPositions {
			return nil, "too many positions"
		}
		for _, low := range bm.ToArray() {
			out = append(out, uint64(high)<<32|uint64(low))
		}
	}
	if len(raw) != 0 {
		return nil, "bytes behind the bitmap"
	}
	return out, ""
}

// Deletes returns the entries of a TypeDelete block. The list carries no writer schema; branches of the ordering union from 13 on are
// storage.ErrUnsupported, as are the Java-serialised lists of old tables.
func (b Block) Deletes() ([]Delete, error) {
	if b.Type != TypeDelete {
		return nil, b.unsupported("%s has no deletes", b.Type)
	}
	c := b.Content
	if len(c) < 8 {
		return nil, b.corrupt("content of %d bytes", len(c))
	}
	if v := int32(binary.BigEndian.Uint32(c)); v != contentVersion {
		return nil, b.unsupported("delete list of version %d", v)
	}
	if n := int64(int32(binary.BigEndian.Uint32(c[4:]))); n != int64(len(c)-8) {
		return nil, b.corrupt("delete list of %d bytes in %d", n, len(c)-8)
	}
	d := decoder{b: c[8:]}
	var out []Delete
	for {
		n := d.long()
		if n < 0 { // the size of the array block follows
			n = -n
			d.long()
		}
		if n == 0 || d.bad {
			break
		}
		if n < 0 || n > int64(len(d.b)/3) {
			return nil, b.corrupt("%d deletes in %d bytes", n, len(d.b))
		}
		for ; n > 0 && !d.bad; n-- {
			e := Delete{Key: d.optional(), Partition: d.optional()}
			if branch := d.long(); branch > int64(OrderingList) && !d.bad {
				return nil, b.unsupported("ordering value of branch %d", branch)
			} else {
				e.Ordering = d.ordering(branch)
			}
			if e.Key == "" && !d.bad {
				return nil, b.corrupt("delete %d has no key", len(out))
			}
			out = append(out, e)
		}
	}
	if d.bad || len(d.b) != 0 {
		return nil, b.corrupt("delete list breaks off after %d entries", len(out))
	}
	return out, nil
}

// decoder reads Avro binary; bad is set for good by the first value that is cut or impossible.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int64) []byte {
	if d.bad || n < 0 || n > int64(len(d.b)) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) long() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 || d.bad {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// optional reads a union of null and string; null is "".
func (d *decoder) optional() string {
	switch d.long() {
	case 0:
		return ""
	case 1:
		return string(d.take(d.long()))
	}
	d.bad = true
	return ""
}

func (d *decoder) ordering(branch int64) Ordering {
	o := Ordering{Kind: OrderingKind(branch)}
	switch o.Kind {
	case OrderingNone:
		o.Null = true
	case OrderingBool:
		if v := d.take(1); v != nil {
			d.bad = d.bad || v[0] > 1
			o.Int = int64(v[0])
		}
	case OrderingInt, OrderingDate:
		o.Int = d.long()
		d.bad = d.bad || o.Int != int64(int32(o.Int))
		if o.Kind == OrderingInt && o.Int == 0 {
			o.Kind = OrderingNone
		}
	case OrderingLong, OrderingTimeMicros, OrderingTimestampMicros:
		o.Int = d.long()
	case OrderingFloat:
		if v := d.take(4); v != nil {
			o.Float = float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
		}
	case OrderingDouble:
		if v := d.take(8); v != nil {
			o.Float = math.Float64frombits(binary.LittleEndian.Uint64(v))
		}
	case OrderingBytes, OrderingString, OrderingDecimal:
		o.Bytes = bytes.Clone(d.take(d.long()))
	case OrderingList:
		o.Parts = d.parts()
	default:
		d.bad = true
	}
	return o
}

// parts reads the value of an OrderingList: a union of null and an array of orderings, of which none is a list itself. Branch 12 is a
// local date inside the array, days like OrderingDate.
func (d *decoder) parts() []Ordering {
	if d.long() != 1 {
		d.bad = true
	}
	var out []Ordering
	for !d.bad {
		n := d.long()
		if n < 0 { // the size of the array block follows
			n = -n
			d.long()
		}
		if n == 0 {
			break
		}
		if n < 0 || n > int64(len(d.b)) {
			d.bad = true
		}
		for ; n > 0 && !d.bad; n-- {
			branch := OrderingKind(d.long())
			if branch == OrderingList {
				branch = OrderingDate
			}
			out = append(out, d.ordering(int64(branch)))
		}
	}
	return out
}
