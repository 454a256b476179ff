package table

import (
	"errors"
	"testing"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
)

func TestOrderings(t *testing.T) {
	t.Parallel()
	num := func(k logfile.OrderingKind, n int64) logfile.Ordering { return logfile.Ordering{Kind: k, Int: n} }
	text := func(k logfile.OrderingKind, s string) logfile.Ordering {
		return logfile.Ordering{Kind: k, Bytes: []byte(s)}
	}
	one := func(o logfile.Ordering) ordering { return ordering{o} }
	long, str, dec := logfile.OrderingLong, logfile.OrderingString, logfile.OrderingDecimal
	for _, test := range []struct {
		name string
		a, b ordering
		want int
		kind error
	}{
		{"longs", one(num(long, -1)), one(num(long, 1)), -1, nil},
		{"a timestamp is a long", one(num(long, 2)), one(num(logfile.OrderingTimestampMicros, 1)), 1, nil},
		{"a date is an int", one(num(logfile.OrderingInt, 2)), one(num(logfile.OrderingDate, 2)), 0, nil},
		{"int and long", one(num(logfile.OrderingInt, 2)), one(num(long, 2)), 0, storage.ErrUnsupported},
		{"null and long", one(none), one(num(long, 2)), 0, storage.ErrUnsupported},
		{"null and int: it is 0", one(none), one(num(logfile.OrderingInt, 2)), -1, nil},
		{"none at all and long", nil, one(num(long, 2)), 0, storage.ErrUnsupported},
		{"two nulls", one(none), one(none), 0, nil},
		{"null and none at all", one(none), nil, 0, nil},
		{"bytes are unsigned", one(text(str, "a")), one(text(str, "\xff")), -1, nil},
		{"decimals are signed", one(text(dec, "\xff\x00")), one(text(dec, "\x01")), -1, nil},
		{"decimals of different length", one(text(dec, "\x00\x01")), one(text(dec, "\x01")), 0, nil},
		{"doubles", one(logfile.Ordering{Kind: logfile.OrderingDouble, Float: 1.5}), one(logfile.Ordering{Kind: logfile.OrderingDouble, Float: 1.25}), 1, nil},
		{"tuples, left to right", ordering{num(long, 1), text(str, "b")}, ordering{num(long, 1), text(str, "c")}, -1, nil},
		{"tuples, first part decides", ordering{num(long, 2), text(str, "b")}, ordering{num(long, 1), text(str, "c")}, 1, nil},
		{"tuples, a null behind the part that decides", ordering{num(long, 2), none}, ordering{num(long, 1), text(str, "c")}, 1, nil},
		{"tuples, a null that would have to decide", ordering{num(long, 1), none}, ordering{num(long, 1), text(str, "c")}, 0, storage.ErrUnsupported},
		{"tuples of nulls", ordering{none, none}, ordering{none, none}, 0, nil},
		{"tuples of different length", ordering{num(long, 2)}, ordering{num(long, 1), text(str, "c")}, 0, storage.ErrUnsupported},
	} {
		got, err := test.a.compare(test.b)
		if got != test.want || !errors.Is(err, test.kind) {
			t.Errorf("%s: %d %v, want %d %v", test.name, got, err, test.want, test.kind)
		}
	}
	for _, o := range []ordering{nil, one(none), deleteOrdering(logfile.Ordering{}), deleteOrdering(num(logfile.OrderingInt, 0))} {
		if !o.isDefault() {
			t.Errorf("%v taken for a value", o)
		}
	}
	list := logfile.Ordering{Kind: logfile.OrderingList, Parts: []logfile.Ordering{{}, num(long, 3)}}
	for _, o := range []ordering{one(num(logfile.OrderingInt, 1)), one(num(long, 0)), {none, none}, deleteOrdering(list)} {
		if o.isDefault() {
			t.Errorf("%v taken for none", o)
		}
	}
	if o := deleteOrdering(list); len(o) != 2 || o[0].Kind != none.Kind || o[1].Int != 3 {
		t.Errorf("list %v", o)
	}
}
