package avrox_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// pickedPaths are paths into the schema vectors, some of which it does not have.
var pickedPaths = []string{"_hoodie_record_key", "ts", "price", "a", "b", "c", "tags", "one", "any", "any.x", "any.y", "again", "again.x", "color", "no", "no.x", "ts.x"}

// pickedOf is what a Picker says of a value that a Projection gives; there says that the schema has it.
func pickedOf(v any, there bool) string {
	switch x := v.(type) {
	case nil:
		if there {
			return "null 0 \"\""
		}
		return " 0 \"\""
	case int64:
		return fmt.Sprintf("long %d \"\"", x)
	case int32:
		return fmt.Sprintf("int %d \"\"", x)
	case string:
		return fmt.Sprintf("string 0 %q", x)
	case []byte:
		return fmt.Sprintf("bytes 0 %q", x)
	case bool:
		return "boolean 0 \"\""
	case float32:
		return "float 0 \"\""
	case float64:
		return "double 0 \"\""
	case []any:
		return "array 0 \"\""
	case map[string]any:
		return "map 0 \"\""
	}
	return "record 0 \"\""
}

func samePicks(t *testing.T, s *avrox.Schema, bin []byte) (ok bool) {
	t.Helper()
	p, err := s.Pick(pickedPaths...)
	if err != nil {
		t.Fatal(err)
	}
	top := []string{"_hoodie_record_key", "ts", "price", "a", "b", "c", "tags", "one", "any", "again", "color"}
	proj, err := s.Project(top...)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]any, len(top))
	wantErr := proj.Decode(bin, values)
	got := make([]avrox.Picked, len(pickedPaths))
	err = p.Decode(bin, got)
	if (err == nil) != (wantErr == nil) || err != nil && !errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("%x: %v, want %v", bin, err, wantErr)
	}
	if err != nil {
		return false
	}
	want := map[string]string{}
	for i, name := range top {
		want[name] = pickedOf(values[i], true)
		if r, is := values[i].(avrox.Record); is {
			want[name+".x"] = pickedOf(r["x"], true)
		}
	}
	for i, path := range pickedPaths {
		kind := got[i].Type
		switch kind {
		case avrox.Enum:
			kind = avrox.String
		case avrox.Fixed:
			kind = avrox.Bytes
		}
		w := want[path]
		if w == "" {
			w = pickedOf(nil, false)
		}
		if text := fmt.Sprintf("%s %d %q", kind, got[i].Int, got[i].Bytes); text != w {
			t.Fatalf("%x: %s is %s, want %s", bin, path, text, w)
		}
	}
	return true
}

// What is picked is what a Projection reads, of whole records and of cut and changed ones.
func TestPickAgreesWithProjection(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	b := encode(t, vectors, sample())
	good := 0
	for i := range b {
		if samePicks(t, s, b[:i]) {
			good++
		}
		for _, mask := range []byte{1, 2, 3, 4, 6, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[i] ^= mask
			if samePicks(t, s, c) {
				good++
			}
		}
	}
	if !samePicks(t, s, b) || good < 100 {
		t.Errorf("%d records", good)
	}
}

func FuzzPick(f *testing.F) {
	f.Add([]byte{2, 4, 'k', '1', 2, 13, 0, 4, 1, 2})
	s, err := avrox.ParseSchema(vectors)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bin []byte) { samePicks(t, s, bin) })
}

func TestPickRefuses(t *testing.T) { // not parallel: it counts allocations
	s := parse(t, vectors)
	if _, err := s.Pick("ts", "ts"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("a path twice: %v", err)
	}
	if _, err := parse(t, `"int"`).Pick("x"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("no record: %v", err)
	}
	p, err := s.Pick("ts")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Decode([]byte{0, 0}, nil); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("no place for the value: %v", err)
	}
	out, bin := make([]avrox.Picked, 1), []byte{0, 2, 13}
	if n := testing.AllocsPerRun(100, func() { _ = p.Decode(bin, out) }); n != 0 || out[0].Int != -7 {
		t.Errorf("%v allocations, %+v", n, out[0])
	}
	if v, ok := out[0].Long(); !ok || v != -7 {
		t.Errorf("long %d, %v", v, ok)
	}
}
