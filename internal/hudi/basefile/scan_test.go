package basefile_test

import (
	"bytes"
	"fmt"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
)

// Two files that differ in some pages give the same values with and without sharing; equal pages are decoded once.
func TestScanPair(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"plain", "dict", "delta"} {
		for _, required := range []bool{true, false} {
			t.Run(fmt.Sprint(encoding, required), func(t *testing.T) {
				t.Parallel()
				keys := basefiletest.Keys(100)
				other := append([][]byte(nil), keys...)
				other[55] = []byte("another")
				if !required {
					other[70] = nil
				}
				write := func(v [][]byte) *basefile.File {
					b := basefiletest.Write(t, basefiletest.Config{PageRows: 10, GroupRows: 40},
						basefiletest.Column{Name: "k", Kind: basefile.String, Encoding: encoding, Required: required, Values: v})
					f, err := basefile.Open(t.Context(), storage.BytesSource(b))
					if err != nil {
						t.Fatal(err)
					}
					return f
				}
				a, b := scan(t, write(keys)), scan(t, write(other))
				basefile.Pair(a, b)
				for i := range 100 {
					for j, s := range []*basefile.Scanner{a, b} {
						ok, err := s.Next(t.Context())
						if err != nil || !ok {
							t.Fatal(i, ok, err)
						}
						want := [][][]byte{keys, other}[j][i]
						if got := s.Row(); got.Position != int64(i) || !bytes.Equal(got.Values[0], want) || (got.Values[0] == nil) != (want == nil) {
							t.Fatalf("row %d of file %d: %d %q, want %q", i, j, got.Position, got.Values[0], want)
						}
					}
				}
				if n := a.Shared + b.Shared; n == 0 || n == 10 {
					t.Errorf("%d pages shared", n)
				}
				if ok, err := a.Next(t.Context()); ok || err != nil {
					t.Error(ok, err)
				}
			})
		}
	}
}

func scan(t *testing.T, f *basefile.File) *basefile.Scanner {
	t.Helper()
	s, err := f.Scan([]string{"k"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
