package delta_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// plain turns a record into the form of the golden files: field name → number, text, list, hex of bytes, bits of
// floating-point numbers.
func plain(rec delta.Record) map[string]any {
	v := reflect.ValueOf(rec).Elem()
	out := map[string]any{}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if rest, ok := strings.CutSuffix(name, "IDs"); ok {
			name = rest + "Ids"
		} else if rest, ok := strings.CutSuffix(name, "ID"); ok {
			name = rest + "Id"
		}
		out[strings.ToLower(name[:1])+name[1:]] = plainValue(v.Field(i))
	}
	return out
}

func plainValue(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case []byte:
		if x == nil {
			return nil
		}
		return hex.EncodeToString(x)
	case []string:
		list := []any{}
		for _, s := range x {
			list = append(list, s)
		}
		return list
	case float32:
		return fmt.Sprintf("%08x", math.Float32bits(x))
	case float64:
		return fmt.Sprintf("%016x", math.Float64bits(x))
	case int32, int64:
		return json.Number(fmt.Sprint(x))
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		return plainValue(v.Elem())
	}
	return v.Interface()
}

// goldenFields unwraps {"bytes_hex": …} and {"v": …, "bits": …}.
func goldenFields(m map[string]any) map[string]any {
	for k, v := range m {
		if w, ok := v.(map[string]any); ok {
			if h, ok := w["bytes_hex"]; ok {
				m[k] = h
			} else {
				m[k] = w["bits"]
			}
		}
	}
	return m
}

type goldenRecord struct {
	Name    string         `json:"name"`
	Branch  int            `json:"union_branch"`
	Fields  map[string]any `json:"fields"`
	Payload hexBytes       `json:"payload_avro_hex"`
	Value   hexBytes       `json:"hfile_value_hex"`
	Full    hexBytes       `json:"record_avro_hex"`

	Dim    int      `json:"dim"`
	Bits   int      `json:"bits"`
	Norm   bool     `json:"has_vector_norm"`
	Center []string `json:"center_bits"`
	Rows   []struct {
		RecordKey string   `json:"record_key"`
		Group     string   `json:"file_group"`
		Instant   string   `json:"instant"`
		Partition string   `json:"partition"`
		Position  int64    `json:"row_position"`
		Vector    []string `json:"vector_bits"`
		Sign      hexBytes `json:"sign_plane_row_hex"`
		Ex        hexBytes `json:"ex_planes_hex"`
	} `json:"input_rows"`
}

func goldenRecords(t testing.TB) (g struct {
	A      []goldenRecord `json:"records_layout_A"`
	Blocks []goldenRecord `json:"posting_blocks_layout_A_and_B"`
	B      []goldenRecord `json:"records_layout_B"`
}) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(testkit.File(t, "golden/vector-index/mdt-records.json")))
	dec.UseNumber()
	if err := dec.Decode(&g); err != nil {
		t.Fatal(err)
	}
	for _, set := range [][]goldenRecord{g.A, g.Blocks, g.B} {
		for _, r := range set {
			goldenFields(r.Fields)
		}
	}
	return g
}

func schema(t testing.TB, layout string) string {
	return string(testkit.File(t, "golden/vector-index/mdt-record-schema-layout-"+layout+".json"))
}

func decoder(t testing.TB, schemaJSON string) *delta.Decoder {
	t.Helper()
	d, err := delta.NewDecoder(schemaJSON)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGoldenRecords(t *testing.T) {
	t.Parallel()
	g := goldenRecords(t)
	own, layoutA := decoder(t, delta.SchemaJSON), decoder(t, schema(t, "A"))
	generic, err := avrox.ParseSchema(delta.SchemaJSON)
	if err != nil {
		t.Fatal(err)
	}
	all := append(g.A, g.Blocks...)
	if len(all) < 30 {
		t.Fatalf("only %d golden records", len(all))
	}
	for _, c := range all {
		stored := append(make([]byte, 5), c.Value...)
		rec, err := own.Decode(stored)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if diff := cmp.Diff(plain(rec), c.Fields); diff != "" {
			t.Errorf("%s: got - want +\n%s", c.Name, diff)
		}
		if got := delta.EncodeRecord([]byte("x"), rec); !bytes.Equal(got[1:], stored) {
			t.Errorf("%s: encoded as\n%x, want\n%x", c.Name, got[1:], stored)
		}
		if got := delta.AppendPayload(nil, rec); !bytes.Equal(got, c.Payload) {
			t.Errorf("%s: payload %x, want %x", c.Name, got, c.Payload)
		}
		for name, d := range map[string]struct {
			dec   *delta.Decoder
			value []byte
		}{"without meta fields": {layoutA, c.Value}, "with its key": {layoutA, c.Full}} {
			other, err := d.dec.Decode(d.value)
			if err != nil {
				t.Errorf("%s %s: %v", c.Name, name, err)
			} else if diff := cmp.Diff(plain(other), plain(rec)); diff != "" {
				t.Errorf("%s %s:\n%s", c.Name, name, diff)
			}
		}
		r, _, err := generic.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if direct, err := delta.Decode(generic, stored); err != nil || !cmp.Equal(plain(direct), plain(rec)) {
			t.Errorf("%s: by schema %v", c.Name, err)
		}
		byName, err := delta.DecodeRecord(r)
		if err != nil || !cmp.Equal(plain(byName), plain(rec)) {
			t.Errorf("%s: by field name %v: %s", c.Name, err, cmp.Diff(plain(byName), plain(rec)))
		}
	}
}

func TestLayoutBIsReadByFieldName(t *testing.T) {
	t.Parallel()
	dec := decoder(t, schema(t, "B"))
	for _, c := range goldenRecords(t).B {
		rec, err := dec.Decode(c.Value)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for name, got := range plain(rec) {
			if want, there := c.Fields[name]; there && !cmp.Equal(got, want) {
				t.Errorf("%s: %s is %v, want %v", c.Name, name, got, want)
			}
		}
	}
}

// TestGoldenFile checks every record of the base file that Hudi's own writer made: decoded fields against what Hudi
// read back, and the bytes after encoding again.
func TestGoldenFile(t *testing.T) {
	t.Parallel()
	src := storage.BytesSource(testkit.File(t, "golden/mdt-files/gzip/vector-index-0000-0_0-0-0_20261130010203004.hfile"))
	r, err := hfile.Open(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if r.Schema() != delta.SchemaJSON {
		t.Fatal("the file's schema text is not ours")
	}
	dec := decoder(t, r.Schema())
	generic, err := avrox.ParseSchema(r.Schema())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(testkit.File(t, "golden/mdt-files/records.jsonl.gz")), []byte("\n"))
	n := 0
	for cell, err := range r.Scan(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := dec.Decode(cell.Value)
		if err != nil {
			t.Fatal(err)
		}
		if got := delta.EncodeRecord(nil, rec); !bytes.Equal(got, cell.Value) {
			t.Fatalf("record %d: encoded as %x, want %x", n, got, cell.Value)
		}
		var want struct {
			Key   hexBytes        `json:"hfile_key_hex"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(lines[n], &want); err != nil {
			t.Fatal(err)
		}
		if key := hfile.EncodeKey(cell.Key); !bytes.Equal(key, want.Key) && !bytes.Equal(cell.Key, want.Key) {
			t.Fatalf("record %d: key %x, want %x", n, cell.Key, want.Key)
		}
		got := plain(rec)
		if read := floats(t, rec, want.Value); fmt.Sprint(read) != fmt.Sprint(got) {
			t.Fatalf("record %d: want - got +\n%s", n, cmp.Diff(read, got))
		}
		if n%4 != 0 {
			n++
			continue // goavro is slow, and the records are of few kinds
		}
		native, _, err := generic.Decode(cell.Value)
		if err != nil {
			t.Fatal(err)
		}
		if byName, err := delta.DecodeRecord(native); err != nil || fmt.Sprint(plain(byName)) != fmt.Sprint(got) {
			t.Fatalf("record %d: the two decoders differ: %v", n, err)
		}
		n++
	}
	if n != len(lines) || n != 6068 {
		t.Errorf("got %d records, want %d", n, len(lines))
	}
}

// floats parses what Hudi read back; its floats are decimals, so they go through the type of our field.
func floats(t *testing.T, rec delta.Record, raw json.RawMessage) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(rec).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		name = strings.ToLower(name[:1]) + name[1:]
		num, ok := m[name].(json.Number)
		if !ok {
			continue
		}
		typ := v.Type().Field(i).Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		f, _ := num.Float64()
		switch typ.Kind() {
		case reflect.Float32:
			m[name] = fmt.Sprintf("%08x", math.Float32bits(float32(f)))
		case reflect.Float64:
			m[name] = fmt.Sprintf("%016x", math.Float64bits(f))
		}
	}
	return m
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	own := decoder(t, delta.SchemaJSON)
	good := delta.EncodeRecord(nil, &delta.Tombstone{DeleteInstant: "1", DeleteReason: delta.ReasonManual})
	head := func(tail ...byte) []byte { return append([]byte{0, 0, 0, 0, 0, 0}, tail...) }
	for name, c := range map[string]struct {
		value []byte
		kind  error
	}{
		"empty":                     {nil, storage.ErrCorrupt},
		"cut":                       {good[:len(good)-1], storage.ErrCorrupt},
		"bytes after":               {append(bytes.Clone(good), 0), storage.ErrCorrupt},
		"files record":              {head(4, 2), storage.ErrUnsupported},
		"null payload":              {head(16, 0, 0, 0, 0, 0, 0), storage.ErrUnsupported},
		"branch out of range":       {head(16, 0, 0, 0, 0, 0, 20), storage.ErrCorrupt},
		"meta union out of range":   {[]byte{4}, storage.ErrCorrupt},
		"endless integer":           {bytes.Repeat([]byte{0xff}, 20), storage.ErrCorrupt},
		"length over the end":       {head(16, 0, 0, 0, 0, 0, 16, 0xfe, 0xff, 0xff, 0xff, 0x0f), storage.ErrCorrupt},
		"array longer than the end": {head(16, 0, 0, 0, 0, 0, 14, 0, 2, 0xfe, 0xff, 0x03), storage.ErrCorrupt},
	} {
		if rec, err := own.Decode(c.value); !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, %v", name, rec, err)
		}
	}
	layoutA := decoder(t, schema(t, "A"))
	if _, err := layoutA.Decode([]byte{0, 16, 0, 0, 0, 0, 0, 0}); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("null payload by field name: %v", err)
	}
	if _, err := layoutA.Decode([]byte{0}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("cut record by field name: %v", err)
	}
	if _, err := layoutA.Decode(append(bytes.Clone(good[5:]), 0)); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("bytes after the record by field name: %v", err)
	}
	if _, err := delta.NewDecoder("{"); err == nil {
		t.Error("a schema that is no JSON was taken")
	}
	for name, rec := range map[string]avrox.Record{
		"unknown payload":       {"VectorIndexMetadata": avrox.Record{"x": int32(1)}},
		"manifest without dim":  {"VectorIndexMetadata": avrox.Record{"generationId": "1"}},
		"block without planes":  {"VectorIndexMetadata": avrox.Record{"numVectors": int32(1)}},
		"delta without factors": {"VectorIndexMetadata": avrox.Record{"binaryCode": []byte{1}}},
	} {
		if _, err := delta.DecodeRecord(rec); !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rec, err := delta.DecodeRecord(avrox.Record{"VectorIndexMetadata": avrox.Record{"sourceInstant": "7"}}); err != nil || rec.(*delta.SourceInstantMarker).DataInstant != "7" {
		t.Errorf("marker of another layout: %v, %v", rec, err)
	}
}

func TestMetaFieldsMayBeFilled(t *testing.T) {
	t.Parallel()
	good := delta.EncodeRecord(nil, &delta.SourceInstantMarker{DataInstant: "1"})
	filled := append([]byte{2, 2, 'a', 0, 0, 0, 0}, good[5:]...)
	rec, err := decoder(t, delta.SchemaJSON).Decode(filled)
	if err != nil || rec.(*delta.SourceInstantMarker).DataInstant != "1" {
		t.Errorf("got %v, %v", rec, err)
	}
	sized := append(append([]byte{}, good[:5]...), 0, 16, 0, 0, 0, 0, 0, 14, 0, 2, 3, 8, 2, 'x', 2, 'y', 0, 2, 0, 0, 0, 0)
	rec, err = decoder(t, delta.SchemaJSON).Decode(sized)
	if err != nil || !cmp.Equal(rec.(*delta.ClusterStats).FileGroupIDs, []string{"x", "y"}) {
		t.Errorf("array with a byte size: got %v, %v", rec, err)
	}
}
