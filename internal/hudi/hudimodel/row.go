package hudimodel

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
)

// Row is one record.
type Row struct {
	Key  string // "id:…,lang:…" where keys are composite
	TS   int64
	Seq  string // the second ordering value
	Vec  []byte // stored bytes; nil is NULL
	Vec2 []byte // of the second vector column
	// Deleted sets _hoodie_is_deleted, Op the column op.
	Deleted bool
	Op      string
	// Written is the requested time of the commit that last wrote the row, "" for the one that writes it now.
	Written string
}

// Vector is the value of a vector column.
func (r Row) Vector(column string) []byte {
	if column == Vector2 {
		return r.Vec2
	}
	return r.Vec
}

// Hex is stored bytes by their digits.
func Hex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func goText(v any) string {
	switch x := v.(type) {
	case Config:
		return strings.ReplaceAll(fmt.Sprintf("%#v", x), "avrox.", "avrox.Element")
	case []Row:
		var out []string
		for _, r := range x {
			out = append(out, goText(r))
		}
		return strings.Join(out, ", ")
	case Row:
		s := fmt.Sprintf("hudimodel.Row{Key: %q, TS: %d", x.Key, x.TS)
		if x.Seq != "" {
			s += fmt.Sprintf(", Seq: %q", x.Seq)
		}
		if x.Vec != nil {
			s += fmt.Sprintf(", Vec: hudimodel.Hex(%q)", hex.EncodeToString(x.Vec))
		}
		if x.Vec2 != nil {
			s += fmt.Sprintf(", Vec2: hudimodel.Hex(%q)", hex.EncodeToString(x.Vec2))
		}
		if x.Deleted {
			s += ", Deleted: true"
		}
		if x.Op != "" {
			s += fmt.Sprintf(", Op: %q", x.Op)
		}
		if x.Written != "" {
			s += fmt.Sprintf(", Written: %q", x.Written)
		}
		return s + "}"
	}
	return fmt.Sprintf("%#v", v)
}

// deleted says whether the row marks itself as deleted.
func (w *World) deleted(r Row) bool { return r.Deleted || w.Marker && r.Op == "D" }

// CompositeKey is the record key of a row with these key columns; an empty one is written in words.
func CompositeKey(id, lang string) string {
	word := func(s string) string {
		if s == "" {
			return "__empty__"
		}
		return s
	}
	return "id:" + word(id) + ",lang:" + word(lang)
}

// parts are the key columns of a composite key.
func parts(key string) (id, lang string) {
	id, lang, _ = strings.Cut(strings.TrimPrefix(key, "id:"), ",lang:")
	if id == "__empty__" {
		id = ""
	}
	if lang == "__empty__" {
		lang = ""
	}
	return id, lang
}

// hash spreads keys for what depends on them alone.
func hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

func (w *World) nullTS(key string) bool  { return w.Nulls && hash("ts"+key)%3 == 0 }
func (w *World) nullSeq(key string) bool { return w.Nulls && hash("seq"+key)%3 == 0 }

// compare orders two versions of a key by their ordering values.
func (w *World) compare(key string, ts int64, seq string, otherTS int64, otherSeq string) int {
	c := 0
	if !w.nullTS(key) {
		c = cmp.Compare(ts, otherTS)
	}
	if c == 0 && w.TwoOrderings && !w.nullSeq(key) {
		c = strings.Compare(seq, otherSeq)
	}
	return c
}

// price is a value of the column price; nothing depends on it.
func price(key string) float64 { return float64(len(key)) / 4 }

// derived is the value of an extra column.
func derived(c column, key string) any {
	n := hash(c.name + key)
	switch {
	case n%5 == 0:
		return nil
	case c.typ == "int":
		return int32(n % 1000)
	case c.typ == "long":
		return int64(n % 1000)
	}
	return fmt.Sprint(n)
}

const metaColumns = "_hoodie_commit_time _hoodie_commit_seqno _hoodie_record_key _hoodie_partition_path _hoodie_file_name"

func field(name, typ string) string {
	return fmt.Sprintf(`{"name":%q,"type":["null",%s],"default":null}`, name, typ)
}

func (w *World) vectorType() string {
	return fmt.Sprintf(`{"type":"fixed","name":"vector_%s_%d","namespace":"","size":%d,"logicalType":"vector","dimension":%d,"elementType":%q,"storageBacking":"FIXED_BYTES"}`,
		strings.ToLower(string(w.Element)), w.Dim, w.VectorBytes(), w.Dim, w.Element)
}

// names are the table's columns in order, meta columns left out.
func (w *World) names() []string {
	out := []string{"id"}
	if w.Composite {
		out = append(out, "lang")
	}
	for i, c := range w.extra {
		if i%2 == 1 { // some stand in front of the vector, some behind it
			out = append(out, c.name)
		}
	}
	out = append(out, "ts", Vector, "price", isDeleted, "op")
	if w.TwoOrderings {
		out = append(out, "seq")
	}
	if w.Second {
		out = append(out, Vector2)
	}
	for i, c := range w.extra {
		if i%2 == 0 {
			out = append(out, c.name)
		}
	}
	return out
}

func (w *World) typeOf(name string) string {
	switch name {
	case "ts":
		return `"long"`
	case Vector, Vector2:
		return w.vectorType()
	case "price":
		return `"double"`
	case isDeleted:
		return `"boolean"`
	}
	for _, c := range w.extra {
		if c.name == name {
			return `"` + c.typ + `"`
		}
	}
	return `"string"`
}

// schema is the Avro schema of columns, with the meta columns in front if meta.
func (w *World) schema(meta bool, names []string) string {
	var fields []string
	if meta {
		for n := range strings.FieldsSeq(metaColumns) {
			fields = append(fields, field(n, `"string"`))
		}
	}
	named := false
	for _, n := range names {
		typ := w.typeOf(n)
		if typ == w.vectorType() { // its second use is a reference
			if named {
				typ = fmt.Sprintf(`"vector_%s_%d"`, strings.ToLower(string(w.Element)), w.Dim)
			}
			named = true
		}
		fields = append(fields, field(n, typ))
	}
	return `{"type":"record","name":"model_record","namespace":"hoodie.model","fields":[` + strings.Join(fields, ",") + `]}`
}

// value is what a row holds in a column: nil, string, int32, int64, float64, bool or []byte.
func (w *World) value(r Row, name, partition, fileName string) any {
	if w.Virtual && strings.HasPrefix(name, "_hoodie_") && name != isDeleted {
		if strings.HasSuffix(fileName, ".parquet") {
			return "" // a base file; Hudi leaves them empty there and null in logs
		}
		return nil
	}
	switch name {
	case "_hoodie_commit_time":
		return r.Written
	case "_hoodie_commit_seqno":
		return r.Written + "_0_0"
	case "_hoodie_record_key":
		return r.Key
	case "id", "lang":
		if !w.Composite {
			return r.Key
		}
		id, lang := parts(r.Key)
		if name == "id" {
			return id
		}
		return lang
	case "_hoodie_partition_path":
		return partition
	case "_hoodie_file_name":
		return fileName
	case "ts":
		if w.nullTS(r.Key) {
			return nil
		}
		return r.TS
	case "seq":
		if w.nullSeq(r.Key) {
			return nil
		}
		return r.Seq
	case Vector, Vector2:
		v := r.Vector(name)
		if v == nil {
			return nil
		}
		return v
	case "price":
		return price(r.Key)
	case isDeleted:
		return r.Deleted
	case "op":
		if r.Op == "" {
			return nil
		}
		return r.Op
	}
	for _, c := range w.extra {
		if c.name == name {
			return derived(c, r.Key)
		}
	}
	return nil
}

// avro encodes a row by the schema of names with the meta columns in front.
func (w *World) avro(r Row, names []string, partition, fileName string) []byte {
	var b []byte
	text := func(s string) { b = append(binary.AppendVarint(b, int64(len(s))), s...) }
	for _, n := range append(strings.Fields(metaColumns), names...) {
		v := w.value(r, n, partition, fileName)
		if v == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 2)
		switch x := v.(type) {
		case string:
			text(x)
		case int32:
			b = binary.AppendVarint(b, int64(x))
		case int64:
			b = binary.AppendVarint(b, x)
		case float64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		case bool:
			b = append(b, map[bool]byte{true: 1}[x])
		case []byte:
			b = append(b, x...)
		}
	}
	return b
}

// parquet is a file of rows. names are the columns behind the meta columns.
func (w *World) parquet(rows []Row, names []string, partition, fileName string, footer map[string]string, pageRows int) []byte {
	w.tb.Helper()
	var cols []basefiletest.Column
	for _, n := range append(strings.Fields(metaColumns), names...) {
		c := basefiletest.Column{Name: n, Kind: basefile.String}
		switch w.typeOf(n) {
		case `"long"`:
			c.Kind = basefile.Int64
		case `"int"`:
			c.Kind = basefile.Int32
		case `"double"`:
			c.Kind = basefile.Double
		case `"boolean"`:
			c.Kind = basefile.Bool
		}
		if n == Vector || n == Vector2 {
			c.Kind, c.Width = basefile.Fixed, w.VectorBytes()
		}
		for _, r := range rows {
			c.Values = append(c.Values, rawBytes(w.value(r, n, partition, fileName)))
		}
		cols = append(cols, c)
	}
	typ := fmt.Sprintf("VECTOR(%d)", w.Dim)
	if w.Element != avrox.ElementFloat {
		typ = fmt.Sprintf("VECTOR(%d, %s)", w.Dim, w.Element)
	}
	var vectors []string
	for _, n := range names {
		if n == Vector || n == Vector2 {
			vectors = append(vectors, n+":"+typ)
		}
	}
	footer["hoodie.vector.columns"] = strings.Join(vectors, ",")
	return basefiletest.Write(w.tb, basefiletest.Config{PageRows: pageRows, Codec: "none", Footer: footer}, cols...)
}

func rawBytes(v any) []byte {
	switch x := v.(type) {
	case string:
		return []byte(x)
	case int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(x))
	case int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(x))
	case float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
	case bool:
		return []byte{map[bool]byte{true: 1}[x]}
	case []byte:
		return x
	}
	return nil
}
