package rabitq

import (
	"encoding/binary"
	"math"
)

// Factors are the float32 numbers stored beside a code (docs/format/rabitq.md, Factors). They do not depend on the
// metric.
type Factors struct {
	// FAdd1 and FAddEx are ⟨Rc, r⟩, for the sign code and for the full code.
	FAdd1, FAddEx float32
	// FRescale1 and FRescaleEx turn a code's dot product into an estimate of ⟨r, w⟩. 0 switches the estimate off.
	FRescale1, FRescaleEx float32
	// Err1 is the half-width of the bound of the sign code's estimate, per unit of the query residual's length.
	Err1 float32
	// ResidualNorm is the length of the residual.
	ResidualNorm float32
	// VectorNorm is the length of the vector.
	VectorNorm float32
}

// Void reports that the code says nothing of its vector: the residual is longer than float32 can hold (see Encode), or, as other writers may
// store it, a factor is no finite number.
func (f *Factors) Void() bool {
	zero := f.FAdd1*0 + f.FAddEx*0 + f.FRescale1*0 + f.FRescaleEx*0 + f.Err1*0 + f.VectorNorm*0 // or NaN
	return zero != 0 || !(f.ResidualNorm < math.MaxFloat32)
}

// Code is the code of one vector relative to its cluster's centroid, with its factors.
type Code struct {
	// Bits per dimension, 1 to 8.
	Bits int
	// Sign holds bit i of the sign code in byte i/8, bit i mod 8; ceil(D/8) bytes, padding bits 0.
	Sign []byte
	// Levels holds the extended code, one level of Bits−1 bits per dimension, as stored (inverted where the residual is
	// negative); empty for one bit.
	Levels []byte
	// F are the factors.
	F Factors
}

// SignBytes is the length of the sign code in a posting delta: ceil(dim/8).
func SignBytes(dim int) int { return (dim + 7) / 8 }

// RowBytes is the length W of one plane row in a posting block: ceil(dim/64)·8.
func RowBytes(dim int) int { return (dim + 63) / 64 * 8 }

// ExtendedBytes is the length of the packed levels in a posting delta: ceil(dim·(bits−1)/8).
func ExtendedBytes(dim, bits int) int { return (dim*(bits-1) + 7) / 8 }

// DeltaBytes is the length of a posting delta's binaryCode.
func DeltaBytes(dim, bits int) int { return SignBytes(dim) + ExtendedBytes(dim, bits) }

// DeltaBinary appends the binaryCode of a posting delta: the sign code, then the levels as a little-endian bit stream
// (docs/format/rabitq.md, Layout).
func DeltaBinary(dst []byte, c Code) []byte {
	dst = append(dst, c.Sign...)
	width := c.Bits - 1
	start := len(dst)
	dst = append(dst, make([]byte, ExtendedBytes(len(c.Levels), c.Bits))...)
	packed := dst[start:]
	levels := c.Levels
	for len(levels) >= 8 && len(packed) >= 8 { // eight levels fill as many bytes as they are wide
		var bits uint64
		for i, level := range levels[:8] {
			bits |= uint64(level) << (i * width)
		}
		binary.LittleEndian.PutUint64(packed, bits)
		levels, packed = levels[8:], packed[width:]
	}
	for i, level := range levels {
		bit := i * width
		v := uint16(level) << (bit % 8)
		packed[bit/8] |= byte(v)
		if v>>8 != 0 {
			packed[bit/8+1] |= byte(v >> 8)
		}
	}
	return dst
}

// AppendSignRow appends the sign plane's row of a posting block: RowBytes bytes, padding bits 0.
func AppendSignRow(dst []byte, dim int, c Code) []byte {
	dst = append(dst, c.Sign...)
	return append(dst, make([]byte, RowBytes(dim)-len(c.Sign))...)
}

// AppendExPlanes appends the Bits−1 extended rows of a posting block, the highest remaining bit first, each RowBytes
// long.
func AppendExPlanes(dst []byte, dim int, c Code) []byte {
	width := RowBytes(dim)
	for p := range c.Bits - 1 {
		start := len(dst)
		dst = append(dst, make([]byte, width)...)
		row := dst[start:]
		shift := c.Bits - 2 - p
		for i, level := range c.Levels {
			row[i/8] |= level >> shift & 1 << (i % 8)
		}
	}
	return dst
}
