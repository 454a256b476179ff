package basefile_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
)

// coded is n rows of a column with a dictionary of 250 texts of 1,000 bytes.
func coded(n int) basefiletest.Column {
	vals := make([][]byte, n)
	for i := range vals {
		vals[i] = bytes.Repeat([]byte{byte(i % 250)}, 1000)
	}
	return basefiletest.Column{Name: "c", Kind: basefile.String, Encoding: "dict", Values: vals}
}

// A dictionary counts as what it takes, once for all pages of its chunk, and is not read again for another page.
func TestDictionaryOfKeptPages(t *testing.T) {
	t.Parallel()
	const n, dictionary = 4000, 250_000
	for _, codec := range []string{"none", "snappy"} {
		c := coded(n)
		b := basefiletest.Write(t, basefiletest.Config{PageRows: 200, Codec: codec}, c)
		src := &counted{Source: storage.BytesSource(b)}
		f, err := basefile.Open(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		pages := basefile.NewPages(8 << 20)
		f.Keep(pages, "f")
		read := func(positions ...int64) {
			t.Helper()
			src.bytes = 0
			if err := f.ReadAt(t.Context(), []string{"c"}, positions, func(r basefile.Row) error {
				if !bytes.Equal(r.Values[0], c.Values[r.Position]) {
					return fmt.Errorf("row %d has another value", r.Position)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		read(300)
		first := pages.Stats()
		if first.Bytes < dictionary || first.Bytes > dictionary*3/2 {
			t.Errorf("%s: one page counts %d bytes, its dictionary has %d", codec, first.Bytes, dictionary)
		}
		read(10, 700)
		if got := pages.Stats(); got.Kept != first.Kept+2 || got.Bytes > first.Bytes+4096 {
			t.Errorf("%s: two more pages of a chunk: %+v, before %+v", codec, got, first)
		}
		if src.bytes > 20_000 {
			t.Errorf("%s: %d bytes read for two pages of a chunk whose dictionary is kept", codec, src.bytes)
		}
		if read(5, 399, 601); src.bytes != 0 {
			t.Errorf("%s: %d bytes read of pages that are kept", codec, src.bytes)
		}
	}
}

// Pages whose dictionary had to go are read again, and a dictionary that is large for the budget keeps its pages out.
func TestDictionaryWithoutRoom(t *testing.T) {
	t.Parallel()
	c := coded(500)
	b := basefiletest.Write(t, basefiletest.Config{PageRows: 50}, c)
	for budget, most := range map[int64]int64{2_200_000: 2_200_000, 1_000_000: 0} {
		pages := basefile.NewPages(budget)
		var files []*basefile.File
		for i := range 10 { // whose dictionaries do not fit together
			f := open(t, b)
			f.Keep(pages, fmt.Sprint(i))
			files = append(files, f)
		}
		for i := range int64(200) {
			at := i * 37 % 450
			if err := files[i*7%10].ReadAt(t.Context(), []string{"c"}, []int64{at, at + 50}, func(r basefile.Row) error {
				if !bytes.Equal(r.Values[0], c.Values[r.Position]) {
					return fmt.Errorf("row %d has another value", r.Position)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if got := pages.Stats(); got.Bytes > most || (got.Evicted > 0) != (most > 0) {
			t.Errorf("budget %d: %+v", budget, got)
		}
	}
}

// lent overwrites what it has handed out.
type lent struct {
	storage.Source
	out      [][]byte
	requests int
}

func (l *lent) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	b, err := l.Source.ReadRange(ctx, off, n)
	l.out = append(l.out, b)
	l.requests++
	return b, err
}

func (l *lent) scribble() {
	for _, b := range l.out {
		for i := range b {
			b[i] = 0xA5
		}
	}
	l.out, l.requests = nil, 0
}

// No kept page lies in what was fetched, which may be many pages together.
func TestKeptPagesOwnTheirMemory(t *testing.T) {
	t.Parallel()
	const n = 400
	texts, vectors := basefiletest.Keys(n), make([][]byte, n)
	for i := range vectors {
		if i%5 != 0 {
			vectors[i] = bytes.Repeat([]byte{byte(i % 7)}, 16)
		}
	}
	for _, codec := range []string{"none", "snappy", "gzip", "zstd", "snappy, stored as they are"} {
		for _, version := range []int{1, 2} {
			for _, enc := range []string{"plain", "dict", "delta", "delta_length"} {
				say := codec == "snappy, stored as they are"
				if say && (version == 1 || enc == "dict") { // which cannot be stored so
					continue
				}
				name := fmt.Sprintf("%s, version %d, %s", codec, version, enc)
				cfg := basefiletest.Config{PageRows: 100, Version: version, Codec: codec}
				if say {
					cfg.Codec = "none"
				}
				fixed := enc
				if enc != "dict" {
					fixed = "plain"
				}
				src := &lent{Source: storage.BytesSource(basefiletest.Write(t, cfg, basefiletest.Column{Name: "k", Kind: basefile.String, Encoding: enc, Values: texts},
					basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 16, Encoding: fixed, Values: vectors}))}
				f, err := basefile.Open(t.Context(), src)
				if err != nil {
					t.Fatal(err)
				}
				if say {
					f.SayCompressed()
				}
				f.Keep(basefile.NewPages(1<<20), "f")
				for range 2 {
					src.scribble()
					if err := f.ReadAt(t.Context(), []string{"k", "v"}, []int64{3, 99, 100, 355}, func(r basefile.Row) error {
						if !same(r.Values[0], texts[r.Position]) || !same(r.Values[1], vectors[r.Position]) {
							return fmt.Errorf("row %d: got %q, %x", r.Position, r.Values[0], r.Values[1])
						}
						return nil
					}); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				if src.requests != 0 {
					t.Errorf("%s: pages were not kept", name)
				}
			}
		}
	}
}
