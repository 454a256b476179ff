package table_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// Keys of tables without meta columns are computed from their columns, or refused where the text is not certain.
func TestVirtualKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		props map[string]string
		ids   [][]byte
		want  string
		kind  error
	}{
		{"simple", nil, basefiletest.Strings("a", "b"), "a=0/<nil>@0 b=0/<nil>@1", nil},
		{"simple, null", nil, basefiletest.Strings("a", "\x00"), "", storage.ErrCorrupt},
		{"simple, empty", nil, basefiletest.Strings(""), "", storage.ErrCorrupt},
		{"a number", map[string]string{"hoodie.table.recordkey.fields": "ts"}, basefiletest.Strings("a"), "7=0/<nil>@0", nil},
		{"complex", map[string]string{"hoodie.table.recordkey.fields": "id,ts", "hoodie.table.keygenerator.type": "COMPLEX"},
			basefiletest.Strings("a", "\x00", ""), "id:a,ts:7=0/<nil>@0 id:__null__,ts:7=0/<nil>@1 id:__empty__,ts:7=0/<nil>@2", nil},
		{"complex with one field", map[string]string{"hoodie.table.keygenerator.type": "COMPLEX"}, basefiletest.Strings("a"), "id:a=0/<nil>@0", nil},
		{"complex with one field, version 8", map[string]string{"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.version": "8"},
			basefiletest.Strings("a"), "", storage.ErrUnsupported},
		{"a double", map[string]string{"hoodie.table.recordkey.fields": "price"}, basefiletest.Strings("a"), "", storage.ErrUnsupported},
		{"no key", map[string]string{"hoodie.table.recordkey.fields": ""}, basefiletest.Strings("a"), "", storage.ErrUnsupported},
		{"no such column", map[string]string{"hoodie.table.recordkey.fields": "x"}, basefiletest.Strings("a"), "", storage.ErrUnsupported},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			props := map[string]string{"hoodie.populate.meta.fields": "false"}
			maps.Copy(props, test.props)
			w := newWorld(t, props)
			n := len(test.ids)
			var ts []int64
			var vs [][]byte
			for range n {
				ts, vs = append(ts, 7), append(vs, raw(0))
			}
			b := basefiletest.Write(t, basefiletest.Config{},
				basefiletest.Column{Name: "id", Kind: basefile.String, Values: test.ids},
				basefiletest.Column{Name: "ts", Kind: basefile.Int64, Values: basefiletest.Longs(ts...)},
				basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 4, Values: vs})
			w.put(basePath(1), b)
			w.commit("commit", 1, 2, nil, stat{path: basePath(1), size: len(b)})
			got, err := w.show(table.Cut{})
			if test.kind != nil {
				if !errors.Is(err, test.kind) || test.kind == storage.ErrUnsupported && !strings.Contains(err.Error(), "virtual keys") {
					t.Errorf("got %q %v, want %v", got, err, test.kind)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %q %v, want %q", got, err, test.want)
			}
		})
	}
}

// Footers are kept: what is read again is the columns only.
func TestFootersAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	tab := open(t, w.st)
	files, err := tab.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := files.Slice(table.Group{Partition: "p", FileID: "g"}, table.Cut{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tab.BaseRows(t.Context(), s); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	before := tab.Stats().Base.Requests
	for range 3 {
		if err := tab.ReadMerged(t.Context(), s, table.Columns{}, func(table.Row) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got := tab.Stats().Base.Requests - before; got != 3 {
		t.Errorf("three reads: %d requests, want 3", got)
	}
	if err := tab.ReadPositions(t.Context(), s, table.Columns{}, []int64{1}, nil); !errors.Is(err, storage.ErrNotFound) || errors.Is(err, table.ErrGone) {
		t.Errorf("position behind the last row: %v", err)
	}
}
