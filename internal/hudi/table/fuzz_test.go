package table

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

// FuzzLog feeds any bytes as a log file to a real table's reader: blocks of every kind are decoded, folded by key and merged onto a base
// row. Whatever comes, there is no panic, and an error is of a kind.
func FuzzLog(f *testing.F) {
	var tab *Table
	for _, name := range []string{"partial_update", "merge_event_time", "parquet_logs", "log_compaction", "cdc_mor", "elements_mor"} {
		dir := testkit.Table(f, name)
		if tab == nil {
			st, err := mem.FromDir(name, dir)
			if err != nil {
				f.Fatal(err)
			}
			if tab, err = Open(f.Context(), st); err != nil {
				f.Fatal(err)
			}
		}
		seeds := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || seeds == 3 || !strings.Contains(d.Name(), ".log.") || strings.Contains(path, ".hoodie/metadata") {
				return err
			}
			b, err := os.ReadFile(path)
			if seeds++; len(b) < 8<<10 { // large inputs make fuzzing slow
				f.Add(b)
			}
			return err
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := tab.plan(Columns{Vectors: []string{"embedding"}, Others: []string{"price"}}, true)
		if err != nil {
			t.Fatal(err)
		}
		kind := func(err error) {
			if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
				t.Fatalf("error of no kind: %v", err)
			}
		}
		l := &logs{byKey: map[string]*record{}}
		for blk, err := range logfile.Blocks(t.Context(), storage.BytesSource(b)) {
			if kind(err); err != nil {
				return
			}
			kind(p.records(t.Context(), blk, func(key string, r *record) error { return l.put(p, key, r) }))
		}
		if len(l.order) != len(l.byKey) {
			t.Fatalf("%d keys in order, %d by name", len(l.order), len(l.byKey))
		}
		vals := make([]any, len(p.names))
		for _, at := range p.order {
			vals[at] = int64(20)
		}
		order, err := p.orderingOf(vals)
		if err != nil {
			t.Fatal(err)
		}
		m := &merger{t: tab, p: p, logs: l, seen: map[string]bool{}}
		for i, key := range l.order {
			out, keep, err := p.final(&record{order: order, vals: vals}, l.byKey[key])
			if kind(err); err == nil && out != nil && (keep || out.has != nil || len(out.vals) != len(vals)) {
				t.Fatalf("key %q merges to %+v", key, out)
			}
			_, row, err := m.only(i)
			if kind(err); err == nil && row != nil && len(row) != len(vals) {
				t.Fatalf("key %q alone is %v", key, row)
			}
		}
	})
}
