package table_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
)

// world is a made-up table in memory: one partition "p", columns id, ts, v, price and the delete markers.
type world struct {
	t    testing.TB
	st   *mem.Store
	time time.Time
}

const schemaFields = `{"name":"id","type":["null","string"],"default":null},{"name":"ts","type":["null","long"],"default":null},` +
	`{"name":"v","type":["null",{"type":"fixed","name":"vector_float_1","size":4,"logicalType":"vector","dimension":1,"elementType":"FLOAT","storageBacking":"FIXED_BYTES"}],"default":null},` +
	`{"name":"price","type":["null","double"],"default":null},{"name":"_hoodie_is_deleted","type":["null","boolean"],"default":null},{"name":"op","type":["null","string"],"default":null}`

func record(fields string) string {
	return `{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[` + fields + `]}`
}

func metaFields(names ...string) string {
	var out []string
	for _, n := range names {
		out = append(out, `{"name":"`+n+`","type":["null","string"],"default":null}`)
	}
	return strings.Join(out, ",")
}

var logSchema = record(metaFields("_hoodie_commit_time", "_hoodie_record_key") + "," + schemaFields)

func newWorld(t testing.TB, props map[string]string) *world {
	t.Helper()
	all := map[string]string{
		"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": "9", "hoodie.table.initial.version": "9",
		"hoodie.timeline.layout.version": "2", "hoodie.table.base.file.format": "PARQUET", "hoodie.table.recordkey.fields": "id",
		"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.table.ordering.fields": "ts", "hoodie.table.keygenerator.type": "SIMPLE",
		"hoodie.table.checksum": fmt.Sprint(crc32.ChecksumIEEE([]byte(".t"))),
	}
	maps.Copy(all, props)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", k, all[k])
	}
	w := &world{t: t, st: mem.New(t.Name()), time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.put(".hoodie/hoodie.properties", []byte(text.String()))
	w.put("p/.hoodie_partition_metadata", []byte("partitionDepth=1\n"))
	return w
}

func (w *world) put(p string, b []byte) { w.st.Put(p, b, w.time) }

func at(n int) string { return fmt.Sprintf("2026010100000%04d", n) }

// stat is one write stat of a commit.
type stat struct {
	path string
	size int
	prev string // name of the base file before
}

// commit completes an instant: requested and completed are small numbers.
func (w *world) commit(action string, requested, completed int, replaced []string, stats ...stat) {
	w.t.Helper()
	list := []map[string]any{}
	for _, s := range stats {
		base := path.Base(s.path)
		id, _, _ := strings.Cut(strings.TrimPrefix(base, "."), "_")
		list = append(list, map[string]any{"fileId": id, "path": s.path, "partitionPath": "p", "fileSizeInBytes": s.size, "prevCommit": "null", "prevBaseFile": s.prev})
	}
	m := map[string]any{"partitionToWriteStats": map[string]any{"p": list}, "operationType": "UPSERT",
		"extraMetadata": map[string]string{"schema": record(schemaFields)}}
	if replaced != nil {
		m["partitionToReplaceFileIds"] = map[string]any{"p": replaced}
	}
	b, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(fmt.Sprintf(".hoodie/timeline/%s_%s.%s", at(requested), at(completed), action), b)
}

// clean completes a clean whose metadata names files as deleted. The caller deletes them.
func (w *world) clean(requested, completed int, files ...string) {
	w.t.Helper()
	names := make([]any, len(files))
	for i, f := range files {
		names[i] = path.Base(f)
	}
	b, err := avrox.WriteContainer(`{"type":"record","name":"HoodieCleanMetadata","fields":[{"name":"partitionMetadata","type":{"type":"map","values":`+
		`{"type":"record","name":"P","fields":[{"name":"successDeleteFiles","type":{"type":"array","items":"string"}}]}}}]}`,
		map[string]any{"partitionMetadata": map[string]any{"p": map[string]any{"successDeleteFiles": names}}}, [16]byte{1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(fmt.Sprintf(".hoodie/timeline/%s_%s.clean", at(requested), at(completed)), b)
}

// val is a row's content; nil fields are NULL.
type val struct {
	key   string
	ts    any // int, or nil
	v     float32
	price any // float64, or nil
	del   bool
	op    string
}

func raw(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }

// basePath and logPath are names of files of group "g".
func basePath(n int) string { return fmt.Sprintf("p/g_0-0-0_%s.parquet", at(n)) }
func logPath(n int) string  { return fmt.Sprintf("p/.g_%s.log.1_0-0-0", at(n)) }

// base writes a base file of group g and returns its stat.
func (w *world) base(n int, rows ...val) stat {
	w.t.Helper()
	cols := []basefiletest.Column{
		{Name: "_hoodie_commit_time", Kind: basefile.String}, {Name: "_hoodie_record_key", Kind: basefile.String},
		{Name: "id", Kind: basefile.String}, {Name: "ts", Kind: basefile.Int64}, {Name: "v", Kind: basefile.Fixed, Width: 4},
		{Name: "price", Kind: basefile.Double}, {Name: "_hoodie_is_deleted", Kind: basefile.Bool}, {Name: "op", Kind: basefile.String},
	}
	for _, r := range rows {
		add := func(i int, v []byte) { cols[i].Values = append(cols[i].Values, v) }
		add(0, []byte(at(n)))
		add(1, []byte(r.key))
		add(2, []byte(r.key))
		if r.ts == nil {
			add(3, nil)
		} else {
			add(3, binary.LittleEndian.AppendUint64(nil, uint64(r.ts.(int))))
		}
		add(4, raw(r.v))
		if r.price == nil {
			add(5, nil)
		} else {
			add(5, binary.LittleEndian.AppendUint64(nil, math.Float64bits(r.price.(float64))))
		}
		add(6, []byte{map[bool]byte{true: 1}[r.del]})
		add(7, []byte(r.op))
	}
	b := basefiletest.Write(w.t, basefiletest.Config{}, cols...)
	w.put(basePath(n), b)
	return stat{path: basePath(n), size: len(b)}
}

// avro encodes a row of logSchema.
func avro(n int, r val) []byte {
	text := func(dst []byte, s string) []byte {
		return append(binary.AppendVarint(append(dst, 2), int64(len(s))), s...)
	}
	b := text(text(text(nil, at(n)), r.key), r.key)
	if r.ts == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendVarint(append(b, 2), int64(r.ts.(int)))
	}
	b = append(append(b, 2), raw(r.v)...)
	if r.price == nil {
		b = append(b, 0)
	} else {
		b = binary.LittleEndian.AppendUint64(append(b, 2), math.Float64bits(r.price.(float64)))
	}
	b = append(b, 2, map[bool]byte{true: 1}[r.del])
	return text(b, r.op)
}

func header(n int, more ...logfile.HeaderEntry) []logfile.HeaderEntry {
	return append([]logfile.HeaderEntry{{Key: logfile.InstantTime, Value: at(n)}, {Key: logfile.SchemaKey, Value: logSchema}}, more...)
}

// data is an Avro data block.
func data(n int, rows ...val) []byte {
	var recs [][]byte
	for _, r := range rows {
		recs = append(recs, avro(n, r))
	}
	return logfile.AppendBlock(nil, logfile.TypeAvro, header(n), logfile.AvroContent(nil, recs))
}

// deletes is a delete block.
func deletes(n int, list ...logfile.Delete) []byte {
	return logfile.AppendBlock(nil, logfile.TypeDelete, header(n), logfile.DeleteContent(nil, list))
}

func del(key string) logfile.Delete { return logfile.Delete{Key: key, Partition: "p"} }

func delTS(key string, ts int64) logfile.Delete {
	return logfile.Delete{Key: key, Partition: "p", Ordering: logfile.Ordering{Kind: logfile.OrderingLong, Int: ts}}
}

// partial is a partial-update block of the columns ts (if not nil) and price.
func partial(n int, key string, ts any, price float64) []byte {
	fields := metaFields("_hoodie_commit_time", "_hoodie_record_key")
	text := func(dst []byte, s string) []byte {
		return append(binary.AppendVarint(append(dst, 2), int64(len(s))), s...)
	}
	b := text(text(nil, at(n)), key)
	if ts != nil {
		fields += `,{"name":"ts","type":["null","long"]}`
		b = binary.AppendVarint(append(b, 2), int64(ts.(int)))
	}
	fields += `,{"name":"price","type":["null","double"]}`
	b = binary.LittleEndian.AppendUint64(append(b, 2), math.Float64bits(price))
	return logfile.AppendBlock(nil, logfile.TypeAvro, []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: at(n)},
		{Key: logfile.SchemaKey, Value: record(fields)}, {Key: logfile.IsPartial, Value: "true"}}, logfile.AvroContent(nil, [][]byte{b}))
}

// log writes a log file of group g and returns its stat.
func (w *world) log(n int, blocks ...[]byte) stat {
	b := slices.Concat(blocks...)
	w.put(logPath(n), b)
	return stat{path: logPath(n), size: len(b)}
}

// show reads the newest snapshot as "key=v/price@position" texts.
func (w *world) show(cut table.Cut) (string, error) {
	w.t.Helper()
	tab := open(w.t, w.st)
	files, err := tab.Files(w.t.Context())
	if err != nil {
		return "", err
	}
	var out []string
	for s, err := range files.Slices(cut) {
		if err != nil {
			return "", err
		}
		err = tab.ReadMerged(w.t.Context(), s, table.Columns{Vectors: []string{"v"}, Others: []string{"price"}}, func(r table.Row) error {
			v := "null"
			if r.Vectors[0] != nil {
				v = fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(r.Vectors[0])))
			}
			out = append(out, fmt.Sprintf("%s=%s/%v@%d", r.Key, v, r.Others[0], r.Position))
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return strings.Join(out, " "), nil
}

// avroKeys returns the record keys of an Avro block.
func avroKeys(t testing.TB, b logfile.Block) []string {
	t.Helper()
	schema, err := avrox.ParseSchema(b.Schema())
	if err != nil {
		t.Fatal(err)
	}
	recs, err := b.AvroRecords()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, bin := range recs {
		rec, _, err := schema.Decode(bin)
		if err != nil {
			t.Fatal(err)
		}
		key, _ := rec.Str("_hoodie_record_key")
		keys = append(keys, key)
	}
	return keys
}
