package logfile

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// read returns the blocks of a file with their content.
func read(t testing.TB, b []byte) []Block {
	t.Helper()
	blocks, err := collect(b)
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

func collect(b []byte) ([]Block, error) {
	var out []Block
	for blk, err := range Blocks(context.Background(), storage.BytesSource(b)) {
		if err != nil {
			return out, err
		}
		out = append(out, blk)
	}
	return out, nil
}

// again writes blocks as they were read, content rebuilt from what was parsed where there is a builder.
func again(t testing.TB, blocks []Block) []byte {
	t.Helper()
	var out []byte
	for _, b := range blocks {
		content := b.Content
		switch b.Type {
		case TypeAvro, TypeCDC:
			records, err := b.AvroRecords()
			if err != nil {
				t.Fatal(err)
			}
			content = AvroContent(nil, records)
		case TypeDelete:
			deletes, err := b.Deletes()
			if err != nil {
				t.Fatal(err)
			}
			content = DeleteContent(nil, deletes)
		}
		out = AppendBlock(out, b.Type, b.Entries, content)
	}
	return out
}

// tableNames returns the names of all fixture tables.
func tableNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(testkit.Path("tables/*.tar.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no tables", err)
	}
	var out []string
	for _, p := range paths {
		out = append(out, strings.TrimSuffix(filepath.Base(p), ".tar.gz"))
	}
	return out
}

// logsOf returns the log files below dir: path → bytes.
func logsOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(d.Name(), ".log.") {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryLogOfTheFixtures reads and rewrites every log file of every table, and of its metadata table.
func TestEveryLogOfTheFixtures(t *testing.T) {
	t.Parallel()
	files, kinds, headers, orderings := 0, map[BlockType]int{}, map[HeaderKey]int{}, map[OrderingKind]int{}
	multi, positions := 0, 0
	check := func(t testing.TB, path string, b []byte) {
		files++
		name, ok := ParseName(filepath.Base(path))
		if !ok || name.String() != filepath.Base(path) {
			t.Errorf("%s: name parses to %+v, %v", path, name, ok)
		}
		blocks := read(t, b)
		if len(blocks) > 1 {
			multi++
		}
		if got := again(t, blocks); !bytes.Equal(got, b) {
			t.Errorf("%s: written again it differs", path)
		}
		at := int64(0)
		for _, blk := range blocks {
			kinds[blk.Type]++
			if blk.Offset != at || blk.Reason != "" || blk.Type == TypeCorrupt {
				t.Errorf("%s: block at %d: %s %s", path, blk.Offset, blk.Type, blk.Reason)
			}
			at += blk.Size
			for _, e := range blk.Entries {
				headers[e.Key]++
			}
			pos, base, err := blk.Positions()
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if pos != nil {
				positions++
				n := 0
				if blk.Type == TypeDelete {
					d, _ := blk.Deletes()
					n = len(d)
				} else if blk.Type == TypeAvro {
					r, _ := blk.AvroRecords()
					n = len(r)
				} else {
					n = len(pos)
				}
				if base == "" || len(pos) != n || !sort.SliceIsSorted(pos, func(i, j int) bool { return pos[i] < pos[j] }) {
					t.Errorf("%s: %d positions of base %q for %d records", path, len(pos), base, n)
				}
			}
			if blk.Type == TypeDelete {
				d, err := blk.Deletes()
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				for _, e := range d {
					orderings[e.Ordering.Kind]++
				}
			}
			if blk.Type != TypeCommand && len(blk.Content) > 11 && blk.Schema() == "" {
				t.Errorf("%s: data block without schema", path)
			}
		}
		if at != int64(len(b)) {
			t.Errorf("%s: blocks cover %d of %d bytes", path, at, len(b))
		}
	}
	for _, table := range tableNames(t) {
		for path, b := range logsOf(t, testkit.Table(t, table)) {
			check(t, path, b)
		}
	}
	for path, b := range logsOf(t, testkit.Path("hudi-rs/log_files")) {
		check(t, path, b)
	}
	for path, b := range logsOf(t, testkit.Path("golden/mdt-files/gzip")) {
		check(t, path, b)
	}
	t.Logf("%d files, %d with several blocks, kinds %v, headers %v, ordering kinds %v, %d blocks with positions", files, multi, kinds, headers, orderings, positions)
	for _, typ := range []BlockType{TypeCommand, TypeDelete, TypeAvro, TypeHFile, TypeParquet, TypeCDC} {
		if kinds[typ] == 0 {
			t.Errorf("no %s block in the fixtures", typ)
		}
	}
	if multi == 0 || positions == 0 || headers[CompactedBlockTimes] == 0 || headers[IsPartial] == 0 || orderings[OrderingLong] == 0 || orderings[OrderingNone] == 0 {
		t.Error("the fixtures no longer hold every case")
	}
}

func TestSmallRealLogs(t *testing.T) {
	t.Parallel()
	dir := testkit.Path("hudi-rs/log_files")
	byKind := map[BlockType]Block{}
	for _, b := range logsOf(t, dir) {
		blocks := read(t, b)
		if len(blocks) != 1 {
			t.Fatalf("%d blocks", len(blocks))
		}
		byKind[blocks[0].Type] = blocks[0]
	}
	target, ok := byKind[TypeCommand].Rollback()
	if !ok || target != "20250126040826878" || byKind[TypeCommand].Instant() != "20250126040936578" {
		t.Errorf("rollback of %q by %q", target, byKind[TypeCommand].Instant())
	}
	if _, ok := byKind[TypeAvro].Rollback(); ok {
		t.Error("data block rolls back")
	}
	deletes, err := byKind[TypeDelete].Deletes()
	if err != nil || len(deletes) != 3 || deletes[0].Key != "e96c4396-3fad-413a-a942-4cb36106d721" || deletes[0].Partition != "city=san_francisco" || deletes[0].Ordering.Kind != OrderingNone {
		t.Errorf("deletes: %v %v", deletes, err)
	}
	records, err := byKind[TypeAvro].AvroRecords()
	if err != nil || len(records) != 1 || len(records[0]) != 228 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if c := byKind[TypeParquet].Content; !bytes.HasPrefix(c, []byte("PAR1")) || !bytes.HasSuffix(c, []byte("PAR1")) {
		t.Error("content is no Parquet file")
	}
}

func TestPositionsOfFixture(t *testing.T) {
	t.Parallel()
	// FACTS 3: run container, positions 0..11.
	b := Block{Type: TypeAvro, Header: map[HeaderKey]string{RecordPositions: "AQAAAAAAAAAAAAAAOzAAAAEAAAsAAQAAAAsA", PositionsBaseInstant: "20261130024846311"}}
	pos, base, err := b.Positions()
	if err != nil || base != "20261130024846311" || len(pos) != 12 || pos[0] != 0 || pos[11] != 11 {
		t.Fatalf("%v %q %v", pos, base, err)
	}
	if pos, base, err := (Block{}).Positions(); pos != nil || base != "" || err != nil {
		t.Errorf("none: %v %q %v", pos, base, err)
	}
}

func TestPartialAndCompacted(t *testing.T) {
	t.Parallel()
	partial, compacted := 0, 0
	for _, table := range []string{"partial_update", "log_compaction"} {
		for _, b := range logsOf(t, testkit.Table(t, table)) {
			for _, blk := range read(t, b) {
				if blk.Partial() {
					partial++
				}
				if len(blk.CompactedTimes()) > 2 {
					compacted++
				}
			}
		}
	}
	if partial == 0 || compacted == 0 {
		t.Errorf("%d partial blocks, %d compacted", partial, compacted)
	}
}
