package arrowx_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/ipc"

	"tidemark/internal/arrowx"
)

func TestWriteIsReadBack(t *testing.T) {
	t.Parallel()
	columns := []arrowx.Column{
		{Name: "key", Values: []any{"a", nil, "é"}},
		{Name: "distance", Values: []any{1.5, float32(2), int32(3)}},
		{Name: "rank", Values: []any{1, uint64(2), int8(-3)}},
		{Name: "big", Values: []any{uint64(math.MaxUint64), nil, nil}},
		{Name: "ok", Values: []any{true, false, nil}},
		{Name: "raw", Values: []any{[]byte{1}, []byte{}, nil}},
		{Name: "mixed", Values: []any{1, "x", true}},
		{Name: "nothing", Values: []any{nil, nil, nil}},
	}
	want := []string{`utf8 ["a" (null) "é"]`, "float64 [1.5 2 3]", "int64 [1 2 -3]", `utf8 ["18446744073709551615" (null) (null)]`, "bool [true false (null)]",
		`binary ["\x01" "" (null)]`, `utf8 ["1" "x" "true"]`, "null [(null) (null) (null)]"}
	var buf bytes.Buffer
	if err := arrowx.Write(&buf, columns, map[string]string{"snapshot": "1"}); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	md := r.Schema().Metadata()
	if got, ok := md.GetValue("snapshot"); !ok || got != "1" {
		t.Errorf("metadata: %v", md)
	}
	for r.Next() {
		for i, c := range r.Record().Columns() {
			if got := fmt.Sprint(c.DataType(), " ", c); got != want[i] {
				t.Errorf("%s: got %s, want %s", columns[i].Name, got, want[i])
			}
		}
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
	if err := arrowx.Write(&buf, []arrowx.Column{{Name: "a", Values: []any{1}}, {Name: "b"}}, nil); err == nil {
		t.Error("columns of two lengths were written")
	}
}

// Many rows come in several batches; none gives a stream with a schema.
func TestWriteBatches(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 16_384, 40_000} {
		var buf bytes.Buffer
		if err := arrowx.Write(&buf, []arrowx.Column{{Name: "n", Values: make([]any, n)}}, nil); err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewReader(&buf)
		if err != nil {
			t.Fatal(err)
		}
		rows, batches := 0, 0
		for r.Next() {
			rows += int(r.Record().NumRows())
			batches++
		}
		if r.Err() != nil || rows != n || batches != (n+16_383)/16_384 || r.Schema().NumFields() != 1 {
			t.Errorf("got %d of %d rows in %d batches, %v", rows, n, batches, r.Err())
		}
		r.Release()
	}
}
