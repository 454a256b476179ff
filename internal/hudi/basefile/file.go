package basefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

const (
	magic = "PAR1"
	// trailer is the footer's length and the magic, behind it.
	trailer = 8
	// keepFront is how much of what was read in front of a footer is kept.
	keepFront = 64 << 10
	// maxFooter bounds a footer: 64 MiB. Hudi's are about 0.5 MiB, nearly all of it the bloom filter.
	maxFooter = 64 << 20
	// maxFixed bounds the length of a fixed-length column: 64 MiB, as in avrox.
	maxFixed = 64 << 20
	// bloomKey is the footer entry of Hudi's bloom filter, about 430 KB in every file. Nothing here uses it, so it is not kept.
	bloomKey = "org.apache.hudi.bloomfilter"
	// vectorKey is the footer entry that names the VECTOR columns.
	vectorKey = "hoodie.vector.columns"
)

// File is one open Parquet file: its decoded footer and, once used, its offset indexes. It is safe for concurrent use.
type File struct {
	src     storage.Source
	rows    int64
	footer  map[string]string
	columns map[string]*column
	names   []string
	groups  []rowGroup
	front   front         // in front of the footer
	bytes   *atomic.Int64 // about what footer, front and page indexes take in memory
	pages   *Pages        // of ReadAt; nil: none are kept
	name    string        // among the files that share pages
}

// rowGroup is a run of rows with one chunk a leaf column.
type rowGroup struct {
	first, rows int64 // position of the first row in the file, number of rows
	chunks      []chunk
}

// chunk is one column of one row group: pages one after the other in [start, end).
type chunk struct {
	codec      format.CompressionCodec
	physical   format.Type
	values     int64
	start, end int64
	// index is where the offset index lies; size 0: there is none.
	indexAt, indexSize int64
	index              atomic.Pointer[[]location]
	// bounds is where the column index lies, in the same way.
	boundsAt, boundsSize int64
	bounds               atomic.Pointer[bounds]
}

// Open reads the footer: the last 8 bytes, then exactly the footer. src is read again by every Read and ReadAt.
// Bytes that are no complete Parquet file are storage.ErrCorrupt, an encrypted file is storage.ErrUnsupported.
func Open(ctx context.Context, src storage.Source) (*File, error) { return OpenTail(ctx, src, trailer) }

// OpenTail is Open for a file behind a network, where a request costs more than bytes: it asks for the last tail bytes, a guess of the
// footer and the page indexes in front of it, and once more only if the footer is longer. What was read in front of the footer is kept up
// to 64 KiB, and serves what lies there.
func OpenTail(ctx context.Context, src storage.Source, tail int64) (*File, error) {
	size := src.Size()
	if size < 12 {
		return nil, fmt.Errorf("read Parquet footer: file of %d bytes: %w", size, storage.ErrCorrupt)
	}
	from := size - min(size, max(tail, trailer))
	b, err := src.ReadRange(ctx, from, size-from)
	if err != nil {
		return nil, fmt.Errorf("read Parquet footer: %w", err)
	}
	b, end := b[:len(b)-trailer], b[len(b)-trailer:]
	if string(end[4:]) == "PARE" {
		return nil, fmt.Errorf("read Parquet footer: encrypted: %w", storage.ErrUnsupported)
	}
	if string(end[4:]) != magic {
		return nil, fmt.Errorf("read Parquet footer: file ends in %q, not in %q (cut short?): %w", end[4:], magic, storage.ErrCorrupt)
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if length > size-12 || length > maxFooter {
		return nil, fmt.Errorf("read Parquet footer: length %d in a file of %d bytes: %w", length, size, storage.ErrCorrupt)
	}
	at := size - trailer - length
	if at < from {
		more, err := src.ReadRange(ctx, at, from-at)
		if err != nil {
			return nil, fmt.Errorf("read Parquet footer: %w", err)
		}
		b, from = append(more, b...), at
	}
	before := b[max(0, at-from-keepFront) : at-from]
	kept := front{at - int64(len(before)), bytes.Clone(before)}
	b = b[at-from:]
	var meta format.FileMetaData
	if _, err := unmarshal(b, &meta); err != nil {
		return nil, fmt.Errorf("read Parquet footer: %w", err)
	}
	f := &File{src: fronted{src, kept}, front: kept, rows: meta.NumRows, footer: map[string]string{}, columns: map[string]*column{}, bytes: new(atomic.Int64)}
	for _, kv := range meta.KeyValueMetadata {
		if kv.Key != bloomKey {
			f.footer[clone(kv.Key)] = clone(kv.Value)
		}
	}
	leaves, err := f.addColumns(meta.Schema)
	if err != nil {
		return nil, fmt.Errorf("read Parquet footer: %w", err)
	}
	if err := f.addGroups(&meta, leaves, at); err != nil {
		return nil, fmt.Errorf("read Parquet footer: %w", err)
	}
	f.weigh()
	return f, nil
}

// front is some bytes of a file that are in memory.
type front struct {
	from int64
	b    []byte
}

// fronted is a file with its front.
type fronted struct {
	storage.Source
	front
}

func (s fronted) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if n >= 0 && off >= s.from && off-s.from <= int64(len(s.b))-n {
		return bytes.Clone(s.b[off-s.from:][:n]), nil
	}
	return s.Source.ReadRange(ctx, off, n)
}

// clone copies a string out of the footer's bytes, which hold the bloom filter and must not stay in memory.
func clone(s string) string { return string(append([]byte(nil), s...)) }

// addColumns walks the schema (flattened depth first) and returns the number of leaves.
func (f *File) addColumns(schema []format.SchemaElement) (int, error) {
	if len(schema) == 0 {
		return 0, fmt.Errorf("no schema: %w", storage.ErrCorrupt)
	}
	at, leaves := 1, 0
	for range max(schema[0].NumChildren.V, 0) {
		if at >= len(schema) {
			return 0, fmt.Errorf("schema ends early: %w", storage.ErrCorrupt)
		}
		e := &schema[at]
		c := &column{name: clone(e.Name), leaf: leaves, optional: e.RepetitionType.V == format.Optional, kind: Nested}
		next, n, err := subtree(schema, at, 0)
		if err != nil {
			return 0, err
		}
		if e.NumChildren.V == 0 && e.Type.Valid && e.RepetitionType.V != format.Repeated {
			kind, width, ok := kindOf(e)
			if !ok {
				return 0, fmt.Errorf("column %q: type %v of length %d: %w", c.name, e.Type.V, e.TypeLength.V, storage.ErrCorrupt)
			}
			c.kind, c.width, c.physical = kind, width, e.Type.V
		}
		if _, twice := f.columns[c.name]; twice {
			return 0, fmt.Errorf("column %q twice: %w", c.name, storage.ErrCorrupt)
		}
		f.columns[c.name] = c
		f.names = append(f.names, c.name)
		at, leaves = next, leaves+n
	}
	if at != len(schema) {
		return 0, fmt.Errorf("schema has %d elements too many: %w", len(schema)-at, storage.ErrCorrupt)
	}
	return leaves, nil
}

// subtree returns the index after the element at and its descendants, and how many leaves they hold.
func subtree(schema []format.SchemaElement, at, depth int) (next, leaves int, err error) {
	if at >= len(schema) || depth > maxThriftDepth {
		return 0, 0, fmt.Errorf("schema ends early or nests too deep: %w", storage.ErrCorrupt)
	}
	children := schema[at].NumChildren.V
	next = at + 1
	if children <= 0 {
		return next, 1, nil
	}
	for range children {
		var n int
		if next, n, err = subtree(schema, next, depth+1); err != nil {
			return 0, 0, err
		}
		leaves += n
	}
	return next, leaves, nil
}

// addGroups checks the row groups: every chunk must lie before the footer and every row be counted.
func (f *File) addGroups(meta *format.FileMetaData, leaves int, limit int64) error {
	var first int64
	f.groups = make([]rowGroup, len(meta.RowGroups))
	for i := range meta.RowGroups {
		rg := &meta.RowGroups[i]
		if rg.NumRows < 0 || rg.NumRows > meta.NumRows-first || len(rg.Columns) != leaves {
			return fmt.Errorf("row group %d: %d rows, %d columns of %d: %w", i, rg.NumRows, len(rg.Columns), leaves, storage.ErrCorrupt)
		}
		g := &f.groups[i]
		g.first, g.rows, g.chunks = first, rg.NumRows, make([]chunk, leaves)
		first += rg.NumRows
		for j := range rg.Columns {
			c, m := &rg.Columns[j], &rg.Columns[j].MetaData
			start := m.DataPageOffset
			if m.DictionaryPageOffset > 0 && m.DictionaryPageOffset < start {
				start = m.DictionaryPageOffset
			}
			if c.FilePath != "" {
				return fmt.Errorf("row group %d column %d: data in another file: %w", i, j, storage.ErrUnsupported)
			}
			if start < 0 || m.TotalCompressedSize < 0 || start > limit || m.TotalCompressedSize > limit-start || m.NumValues < 0 {
				return fmt.Errorf("row group %d column %d: %d bytes at %d of %d: %w", i, j, m.TotalCompressedSize, start, limit, storage.ErrCorrupt)
			}
			ch := &g.chunks[j]
			ch.codec, ch.physical, ch.values = m.Codec, m.Type, m.NumValues
			ch.start, ch.end = start, start+m.TotalCompressedSize
			if c.OffsetIndexOffset > 0 && c.OffsetIndexLength > 0 {
				if c.OffsetIndexOffset > limit || int64(c.OffsetIndexLength) > limit-c.OffsetIndexOffset {
					return fmt.Errorf("row group %d column %d: offset index leaves the file: %w", i, j, storage.ErrCorrupt)
				}
				ch.indexAt, ch.indexSize = c.OffsetIndexOffset, int64(c.OffsetIndexLength)
			}
			if c.ColumnIndexOffset > 0 && c.ColumnIndexLength > 0 {
				if c.ColumnIndexOffset > limit || int64(c.ColumnIndexLength) > limit-c.ColumnIndexOffset {
					return fmt.Errorf("row group %d column %d: column index leaves the file: %w", i, j, storage.ErrCorrupt)
				}
				ch.boundsAt, ch.boundsSize = c.ColumnIndexOffset, int64(c.ColumnIndexLength)
			}
		}
	}
	if first != meta.NumRows {
		return fmt.Errorf("row groups hold %d rows, the file says %d: %w", first, meta.NumRows, storage.ErrCorrupt)
	}
	for _, c := range f.columns {
		for i := range f.groups {
			if c.kind != Nested && f.groups[i].chunks[c.leaf].physical != c.physical {
				return fmt.Errorf("row group %d column %q: type differs from the schema: %w", i, c.name, storage.ErrCorrupt)
			}
		}
	}
	return nil
}

// Rows returns the number of rows.
func (f *File) Rows() int64 { return f.rows }

// Footer returns a key-value entry of the footer. The bloom filter is not kept and so never found.
func (f *File) Footer(key string) (string, bool) { v, ok := f.footer[key]; return v, ok }

// Columns returns the names of the top-level columns in file order.
func (f *File) Columns() []string { return append([]string(nil), f.names...) }

// HasColumn says whether the file has a top-level column of that name, nested ones included.
func (f *File) HasColumn(name string) bool { return f.columns[name] != nil }

// ColumnKind says how the column's raw bytes are to be read; None when there is no such column.
func (f *File) ColumnKind(name string) Kind {
	if c := f.columns[name]; c != nil {
		return c.kind
	}
	return None
}

// ColumnWidth returns the bytes of one value of a column whose values all have one length, else 0.
func (f *File) ColumnWidth(name string) int {
	if c := f.columns[name]; c != nil {
		return c.width
	}
	return 0
}

// Vectors returns the VECTOR columns that the footer names (hoodie.vector.columns), in its order; nil when it names none.
// Row-writer files carry no other type information, but the table's schema is the source of truth.
func (f *File) Vectors() ([]avrox.Vector, error) {
	text, ok := f.footer[vectorKey]
	if !ok {
		return nil, nil
	}
	out, err := parseVectors(text)
	if err != nil {
		return nil, fmt.Errorf("read footer entry %s: %w", vectorKey, err)
	}
	for i := range out {
		if c := f.columns[out[i].Column]; c != nil {
			out[i].Nullable = c.optional
		}
	}
	return out, nil
}

// isText says whether a byte array column holds UTF-8 text by its logical or converted type.
func isText(e *format.SchemaElement) bool {
	switch e.LogicalType.Value.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		return true
	}
	return e.ConvertedType.Valid && (e.ConvertedType.V == deprecated.UTF8 || e.ConvertedType.V == deprecated.Enum || e.ConvertedType.V == deprecated.Json)
}
