package basefiletest

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Page is one data page: its bytes in the file and its rows.
type Page struct{ Size, First, Rows int64 }

// open opens a file with the module that everyone uses, apart from this repository's own reader.
func open(t testing.TB, path string) (*parquet.File, func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true))
	if err != nil {
		t.Fatal(err)
	}
	return p, func() { _ = f.Close() }
}

func leaves(p *parquet.File, columns []string) []int {
	var out []int
	for i, path := range p.Schema().Columns() {
		if len(path) == 1 && slices.Contains(columns, path[0]) {
			out = append(out, i)
		}
	}
	return out
}

// Drain reads columns of a file with parquet-go, page after page, and does nothing with them: what reading costs at least. It returns
// the number of rows.
func Drain(t testing.TB, path string, columns ...string) (rows int64) {
	t.Helper()
	p, done := open(t, path)
	defer done()
	for _, g := range p.RowGroups() {
		for _, leaf := range leaves(p, columns) {
			pages := g.ColumnChunks()[leaf].Pages()
			for {
				page, err := pages.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				rows += page.NumRows()
				parquet.Release(page)
			}
			if err := pages.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rows / int64(len(columns))
}

// Pages lists the data pages of a column.
func Pages(t testing.TB, path, column string) (out []Page) {
	t.Helper()
	p, done := open(t, path)
	defer done()
	var first int64
	for _, g := range p.RowGroups() {
		oi, err := g.ColumnChunks()[leaves(p, []string{column})[0]].OffsetIndex()
		if err != nil {
			t.Fatal(err)
		}
		for i := range oi.NumPages() {
			out = append(out, Page{Size: oi.CompressedPageSize(i), First: first + oi.FirstRowIndex(i)})
		}
		first += g.NumRows()
	}
	for i := range out {
		end := first
		if i+1 < len(out) {
			end = out[i+1].First
		}
		out[i].Rows = end - out[i].First
	}
	return out
}
