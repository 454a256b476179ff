package hfile

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

const (
	goldenBase = "vector-index-0000-0_0-0-0_20261130010203004.hfile"
	goldenLog  = ".vector-index-0000-0_20261130010203004.log.1_0-0-0"
)

// logContent cuts the content out of a log file with one block, by the frame's own lengths.
func logContent(t testing.TB, log []byte) []byte {
	t.Helper()
	i := bytes.Index(log, []byte(magicData))
	if i < 0 {
		t.Fatal("no data block in the log")
	}
	return log[i : len(log)-12]
}

func open(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := Open(context.Background(), storage.BytesSource(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// all reads a file whole and copies its cells.
func all(r *Reader, prefix []byte) ([]Cell, error) {
	var out []Cell
	for c, err := range r.Scan(context.Background(), prefix) {
		if err != nil {
			return out, err
		}
		out = append(out, Cell{bytes.Clone(c.Key), bytes.Clone(c.Value)})
	}
	return out, nil
}

func mustAll(t testing.TB, r *Reader) []Cell {
	t.Helper()
	cells, err := all(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

// lookup asks for keys and returns how often each was found; values are compared with want.
func checkLookup(t testing.TB, r *Reader, cells []Cell) {
	t.Helper()
	var keys [][]byte
	values := map[string][]string{}
	for _, c := range cells {
		keys = append(keys, c.Key)
		values[string(c.Key)] = append(values[string(c.Key)], string(c.Value))
	}
	keys = append(keys, []byte("no such key"), nil, []byte{0xff}, bytes.Repeat([]byte{'x'}, MaxKey+1))
	// In reverse, so that the order of the request is not that of the file.
	for i, j := 0, len(keys)-1; i < j; i, j = i+1, j-1 {
		keys[i], keys[j] = keys[j], keys[i]
	}
	for _, kept := range []*Blocks{nil, NewBlocks(0), NewBlocks(1 << 30)} { // without, with no room, with room for all
		r.Keep(kept, "file")
		for again := range 2 {
			got := make([][]string, len(keys))
			err := r.Lookup(context.Background(), keys, func(i int, v []byte) error {
				got[i] = append(got[i], string(v))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range keys {
				if fmt.Sprint(got[i]) != fmt.Sprint(values[string(k)]) {
					t.Fatalf("look-up %d of %q: %d values, want %d", again, k, len(got[i]), len(values[string(k)]))
				}
			}
		}
	}
	r.Keep(nil, "")
}

// Blocks that are kept are not read again, and files that share the cache do not meet each other's blocks.
func TestBlocksAreKept(t *testing.T) {
	t.Parallel()
	kept := NewBlocks(1 << 20)
	for n, name := range []string{"a", "b"} {
		w := NewWriter(Config{BlockSize: 100})
		var keys [][]byte
		for i := range 50 {
			keys = append(keys, fmt.Appendf(nil, "key-%02d", i))
			if err := w.Append(keys[i], fmt.Appendf(nil, "%s-%d", name, i)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), storage.BytesSource(b))
		if err != nil {
			t.Fatal(err)
		}
		r.Keep(kept, name)
		for again := range 2 {
			found := 0
			err := r.Lookup(t.Context(), keys, func(i int, v []byte) error {
				if string(v) != fmt.Sprintf("%s-%d", name, i) {
					t.Errorf("file %d: %q", n, v)
				}
				found++
				return nil
			})
			if err != nil || found != len(keys) {
				t.Fatalf("%d of %d keys: %v", found, len(keys), err)
			}
			if again == 0 {
				clear(b[:r.t.loadOnOpen]) // were a block read again, it would be damaged
				clear(r.tail[:max(0, r.t.loadOnOpen-r.tailOff)])
			}
		}
	}
}

func TestGoldenRecords(t *testing.T) {
	t.Parallel()
	var oracle []string
	for _, line := range strings.Split(strings.TrimSpace(string(testkit.File(t, "golden/mdt-files/records.jsonl.gz"))), "\n") {
		var rec struct {
			Key string `json:"hfile_key_hex"`
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		oracle = append(oracle, rec.Key)
	}
	if len(oracle) != 6068 {
		t.Fatalf("oracle has %d records", len(oracle))
	}
	files := map[string][]byte{
		"gzip base": testkit.File(t, "golden/mdt-files/gzip/"+goldenBase),
		"none base": testkit.File(t, "golden/mdt-files/none/"+goldenBase+".gz"),
		"gzip log":  logContent(t, testkit.File(t, "golden/mdt-files/gzip/"+goldenLog)),
		"none log":  logContent(t, testkit.File(t, "golden/mdt-files/none/"+goldenLog+".gz")),
	}
	var first []Cell
	for _, name := range []string{"gzip base", "none base", "gzip log", "none log"} {
		r := open(t, files[name])
		cells := mustAll(t, r)
		if len(cells) != len(oracle) || r.Entries() != uint64(len(oracle)) {
			t.Fatalf("%s: %d cells, %d in the trailer, want %d", name, len(cells), r.Entries(), len(oracle))
		}
		for i, c := range cells {
			if hex.EncodeToString(c.Key) != oracle[i] {
				t.Fatalf("%s: key %d is %x, want %s", name, i, c.Key, oracle[i])
			}
			if first != nil && !bytes.Equal(c.Value, first[i].Value) {
				t.Fatalf("%s: value of %x differs between files", name, c.Key)
			}
		}
		if first == nil {
			first = cells
		}
		if !strings.Contains(r.Schema(), "HoodieVectorIndexPostingDelta") {
			t.Errorf("%s: schema %.60q", name, r.Schema())
		}
		checkLookup(t, r, cells)
	}
}

func TestGoldenValues(t *testing.T) {
	t.Parallel()
	// Stored values are five null meta fields in front of the golden record.
	type record struct {
		Key   string `json:"hfile_key_hex"`
		Value string `json:"hfile_value_hex"`
	}
	var doc struct {
		Records []record `json:"records_layout_A"`
		Blocks  []record `json:"posting_blocks_layout_A_and_B"`
	}
	if err := json.Unmarshal(testkit.File(t, "golden/vector-index/mdt-records.json"), &doc); err != nil {
		t.Fatal(err)
	}
	r := open(t, testkit.File(t, "golden/mdt-files/gzip/"+goldenBase))
	checked := map[string]bool{} // the golden page holds several records for some keys, the file one of them
	keys := map[string]bool{}
	records := append(doc.Records, doc.Blocks...)
	for _, rec := range records {
		key, err := hex.DecodeString(rec.Key)
		if err != nil {
			t.Fatal(err)
		}
		keys[rec.Key] = true
		err = r.Lookup(context.Background(), [][]byte{key}, func(_ int, v []byte) error {
			if hex.EncodeToString(v) == "0000000000"+rec.Value {
				checked[rec.Key] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(checked) != len(keys) {
		t.Fatalf("%d of %d golden keys are in the base file with a golden value", len(checked), len(keys))
	}
}

func TestPrefixScan(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"golden/mdt-files/gzip/" + goldenBase, "hudi-rs/hfile/hudi_1_0_hbase_2_4_13_1KB_GZ_10000_large_keys_deep_index.hfile"} {
		r := open(t, testkit.File(t, name))
		cells := mustAll(t, r)
		prefixes := [][]byte{{}, {0}, {0x10}, {0xff}, []byte("nothing"), []byte("hudi-key")}
		for i := 0; i < len(cells); i += 1999 {
			k := cells[i].Key
			prefixes = append(prefixes, k, k[:len(k)/2], k[:len(k)*3/4], append(bytes.Clone(k), 0), k[:max(0, len(k)-2)])
		}
		for _, p := range prefixes {
			var want []Cell
			for _, c := range cells {
				if bytes.HasPrefix(c.Key, p) {
					want = append(want, c)
				}
			}
			got, err := all(r, p)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("%s: prefix %x: %d cells, want %d", name, p, len(got), len(want))
			}
			for i := range got {
				if !bytes.Equal(got[i].Key, want[i].Key) || !bytes.Equal(got[i].Value, want[i].Value) {
					t.Fatalf("%s: prefix %x: cell %d differs", name, p, i)
				}
			}
		}
	}
}

func TestHBaseFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(testkit.Path("hudi-rs/hfile/*.hfile"))
	if err != nil || len(paths) != 7 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	counts := map[string]int{
		"16KB_GZ_20000_fake_first_key": 20000, "1KB_GZ_10000_large_keys_deep_index": 10000, "1KB_GZ_20000_large_keys": 20000,
		"16KB_GZ_20000": 20000, "16KB_GZ_200_20_non_unique": 4200, "16KB_NONE_5000": 5000, "no_entry": 0,
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, b)
		cells := mustAll(t, r)
		suffix := ""
		for s := range counts {
			if strings.HasSuffix(path, s+".hfile") && len(s) > len(suffix) {
				suffix = s
			}
		}
		if uint64(len(cells)) != r.Entries() {
			t.Errorf("%s: %d cells, trailer says %d", path, len(cells), r.Entries())
		}
		if want := counts[suffix]; len(cells) != want {
			t.Errorf("%s: %d cells, want %d", path, len(cells), want)
		}
		if !sort.SliceIsSorted(cells, func(i, j int) bool { return bytes.Compare(cells[i].Key, cells[j].Key) < 0 }) && suffix != "16KB_GZ_200_20_non_unique" {
			t.Errorf("%s: not sorted", path)
		}
		for i, c := range cells {
			if i%997 == 0 && suffix == "16KB_GZ_20000" && (string(c.Key) != fmt.Sprintf("hudi-key-%09d", i) || string(c.Value) != fmt.Sprintf("hudi-value-%09d", i)) {
				t.Errorf("%s: cell %d is %q = %q", path, i, c.Key, c.Value)
			}
		}
		if names := r.MetaNames(); len(names) != 1 || names[0] != "bloomFilter" {
			t.Errorf("%s: meta blocks %q", path, names)
		}
		checkLookup(t, r, cells)
	}
}

// TestMDTFiles reads every HFile of every table, base files and log blocks alike.
func TestMDTFiles(t *testing.T) {
	t.Parallel()
	tables := []string{"mor_basic", "v6", "flink_v6_mor", "keys_unicode"}
	files, cellsSeen := 0, 0
	for _, table := range tables {
		root := testkit.Table(t, table)
		err := filepath.WalkDir(filepath.Join(root, ".hoodie", "metadata"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var contents [][]byte
			if strings.HasSuffix(path, ".hfile") {
				contents = append(contents, b)
			} else if strings.Contains(filepath.Base(path), ".log.") {
				// A trailer ends four bytes behind 00 00 00 03; blocks of one HFile start at the first data magic.
				for {
					i, end := bytes.Index(b, []byte(magicData)), bytes.Index(b, []byte(magicTrailer))
					if i < 0 || end < i {
						break
					}
					contents = append(contents, b[i:end+trailerSize])
					b = b[end+trailerSize:]
				}
			}
			for _, c := range contents {
				r, err := Open(context.Background(), storage.BytesSource(c))
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				cells, err := all(r, nil)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if !strings.Contains(r.Schema(), "HoodieMetadataRecord") {
					t.Errorf("%s: schema %.40q", path, r.Schema())
				}
				checkLookup(t, r, cells)
				files++
				cellsSeen += len(cells)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d hfiles, %d cells", files, cellsSeen)
	if files < 40 {
		t.Fatalf("only %d hfiles found", files)
	}
}
