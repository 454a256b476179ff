package mdt

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// look opens a table's metadata table and reads its files and one key of its record index.
func look(st storage.Store) (m *MDT, files map[string]map[string]int64, locs map[string]Location, err error) {
	ctx := context.Background()
	_, data, err := timeline.Open(ctx, st, ".hoodie")
	if err != nil {
		return nil, nil, nil, err
	}
	if m, err = Open(ctx, st); err != nil {
		return nil, nil, nil, err
	}
	if files, err = m.Files(ctx, data, nil); err != nil {
		return m, nil, nil, err
	}
	keys := []string{"foreign"}
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("k%04d", i))
	}
	locs, err = m.LookupRecords(ctx, data, keys)
	return m, files, locs, err
}

const recordDir = ".hoodie/metadata/record_index/"

// fixture is mor_basic in memory.
func fixture(t *testing.T) *mem.Store {
	t.Helper()
	st, err := mem.FromDir(t.Name(), testkit.Table(t, "mor_basic"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// paths returns the paths of a store that start with prefix and contain part.
func paths(st *mem.Store, prefix, part string) []string {
	var out []string
	for _, p := range st.Paths() {
		if strings.HasPrefix(p, prefix) && strings.Contains(p, part) {
			out = append(out, p)
		}
	}
	return out
}

func content(t *testing.T, st *mem.Store, path string) []byte {
	t.Helper()
	b, _, err := st.ReadFile(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func remove(t *testing.T, st *mem.Store, paths []string) {
	t.Helper()
	if len(paths) == 0 {
		t.Fatal("nothing to remove")
	}
	for _, p := range paths {
		if err := st.Delete(context.Background(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// newestLog returns a log file of the record index's newest commit.
func newestLog(t *testing.T, st *mem.Store) string {
	t.Helper()
	newest, instant := "", ""
	for _, p := range paths(st, recordDir, ".log.") {
		if n, ok := logfile.ParseName(path.Base(p)); ok && n.Instant > instant {
			newest, instant = p, n.Instant
		}
	}
	if instant < "20261130023753244" { // the compaction
		t.Fatal("no log above the base files")
	}
	return newest
}

// TestForeignDeltaCommit adds a deltacommit with an id of its own, as we make them: it is read while its id is free, and
// left out with a reason while a pending data instant has that id.
func TestForeignDeltaCommit(t *testing.T) {
	t.Parallel()
	st := fixture(t)
	_, _, before, err := look(st)
	if err != nil {
		t.Fatal(err)
	}
	const id = "20261130023900001"
	header := []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: id}}
	// k0001 is in group 0.
	del := logfile.AppendBlock(nil, logfile.TypeDelete, header, logfile.DeleteContent(nil, []logfile.Delete{{Key: "k0001", Partition: recordIndex}}))
	st.Put(recordDir+".record-index-0000-0_"+id+".log.1_7427-1-0", append(del, 1, 2), time.Time{})
	_, _, locs, err := look(st)
	if err != nil || locs["k0001"] != before["k0001"] {
		t.Fatalf("without a commit the log counts: %v %v", locs, err)
	}
	commits := paths(st, ".hoodie/metadata/.hoodie/timeline/", "_")
	st.Put(".hoodie/metadata/.hoodie/timeline/"+id+"_20261130023900002.deltacommit", content(t, st, commits[0]), time.Time{})
	m, _, locs, err := look(st)
	if _, there := locs["k0001"]; err != nil || there || len(locs) != len(before)-1 {
		t.Fatalf("with a commit the log does not count: %v %v", locs, err)
	}
	if s := m.Skipped(); len(s) != 1 || !strings.Contains(s[0].Reason, "2 trailing bytes") {
		t.Errorf("skipped %v", s)
	}
	st.Put(".hoodie/timeline/"+id+".deltacommit.requested", nil, time.Time{})
	m, _, locs, err = look(st)
	if err != nil || locs["k0001"] != before["k0001"] {
		t.Fatalf("pending on the data timeline, the log counts: %v %v", locs, err)
	}
	if s := m.Skipped(); len(s) != 2 || !strings.Contains(s[0].Reason+s[1].Reason, id) {
		t.Errorf("skipped %v", s)
	}
}

func TestDamagedMetadata(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		do       func(st *mem.Store)
		want     error
		unusable bool // HasRecordIndex says no
	}{
		{"log cut", func(st *mem.Store) {
			p := newestLog(t, st)
			b := content(t, st, p)
			st.Put(p, b[:len(b)/2], time.Time{})
		}, storage.ErrCorrupt, false},
		{"byte flipped in the content", func(st *mem.Store) {
			p := newestLog(t, st)
			b := content(t, st, p)
			b[strings.Index(string(b), "DATABLK*")+60] ^= 0x10
			st.Put(p, b, time.Time{})
		}, storage.ErrCorrupt, false},
		{"file group hidden", func(st *mem.Store) { remove(t, st, paths(st, recordDir, "record-index-0003-0_")) }, storage.ErrCorrupt, true},
		{"partition gone", func(st *mem.Store) { remove(t, st, paths(st, recordDir, "")) }, storage.ErrNotFound, true},
		{"files partition gone", func(st *mem.Store) { remove(t, st, paths(st, ".hoodie/metadata/files/", "")) }, storage.ErrNotFound, false},
		{"files partition empty", func(st *mem.Store) { remove(t, st, paths(st, ".hoodie/metadata/files/", "files-0000")) }, storage.ErrNotFound, false},
		{"index per data partition", func(st *mem.Store) {
			st.Put(recordDir+"record-index-eu-0000-0_0-0-0_00000000000000002.hfile", nil, time.Time{})
		}, storage.ErrUnsupported, true},
		{"file id without number", func(st *mem.Store) {
			st.Put(recordDir+"whatever_0-0-0_00000000000000002.hfile", nil, time.Time{})
		}, storage.ErrUnsupported, true},
		{"base files empty", func(st *mem.Store) {
			for _, p := range paths(st, recordDir, ".hfile") {
				st.Put(p, nil, time.Time{})
			}
		}, storage.ErrCorrupt, false},
		{"base file of an older slice empty", func(st *mem.Store) {
			for _, p := range paths(st, recordDir, "_00000000000000002.hfile") {
				st.Put(p, nil, time.Time{})
			}
		}, nil, false},
	}
	all := fixture(t)
	for _, tt := range tests {
		st := all.Clone()
		tt.do(st)
		m, _, _, err := look(st)
		if !errors.Is(err, tt.want) || m == nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		// What the listing shows is known before anything is looked up.
		if m.HasRecordIndex() == tt.unusable || (m.NoRecordIndex() != nil) != tt.unusable {
			t.Errorf("%s: has a record index: %t, %v", tt.name, m.HasRecordIndex(), m.NoRecordIndex())
		}
	}
}

// TestOddFilesAreIgnored puts what does not belong to the snapshot beside it.
func TestOddFilesAreIgnored(t *testing.T) {
	t.Parallel()
	st := fixture(t)
	_, files, locs, err := look(st)
	if err != nil {
		t.Fatal(err)
	}
	st.Put(recordDir+"record-index-0000-0_1-1-1_20991231000000000.hfile", []byte("of a compaction under way"), time.Time{})
	st.Put(recordDir+".record-index-0000-0_20991231000000000.log.1_1-1-1", []byte("of a commit under way"), time.Time{})
	st.Put(recordDir+"readme.txt", nil, time.Time{})
	_, files2, locs2, err := look(st)
	if err != nil || len(files2) != len(files) || len(locs2) != len(locs) || locs2["k0001"] != locs["k0001"] {
		t.Errorf("%v %v", locs2, err)
	}
}

// TestMergeOfFiles checks the rule per file name.
func TestMergeOfFiles(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"record","name":"HoodieMetadataRecord","fields":[{"name":"type","type":"int"},{"name":"filesystemMetadata",
"type":["null",{"type":"map","values":{"type":"record","name":"HoodieMetadataFileInfo","fields":[{"name":"size","type":"long"},{"name":"isDeleted","type":"boolean"}]}}]}]}`
	layerOf := func(key string, typ byte, entries ...listedFile) layer {
		w := hfile.NewWriter(hfile.Config{Schema: schema})
		v := []byte{typ << 1, 2, byte(len(entries)) << 1}
		for _, e := range entries {
			d := byte(0)
			if e.deleted {
				d = 1
			}
			v = append(v, 2, 'f', byte(e.size)<<1, d)
		}
		if err := w.Append([]byte(key), append(v, 0)); err != nil {
			t.Fatal(err)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r, err := hfile.Open(context.Background(), storage.BytesSource(b))
		if err != nil {
			t.Fatal(err)
		}
		l, err := baseLayer("p", "1", r)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	live, larger, gone := listedFile{size: 5}, listedFile{size: 9}, listedFile{deleted: true}
	tests := []struct {
		name   string
		layers []listedFile
		want   string // size, "x" deleted, "-" not there
	}{
		{"live", []listedFile{live}, "5"},
		{"grown", []listedFile{live, larger}, "9"},
		{"smaller later", []listedFile{larger, live}, "9"},
		{"deleted", []listedFile{live, gone}, "-"},
		{"deleted only", []listedFile{gone}, "x"},
		{"deleted, then live", []listedFile{gone, live}, "5"},
		{"deleted twice", []listedFile{live, gone, gone}, "x"},
	}
	for _, tt := range tests {
		merged := map[string]map[string]listedFile{}
		for _, e := range tt.layers {
			if err := mergeFiles(context.Background(), layerOf("eu", typeFiles, e), merged); err != nil {
				t.Fatal(err)
			}
		}
		got := "-"
		if f, ok := merged["eu"]["f"]; ok {
			got = string(rune('0' + f.size))
			if f.deleted {
				got = "x"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	merged := map[string]map[string]listedFile{}
	if err := mergeFiles(context.Background(), layerOf("eu", typeRecord, live), merged); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("other type: %v", err)
	}
	if err := mergeFiles(context.Background(), layer{deleted: map[string]struct{}{"eu": {}}}, map[string]map[string]listedFile{"eu": {}}); err != nil {
		t.Error(err)
	}
	for _, v := range []any{nil, "x", map[string]any{"size": int64(1)}, map[string]any{"isDeleted": true}} {
		if _, err := toListed(v); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("entry %v: %v", v, err)
		}
	}
}

func TestSuffixes(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"20261130025726917001": true, "20261130025726917006": true, "20261130025726917007": false, "20261130025726917000": false,
		"20261130025726917010": true, "20261130025726917": false,
	} {
		if suffixed(id) != want {
			t.Errorf("%s", id)
		}
	}
}
