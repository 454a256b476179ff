package basefiletest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sort"
	"testing"

	"tidemark/internal/hudi/basefile"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
)

// Column is one column with its values in the raw form that basefile hands out; nil is null.
type Column struct {
	Name     string
	Kind     basefile.Kind
	Width    int  // of Fixed
	Required bool // no nulls
	// PageRows is the number of rows of this column's pages. Defaults to that of the file.
	PageRows int
	// At makes value i instead of Values, of which there are Rows in the file then.
	At func(i int) []byte
	// Encoding is "plain", "dict", "delta", "delta_length" or "split". Defaults to "plain".
	Encoding string
	Values   [][]byte
}

// Config is the shape of the file. The zero value works.
type Config struct {
	// PageRows is the number of rows of a page. Defaults to one page a row group.
	PageRows int
	// GroupRows is the number of rows of a row group. Defaults to one row group.
	GroupRows int
	// Rows is the number of rows where columns have At. Defaults to the number of Values.
	Rows int
	// Version is the version of the data pages, 1 or 2. Defaults to 1.
	Version int
	// Codec is "none", "gzip", "snappy" or "zstd". Defaults to "gzip".
	Codec string
	// Footer holds key-value entries.
	Footer map[string]string
}

// Write returns a Parquet file of the columns, which it holds in the order of their names.
func Write(t testing.TB, cfg Config, columns ...Column) []byte {
	t.Helper()
	var out bytes.Buffer
	WriteTo(t, &out, cfg, columns...)
	return out.Bytes()
}

// WriteTo is Write for files that are too large to be held.
func WriteTo(t testing.TB, out io.Writer, cfg Config, columns ...Column) {
	t.Helper()
	columns = append([]Column(nil), columns...)
	sort.Slice(columns, func(i, j int) bool { return columns[i].Name < columns[j].Name })
	group, rows := parquet.Group{}, cfg.Rows
	for i := range columns {
		c := &columns[i]
		group[c.Name] = node(t, *c)
		if c.At == nil {
			rows = len(c.Values)
			c.At = func(i int) []byte { return c.Values[i] }
		}
		if c.PageRows == 0 {
			c.PageRows = cfg.PageRows
		}
	}
	opts := []parquet.WriterOption{
		parquet.NewSchema("test", group),
		parquet.Compression(map[string]compress.Codec{"": &parquet.Gzip, "gzip": &parquet.Gzip, "none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "zstd": &parquet.Zstd}[cfg.Codec]),
		parquet.DataPageVersion(max(cfg.Version, 1)),
		parquet.WriteBufferSize(0),
		parquet.PageBufferSize(8 << 20),
	}
	for k, v := range cfg.Footer {
		opts = append(opts, parquet.KeyValueMetadata(k, v))
	}
	w := parquet.NewWriter(out, opts...)
	leaves := w.ColumnWriters()
	for from := 0; from < rows; {
		to := rows
		if cfg.GroupRows > 0 {
			to = min(rows, from+cfg.GroupRows)
		}
		for i, c := range columns {
			for at := from; at < to; {
				end := to
				if c.PageRows > 0 {
					end = min(to, at+c.PageRows)
				}
				var vals []parquet.Value
				for ; at < end; at++ {
					vals = append(vals, value(c, c.At(at), i))
				}
				if _, err := leaves[i].WriteRowValues(vals); err != nil {
					t.Fatal(err)
				}
				if err := leaves[i].Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func node(t testing.TB, c Column) parquet.Node {
	t.Helper()
	var n parquet.Node
	switch c.Kind {
	case basefile.Bool:
		n = parquet.Leaf(parquet.BooleanType)
	case basefile.Int32:
		n = parquet.Leaf(parquet.Int32Type)
	case basefile.Int64:
		n = parquet.Leaf(parquet.Int64Type)
	case basefile.Float:
		n = parquet.Leaf(parquet.FloatType)
	case basefile.Double:
		n = parquet.Leaf(parquet.DoubleType)
	case basefile.String:
		n = parquet.String()
	case basefile.Bytes:
		n = parquet.Leaf(parquet.ByteArrayType)
	case basefile.Fixed:
		n = parquet.Leaf(parquet.FixedLenByteArrayType(c.Width))
	case basefile.Nested:
		return parquet.Optional(parquet.List(parquet.Leaf(parquet.FloatType)))
	default:
		t.Fatalf("column %s: kind %v cannot be written", c.Name, c.Kind)
	}
	if !c.Required {
		n = parquet.Optional(n)
	}
	var enc encoding.Encoding = &parquet.Plain
	switch c.Encoding {
	case "dict":
		enc = &parquet.RLEDictionary
	case "delta":
		if enc = &parquet.DeltaBinaryPacked; c.Kind != basefile.Int32 && c.Kind != basefile.Int64 {
			enc = &parquet.DeltaByteArray
		}
	case "delta_length":
		enc = &parquet.DeltaLengthByteArray
	case "split":
		enc = &parquet.ByteStreamSplit
	}
	return parquet.Encoded(n, enc)
}

func value(c Column, raw []byte, leaf int) parquet.Value {
	def := 1
	if c.Required {
		def = 0
	}
	if raw == nil {
		return parquet.NullValue().Level(0, 0, leaf)
	}
	var v parquet.Value
	switch c.Kind {
	case basefile.Bool:
		v = parquet.BooleanValue(raw[0] != 0)
	case basefile.Int32:
		v = parquet.Int32Value(int32(binary.LittleEndian.Uint32(raw)))
	case basefile.Int64:
		v = parquet.Int64Value(int64(binary.LittleEndian.Uint64(raw)))
	case basefile.Float:
		v = parquet.FloatValue(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	case basefile.Double:
		v = parquet.DoubleValue(math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	case basefile.Fixed:
		v = parquet.FixedLenByteArrayValue(raw)
	default:
		v = parquet.ByteArrayValue(raw)
	}
	return v.Level(0, def, leaf)
}

// Strings turns texts into values; "\x00" stands for null.
func Strings(texts ...string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		if s != "\x00" {
			out[i] = []byte(s)
		}
	}
	return out
}

// Longs turns integers into the raw values of an Int64 column.
func Longs(ints ...int64) [][]byte {
	out := make([][]byte, len(ints))
	for i, n := range ints {
		out[i] = binary.LittleEndian.AppendUint64(nil, uint64(n))
	}
	return out
}

// Keys returns n texts k000, k001, …
func Keys(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, "k%03d", i)
	}
	return out
}
