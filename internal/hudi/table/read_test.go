package table_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

// Reading by key and by position gives the rows of the whole read; the position is −1 exactly for keys in a log.
func TestReadKeysAndPositions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_basic", "cow_basic", "merge_event_time", "partial_update", "parquet_logs", "virtual_keys", "keys_complex", "javaclient_mor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tab := open(t, load(t, name))
			files, err := tab.Files(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := columnsOf(tab)
			for s, err := range files.Slices(table.Cut{}) {
				if err != nil {
					t.Fatal(err)
				}
				checkReads(t, tab, s, c)
			}
		})
	}
}

func checkReads(t *testing.T, tab *table.Table, s table.Slice, c table.Columns) {
	t.Helper()
	rows := map[string]string{}
	var positions []int64
	byPosition := map[int64]string{}
	if err := tab.ReadMerged(t.Context(), s, c, func(r table.Row) error {
		rows[r.Key] = fmt.Sprint(r)
		if r.Position >= 0 {
			positions = append(positions, r.Position)
			byPosition[r.Position] = fmt.Sprint(r.Key, r.CommitTime, r.Vectors, r.Others, r.Vectors == nil)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	inLogs := logKeys(t, tab, s)
	keys := map[string]bool{"no such key": true}
	n := 0
	for key, text := range rows {
		if inLogs[key] != strings.Contains(text, " -1 ") {
			t.Errorf("%s %q: in a log %v, row %s", s.Group, key, inLogs[key], text)
		}
		if n++; n%3 == 0 {
			keys[key] = true
		}
	}
	found := 0
	if err := tab.ReadKeys(t.Context(), s, c, keys, func(r table.Row) error {
		if found++; rows[r.Key] != fmt.Sprint(r) || !keys[r.Key] {
			t.Errorf("%q by key: %v, want %v", r.Key, r, rows[r.Key])
		}
		return nil
	}); err != nil || found != len(keys)-1 {
		t.Errorf("%d of %d keys: %v", found, len(keys)-1, err)
	}
	if s.Base == nil {
		if err := tab.ReadPositions(t.Context(), s, c, nil, nil); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("positions without a base file: %v", err)
		}
		return
	}
	found = 0
	if err := tab.ReadPositions(t.Context(), s, c, positions, func(r *table.SliceRow) error {
		if got := fmt.Sprint(string(r.Key), string(r.Commit), r.Vectors, r.Others, len(c.Vectors) == 0); r.Position != positions[found] || byPosition[r.Position] != got {
			t.Errorf("position %d: %v, want %v", r.Position, got, byPosition[r.Position])
		}
		found++
		return nil
	}); err != nil || found != len(positions) {
		t.Errorf("%d of %d positions: %v", found, len(positions), err)
	}
}

// logKeys reads the keys of all blocks of a slice's logs by the key column alone.
func logKeys(t *testing.T, tab *table.Table, s table.Slice) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	only := s
	only.Base = nil
	for _, l := range s.Logs {
		for b, err := range logfile.Blocks(t.Context(), storage.FileSource(tab.Store, l.Path, l.Size)) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Type == logfile.TypeDelete {
				list, err := b.Deletes()
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					keys[d.Key] = true
				}
			}
			if b.Type == logfile.TypeParquet {
				f, err := basefile.Open(t.Context(), storage.BytesSource(b.Content))
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Read(t.Context(), []string{"_hoodie_record_key"}, func(r basefile.Row) error {
					keys[string(r.Values[0])] = true
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if b.Type == logfile.TypeAvro {
				for _, k := range avroKeys(t, b) {
					keys[k] = true
				}
			}
		}
	}
	return keys
}

// What a read asks of the store is counted, and little.
func TestReadsAreCounted(t *testing.T) {
	t.Parallel()
	tab := open(t, load(t, "cow_basic"))
	files, err := tab.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lists := tab.Stats().List.Requests
	if lists != 1 { // one partition, the table itself
		t.Errorf("%d listings, want 1", lists)
	}
	for s, err := range files.Slices(table.Cut{}) {
		if err != nil {
			t.Fatal(err)
		}
		before := tab.Stats()
		if err := tab.ReadMerged(t.Context(), s, table.Columns{Vectors: []string{"embedding"}}, func(table.Row) error { return nil }); err != nil {
			t.Fatal(err)
		}
		got := tab.Stats().Base.Requests - before.Base.Requests
		if bytes := tab.Stats().Base.Bytes - before.Base.Bytes; got != 3 || bytes > s.Base.Size+64 {
			t.Errorf("%s: %d requests, %d bytes of %d; want tail, footer and one span", s.Group, got, bytes, s.Base.Size)
		}
	}
	if s := tab.Stats(); s.Log != (table.Count{}) {
		t.Errorf("log reads of a table without logs: %+v", s.Log)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	empty := mem.New("empty")
	empty.Put("x/readme", []byte("hello"), world{}.time)
	if _, err := table.Open(t.Context(), empty); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("no table: %v, hint %q", err, storage.Hint(err))
	}
	for _, name := range []string{"v6", "v6_array", "flink_v6_mor", "flink_v6_cow", "flink_v6_bucket", "flink_v6_append"} {
		tab := open(t, load(t, name))
		if len(tab.Timeline.Writes()) == 0 {
			t.Errorf("%s: no writes on its timeline", name)
		}
		for what, err := range map[string]error{"write": tab.Props.CheckWritable(), "files": second(tab.Files(t.Context())),
			"rows": tab.ReadMerged(t.Context(), table.Slice{}, table.Columns{}, nil)} {
			if !errors.Is(err, storage.ErrUnsupported) || storage.Hint(err) == "" || !strings.Contains(err.Error(), "version 6") {
				t.Errorf("%s, %s: %v, hint %q", name, what, err, storage.Hint(err))
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestVectorColumn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ table, column, want string }{
		{"elements", "e64", ""},
		{"two_vectors", "b", ""},
		{"elements", "nope", "no such column"},
		{"elements", "id", "not a VECTOR"},
		{"elements", "e64.x", "nested in e64"},
		{"flink_upgraded_mor", "embedding", "plain array"},
	} {
		v, err := open(t, load(t, test.table)).Vector(test.column)
		if test.want == "" {
			if err != nil || v.Column != test.column || v.Bytes() == 0 {
				t.Errorf("%s.%s: %v %v", test.table, test.column, v, err)
			}
			continue
		}
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), test.want) || storage.Hint(err) == "" {
			t.Errorf("%s.%s: %v, hint %q; want %q", test.table, test.column, err, storage.Hint(err), test.want)
		}
	}
}

// A column of another type in a file is the file's fault; an old file without the column has NULL there.
func TestColumnOfAnotherType(t *testing.T) {
	t.Parallel()
	keys := basefiletest.Strings("k")
	column := func(c ...basefiletest.Column) []byte {
		return basefiletest.Write(t, basefiletest.Config{}, append(c,
			basefiletest.Column{Name: "_hoodie_record_key", Kind: basefile.String, Values: keys},
			basefiletest.Column{Name: "_hoodie_commit_time", Kind: basefile.String, Values: keys})...)
	}
	for name, test := range map[string]struct {
		b    []byte
		want string // "" = an error
	}{
		"other length": {column(basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 8, Values: [][]byte{make([]byte, 8)}}), ""},
		"bytes":        {column(basefiletest.Column{Name: "v", Kind: basefile.Bytes, Values: [][]byte{make([]byte, 4)}}), ""},
		"plain array":  {column(basefiletest.Column{Name: "v", Kind: basefile.Nested, Values: [][]byte{nil}}), ""},
		"no column":    {column(), "k=null/<nil>@0"},
	} {
		w := newWorld(t, nil)
		w.put(basePath(1), test.b)
		w.commit("commit", 1, 2, nil, stat{path: basePath(1), size: len(test.b)})
		got, err := w.show(table.Cut{})
		if test.want == "" {
			if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), basePath(1)) || storage.Hint(err) == "" {
				t.Errorf("%s: %q %v", name, got, err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// An error of the receiver comes back as it is, wherever it is raised.
func TestReceiverStops(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for _, name := range []string{"mor_basic", "nbcc_event_time"} {
		tab := open(t, load(t, name))
		files, err := tab.Files(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for s, err := range files.Slices(table.Cut{}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := tab.ReadMerged(t.Context(), s, table.Columns{}, func(table.Row) error { return stop }); err != stop {
				t.Errorf("%s: %v", s.Group, err)
			}
		}
	}
}

// A cancelled context ends the reading.
func TestCancelled(t *testing.T) {
	t.Parallel()
	tab := open(t, load(t, "cow_basic"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tab.Files(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("files: %v", err)
	}
}
