package basefile_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"

	"github.com/parquet-go/parquet-go"
)

func open(t testing.TB, b []byte) *basefile.File {
	t.Helper()
	f, err := basefile.Open(t.Context(), storage.BytesSource(b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rows reads all rows, copied.
func rows(f *basefile.File, columns ...string) ([][][]byte, error) {
	var out [][][]byte
	err := f.Read(context.Background(), columns, func(r basefile.Row) error {
		if r.Position != int64(len(out)) {
			return fmt.Errorf("position %d, want %d", r.Position, len(out))
		}
		out = append(out, copied(r.Values))
		return nil
	})
	return out, err
}

func copied(vals [][]byte) [][]byte {
	out := make([][]byte, len(vals))
	for i, v := range vals {
		out[i] = bytes.Clone(v)
	}
	return out
}

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestEveryEncoding(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []struct {
		kind      basefile.Kind
		width     int
		encodings []string
	}{
		{basefile.Bool, 1, []string{"plain"}},
		{basefile.Int32, 4, []string{"plain", "dict", "delta", "split"}},
		{basefile.Int64, 8, []string{"plain", "dict", "delta", "split"}},
		{basefile.Float, 4, []string{"plain", "dict", "split"}},
		{basefile.Double, 8, []string{"plain", "dict", "split"}},
		{basefile.String, 0, []string{"plain", "dict", "delta", "delta_length"}},
		{basefile.Bytes, 0, []string{"plain", "dict", "delta", "delta_length"}},
		{basefile.Fixed, 32, []string{"plain", "dict", "delta", "split"}},
		{basefile.Fixed, 3, []string{"plain", "dict"}},
	}
	for _, k := range kinds {
		for _, enc := range k.encodings {
			for _, version := range []int{1, 2} {
				for _, codec := range []string{"gzip", "none", "snappy", "zstd"} {
					if codec != "gzip" && version == 1 && enc != "plain" {
						continue
					}
					name := fmt.Sprintf("%v%d/%s/v%d/%s", k.kind, k.width, enc, version, codec)
					seed := rng.Uint64()
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						rng := rand.New(rand.NewPCG(seed, 0))
						for _, shape := range []struct{ n, page, group int }{{0, 0, 0}, {1, 0, 0}, {200, 7, 0}, {200, 30, 65}, {120, 0, 50}} {
							for _, required := range []bool{true, false} {
								c := basefiletest.Column{Name: "c", Kind: k.kind, Width: k.width, Encoding: enc, Required: required}
								for i := range shape.n {
									c.Values = append(c.Values, randomValue(rng, c, i))
								}
								b := basefiletest.Write(t, basefiletest.Config{PageRows: shape.page, GroupRows: shape.group, Version: version, Codec: codec}, c)
								checkColumn(t, b, c, rng)
							}
						}
					})
				}
			}
		}
	}
}

func randomValue(rng *rand.Rand, c basefiletest.Column, i int) []byte {
	if !c.Required && (rng.IntN(4) == 0 || i/40%3 == 1) {
		return nil
	}
	if c.Kind == basefile.Bool {
		return []byte{byte(rng.IntN(2))}
	}
	n := c.Width
	if n == 0 {
		n = rng.IntN(12)
	}
	b := make([]byte, n)
	if rng.IntN(3) > 0 { // repeated values, so that dictionaries and runs have work
		for j := range b {
			b[j] = byte(rng.IntN(5))
		}
		return b
	}
	for j := range b {
		b[j] = byte(rng.Uint32())
	}
	return b
}

func checkColumn(t *testing.T, b []byte, c basefiletest.Column, rng *rand.Rand) {
	t.Helper()
	f := open(t, b)
	if f.Rows() != int64(len(c.Values)) || f.ColumnKind("c") != c.Kind || f.ColumnWidth("c") != c.Width && c.Kind != basefile.Bool {
		t.Fatalf("%d rows of %v, want %d of %v", f.Rows(), f.ColumnKind("c"), len(c.Values), c.Kind)
	}
	got, err := rows(f, "c")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(c.Values) {
		t.Fatalf("read %d rows, want %d", len(got), len(c.Values))
	}
	for i, v := range c.Values {
		if !same(got[i][0], v) {
			t.Fatalf("row %d: got %x, want %x (nil %v)", i, got[i][0], v, v == nil)
		}
	}
	var positions []int64
	for i := range c.Values {
		if rng.IntN(9) == 0 {
			positions = append(positions, int64(i))
		}
	}
	without := open(t, b)
	without.ForgetIndexes()
	keeping := open(t, b)
	keeping.Keep(basefile.NewPages(1<<30), "f")
	for _, f := range []*basefile.File{f, without, keeping, keeping} {
		at := 0
		err = f.ReadAt(t.Context(), []string{"c", "c"}, positions, func(r basefile.Row) error {
			if r.Position != positions[at] || !same(r.Values[0], c.Values[r.Position]) || !same(r.Values[1], c.Values[r.Position]) {
				return fmt.Errorf("position %d: got %x at %d, want %x", positions[at], r.Values[0], r.Position, c.Values[positions[at]])
			}
			at++
			return nil
		})
		if err != nil || at != len(positions) {
			t.Fatalf("ReadAt: %d of %d positions: %v", at, len(positions), err)
		}
	}
}

// A second reader, the engine's own, sees the same bytes in every Parquet file of the fixtures.
func TestFixturesAgainstEngine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "elements", "unindexable", "virtual_keys", "flink_upgraded_mor", "keys_unicode", "archived"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := 0
			err := filepath.WalkDir(testkit.Table(t, name), func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
					return err
				}
				files++
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return agree(t, b)
			})
			if err != nil || files == 0 {
				t.Fatal(files, err)
			}
		})
	}
}

func agree(t *testing.T, b []byte) error {
	f := open(t, b)
	pf, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	var columns []string
	var leaves []int
	for _, name := range f.Columns() {
		if f.ColumnKind(name) != basefile.Nested {
			leaf, _ := pf.Schema().Lookup(name)
			columns, leaves = append(columns, name), append(leaves, leaf.ColumnIndex)
		}
	}
	got, err := rows(f, columns...)
	if err != nil {
		return err
	}
	at := 0
	for _, g := range pf.RowGroups() {
		r := g.Rows()
		buf := make([]parquet.Row, 64)
		for {
			n, err := r.ReadRows(buf)
			for _, row := range buf[:n] {
				for i := range columns {
					for _, v := range row {
						if v.Column() != leaves[i] {
							continue
						}
						var want []byte
						if !v.IsNull() {
							if want = v.Bytes(); want == nil {
								want = []byte{}
							}
						}
						if !same(got[at][i], want) {
							return fmt.Errorf("row %d column %s: got %x, want %x", at, columns[i], got[at][i], want)
						}
					}
				}
				at++
			}
			if err != nil || n == 0 {
				break
			}
		}
		r.Close()
	}
	if at != len(got) {
		return fmt.Errorf("%d rows, the engine reads %d", len(got), at)
	}
	return nil
}

// counted counts what is asked of a source.
type counted struct {
	storage.Source
	requests int
	bytes    int64
}

func (c *counted) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	c.requests++
	c.bytes += n
	return c.Source.ReadRange(ctx, off, n)
}

// wide returns a file of n rows with incompressible vectors of 512 bytes, and the vectors.
func wide(t testing.TB, n int) ([]byte, [][]byte) {
	noise := make([]byte, n*576)
	if _, err := rand.NewChaCha8([32]byte{3}).Read(noise); err != nil {
		t.Fatal(err)
	}
	vec := make([][]byte, n)
	filler := make([][]byte, n)
	for i := range vec {
		vec[i], filler[i] = noise[i*576:][:512], noise[i*576+512:][:64]
	}
	return basefiletest.Write(t, basefiletest.Config{Codec: "none", PageRows: 500, Footer: map[string]string{"x": strings.Repeat("y", 300000)}},
		basefiletest.Column{Name: "_hoodie_record_key", Kind: basefile.String, Values: basefiletest.Keys(n)},
		basefiletest.Column{Name: "filler", Kind: basefile.Fixed, Width: 64, Values: filler},
		basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 512, Values: vec}), vec
}

func TestReadsAreRangedAndFew(t *testing.T) {
	t.Parallel()
	const n = 10000
	b, vec := wide(t, n)
	src := &counted{Source: storage.BytesSource(b)}
	f, err := basefile.Open(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if src.requests != 2 {
		t.Errorf("open: %d requests, want 2 (tail, footer)", src.requests)
	}
	src.requests, src.bytes = 0, 0
	read := func(positions ...int64) {
		t.Helper()
		err := f.ReadAt(t.Context(), []string{"v"}, positions, func(r basefile.Row) error {
			if !bytes.Equal(r.Values[0], vec[r.Position]) {
				return fmt.Errorf("position %d: other vector", r.Position)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read(4321)
	page := int64(500 * 512)
	if src.requests != 2 || src.bytes > page*12/10 {
		t.Errorf("one row: %d requests, %d bytes; want offset index + page, at most %d bytes", src.requests, src.bytes, page*12/10)
	}
	src.requests, src.bytes = 0, 0
	read(0, 1, 4321, 9999)
	if src.requests != 3 || src.bytes > 3*page*12/10 {
		t.Errorf("rows of three pages: %d requests, %d bytes; want 3 pages, at most %d bytes", src.requests, src.bytes, 3*page*12/10)
	}
	src.requests, src.bytes = 0, 0
	if _, err := rows(f, "_hoodie_record_key"); err != nil || src.requests != 1 || src.bytes > int64(len(b)/20) {
		t.Errorf("key column: %d requests, %d bytes of %d: %v", src.requests, src.bytes, len(b), err)
	}
}

func TestLargeChunksInWindows(t *testing.T) {
	t.Parallel()
	b, vec := wide(t, 40000) // 20 MB of vectors: above what is taken at once
	src := &counted{Source: storage.BytesSource(b)}
	f, err := basefile.Open(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	src.requests, src.bytes = 0, 0
	err = f.Read(t.Context(), []string{"v", "_hoodie_record_key"}, func(r basefile.Row) error {
		if !bytes.Equal(r.Values[0], vec[r.Position]) {
			return fmt.Errorf("position %d: other vector", r.Position)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if src.requests > 8 || src.bytes > int64(len(b)) {
		t.Errorf("%d requests, %d bytes of %d", src.requests, src.bytes, len(b))
	}
	src.requests, src.bytes = 0, 0
	positions := make([]int64, 0, 40000)
	for i := int64(0); i < 40000; i++ {
		positions = append(positions, i)
	}
	if err := f.ReadAt(t.Context(), []string{"v"}, positions, func(r basefile.Row) error {
		if !bytes.Equal(r.Values[0], vec[r.Position]) {
			return fmt.Errorf("position %d: other vector", r.Position)
		}
		return nil
	}); err != nil || src.bytes > int64(len(b)) {
		t.Errorf("all positions: %d bytes of %d: %v", src.bytes, len(b), err)
	}
	// Pages that are kept are not read again; those that there was no room for are.
	for _, c := range []struct {
		budget int64
		again  bool
	}{{1 << 30, false}, {0, true}} {
		f.Keep(basefile.NewPages(c.budget), "f")
		for range 2 {
			src.requests = 0
			if err := f.ReadAt(t.Context(), []string{"v"}, []int64{7, 8, 20000, 39999}, func(r basefile.Row) error {
				if !bytes.Equal(r.Values[0], vec[r.Position]) {
					return fmt.Errorf("position %d: other vector", r.Position)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if (src.requests > 0) != c.again {
			t.Errorf("budget %d: %d requests the second time", c.budget, src.requests)
		}
	}
}

func TestVectorsOfFooter(t *testing.T) {
	t.Parallel()
	b := basefiletest.Write(t, basefiletest.Config{Footer: map[string]string{"hoodie.vector.columns": "e32:VECTOR(8),e64:VECTOR(8, DOUBLE),i8:VECTOR(16, INT8)"}},
		basefiletest.Column{Name: "e32", Kind: basefile.Fixed, Width: 32, Values: [][]byte{make([]byte, 32)}})
	got, err := open(t, b).Vectors()
	want := []avrox.Vector{{Column: "e32", Dim: 8, Element: "FLOAT", Nullable: true}, {Column: "e64", Dim: 8, Element: "DOUBLE"}, {Column: "i8", Dim: 16, Element: "INT8"}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
	for _, bad := range []string{"e", "e:", "e:VECTOR(", "e:VECTOR(0)", "e:VECTOR(8, HALF)", ":VECTOR(8)", "e:ARRAY(8)"} {
		b := basefiletest.Write(t, basefiletest.Config{Footer: map[string]string{"hoodie.vector.columns": bad}},
			basefiletest.Column{Name: "e", Kind: basefile.Bool, Values: [][]byte{{1}}})
		if _, err := open(t, b).Vectors(); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%q: %v, want corrupt", bad, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := basefiletest.Write(t, basefiletest.Config{}, basefiletest.Column{Name: "k", Kind: basefile.String, Values: basefiletest.Keys(5)})
	f := open(t, b)
	if _, err := rows(f, "nope"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("unknown column: %v", err)
	}
	for _, bad := range [][]int64{{5}, {-1}} {
		if err := f.ReadAt(t.Context(), []string{"k"}, bad, nil); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("positions %v: %v", bad, err)
		}
	}
	if err := f.ReadAt(t.Context(), []string{"k"}, []int64{2, 2}, nil); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("positions that do not ascend: %v", err)
	}
	stop := errors.New("stop")
	if err := f.Read(t.Context(), []string{"k"}, func(basefile.Row) error { return stop }); err != stop {
		t.Errorf("error of fn: %v", err)
	}
	nested := open(t, basefiletest.Write(t, basefiletest.Config{}, basefiletest.Column{Name: "a", Kind: basefile.Nested},
		basefiletest.Column{Name: "k", Kind: basefile.String}))
	if !nested.HasColumn("a") || nested.ColumnKind("a") != basefile.Nested || nested.ColumnKind("b") != basefile.None {
		t.Errorf("nested column: %v", nested.ColumnKind("a"))
	}
	if _, err := rows(nested, "a"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("nested column: %v", err)
	}
	if got, err := rows(nested, "k"); err != nil || len(got) != 0 {
		t.Errorf("file without rows: %v %v", got, err)
	}
}

func TestEmptyGroupFile(t *testing.T) {
	t.Parallel()
	// A file without any row group, as Hudi writes it for a group whose last row was deleted.
	b, err := base64.StdEncoding.DecodeString(emptyFile(t))
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, b)
	got, err := rows(f, f.Columns()...)
	if err != nil || len(got) != 0 || f.Rows() != 0 {
		t.Errorf("%v %v", got, err)
	}
	if err := f.ReadAt(t.Context(), nil, nil, nil); err != nil {
		t.Error(err)
	}
}

func emptyFile(t testing.TB) string {
	var out bytes.Buffer
	w := parquet.NewWriter(&out, parquet.NewSchema("test", parquet.Group{"k": parquet.Optional(parquet.String())}))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}
