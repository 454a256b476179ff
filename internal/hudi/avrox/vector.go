package avrox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"tidemark/internal/vector/kernel"
)

// Element is the element type of a VECTOR column, as Hudi spells it.
type Element string

// The element types of Hudi 1.2: IEEE 754 floats and doubles, and signed bytes.
const (
	ElementFloat  Element = "FLOAT"
	ElementDouble Element = "DOUBLE"
	ElementInt8   Element = "INT8"
)

// Width returns the bytes of one element, 0 for an unknown type.
func (e Element) Width() int {
	switch e {
	case ElementFloat:
		return 4
	case ElementDouble:
		return 8
	case ElementInt8:
		return 1
	}
	return 0
}

// Kernel returns the element type as the vector engine knows it; an unknown type is taken for FLOAT.
func (e Element) Kernel() kernel.Element {
	k, err := kernel.ParseElement(string(e))
	if err != nil {
		return kernel.Float
	}
	return k
}

// Vector describes a VECTOR column. A value is Dim elements, little-endian, without a length.
type Vector struct {
	Column   string
	Dim      int
	Element  Element
	Nullable bool
}

// Bytes returns the length of a stored value.
func (v Vector) Bytes() int { return v.Dim * v.Element.Width() }

// String returns the type as Hudi writes it in SQL and in Parquet footers: VECTOR(8), VECTOR(8, DOUBLE).
func (v Vector) String() string {
	if v.Element == ElementFloat {
		return fmt.Sprintf("VECTOR(%d)", v.Dim)
	}
	return fmt.Sprintf("VECTOR(%d, %s)", v.Dim, v.Element)
}

// parseVector reads the vector attributes of a fixed type of that size. A type that cannot be used gets a problem
// instead: another column's odd type must not make the table unreadable.
func parseVector(size int, a attrs) (*Vector, string) {
	dim, err := strconv.Atoi(strings.Trim(string(a.Dimension), `" `))
	if err != nil || dim <= 0 || dim > maxFixed {
		return nil, fmt.Sprintf("vector dimension %s is not a positive number", orMissing(a.Dimension))
	}
	element := Element(strings.ToUpper(text(a.ElementType)))
	if len(a.ElementType) == 0 {
		element = ElementFloat
	}
	if element.Width() == 0 {
		return nil, fmt.Sprintf("vector element type %s is unknown", orMissing(a.ElementType))
	}
	if dim*element.Width() != size {
		return nil, fmt.Sprintf("vector of %d × %s does not fill %d bytes", dim, element, size)
	}
	return &Vector{Dim: dim, Element: element}, ""
}

func orMissing(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "(missing)"
	}
	return string(raw)
}
