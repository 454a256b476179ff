package basefile

import "github.com/parquet-go/parquet-go/format"

// Kind says how the raw bytes of a column's value are to be read.
type Kind int

// The kinds. Numbers are little-endian.
const (
	None   Kind = iota // the file has no such column
	Bool               // 1 byte, 0 or 1
	Int32              // 4 bytes
	Int64              // 8 bytes
	Int96              // 12 bytes, an old form of timestamps
	Float              // 4 bytes, IEEE 754
	Double             // 8 bytes, IEEE 754
	String             // UTF-8 text
	Bytes              // any bytes
	Fixed              // any bytes, always Width of them
	Nested             // struct, list or map; cannot be read
)

var kindNames = [...]string{"none", "bool", "int32", "int64", "int96", "float", "double", "string", "bytes", "fixed", "nested"}

// String returns the kind's name.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// column is one top-level column.
type column struct {
	name     string
	kind     Kind
	width    int  // bytes of one value; 0 for String and Bytes
	optional bool // has definition levels, 0 or 1
	leaf     int  // index among the file's leaf columns; of a Nested column the first of its leaves
	physical format.Type
}

// kindOf maps a leaf's physical and logical type.
func kindOf(e *format.SchemaElement) (Kind, int, bool) {
	switch e.Type.V {
	case format.Boolean:
		return Bool, 1, true
	case format.Int32:
		return Int32, 4, true
	case format.Int64:
		return Int64, 8, true
	case format.Int96:
		return Int96, 12, true
	case format.Float:
		return Float, 4, true
	case format.Double:
		return Double, 8, true
	case format.ByteArray:
		if isText(e) {
			return String, 0, true
		}
		return Bytes, 0, true
	case format.FixedLenByteArray:
		n := int(e.TypeLength.V)
		return Fixed, n, n > 0 && n <= maxFixed
	}
	return None, 0, false
}
