package table

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
)

// ordering is a row's ordering value: one part per ordering column. Hudi puts the int 0 where it has none: for a null, and for a delete
// to which none was given. nil is that as well.
type ordering []logfile.Ordering

var none = logfile.Ordering{Kind: logfile.OrderingInt}

// isDefault says that there is no ordering value. Of several columns all of which are null Hudi does not say so.
func (o ordering) isDefault() bool {
	return len(o) == 0 || len(o) == 1 && o[0].Kind == logfile.OrderingInt && o[0].Int == 0
}

// orderingOf reads the ordering columns of a row.
func (p *plan) orderingOf(vals []any) (ordering, error) {
	if len(p.order) == 0 {
		return nil, nil
	}
	out := make(ordering, len(p.order))
	for i, at := range p.order {
		var o logfile.Ordering
		switch x := vals[at].(type) {
		case nil:
			o = none
		case bool:
			o.Kind = logfile.OrderingBool
			if x {
				o.Int = 1
			}
		case int32:
			o.Kind, o.Int = logfile.OrderingInt, int64(x)
		case int64:
			o.Kind, o.Int = logfile.OrderingLong, x
		case float32:
			o.Kind, o.Float = logfile.OrderingFloat, float64(x)
		case float64:
			o.Kind, o.Float = logfile.OrderingDouble, x
		case string:
			o.Kind, o.Bytes = logfile.OrderingString, []byte(x)
		case []byte:
			o.Kind, o.Bytes = logfile.OrderingBytes, x
			if p.decimal[at] {
				o.Kind = logfile.OrderingDecimal
			}
		default:
			return nil, fmt.Errorf("ordering column %s holds %T: %w", p.names[at], x, storage.ErrUnsupported)
		}
		out[i] = o
	}
	return out, nil
}

// deleteOrdering is the ordering of an entry of a delete block.
func deleteOrdering(o logfile.Ordering) ordering {
	list := []logfile.Ordering{o}
	if o.Kind == logfile.OrderingList {
		list = o.Parts
	}
	out := make(ordering, len(list))
	for i := range list {
		if out[i] = list[i]; out[i].Kind == logfile.OrderingNone {
			out[i] = none
		}
	}
	return out
}

// class groups the kinds that a writer may use for one column: logical types are unwrapped differently in rows and deletes.
func class(k logfile.OrderingKind) int {
	switch k {
	case logfile.OrderingInt, logfile.OrderingDate:
		return int(logfile.OrderingInt)
	case logfile.OrderingLong, logfile.OrderingTimeMicros, logfile.OrderingTimestampMicros:
		return int(logfile.OrderingLong)
	}
	return int(k)
}

// sameKinds says whether two orderings are of one type, part by part.
func (o ordering) sameKinds(other ordering) bool {
	if len(o) != len(other) {
		return false
	}
	for i := range o {
		if class(o[i].Kind) != class(other[i].Kind) {
			return false
		}
	}
	return true
}

// compare orders two orderings, left to right until one part decides. Parts of different types (one null, or a column
// that changed its type) have no order in Hudi either: storage.ErrUnsupported.
func (o ordering) compare(other ordering) (int, error) {
	if o.isDefault() && other.isDefault() {
		return 0, nil
	}
	if len(o) != len(other) {
		return 0, o.unordered(other)
	}
	for i := range o {
		if class(o[i].Kind) != class(other[i].Kind) {
			return 0, o.unordered(other)
		}
		a, b := o[i], other[i]
		c := 0
		switch a.Kind {
		case logfile.OrderingFloat, logfile.OrderingDouble:
			c = cmp.Compare(a.Float, b.Float)
		case logfile.OrderingString, logfile.OrderingBytes:
			c = bytes.Compare(a.Bytes, b.Bytes)
		case logfile.OrderingDecimal:
			c = signed(a.Bytes).Cmp(signed(b.Bytes))
		default:
			c = cmp.Compare(a.Int, b.Int)
		}
		if c != 0 {
			return c, nil
		}
	}
	return 0, nil
}

func (o ordering) unordered(other ordering) error {
	return fmt.Errorf("ordering values of different types (%s and %s): %w", o.types(), other.types(), storage.ErrUnsupported)
}

func (o ordering) types() string {
	if o.isDefault() {
		return "null"
	}
	out := ""
	for i, part := range o {
		if i > 0 {
			out += ","
		}
		out += [...]string{"null", "bool", "int", "long", "float", "double", "bytes", "string", "date", "decimal", "time", "timestamp"}[part.Kind]
	}
	return out
}

// signed reads a big-endian two's complement integer.
func signed(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n
}
