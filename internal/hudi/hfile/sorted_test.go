package hfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// find returns the values of a key, as a look-up takes them from a block.
func (s *sorted) find(key []byte) (out []string) {
	for at := s.floor(key); at < len(s.cells) && bytes.Equal(s.cells[at].Key, key); at++ {
		out = append(out, string(s.cells[at].Value))
	}
	return out
}

// appendCell appends a cell as it stands in a block of a file without version numbers.
func appendCell(b []byte, c Cell) []byte {
	key := appendCellKey(nil, c.Key)
	b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Value)))
	return append(append(b, key...), c.Value...)
}

// Every key of a block is found with all its values and in their order, and no other key is: keys with long beginnings in common, keys that
// are beginnings of others, zero bytes, the greatest bytes, keys that occur several times, in any order in the block.
func TestSorted(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	sets := map[string]func(i int) string{
		"numbers":         func(i int) string { return fmt.Sprintf("row-%08d", i*7) },
		"one":             func(int) string { return "x" },
		"none or one":     func(i int) string { return strings.Repeat("x", i%2) },
		"zeros":           func(i int) string { return "ab" + strings.Repeat("\x00", i%20) },
		"greatest":        func(i int) string { return strings.Repeat("\xff", i%20) + string(rune('a'+i%3)) },
		"greatest heads":  func(i int) string { return strings.Repeat("\xff", 12) + fmt.Sprint(i) },
		"an outlier":      func(i int) string { return [2]string{"the same for long: ", "a"}[(max(i, 1)-i)] + fmt.Sprint(i) },
		"nested":          func(i int) string { return strings.Repeat("abc", i%30) },
		"words by chance": func(int) string { return strings.Repeat("k", rng.IntN(12)) + fmt.Sprint(rng.IntN(50)) },
		"bytes by chance": func(int) string {
			return string([]byte{byte(rng.IntN(3) * 127), byte(rng.IntN(3) * 127), byte(rng.Uint32())}[:rng.IntN(4)])
		},
	}
	for name, key := range sets {
		for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 10, 64, 300} {
			var cells []Cell
			for i := range n {
				cells = append(cells, Cell{Key: []byte(key(i)), Value: []byte(fmt.Sprint(i))})
			}
			rng.Shuffle(n, func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
			var block []byte
			want := map[string][]string{}
			for _, c := range cells {
				block = appendCell(block, c)
				want[string(c.Key)] = append(want[string(c.Key)], string(c.Value))
			}
			s := &sorted{cells: make([]Cell, 3), heads: make([]uint64, 3), shared: []byte("old")}
			if err := s.fill(&Reader{}, block, 0); err != nil {
				t.Fatal(err)
			}
			if len(s.cells) != n || !slices.IsSortedFunc(s.cells, func(a, b Cell) int { return bytes.Compare(a.Key, b.Key) }) ||
				!slices.IsSortedFunc(s.heads, func(a, b uint64) int { return cmp.Compare(a, b) }) {
				t.Fatalf("%s: %d of %d cells, or in no order", name, len(s.cells), n)
			}
			ask := []string{"", "a", "ab", "row-", "row-00000001", "the same for long: ", "\xff", strings.Repeat("\xff", 40), "x", "xx", "\x00"}
			for k := range want {
				ask = append(ask, k, k+"\x00", k+"x", k[:len(k)/2], k+strings.Repeat("\xff", 9))
			}
			for _, k := range ask {
				if got := s.find([]byte(k)); !slices.Equal(got, want[k]) {
					t.Fatalf("%s, %d keys: %q has %q, want %q", name, n, k, got, want[k])
				}
			}
			if n > 0 && s.size(block) < int64(len(block)+n*56) {
				t.Errorf("%s: %d cells in %d bytes count for %d", name, n, len(block), s.size(block))
			}
		}
	}
}

func TestLower(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		var list []uint64
		for i := range n {
			list = append(list, uint64(i/2*2+1))
		}
		for h := range uint64(n + 3) {
			want, _ := slices.BinarySearch(list, h)
			if got := lower(list, h); got != want {
				t.Errorf("%d in %v: %d, want %d", h, list, got, want)
			}
		}
	}
}
