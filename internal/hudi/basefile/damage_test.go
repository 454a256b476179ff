package basefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// Every truncation and many flipped bytes: an error of a kind or the right answer, no panic, nothing silently short.
func TestDamage(t *testing.T) {
	t.Parallel()
	vals := [][]byte{[]byte("aa"), nil, []byte(""), []byte("bbbb"), []byte("aa"), []byte("c")}
	for _, cfg := range []basefiletest.Config{{PageRows: 2}, {PageRows: 2, Version: 2, Codec: "snappy"}, {Codec: "none", GroupRows: 3}} {
		for _, enc := range []string{"plain", "dict", "delta"} {
			b := basefiletest.Write(t, cfg, basefiletest.Column{Name: "k", Kind: basefile.String, Encoding: enc, Values: vals})
			try := func(what string, b []byte) {
				f, err := basefile.Open(t.Context(), storage.BytesSource(b))
				n := 0
				if err == nil {
					if f.ColumnKind("k") != basefile.String && f.ColumnKind("k") != basefile.Bytes {
						return
					}
					err = f.Read(t.Context(), []string{"k"}, func(basefile.Row) error { n++; return nil })
					if err == nil && int64(n) != f.Rows() {
						t.Errorf("%s: %d of %d rows without an error", what, n, f.Rows())
					}
					f.ReadAt(t.Context(), []string{"k"}, []int64{0, 3, 5}, func(basefile.Row) error { return nil })
				}
				if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
					t.Errorf("%s: error without a kind: %v", what, err)
				}
			}
			for n := range b {
				try(fmt.Sprintf("cut at %d", n), b[:n])
				if _, err := basefile.Open(t.Context(), storage.BytesSource(b[:n])); err == nil {
					t.Errorf("cut at %d: opened", n)
				}
			}
			for i := range b {
				mask := []byte{0x01, 0x80, 0xff}[i%3]
				damaged := bytes.Clone(b)
				damaged[i] ^= mask
				try(fmt.Sprintf("byte %d ^ %02x", i, mask), damaged)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, enc := range []string{"plain", "dict"} {
		f.Add(basefiletest.Write(f, basefiletest.Config{}, basefiletest.Column{Name: "k", Kind: basefile.String, Encoding: enc, Values: basefiletest.Keys(3)}))
	}
	f.Add([]byte("PAR1"))
	real, err := filepath.Glob(filepath.Join(testkit.Table(f, "virtual_keys"), "eu", "*.parquet")) // without a bloom filter, so small
	if err != nil || len(real) == 0 {
		f.Fatal(real, err)
	}
	for _, path := range real {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := basefile.Open(t.Context(), storage.BytesSource(b))
		if err != nil {
			return
		}
		for _, c := range file.Columns() {
			_ = file.Read(t.Context(), []string{c}, func(basefile.Row) error { return nil })
		}
	})
}
