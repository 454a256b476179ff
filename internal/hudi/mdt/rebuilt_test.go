package mdt

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// A metadata table that is built again gives its first files the names of those before: what was kept of those is not served.
func TestBlocksOfAFileBeforeAreNotServed(t *testing.T) {
	t.Parallel()
	root := testkit.Table(t, "mor_rli_rebuilt")
	st, err := file.New(root)
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := timeline.Open(t.Context(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	kept := hfile.NewBlocks(1 << 30)
	find := func(keys []string, kept *hfile.Blocks) map[string]Location {
		m, err := Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		m.Keep(kept)
		got, err := m.LookupRecords(t.Context(), data, keys)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	files, err := filepath.Glob(filepath.Join(root, ".hoodie/metadata/record_index/*.hfile"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var keys []string
	halves := map[string][]byte{} // the same files without every second key, by path
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := hfile.Open(t.Context(), storage.BytesSource(b))
		if err != nil {
			t.Fatal(err)
		}
		w := hfile.NewWriter(hfile.Config{Schema: r.Schema()})
		for c, err := range r.Scan(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if keys = append(keys, string(c.Key)); len(keys)%2 == 0 {
				err = w.Append(c.Key, c.Value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if halves[path], err = w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	before := find(keys, kept)
	if len(before) == 0 || kept.Stats().Kept == 0 {
		t.Fatalf("%d keys found, %d blocks kept", len(before), kept.Stats().Kept)
	}
	for path, b := range halves {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	after, want := find(keys, kept), find(keys, nil)
	if len(want) == 0 || len(want) == len(before) || !maps.Equal(after, want) {
		t.Errorf("%d keys found, %d with nothing kept; %d before half of them were left out", len(after), len(want), len(before))
	}
}
