package basefile

import (
	"encoding/binary"
	"fmt"

	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/format"
)

// values are n decoded values: of one width, or of any length.
type values struct {
	n      int
	width  int
	data   []byte
	bounds []uint32 // start and end in data of each value; nil when all have one width
}

func (v *values) at(i int) []byte {
	if v.bounds == nil {
		return v.data[i*v.width : (i+1)*v.width : (i+1)*v.width]
	}
	return v.data[v.bounds[2*i]:v.bounds[2*i+1]:v.bounds[2*i+1]]
}

// decodeValues reads n values that are not null. The result may alias data.
func decodeValues(c *column, enc format.Encoding, n int, data []byte) (*values, error) {
	switch enc {
	case format.Plain:
		return decodePlain(c, n, data)
	case format.RLE:
		if c.kind == Bool && len(data) >= 4 {
			return decodeBoolRuns(n, data[4:])
		}
	case format.ByteStreamSplit:
		if c.width > 0 && c.kind != Bool && c.kind != Int96 {
			return joinStreams(n, c.width, data)
		}
	case format.DeltaBinaryPacked:
		if c.kind == Int32 || c.kind == Int64 {
			return decodeDeltaInts(c, n, data)
		}
	case format.DeltaLengthByteArray:
		if c.width == 0 {
			return decodeDeltaLength(n, data)
		}
	case format.DeltaByteArray:
		if c.width == 0 || c.kind == Fixed {
			return decodeDeltaBytes(c, n, data)
		}
	}
	return nil, fmt.Errorf("%v values in encoding %v: %w", c.kind, enc, storage.ErrUnsupported)
}

func decodePlain(c *column, n int, data []byte) (*values, error) {
	if c.kind == Bool {
		if len(data) < (n+7)/8 {
			return nil, errShortValues(n, len(data))
		}
		out := make([]byte, n)
		for i := range out {
			out[i] = data[i/8] >> (i % 8) & 1
		}
		return &values{n: n, width: 1, data: out}, nil
	}
	if c.width > 0 {
		if int64(n)*int64(c.width) > int64(len(data)) {
			return nil, errShortValues(n, len(data))
		}
		return &values{n: n, width: c.width, data: data}, nil
	}
	if int64(n)*4 > int64(len(data)) { // each value has a length of 4 bytes in front
		return nil, errShortValues(n, len(data))
	}
	v := &values{n: n, data: data, bounds: make([]uint32, 0, 2*n)}
	at := int64(0)
	for range n {
		if at+4 > int64(len(data)) {
			return nil, errShortValues(n, len(data))
		}
		size := int64(binary.LittleEndian.Uint32(data[at:]))
		at += 4
		if size > int64(len(data))-at {
			return nil, errShortValues(n, len(data))
		}
		v.bounds = append(v.bounds, uint32(at), uint32(at+size))
		at += size
	}
	return v, nil
}

func decodeBoolRuns(n int, data []byte) (*values, error) {
	out, err := decodeLevels(data, n)
	if err != nil {
		return nil, err
	}
	return &values{n: n, width: 1, data: out}, nil
}

// joinStreams undoes BYTE_STREAM_SPLIT: byte j of value i lies at j×n+i.
func joinStreams(n, width int, data []byte) (*values, error) {
	if int64(n)*int64(width) > int64(len(data)) {
		return nil, errShortValues(n, len(data))
	}
	out := make([]byte, n*width)
	for i := range n {
		for j := range width {
			out[i*width+j] = data[j*n+i]
		}
	}
	return &values{n: n, width: width, data: out}, nil
}

func decodeDeltaInts(c *column, n int, data []byte) (*values, error) {
	ints, _, err := deltaInts(data, n)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, n*c.width)
	for _, v := range ints {
		if c.width == 4 {
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		} else {
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		}
	}
	return &values{n: n, width: c.width, data: out}, nil
}

func decodeDeltaLength(n int, data []byte) (*values, error) {
	lengths, used, err := deltaInts(data, n)
	if err != nil {
		return nil, err
	}
	v := &values{n: n, data: data[used:], bounds: make([]uint32, 0, 2*n)}
	at := int64(0)
	for _, l := range lengths {
		if l < 0 || l > int64(len(v.data))-at {
			return nil, errShortValues(n, len(data))
		}
		v.bounds = append(v.bounds, uint32(at), uint32(at+l))
		at += l
	}
	return v, nil
}

// decodeDeltaBytes reads values that share a prefix with the one before.
func decodeDeltaBytes(c *column, n int, data []byte) (*values, error) {
	prefixes, used, err := deltaInts(data, n)
	if err != nil {
		return nil, err
	}
	suffixes, err := decodeDeltaLength(n, data[used:])
	if err != nil {
		return nil, err
	}
	v := &values{n: n, data: []byte{}, bounds: make([]uint32, 0, 2*n)} // an empty value is not nil
	var last []byte
	for i, p := range prefixes {
		suffix := suffixes.at(i)
		if p < 0 || p > int64(len(last)) || len(v.data)+int(p)+len(suffix) > maxPage {
			return nil, fmt.Errorf("prefix of %d bytes on a value of %d: %w", p, len(last), storage.ErrCorrupt)
		}
		from := len(v.data)
		v.data = append(append(v.data, last[:p]...), suffix...)
		last = v.data[from:]
		if c.width > 0 && len(last) != c.width {
			return nil, fmt.Errorf("value of %d bytes in a column of %d: %w", len(last), c.width, storage.ErrCorrupt)
		}
		v.bounds = append(v.bounds, uint32(from), uint32(len(v.data)))
	}
	return v, nil
}

// deltaInts reads n DELTA_BINARY_PACKED integers and returns how many bytes they took.
func deltaInts(b []byte, n int) (out []int64, used int, err error) {
	short := fmt.Errorf("delta integers end early: %w", storage.ErrCorrupt)
	r := &byteReader{b: b}
	block, minis, total, first := r.uvarint(), r.uvarint(), r.uvarint(), r.varint()
	if r.bad || minis == 0 || block == 0 || block%minis != 0 || block > 1<<24 || block/minis%8 != 0 || total != uint64(n) {
		return nil, 0, fmt.Errorf("delta integers: block %d, %d parts, %d values of %d: %w", block, minis, total, n, storage.ErrCorrupt)
	}
	per := int(block / minis)
	if n == 0 {
		return nil, r.at, nil
	}
	out = append(make([]int64, 0, min(n, 8*len(b)+per)), first)
	for len(out) < n {
		delta := r.varint()
		if r.bad || uint64(len(b)-r.at) < minis {
			return nil, 0, short
		}
		widths := b[r.at : r.at+int(minis)]
		r.at += int(minis)
		for _, width := range widths {
			if len(out) == n {
				break
			}
			size := per * int(width) / 8
			if width > 64 || size > len(b)-r.at {
				return nil, 0, short
			}
			packed := b[r.at : r.at+size]
			r.at += size
			for i := range min(per, n-len(out)) {
				out = append(out, out[len(out)-1]+delta+int64(bitsAt(packed, i*int(width), int(width))))
			}
		}
	}
	return out, r.at, nil
}

// bitsAt reads width bits from bit position at, least significant first.
func bitsAt(b []byte, at, width int) uint64 {
	var v uint64
	for i := 0; i < width; {
		take := min(8-(at+i)%8, width-i)
		part := uint64(b[(at+i)/8]>>((at+i)%8)) & (1<<take - 1)
		v |= part << i
		i += take
	}
	return v
}

type byteReader struct {
	b   []byte
	at  int
	bad bool
}

func (r *byteReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.at += n
	return v
}

func (r *byteReader) varint() int64 {
	v, n := binary.Varint(r.b[r.at:])
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.at += n
	return v
}

func errShortValues(n, size int) error {
	return fmt.Errorf("%d values do not fit %d bytes: %w", n, size, storage.ErrCorrupt)
}
