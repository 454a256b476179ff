package avrox_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// vectors is shaped like the log schema of the fixture two_vectors, with names and types that goavro alone gets wrong.
const vectors = `{"type":"record","name":"two-vectors_record","namespace":"hoodie.two_vectors","fields":[
 {"name":"_hoodie_record_key","type":["null","string"],"doc":"","default":null},
 {"name":"ts","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},
 {"name":"price","type":[{"type":"bytes","logicalType":"decimal","precision":10,"scale":2},"null"],"default":null},
 {"name":"a","type":["null",{"type":"fixed","name":"vector_float_8","namespace":"","size":32,"logicalType":"vector","dimension":8,"elementType":"FLOAT","storageBacking":"FIXED_BYTES"}],"default":null},
 {"name":"b","type":["null","vector_float_8"],"default":null},
 {"name":"c","type":{"type":"fixed","name":"vector_int8_4","namespace":"","size":4,"logicalType":"vector","dimension":4,"elementType":"INT8"}},
 {"name":"odd","type":["null",{"type":"fixed","name":"vector_half_4","size":8,"logicalType":"vector","dimension":4,"elementType":"HALF"}]},
 {"name":"tags","type":{"type":"array","items":["null","string"]}},
 {"name":"one","type":["null",{"type":"map","values":["null","int"]}]},
 {"name":"any","type":["null","int","string",{"type":"record","name":"Inner","fields":[{"name":"x","type":"double"}]}]},
 {"name":"again","type":["null","Inner"]},
 {"name":"color","type":{"type":"enum","name":"color","symbols":["RED","GREEN"]}},
 {"name":"yes","type":"boolean"},
 {"name":"f","type":"float"},
 {"name":"unknown","type":"null"}]}`

func sample() avrox.Record {
	return avrox.Record{
		"_hoodie_record_key": "k1", "ts": int64(-7), "price": []byte{1, 2}, "a": nil, "b": bytes.Repeat([]byte{9}, 32),
		"c": []byte{1, 2, 3, 4}, "odd": nil, "tags": []any{"x", nil, ""}, "one": map[string]any{"string": int32(1)},
		"any": avrox.Record{"x": 0.5}, "again": nil, "color": "GREEN", "yes": true, "f": float32(1.5), "unknown": nil,
	}
}

func encode(t *testing.T, schema string, rec map[string]any) []byte {
	t.Helper()
	b, err := avrox.WriteContainer(schema, rec, [16]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	_, records, err := avrox.ReadContainer(b)
	if err != nil || len(records) != 1 {
		t.Fatalf("read back: %d records, %v", len(records), err)
	}
	// The block is the last thing in the file: count 1, size, data, sync marker.
	head := bytes.Index(b, append([]byte{0}, append([]byte{1}, make([]byte, 15)...)...)) + 17
	size, n := binary.Varint(b[head+1:])
	return b[head+1+n : head+1+n+int(size)]
}

func parse(t *testing.T, text string) *avrox.Schema {
	t.Helper()
	s, err := avrox.ParseSchema(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDecodeUnwrapsBySchema(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	bin := encode(t, vectors, sample())
	got, rest, err := s.Decode(append(bytes.Clone(bin), 7, 7))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("record differs (-want +got):\n%s", diff)
	}
	if !bytes.Equal(rest, []byte{7, 7}) {
		t.Errorf("rest = %x, want 0707", rest)
	}
}

func TestDecodeCopies(t *testing.T) {
	t.Parallel()
	bin := bytes.Clone(encode(t, vectors, sample()))
	got, _, err := parse(t, vectors).Decode(bin)
	if err != nil {
		t.Fatal(err)
	}
	for i := range bin {
		bin[i] = 0xEE
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("record changed with its input:\n%s", diff)
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	want := []avrox.Vector{
		{Column: "a", Dim: 8, Element: avrox.ElementFloat, Nullable: true},
		{Column: "b", Dim: 8, Element: avrox.ElementFloat, Nullable: true},
		{Column: "c", Dim: 4, Element: avrox.ElementInt8},
	}
	if diff := cmp.Diff(want, s.Vectors()); diff != "" {
		t.Errorf("vectors differ (-want +got):\n%s", diff)
	}
	if f, _ := s.Field("odd"); !strings.Contains(f.VectorProblem, "HALF") || f.Vector != nil {
		t.Errorf("odd = %+v, want a problem that names HALF", f)
	}
	if got := want[0].String() + " " + want[2].String(); got != "VECTOR(8) VECTOR(4, INT8)" {
		t.Errorf("types print as %s", got)
	}
	if got := want[0].Bytes(); got != 32 {
		t.Errorf("bytes = %d, want 32", got)
	}
}

func TestVectorAttributes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, attrs string
		size        int
		want        string // type, or the start of the problem
	}{
		{"element type left out", `"dimension":2`, 8, "VECTOR(2)"},
		{"double in lower case", `"dimension":2,"elementType":"double"`, 16, "VECTOR(2, DOUBLE)"},
		{"dimension as text", `"dimension":"2"`, 8, "VECTOR(2)"},
		{"wrong size", `"dimension":2,"elementType":"DOUBLE"`, 8, "vector of 2"},
		{"no dimension", `"elementType":"FLOAT"`, 8, "vector dimension (missing)"},
		{"negative dimension", `"dimension":-2`, 8, "vector dimension -2"},
		{"element type a number", `"dimension":2,"elementType":4`, 8, "vector element type 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, fmt.Sprintf(`{"type":"record","name":"r","fields":[{"name":"v","type":{"type":"fixed","name":"f","size":%d,"logicalType":"vector",%s}}]}`, tt.size, tt.attrs))
			f := s.Fields()[0]
			got := f.VectorProblem
			if f.Vector != nil {
				got = f.Vector.String()
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	for _, want := range []avrox.Field{
		{Name: "ts", Type: avrox.Long, Nullable: true, Logical: "timestamp-micros"},
		{Name: "price", Type: avrox.Bytes, Nullable: true, Logical: "decimal"},
		{Name: "tags", Type: avrox.Array, Items: avrox.String},
		{Name: "any", Type: avrox.Union, Nullable: true},
		{Name: "unknown", Type: avrox.Null, Nullable: true},
	} {
		got, ok := s.Field(want.Name)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("field %s differs (-want +got):\n%s", want.Name, diff)
		}
	}
	if _, ok := s.Field("absent"); ok {
		t.Error("a field that is not there was found")
	}
	if s.Name() != "hoodie.two_vectors.two-vectors_record" || s.Text() != vectors {
		t.Errorf("name %s", s.Name())
	}
	if again := parse(t, vectors); again != s {
		t.Error("equal texts gave two schemas")
	}
}

func TestProjection(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	bin := encode(t, vectors, sample())
	p, err := s.Project("b", "later", "_hoodie_record_key", "one")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]any, 4)
	if err := p.Decode(bin, out); err != nil {
		t.Fatal(err)
	}
	want := []any{bytes.Repeat([]byte{9}, 32), nil, "k1", map[string]any{"string": int32(1)}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("values differ (-want +got):\n%s", diff)
	}
	if p.Has(1) || !p.Has(0) {
		t.Errorf("has = %v %v, want b only", p.Has(0), p.Has(1))
	}
	if err := p.Decode(bin, make([]any, 1)); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("one place for four fields: %v", err)
	}
	if _, err := s.Project("b", "b"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("one name twice: %v", err)
	}
	if _, err := parse(t, `"string"`).Project("b"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("no record: %v", err)
	}
}

// The projection is our own decoder and Decode is goavro's: they must agree on every field.
func TestProjectionAgreesWithDecode(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	bin := encode(t, vectors, sample())
	rec, _, err := s.Decode(bin)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range s.Fields() {
		names = append(names, f.Name)
	}
	p, err := s.Project(names...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]any, len(names))
	if err := p.Decode(bin, out); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if diff := cmp.Diff(rec[name], out[i]); diff != "" {
			t.Errorf("field %s differs (-decode +projection):\n%s", name, diff)
		}
	}
}

func TestProjectionAllocations(t *testing.T) {
	s := parse(t, vectors)
	bin := encode(t, vectors, sample())
	p, err := s.Project("b")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]any, 1)
	if n := testing.AllocsPerRun(100, func() { _ = p.Decode(bin, out) }); n > 2 {
		t.Errorf("%v allocations for one fixed field, want at most 2", n)
	}
}

func TestCutRecordIsCorrupt(t *testing.T) {
	t.Parallel()
	s := parse(t, vectors)
	bin := encode(t, vectors, sample())
	p, err := s.Project("f")
	if err != nil {
		t.Fatal(err)
	}
	for n := range bin {
		if _, _, err := s.Decode(bin[:n]); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("decode %d of %d bytes: %v", n, len(bin), err)
		}
		if err := p.Decode(bin[:n], make([]any, 1)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("project %d of %d bytes: %v", n, len(bin), err)
		}
	}
}

// Lengths that lie: each would make a decoder without checks allocate gigabytes, panic or loop.
func TestLyingLengths(t *testing.T) {
	t.Parallel()
	huge := binary.AppendVarint(nil, 1<<40)
	tests := []struct {
		name, typ string
		bin       []byte
	}{
		{"string longer than the rest", `"string"`, huge},
		{"string of negative length", `"string"`, []byte{1}},
		{"bytes longer than the rest", `"bytes"`, huge},
		{"array of many strings", `{"type":"array","items":"string"}`, huge},
		{"array of many nulls", `{"type":"array","items":"null"}`, []byte{4, 0, 0}},
		{"block count of the smallest number", `{"type":"array","items":"null"}`, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
		{"negative block without size", `{"type":"array","items":"int"}`, []byte{1}},
		{"negative block larger than the rest", `{"type":"map","values":"int"}`, append([]byte{1}, huge...)},
		{"map key longer than the rest", `{"type":"map","values":"int"}`, append([]byte{2}, huge...)},
		{"number of eleven bytes", `"long"`, bytes.Repeat([]byte{0xff}, 11)},
		{"int beyond 32 bits", `"int"`, huge},
		{"boolean 2", `"boolean"`, []byte{2}},
		{"union branch beyond the last", `["null","int"]`, []byte{4}},
		{"union branch negative", `["null","int"]`, []byte{1}},
		{"enum beyond the last", `{"type":"enum","name":"e","symbols":["A"]}`, []byte{2}},
		{"float cut", `"float"`, []byte{1, 2, 3}},
		{"double cut", `"double"`, []byte{1, 2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, `{"type":"record","name":"r","fields":[{"name":"x","type":`+tt.typ+`}]}`)
			if _, _, err := s.Decode(tt.bin); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("decode: %v", err)
			}
			p, err := s.Project("x")
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Decode(tt.bin, make([]any, 1)); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("project: %v", err)
			}
		})
	}
}

func TestNegativeBlocks(t *testing.T) {
	t.Parallel()
	s := parse(t, `{"type":"record","name":"r","fields":[{"name":"x","type":{"type":"array","items":"int"}}]}`)
	rec, rest, err := s.Decode([]byte{3, 4, 2, 4, 2, 6, 0}) // -2 items in 2 bytes: 1, 2; then 1 item: 3; end
	if err != nil || len(rest) != 0 {
		t.Fatal(rest, err)
	}
	if diff := cmp.Diff(avrox.Record{"x": []any{int32(1), int32(2), int32(3)}}, rec); diff != "" {
		t.Error(diff)
	}
}

func TestRecursiveSchemaIsBounded(t *testing.T) {
	t.Parallel()
	s := parse(t, `{"type":"record","name":"list","fields":[{"name":"next","type":["null","list"]}]}`)
	got, _, err := s.Decode([]byte{2, 2, 0})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(avrox.Record{"next": avrox.Record{"next": avrox.Record{"next": nil}}}, got); diff != "" {
		t.Error(diff)
	}
	if _, _, err := s.Decode(append(bytes.Repeat([]byte{2}, 1<<20), 0)); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a million levels: %v", err)
	}
	endless := parse(t, `{"type":"record","name":"endless","fields":[{"name":"self","type":"endless"}]}`)
	if _, _, err := endless.Decode([]byte{0}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a record that contains itself: %v", err)
	}
}

func TestBadSchemas(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":              ``,
		"no JSON":            `{`,
		"text after it":      `"int" "int"`,
		"a number":           `4`,
		"no type":            `{"name":"x"}`,
		"unknown name":       `"uuid"`,
		"record no name":     `{"type":"record","fields":[]}`,
		"field no name":      `{"type":"record","name":"r","fields":[{"type":"int"}]}`,
		"field twice":        `{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`,
		"type twice":         `{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"record","name":"r","fields":[]}}]}`,
		"fixed no size":      `{"type":"fixed","name":"f"}`,
		"fixed negative":     `{"type":"fixed","name":"f","size":-1}`,
		"fixed huge":         `{"type":"fixed","name":"f","size":4294967296}`,
		"empty union":        `[]`,
		"union in a union":   `["null",["int"]]`,
		"array no items":     `{"type":"array"}`,
		"map no values":      `{"type":"map"}`,
		"deep":               strings.Repeat(`{"type":"array","items":`, 100) + `"int"` + strings.Repeat(`}`, 100),
		"deep type objects":  strings.Repeat(`{"type":`, 100) + `"int"` + strings.Repeat(`}`, 100),
		"fields no list":     `{"type":"record","name":"r","fields":7}`,
		"reference too late": `{"type":"record","name":"r","fields":[{"name":"a","type":"f"},{"name":"b","type":{"type":"fixed","name":"f","size":1}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := avrox.ParseSchema(text); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("got %v, want corrupt", err)
			}
		})
	}
}

// Each level holds the one below ten times and none takes a byte: ten to the power of nine values in a short schema.
func TestNestedEmptyRecordsAreRefused(t *testing.T) {
	t.Parallel()
	typ := `{"type":"record","name":"r0","fields":[]}`
	for level := 1; level <= 9; level++ {
		text := fmt.Sprintf(`{"type":"record","name":"r%d","fields":[{"name":"a","type":%s}`, level, typ)
		for i := range 9 {
			text += fmt.Sprintf(`,{"name":"b%d","type":"r%d"}`, i, level-1)
		}
		typ = text + `]}`
	}
	if _, err := avrox.ParseSchema(typ); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v, want corrupt", err)
	}
}

func TestUnsupported(t *testing.T) {
	t.Parallel()
	if _, _, err := parse(t, `"int"`).Decode([]byte{2}); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("not a record: %v", err)
	}
	two := parse(t, `{"type":"record","name":"r","fields":[{"name":"x","type":["int","int"]}]}`)
	if _, _, err := two.Decode([]byte{0, 2}); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("union with one type twice: %v", err)
	}
}

func TestGetters(t *testing.T) {
	t.Parallel()
	r := sample()
	if v, ok := r.Str("_hoodie_record_key"); v != "k1" || !ok {
		t.Error("Str", v, ok)
	}
	if v, ok := r.Long("ts"); v != -7 || !ok {
		t.Error("Long", v, ok)
	}
	if v, ok := (avrox.Record{"i": int32(3)}).Long("i"); v != 3 || !ok {
		t.Error("Long of int", v, ok)
	}
	if v, ok := (avrox.Record{"i": int32(3)}).Int("i"); v != 3 || !ok {
		t.Error("Int", v, ok)
	}
	if v, ok := r.Bool("yes"); !v || !ok {
		t.Error("Bool", v, ok)
	}
	if v, ok := r.Float("f"); v != 1.5 || !ok {
		t.Error("Float", v, ok)
	}
	if v, ok := r.Bytes("c"); len(v) != 4 || !ok {
		t.Error("Bytes", v, ok)
	}
	if v, ok := r.Rec("any"); v["x"] != 0.5 || !ok {
		t.Error("Rec", v, ok)
	}
	if v, ok := r.List("tags"); len(v) != 3 || !ok {
		t.Error("List", v, ok)
	}
	if v, ok := r.Map("one"); len(v) != 1 || !ok {
		t.Error("Map", v, ok)
	}
	if _, ok := r.Str("a"); ok {
		t.Error("null is a string")
	}
	if _, ok := r.Long("absent"); ok {
		t.Error("a missing field is a number")
	}
}

func TestContainerOfARealCommitRoundTrips(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(firstCommit(t))
	if err != nil {
		t.Fatal(err)
	}
	schema, records, err := avrox.ReadContainer(raw)
	if err != nil {
		t.Fatal(err)
	}
	var sync [16]byte
	copy(sync[:], raw[len(raw)-16:])
	out, err := avrox.WriteContainer(schema.Text(), records[0], sync)
	if err != nil {
		t.Fatal(err)
	}
	again, err := avrox.WriteContainer(schema.Text(), records[0], sync)
	if err != nil || !bytes.Equal(out, again) {
		t.Fatal("two writes of one record differ", err)
	}
	_, back, err := avrox.ReadContainer(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(records, back); diff != "" {
		t.Errorf("record differs:\n%s", diff)
	}
}

func firstCommit(t *testing.T) string {
	t.Helper()
	dir := testkit.Table(t, "cow_basic") + "/.hoodie/timeline/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".commit") {
			return dir + e.Name()
		}
	}
	t.Fatal("no commit")
	return ""
}

func TestDamagedContainer(t *testing.T) {
	t.Parallel()
	whole, err := avrox.WriteContainer(vectors, sample(), [16]byte{5})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := avrox.ReadContainer(nil); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("empty file: %v", err)
	}
	for n := 1; n < len(whole); n++ {
		_, records, err := avrox.ReadContainer(whole[:n])
		if err == nil && len(records) == 0 {
			continue // cut exactly behind the header
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	marker := bytes.Clone(whole)
	marker[len(marker)-1] ^= 1
	if _, _, err := avrox.ReadContainer(marker); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("sync marker flipped: %v", err)
	}
	longer := append(bytes.Clone(whole), 0)
	if _, _, err := avrox.ReadContainer(longer); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a byte after the end: %v", err)
	}
}

func container(codec string, count, claimed int, data []byte) []byte {
	const schema = `{"type":"record","name":"r","fields":[{"name":"x","type":"int"}]}`
	out := append([]byte{}, avrox.Magic...)
	out = binary.AppendVarint(out, 2)
	for _, s := range []string{"avro.schema", schema, "avro.codec", codec} {
		out = append(binary.AppendVarint(out, int64(len(s))), s...)
	}
	out = append(out, 0)
	sync := bytes.Repeat([]byte{3}, 16)
	out = append(out, sync...)
	out = binary.AppendVarint(out, int64(count))
	out = binary.AppendVarint(out, int64(claimed))
	return append(append(out, data...), sync...)
}

func TestContainerCodecs(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, 9)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte{2, 4})
	_ = w.Close()
	_, records, err := avrox.ReadContainer(container("deflate", 2, packed.Len(), packed.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]avrox.Record{{"x": int32(1)}, {"x": int32(2)}}, records); diff != "" {
		t.Error(diff)
	}
	if _, _, err := avrox.ReadContainer(container("deflate", 2, 2, []byte{0xff, 0xff})); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("damaged deflate: %v", err)
	}
	if _, _, err := avrox.ReadContainer(container("snappy", 1, 1, []byte{2})); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("snappy: %v", err)
	}
	for name, b := range map[string][]byte{
		"count too high": container("null", 9, 2, []byte{2, 4}),
		"count too low":  container("null", 1, 2, []byte{2, 4}),
		"count negative": container("null", -1, 1, []byte{2}),
		"count huge":     container("null", 1<<40, 1, []byte{2}),
		"size too high":  container("null", 1, 1<<40, []byte{2}),
	} {
		if _, _, err := avrox.ReadContainer(b); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriteContainerRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(avrox.Record)
	}{
		{"text for a long", func(r avrox.Record) { r["ts"] = "now" }},
		{"null where there is no null", func(r avrox.Record) { r["yes"] = nil }},
		{"missing field without null", func(r avrox.Record) { delete(r, "f") }},
		{"field it does not have", func(r avrox.Record) { r["extra"] = 1 }},
		{"fixed of wrong size", func(r avrox.Record) { r["c"] = []byte{1} }},
		{"unknown symbol", func(r avrox.Record) { r["color"] = "BLUE" }},
		{"list item of wrong type", func(r avrox.Record) { r["tags"] = []any{1} }},
		{"list for a map", func(r avrox.Record) { r["one"] = []any{1} }},
		{"map for a list", func(r avrox.Record) { r["tags"] = map[string]any{} }},
		{"map value of wrong type", func(r avrox.Record) { r["one"] = map[string]any{"a": 1.5} }},
		{"int beyond 32 bits", func(r avrox.Record) { r["one"] = map[string]any{"a": int64(1) << 40} }},
		{"value for null", func(r avrox.Record) { r["unknown"] = 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := sample()
			tt.change(r)
			if _, err := avrox.WriteContainer(vectors, r, [16]byte{}); !errors.Is(err, storage.ErrUnsupported) {
				t.Errorf("got %v, want unsupported", err)
			}
		})
	}
	if _, err := avrox.WriteContainer(`{`, nil, [16]byte{}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("bad schema: %v", err)
	}
}

func TestWriteContainerTakesPlainGoValues(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"record","name":"r","fields":[{"name":"m","type":{"type":"map","values":"string"}},{"name":"l","type":["null",{"type":"array","items":"string"}]},{"name":"e","type":{"type":"map","values":"int"}},{"name":"no","type":"boolean"},{"name":"d","type":["null","int"]}]}`
	rec := map[string]any{"m": map[string]string{"b": "2", "a": "1"}, "l": []string{"x"}, "e": map[string]any{}, "no": false, "d": 7}
	b, err := avrox.WriteContainer(schema, rec, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := avrox.ReadContainer(b)
	if err != nil {
		t.Fatal(err)
	}
	want := avrox.Record{"m": map[string]any{"a": "1", "b": "2"}, "l": []any{"x"}, "e": map[string]any{}, "no": false, "d": int32(7)}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
}

func TestInterningIsBounded(t *testing.T) {
	t.Parallel()
	for i := range 2000 {
		parse(t, fmt.Sprintf(`{"type":"fixed","name":"f%d","size":1}`, i))
	}
}

func FuzzContainer(f *testing.F) {
	whole, err := avrox.WriteContainer(vectors, sample(), [16]byte{5})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(container("deflate", 1, 2, []byte{3, 0}))
	f.Add(container("null", 1, 1, []byte{2}))
	f.Add(testkit.File(f, "hudi-rs/commit_metadata/v8_deltacommit.avro"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := avrox.ReadContainer(b); err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("error of no kind: %v", err)
		}
	})
}

// FuzzRecord checks that nothing panics and that goavro and the projection agree on what they accept, but for a map that
// has a key twice: goavro refuses it, the projection steps over it unread, as Avro for Java takes the last one.
func FuzzRecord(f *testing.F) {
	s, err := avrox.ParseSchema(vectors)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	var names []string
	for _, field := range s.Fields() {
		names = append(names, field.Name)
	}
	p, err := s.Project(names...)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out := make([]any, len(names))
		rec, _, decodeErr := s.Decode(b)
		if decodeErr != nil && strings.Contains(decodeErr.Error(), "duplicate key") {
			return
		}
		if err := p.Decode(b, out); (err == nil) != (decodeErr == nil) {
			t.Fatalf("decode: %v, projection: %v", decodeErr, err)
		}
		for i, name := range names {
			if decodeErr == nil && fmt.Sprint(rec[name]) != fmt.Sprint(out[i]) {
				t.Errorf("field %s: %v and %v", name, rec[name], out[i])
			}
		}
	})
}
