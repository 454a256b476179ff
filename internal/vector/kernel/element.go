package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Element is the type of a vector column's components.
type Element int

// The element types of a VECTOR column (docs/format/basefile.md). The zero value is FLOAT, which is also what a
// missing elementType property means.
const (
	// Float is a little-endian float32.
	Float Element = iota
	// Double is a little-endian float64.
	Double
	// Int8 is a signed byte.
	Int8
)

// ParseElement reads the name used in schemas and descriptors: FLOAT, DOUBLE or INT8.
func ParseElement(s string) (Element, error) {
	switch s {
	case "FLOAT":
		return Float, nil
	case "DOUBLE":
		return Double, nil
	case "INT8":
		return Int8, nil
	}
	return 0, fmt.Errorf("parse element type %q: want FLOAT, DOUBLE or INT8", s)
}

// String is the name used in schemas and descriptors.
func (e Element) String() string {
	switch e {
	case Float:
		return "FLOAT"
	case Double:
		return "DOUBLE"
	case Int8:
		return "INT8"
	}
	return fmt.Sprintf("element(%d)", int(e))
}

// Width is the number of bytes of one component.
func (e Element) Width() int {
	switch e {
	case Double:
		return 8
	case Int8:
		return 1
	}
	return 4
}

// ToFloat32 converts stored bytes to float32 components: FLOAT as is, DOUBLE
// rounded to nearest, INT8 widened. It reports false, and leaves dst alone, if raw is not exactly len(dst) elements.
func ToFloat32(dst []float32, raw []byte, el Element) bool {
	if len(raw) != len(dst)*el.Width() {
		return false
	}
	switch el {
	case Double:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
		}
	case Int8:
		for i := range dst {
			dst[i] = float32(int8(raw[i]))
		}
	default:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return true
}

// ToFloat64 converts stored bytes to float64 components without any loss. It reports false, and leaves dst alone, if
// raw is not exactly len(dst) elements.
func ToFloat64(dst []float64, raw []byte, el Element) bool {
	if len(raw) != len(dst)*el.Width() {
		return false
	}
	switch el {
	case Double:
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	case Int8:
		for i := range dst {
			dst[i] = float64(int8(raw[i]))
		}
	default:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		}
	}
	return true
}

// Reasons why a row cannot be indexed (design, decision 16).
const (
	ReasonNull      = "null"
	ReasonSize      = "wrong size"
	ReasonNonFinite = "component not finite"
	ReasonZero      = "zero vector under cosine"
)

// Indexable says whether a narrowed vector can have a posting: every component finite, and under cosine at least one
// component that is not ±0. The reason is empty when it can.
func Indexable(m Metric, v []float32) (ok bool, reason string) {
	var over, any uint32
	for _, x := range v { // without a branch for each component
		b := math.Float32bits(x)
		over |= b&exponent + 1<<23
		any |= b
	}
	return indexable(m, over, any)
}

// exponent is that of a float32. All its bits are set for an infinity or a NaN and no others: one more of its lowest bit carries into bit 31.
const exponent = 0x7f800000

// indexable is Indexable of a vector by what its components' bits have in common: any is all of them together, over all exponents with one
// added.
func indexable(m Metric, over, any uint32) (ok bool, reason string) {
	switch {
	case over>>31 != 0:
		return false, ReasonNonFinite
	case m == Cosine && any<<1 == 0:
		return false, ReasonZero
	}
	return true, ""
}

// Narrow converts one stored value into dst and says whether it can be indexed. raw nil is NULL. dst has the column's
// dimension as length; its content is meaningful only if ok.
func Narrow(dst []float32, raw []byte, el Element, m Metric) (ok bool, reason string) {
	if raw == nil {
		return false, ReasonNull
	}
	if el != Float {
		if !ToFloat32(dst, raw, el) {
			return false, ReasonSize
		}
		return Indexable(m, dst)
	}
	if len(raw) != 4*len(dst) {
		return false, ReasonSize
	}
	var over, any uint64 // two components in one number: of the lower one nothing carries into the other
	for len(dst) >= 2 {
		b := binary.LittleEndian.Uint64(raw)
		over |= b&(exponent<<32|exponent) + (1<<55 | 1<<23)
		any |= b
		dst[0], dst[1] = math.Float32frombits(uint32(b)), math.Float32frombits(uint32(b>>32))
		raw, dst = raw[8:], dst[2:]
	}
	if len(dst) == 1 {
		b := binary.LittleEndian.Uint32(raw)
		over |= uint64(b&exponent + 1<<23)
		any |= uint64(b)
		dst[0] = math.Float32frombits(b)
	}
	return indexable(m, uint32(over|over>>32), uint32(any|any>>32))
}
