package hudimodel

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
)

// Kind is what a log block holds.
type Kind int

// The kinds of block.
const (
	Avro Kind = iota
	Parquet
	HFile
	Deletes
)

// Block is one block of a log file.
type Block struct {
	Kind Kind
	// Rows are the records, in the order of the block. An HFile block holds a key once and is sorted by key.
	Rows []Row
	// Keys are the entries of a delete block.
	Keys []Delete
	// Partial says that the rows hold only these columns beside key and commit time. nil: all columns.
	Partial []string
	// Positions asks for record positions. They are written when every key is in the base file of the writer's slice; the
	// records are then in the order of their positions.
	Positions bool
}

// Delete is an entry of a delete block.
type Delete struct {
	Key string
	// Ordered says that the entry carries TS (and Seq) as ordering value; without it the delete is one by commit time.
	Ordered bool
	TS      int64
	Seq     string
}

func (b Block) goText() string {
	kind := [...]string{"Avro", "Parquet", "HFile", "Deletes"}[b.Kind]
	s := "hudimodel.Block{Kind: hudimodel." + kind
	if len(b.Rows) > 0 {
		s += ", Rows: []hudimodel.Row{" + goText(b.Rows) + "}"
	}
	if len(b.Keys) > 0 {
		s += fmt.Sprintf(", Keys: %#v", b.Keys)
	}
	if b.Partial != nil {
		s += fmt.Sprintf(", Partial: %#v", b.Partial)
	}
	if b.Positions {
		s += ", Positions: true"
	}
	return s + "}"
}

// settle brings the records into the order in which the block stores them, and returns their positions if it has them.
func (b *Block) settle(base *file) []int64 {
	if b.Kind == HFile {
		byKey := map[string]Row{}
		for _, r := range b.Rows {
			byKey[r.Key] = r
		}
		b.Rows = nil
		for _, r := range byKey {
			b.Rows = append(b.Rows, r)
		}
		slices.SortFunc(b.Rows, func(x, y Row) int { return strings.Compare(x.Key, y.Key) })
		return nil
	}
	if !b.Positions || base == nil {
		return nil
	}
	where := map[string]int64{}
	for i, r := range base.rows {
		if _, twice := where[r.Key]; !twice { // of several copies a writer knows one
			where[r.Key] = int64(i)
		}
	}
	var at []int64
	for _, k := range b.keys() {
		p, ok := where[k]
		if !ok || slices.Contains(at, p) {
			return nil
		}
		at = append(at, p)
	}
	slices.SortFunc(b.Rows, func(x, y Row) int { return cmp.Compare(where[x.Key], where[y.Key]) })
	slices.SortFunc(b.Keys, func(x, y Delete) int { return cmp.Compare(where[x.Key], where[y.Key]) })
	slices.Sort(at)
	return at
}

func (b *Block) keys() []string {
	var out []string
	for _, r := range b.Rows {
		out = append(out, r.Key)
	}
	for _, d := range b.Keys {
		out = append(out, d.Key)
	}
	return out
}

// encode returns the block's bytes. compacted are the instants that a log compaction merged.
func (w *World) encode(b Block, t *Txn, partition, id, baseInstant string, at []int64, compacted []string) []byte {
	w.tb.Helper()
	names := w.names()
	if b.Partial != nil {
		names = b.Partial
	}
	schema := w.schema(true, names)
	header := []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: t.Requested}, {Key: logfile.SchemaKey, Value: schema}}
	if len(compacted) > 0 {
		header = append(header, logfile.HeaderEntry{Key: logfile.CompactedBlockTimes, Value: strings.Join(compacted, ",")})
	}
	if b.Partial != nil {
		header = append(header, logfile.HeaderEntry{Key: logfile.IsPartial, Value: "true"})
	}
	if len(at) > 0 {
		header = append(header, logfile.HeaderEntry{Key: logfile.RecordPositions, Value: positions(at)},
			logfile.HeaderEntry{Key: logfile.PositionsBaseInstant, Value: baseInstant})
	}
	switch b.Kind {
	case Deletes:
		var list []logfile.Delete
		for _, d := range b.Keys {
			e := logfile.Delete{Key: d.Key, Partition: partition}
			if d.Ordered {
				e.Ordering = w.ordering(d)
			}
			list = append(list, e)
		}
		return logfile.AppendBlock(nil, logfile.TypeDelete, header, logfile.DeleteContent(nil, list))
	case Parquet:
		return logfile.AppendBlock(nil, logfile.TypeParquet, header, w.parquet(b.Rows, names, partition, id, map[string]string{"parquet.avro.schema": schema}, 0))
	case HFile:
		hw := hfile.NewWriter(hfile.Config{Schema: schema})
		for _, r := range b.Rows {
			if err := hw.Append([]byte(r.Key), w.avro(r, names, partition, id)); err != nil {
				w.tb.Fatalf("model: %v", err)
			}
		}
		content, err := hw.Finish()
		if err != nil {
			w.tb.Fatalf("model: %v", err)
		}
		return logfile.AppendBlock(nil, logfile.TypeHFile, header, content)
	}
	var recs [][]byte
	for _, r := range b.Rows {
		recs = append(recs, w.avro(r, names, partition, id))
	}
	return logfile.AppendBlock(nil, logfile.TypeAvro, header, logfile.AvroContent(nil, recs))
}

// ordering is the ordering value of a delete that has one.
func (w *World) ordering(d Delete) logfile.Ordering {
	ts, seq := logfile.Ordering{Kind: logfile.OrderingLong, Int: d.TS}, logfile.Ordering{Kind: logfile.OrderingString, Bytes: []byte(d.Seq)}
	if w.nullTS(d.Key) {
		ts = logfile.Ordering{Null: true}
	}
	if w.nullSeq(d.Key) {
		seq = logfile.Ordering{}
	}
	if w.TwoOrderings {
		return logfile.Ordering{Kind: logfile.OrderingList, Parts: []logfile.Ordering{ts, seq}}
	}
	return ts
}

// changeData writes the file of CDC blocks that a rewrite of a group leaves beside the base file, and returns what the write stat says of it.
func (t *Txn) changeData(partition, id string, rows []Row) map[string]any {
	const schema = `{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},{"name":"record_key","type":["string","null"]}]}`
	var recs [][]byte
	for _, r := range rows {
		b := append(binary.AppendVarint([]byte{0}, 1), 'u')
		b = binary.AppendVarint(append(b, 0), int64(len(r.Key)))
		recs = append(recs, append(b, r.Key...))
	}
	header := []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: t.Requested}, {Key: logfile.SchemaKey, Value: schema}}
	content := logfile.AppendBlock(nil, logfile.TypeCDC, header, logfile.AvroContent(nil, recs))
	path := join(partition, fmt.Sprintf(".%s_%s.log.1_%s.cdc", id, t.Requested, t.token()))
	t.strays = append(t.strays, path) // a rollback deletes it
	t.w.put(path, content)
	return map[string]any{path: len(content)}
}

// keyRange is the smallest and largest record key as the writer compares them: Java's strings by UTF-16 units, Spark's by bytes.
func keyRange(rows []Row, utf16Order bool) (low, high string, ok bool) {
	compare := strings.Compare
	if utf16Order {
		compare = func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) }
	}
	for i, r := range rows {
		if i == 0 || compare(r.Key, low) < 0 {
			low = r.Key
		}
		if i == 0 || compare(r.Key, high) > 0 {
			high = r.Key
		}
	}
	return low, high, len(rows) > 0
}

// positions is the Base64 of a 64-bit roaring bitmap of small numbers, ascending: one bucket, one container, as runs if they
// are one run, as an array otherwise.
func positions(at []int64) string {
	var b bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	le(uint64(1))
	le(uint32(0))
	first, last := at[0], at[len(at)-1]
	if n := len(at); last-first == int64(n-1) && n > 2 {
		le(uint32(12347))
		b.WriteByte(1)
		le([]uint16{0, uint16(n - 1), 1, uint16(first), uint16(n - 1)})
	} else {
		le([]uint32{12346, 1})
		le([]uint16{0, uint16(n - 1)})
		le(uint32(16))
		for _, p := range at {
			le(uint16(p))
		}
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
