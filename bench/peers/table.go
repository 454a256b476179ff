package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf16"

	"tidemark/delta"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/hfile"
)

const (
	began, ended  = "20260101000000001", "20260101000005001"
	beganMillis   = 1767225600001
	groupBytes    = 120 << 20 // Hudi's largest file, here before compression
	pageBytes     = 1 << 20   // parquet-mr's page
	pageRows      = 20_000
	recordGroups  = 10 // Hudi's least number of file groups of a record index
	noInstant     = "00000000000000000"
	recordInstant = "00000000000000001"
)

// broken lets the writers for tests fail in a program: it panics with failed, which writeTable returns as an error.
type broken struct{ testing.TB }

type failed struct{ error }

func (broken) Helper() {}

func (broken) Fatal(args ...any) { panic(failed{fmt.Errorf("write: %s", fmt.Sprint(args...))}) }

func (broken) Fatalf(format string, args ...any) {
	panic(failed{fmt.Errorf("write: "+format, args...)})
}

func (broken) Context() context.Context { return context.Background() }

// writeTable makes a copy-on-write table of the rows below dir, as Hudi's bulk insert leaves it: one commit, file groups of 120 MiB, gzip,
// and a record index that was compacted into base files.
func writeTable(dir string, s *set) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failed)
			if !ok {
				panic(p)
			}
			err = f
		}
	}()
	t := writer{dir: dir, set: s, stats: []any{}}
	meta := ".hoodie/metadata/.hoodie/"
	t.put(".hoodie/hoodie.properties", t.properties("peers", "COPY_ON_WRITE", "PARQUET", "id", "hoodie.table.keygenerator.type=NON_PARTITION",
		"hoodie.record.merge.mode=COMMIT_TIME_ORDERING", "hoodie.table.metadata.partitions=files,record_index", "hoodie.populate.meta.fields=true"))
	t.put(meta+"hoodie.properties", t.properties("peers_metadata", "MERGE_ON_READ", "HFILE", "key", "hoodie.table.keygenerator.type=HOODIE_TABLE_METADATA",
		"hoodie.record.merge.mode=CUSTOM", "hoodie.record.merge.strategy.id=00000000-0000-0000-0000-000000000000", "hoodie.populate.meta.fields=false",
		"hoodie.compaction.payload.class=org.apache.hudi.metadata.HoodieMetadataPayload"))
	t.put(".hoodie_partition_metadata", []byte("commitTime="+began+"\npartitionDepth=0\n"))
	where := make([]int, len(s.keys))
	per := max(1, groupBytes/(4*s.dim))
	for n, from := 0, 0; from < len(s.keys); n, from = n+1, from+per {
		to := min(len(s.keys), from+per)
		t.writeBase(n, from, to)
		for i := from; i < to; i++ {
			where[i] = n
		}
	}
	t.writeRecordIndex(where)
	empty := map[string]any{"partitionToWriteStats": map[string]any{}, "operationType": "UPSERT_PREPPED", "extraMetadata": map[string]any{}}
	for _, id := range []string{noInstant, recordInstant} {
		t.complete(meta+"timeline/", id, "deltacommit", empty)
	}
	t.complete(".hoodie/timeline/", began, "commit", map[string]any{"operationType": "BULK_INSERT", "extraMetadata": map[string]string{"schema": t.schema()},
		"partitionToWriteStats": map[string]any{"": t.stats}})
	return nil
}

type writer struct {
	dir   string
	set   *set
	stats []any
}

func (t *writer) put(name string, content []byte) {
	path := filepath.Join(t.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		panic(failed{err})
	}
}

func (t *writer) properties(name, kind, format, key string, more ...string) []byte {
	b := fmt.Appendf(nil, "hoodie.table.name=%s\nhoodie.table.checksum=%d\nhoodie.table.type=%s\nhoodie.table.base.file.format=%s\nhoodie.table.recordkey.fields=%s\n"+
		"hoodie.table.version=9\nhoodie.table.initial.version=9\nhoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\n"+
		"hoodie.timeline.history.path=history\nhoodie.archivelog.folder=history\nhoodie.table.timeline.timezone=UTC\n",
		name, crc32.ChecksumIEEE([]byte("."+name)), kind, format, key)
	for _, line := range more {
		b = append(append(b, line...), '\n')
	}
	return b
}

func (t *writer) complete(dir, id, action string, metadata any) {
	b, err := json.Marshal(metadata)
	if err != nil {
		panic(failed{err})
	}
	t.put(dir+id+"_"+ended+"."+action, b)
}

func (t *writer) schema() string {
	return fmt.Sprintf(`{"type":"record","name":"peers_record","namespace":"hoodie.peers","fields":[{"name":"id","type":["null","string"],"default":null},`+
		`{"name":"v","type":["null",{"type":"fixed","name":"vector_float_%[1]d","size":%[2]d,"logicalType":"vector","dimension":%[1]d,"elementType":"FLOAT","storageBacking":"FIXED_BYTES"}],"default":null}]}`,
		t.set.dim, 4*t.set.dim)
}

// group is the id of a file group: a UUID and a number, as Hudi's.
func group(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x-0", n) }

func (t *writer) writeBase(n, from, to int) {
	name := group(n) + "_0-1-2_" + began + ".parquet"
	f, err := os.Create(filepath.Join(t.dir, name))
	if err != nil {
		panic(failed{err})
	}
	at := func(v string) func(int) []byte { return func(int) []byte { return []byte(v) } }
	key := func(i int) []byte { return []byte(t.set.keys[from+i]) }
	width := 4 * t.set.dim
	basefiletest.WriteTo(broken{}, f, basefiletest.Config{Rows: to - from, PageRows: pageRows, Codec: "gzip"},
		basefiletest.Column{Name: "_hoodie_commit_time", Kind: basefile.String, Encoding: "dict", At: at(began)},
		basefiletest.Column{Name: "_hoodie_commit_seqno", Kind: basefile.String, At: func(i int) []byte { return fmt.Appendf(nil, "%s_%d_%d", began, n, i) }},
		basefiletest.Column{Name: "_hoodie_record_key", Kind: basefile.String, At: key},
		basefiletest.Column{Name: "_hoodie_partition_path", Kind: basefile.String, Encoding: "dict", At: at("")},
		basefiletest.Column{Name: "_hoodie_file_name", Kind: basefile.String, Encoding: "dict", At: at(name)},
		basefiletest.Column{Name: "id", Kind: basefile.String, At: key},
		basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: width, PageRows: min(pageRows, max(1, pageBytes/width)),
			At: func(i int) []byte { return appendFloats(make([]byte, 0, width), t.set.row(from+i)) }})
	if err := f.Close(); err != nil {
		panic(failed{err})
	}
	info, err := os.Stat(f.Name())
	if err != nil {
		panic(failed{err})
	}
	t.stats = append(t.stats, map[string]any{"fileId": group(n), "partitionPath": "", "path": name, "prevCommit": "null", "numWrites": to - from,
		"numInserts": to - from, "fileSizeInBytes": info.Size(), "totalWriteBytes": info.Size()})
}

// writeRecordIndex writes where each key lives: docs/format/mdt.md, Partition `record_index`.
func (t *writer) writeRecordIndex(where []int) {
	type entry struct {
		key   []byte
		group int
	}
	byGroup := make([][]entry, recordGroups)
	for i, key := range t.set.keys {
		g := recordGroup(key)
		byGroup[g] = append(byGroup[g], entry{[]byte(key), where[i]})
	}
	t.put(".hoodie/metadata/record_index/.hoodie_partition_metadata", []byte("commitTime="+noInstant+"\npartitionDepth=1\n"))
	for g, entries := range byGroup {
		slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
		w := hfile.NewWriter(hfile.Config{Schema: delta.SchemaJSON})
		for _, e := range entries {
			if err := w.Append(e.key, location(e.group)); err != nil {
				panic(failed{err})
			}
		}
		b, err := w.Finish()
		if err != nil {
			panic(failed{err})
		}
		t.put(fmt.Sprintf(".hoodie/metadata/record_index/record-index-%04d-0_0-1-2_%s.hfile", g, recordInstant), b)
	}
}

// recordGroup is the file group of a key in the record index.
func recordGroup(key string) int {
	var h int32
	for _, u := range utf16.Encode([]rune(key)) {
		h = 31*h + int32(u)
	}
	return int(max(int64(h), -int64(h)) % recordGroups)
}

// location is the record index's value for a row of a file group.
func location(n int) []byte {
	b := []byte{0, 0, 0, 0, 0, 0}                             // meta fields, key: empty, the cell has it
	b = append(b, 10, 0, 0, 0, 2)                             // type 5; recordIndexMetadata
	b = append(b, 2, 0)                                       // partition ""
	b = binary.AppendVarint(append(b, 2), 0x0000000000004000) // the UUID's halves
	low := uint64(0x8000)<<48 | uint64(n)
	b = binary.AppendVarint(append(b, 2), int64(low))
	b = append(b, 2, 0) // number behind the UUID
	b = append(b, 2, 0) // file id ""
	b = binary.AppendVarint(append(b, 2), beganMillis)
	return append(b, 0, 0, 0, 0) // a UUID, no position, the other payloads
}
