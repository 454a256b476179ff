package mdt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// real opens the metadata table of a fixture.
func real(t testing.TB, table string) (storage.Store, *MDT, *timeline.Timeline) {
	t.Helper()
	st, err := file.New(testkit.Table(t, table))
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := timeline.Open(context.Background(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	return st, m, data
}

func tablesWithMDT(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(testkit.Path("tables/*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range paths {
		out = append(out, strings.TrimSuffix(filepath.Base(p), ".tar.gz"))
	}
	return out
}

// onDisk lists the data files of a table: partition → name → size.
func onDisk(t testing.TB, root string) map[string]map[string]int64 {
	t.Helper()
	out := map[string]map[string]int64{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".hoodie" {
				return filepath.SkipDir
			}
			return nil
		}
		name := d.Name()
		if !strings.HasSuffix(name, ".parquet") && !strings.Contains(name, ".log.") || strings.HasSuffix(name, ".crc") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); rel == "." {
			rel = ""
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if out[rel] == nil {
			out[rel] = map[string]int64{}
		}
		out[rel][name] = info.Size()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFilesOfEveryTable compares the `files` partition with what lies on disk.
func TestFilesOfEveryTable(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, table := range tablesWithMDT(t) {
		root := testkit.Table(t, table)
		if _, err := os.Stat(filepath.Join(root, ".hoodie", "metadata")); err != nil {
			continue
		}
		st, err := file.New(root)
		if err != nil {
			t.Fatal(err)
		}
		_, data, err := timeline.Open(context.Background(), st, ".hoodie")
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(context.Background(), st)
		if err != nil {
			t.Errorf("%s: %v", table, err)
			continue
		}
		got, err := m.Files(context.Background(), data, nil)
		if err != nil {
			t.Errorf("%s: %v", table, err)
			continue
		}
		checked++
		disk := onDisk(t, root)
		pending := map[string]bool{}
		for _, i := range data.Pending() {
			pending[i.Requested] = true
		}
		for p, files := range disk {
			for name, size := range files {
				if n, ok := got[p][name]; ok && n != size {
					t.Errorf("%s: %s/%s has %d bytes, the metadata table says %d", table, p, name, size, n)
				} else if instant := name[strings.LastIndex(name, "_")+1:]; !ok && !pending[strings.TrimSuffix(instant, ".parquet")] {
					t.Errorf("%s: %s/%s is not listed (skipped %v)", table, p, name, m.Skipped())
				}
			}
		}
		for p, files := range got {
			for name := range files {
				if _, ok := disk[p][name]; !ok {
					t.Errorf("%s: %s/%s is listed and not there", table, p, name)
				}
			}
		}
		if s := m.Skipped(); len(s) > 0 {
			t.Errorf("%s: skipped %v", table, s)
		}
		// One partition alone is the same.
		for p := range got {
			if checked%5 != 0 {
				break
			}
			one, err := m.Files(context.Background(), data, []string{p, "no such partition"})
			if err != nil || len(one) != 1 || fmt.Sprint(one[p]) != fmt.Sprint(got[p]) {
				t.Errorf("%s: partition %q alone: %v %v", table, p, one, err)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d metadata tables", checked)
	}
}

func TestRecordIndex(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"mor_basic", "demo_words", "partition_move", "mor_rli_rebuilt", "keys_unicode"} {
		_, m, data := real(t, table)
		if !m.HasRecordIndex() {
			t.Fatalf("%s has no record index", table)
		}
		steps := testkit.Oracle(t, table)
		rows := steps[len(steps)-1].Rows
		live := map[string][]testkit.Row{}
		var keys []string
		for _, r := range rows {
			live[r.Key] = append(live[r.Key], r)
			keys = append(keys, r.Key)
		}
		gone := 0
		for _, s := range steps {
			for _, r := range s.Rows {
				if live[r.Key] == nil {
					gone++
					keys = append(keys, r.Key)
				}
			}
		}
		keys = append(keys, "no such key", "")
		sort.Sort(sort.Reverse(sort.StringSlice(keys)))
		got, err := m.LookupRecords(context.Background(), data, keys)
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		wrong := 0
		for key, list := range live {
			loc, ok := got[key]
			match := false
			for _, r := range list {
				match = match || ok && r.FileID != nil && loc.FileID == *r.FileID && loc.Partition == r.Partition
			}
			if !match {
				wrong++
				if len(list) == 1 {
					t.Errorf("%s: key %q is at %+v, want %s in %q", table, key, loc, *list[0].FileID, list[0].Partition)
				}
			}
		}
		for key := range got {
			if live[key] == nil {
				t.Errorf("%s: deleted key %q is at %+v", table, key, got[key])
			}
		}
		if gone == 0 || wrong > 0 {
			t.Errorf("%s: %d keys, %d gone, %d wrong, skipped %v", table, len(live), gone, wrong, m.Skipped())
		}
		for _, k := range keys[:3] {
			if one, err := m.LookupRecords(context.Background(), data, []string{k}); err != nil || fmt.Sprint(one[k]) != fmt.Sprint(got[k]) {
				t.Errorf("%s: %q alone: %v %v", table, k, one, err)
			}
		}
	}
}

func TestNoMetadataTable(t *testing.T) {
	t.Parallel()
	root := testkit.Table(t, "v8")
	if err := os.RemoveAll(filepath.Join(root, ".hoodie", "metadata")); err != nil {
		t.Fatal(err)
	}
	st, err := file.New(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), st); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("%v, hint %q", err, storage.Hint(err))
	}
}
