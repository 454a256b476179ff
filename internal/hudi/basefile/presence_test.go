package basefile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// patterns are which of n rows are null.
func patterns(n int, rng *rand.Rand) map[string]func(i int) bool {
	odd := rng.IntN(n)
	return map[string]func(int) bool{
		"none":              func(int) bool { return false },
		"all":               func(int) bool { return true },
		"one":               func(i int) bool { return i == odd },
		"all but one":       func(i int) bool { return i != odd },
		"the last":          func(i int) bool { return i == n-1 },
		"the first":         func(i int) bool { return i == 0 },
		"first of 64":       func(i int) bool { return i%64 == 0 },
		"last of 64":        func(i int) bool { return i%64 == 63 },
		"both sides of 64":  func(i int) bool { return i%64 == 63 || i%64 == 0 },
		"every second 64":   func(i int) bool { return i/64%2 == 1 },
		"half, by chance":   func(int) bool { return rng.IntN(2) == 0 },
		"a tenth by chance": func(int) bool { return rng.IntN(10) == 0 },
	}
}

// Where a row's value lies is what counting all rows before it gives.
func TestPresence(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 63, 64, 65, 127, 128, 129, 200, 1000} {
		for name, null := range patterns(n, rng) {
			levels := make([]byte, n)
			for i := range levels {
				if !null(i) {
					levels[i] = 1
				}
			}
			before := 0
			for i, d := range levels {
				at, ok := basefile.Place(levels, i)
				if ok != (d == 1) || ok && at != before {
					t.Fatalf("%d rows, null: %s: row %d at %d, %v; want %d, %v", n, name, i, at, ok, before, d == 1)
				}
				before += int(d)
			}
			if got := basefile.Present(levels); got != before {
				t.Errorf("%d rows, null: %s: %d values, want %d", n, name, got, before)
			}
			if words := basefile.Words(levels); (words == 0) != (before == n) {
				t.Errorf("%d rows, null: %s: %d words", n, name, words)
			}
		}
	}
	if basefile.Present(nil) != 0 {
		t.Error("values in a page without rows")
	}
}

// Rows with nulls in pages of more than 64 rows, read by position in pieces, from a file and from pages that are kept.
func TestNullsByPosition(t *testing.T) {
	t.Parallel()
	const n = 700
	rng := rand.New(rand.NewPCG(5, 6))
	for name, null := range patterns(n, rng) {
		for _, version := range []int{1, 2} {
			for _, enc := range []string{"plain", "dict"} {
				t.Run(fmt.Sprintf("%s/v%d/%s", name, version, enc), func(t *testing.T) {
					vals := basefiletest.Keys(n)
					for i := range vals {
						if null(i) {
							vals[i] = nil
						}
					}
					b := basefiletest.Write(t, basefiletest.Config{PageRows: 150, GroupRows: 500, Version: version},
						basefiletest.Column{Name: "k", Kind: basefile.String, Encoding: enc, Values: vals})
					f := open(t, b)
					f.Keep(basefile.NewPages(1<<30), "f")
					for range 4 {
						var positions []int64
						for i := range n {
							if d := i % 64; d < 2 || d > 62 || rng.IntN(20) == 0 || i%150 < 2 || i%150 == 149 {
								positions = append(positions, int64(i))
							}
						}
						var got []int64
						err := f.ReadAt(t.Context(), []string{"k"}, positions, func(r basefile.Row) error {
							if !same(r.Values[0], vals[r.Position]) {
								return fmt.Errorf("row %d: got %q, want %q", r.Position, r.Values[0], vals[r.Position])
							}
							got = append(got, r.Position)
							return nil
						})
						if err != nil || !slices.Equal(got, positions) {
							t.Fatalf("%d of %d rows: %v", len(got), len(positions), err)
						}
					}
				})
			}
		}
	}
}

// A page that holds fewer rows than the offset index says is refused, also once it is kept.
func TestShortPageOfIndex(t *testing.T) {
	t.Parallel()
	f := open(t, basefiletest.Write(t, basefiletest.Config{PageRows: 100}, basefiletest.Column{Name: "k", Kind: basefile.String, Values: basefiletest.Keys(300)}))
	f.Keep(basefile.NewPages(1<<30), "f")
	read := func(positions ...int64) error {
		return f.ReadAt(t.Context(), []string{"k"}, positions, func(basefile.Row) error { return nil })
	}
	if err := read(5); err != nil {
		t.Fatal(err)
	}
	f.ForgetPages()
	for _, positions := range [][]int64{{5}, {99}, {5, 99}, {100}, {5, 250}, {299}} {
		if err := read(positions...); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("rows %v: %v, want corrupt", positions, err)
		}
	}
}

// One flipped bit anywhere in a file, the offset indexes above all, is an error or shows each row's own vector: a column's offset index alone says which
// rows a page has, and that of the key cannot tell that another's is wrong. What reading all rows in order does not notice either is not asked about:
// values that nothing protects where they are not compressed.
func TestFlippedBitNeverShiftsRows(t *testing.T) {
	t.Parallel()
	const n = 300
	keys, vectors := basefiletest.Keys(n), make([][]byte, n)
	for i := range vectors {
		if i%7 != 3 {
			vectors[i] = binary.LittleEndian.AppendUint64(nil, uint64(i)*0x0101010101)
		}
	}
	b := basefiletest.Write(t, basefiletest.Config{PageRows: 100}, basefiletest.Column{Name: "k", Kind: basefile.String, Values: keys},
		basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 8, Values: vectors})
	wrong := func(r basefile.Row) bool {
		return bytes.Equal(r.Values[0], keys[r.Position]) && !bytes.Equal(r.Values[1], vectors[r.Position])
	}
	columns, refused := []string{"k", "v"}, 0
	for i := range 8 * len(b) {
		if testkit.Thinned(i, 8) || i < 4*len(b) && i%7 != 0 { // the indexes are behind the pages
			continue
		}
		damaged := bytes.Clone(b)
		damaged[i/8] ^= 1 << (i % 8)
		whole, shifted := false, false
		for _, positions := range [][]int64{{5, 95, 105, 150, 250}, {105}, {95}, {299}} {
			f, err := basefile.Open(t.Context(), storage.BytesSource(damaged))
			if err != nil {
				refused++
				continue
			}
			if i%3 == 0 { // the second time they are kept
				f.Keep(basefile.NewPages(1<<30), "f")
			}
			for range 2 {
				if err := f.ReadAt(t.Context(), columns, positions, func(r basefile.Row) error {
					shifted = shifted || wrong(r)
					return nil
				}); err != nil {
					refused++
				}
			}
		}
		if f, err := basefile.Open(t.Context(), storage.BytesSource(damaged)); err == nil {
			_ = f.Read(t.Context(), columns, func(r basefile.Row) error {
				whole = whole || r.Position < n && wrong(r)
				return nil
			})
		}
		if shifted && !whole {
			t.Errorf("bit %d of byte %d of %d: the vector of another row", i%8, i/8, len(b))
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
