package table

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
)

// ordering is a row's ordering value: one part per ordering column. nil stands for the default: none given, a null, or, for
// a delete, the int 0 that writers store when they are given none (spec 7.3).
type ordering []logfile.Ordering

// orderingOf reads the ordering columns of a row. One null part makes the whole the default.
func (p *plan) orderingOf(vals []any) (ordering, error) {
	if len(p.order) == 0 {
		return nil, nil
	}
	out := make(ordering, len(p.order))
	for i, at := range p.order {
		var o logfile.Ordering
		switch x := vals[at].(type) {
		case nil:
			return nil, nil
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

// deleteOrdering is the ordering of a delete record.
func deleteOrdering(o logfile.Ordering) ordering {
	if o.Kind == logfile.OrderingNone {
		return nil
	}
	return ordering{o}
}

// asDelete applies the rule that a delete's int 0 is the default.
func (o ordering) asDelete() ordering {
	if len(o) == 1 && o[0].Kind == logfile.OrderingInt && o[0].Int == 0 {
		return nil
	}
	return o
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

// comparable says whether two orderings are of one type.
func (o ordering) comparable(other ordering) bool {
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

// compare orders two orderings, left to right. Two defaults are equal. Orderings of different types (one null, or a column
// that changed its type) have no order in Hudi either: storage.ErrUnsupported.
func (o ordering) compare(other ordering) (int, error) {
	if !o.comparable(other) {
		return 0, fmt.Errorf("ordering values of different types (%s and %s): %w", o.types(), other.types(), storage.ErrUnsupported)
	}
	for i := range o {
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

func (o ordering) types() string {
	if len(o) == 0 {
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
