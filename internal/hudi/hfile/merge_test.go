package hfile

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// each hands on changes, and then err.
func each(changes []Change, err error) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for _, c := range changes {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

// cellsOf reads a file whole, which checks its totals.
func cellsOf(t *testing.T, file []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for c, err := range open(t, file).Scan(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		out[string(c.Key)] = string(c.Value)
	}
	return out
}

// Merges over merges of random changes leave what a map says, in blocks that stay half full, and copy what no change falls into.
func TestMergeLikeAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		if testkit.Thinned(int(seed), 10) {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := Config{BlockSize: 1 + r.IntN(3000), Schema: "s"}
		if seed%5 == 0 {
			cfg.Compression = None
		}
		want := map[string]string{}
		key := func() string { return fmt.Sprintf("k%05d", r.IntN(4000)) }
		file := write(t, cfg, nil)
		for round := range 12 {
			byKey := map[string]Change{}
			n := r.IntN(40)
			if round == 0 {
				n = r.IntN(3000)
			}
			from := key() // changes of some rounds lie together
			for range n {
				k := key()
				if round%3 == 1 {
					k = from[:3] + k[3:]
				}
				byKey[k] = Change{Key: []byte(k), Value: fmt.Appendf(nil, "%d-%0*d", round, r.IntN(200), seed), Drop: r.IntN(4) == 0}
			}
			var changes []Change
			for _, k := range slices.Sorted(maps.Keys(byKey)) {
				changes = append(changes, byKey[k])
				if delete(want, k); !byKey[k].Drop {
					want[k] = string(byKey[k].Value)
				}
			}
			w := NewWriter(cfg)
			base := open(t, file)
			count, err := Merge(t.Context(), w, base, each(changes, nil))
			if err != nil {
				t.Fatal(err)
			}
			blocks, _ := base.Blocks(t.Context())
			if count.Copied+count.Unpacked != blocks {
				t.Fatalf("seed %d: %+v of %d blocks", seed, count, blocks)
			}
			if file, err = w.Finish(); err != nil {
				t.Fatal(err)
			}
			beside := cfg
			beside.Ahead = 1 + r.IntN(5)
			w = NewWriter(beside)
			again, err := Merge(t.Context(), w, base, each(changes, nil))
			if b, e := w.Finish(); err != nil || e != nil || again != count || !bytes.Equal(b, file) {
				t.Fatalf("seed %d, round %d: other bytes with %d blocks ahead: %v, %v", seed, round, beside.Ahead, err, e)
			}
			if got := cellsOf(t, file); !maps.Equal(got, want) {
				t.Fatalf("seed %d, round %d: %d cells, want %d", seed, round, len(got), len(want))
			}
			// Every file is read by keys, too.
			var keys [][]byte
			for k := range want {
				keys = append(keys, []byte(k))
			}
			found := 0
			after := open(t, file)
			if err := after.Lookup(t.Context(), keys, func(i int, v []byte) error {
				if found++; want[string(keys[i])] != string(v) {
					t.Errorf("key %s: %s", keys[i], v)
				}
				return nil
			}); err != nil || found != len(want) {
				t.Fatalf("found %d of %d, %v", found, len(want), err)
			}
			if n, _ := after.Blocks(t.Context()); n > 3+4*int(after.t.indexBytes)/cfg.BlockSize+len(want)*300/max(cfg.BlockSize, 300) {
				t.Errorf("seed %d, round %d: %d blocks for %d bytes in blocks of %d", seed, round, n, after.t.indexBytes, cfg.BlockSize)
			}
		}
	}
}

func TestMergeCopiesWhatIsUntouched(t *testing.T) {
	t.Parallel()
	var cells []Cell
	for i := range 3000 {
		cells = append(cells, Cell{Key: fmt.Appendf(nil, "k%06d", i), Value: bytes.Repeat([]byte{byte(i), byte(i >> 3)}, 100)})
	}
	base := open(t, write(t, Config{}, cells))
	all, _ := base.Blocks(t.Context())
	for name, c := range map[string]struct {
		changes []Change
		most    int // blocks unpacked
	}{
		"nothing":       {nil, 0},
		"one":           {[]Change{{Key: []byte("k001500"), Value: []byte("x")}}, 1},
		"behind all":    {[]Change{{Key: []byte("z"), Value: []byte("x")}}, 1},
		"before all":    {[]Change{{Key: []byte("a"), Value: []byte("x")}}, 1},
		"none is there": {[]Change{{Key: []byte("k001500x"), Drop: true}}, 1},
	} {
		w := NewWriter(Config{})
		count, err := Merge(t.Context(), w, base, each(c.changes, nil))
		if err != nil || count.Unpacked > c.most || count.Copied < all-c.most {
			t.Errorf("%s: %+v of %d blocks, %v", name, count, all, err)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if got := cellsOf(t, b); len(got) < len(cells) {
			t.Errorf("%s: %d cells", name, len(got))
		}
	}
}

func TestMergeStopsAtAnError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	file := write(t, Config{}, randomCells(1, 500, 300))
	for _, changes := range [][]Change{nil, {{Key: []byte("a")}}} {
		if _, err := Merge(t.Context(), NewWriter(Config{}), open(t, file), each(changes, boom)); !errors.Is(err, boom) {
			t.Errorf("%v", err)
		}
	}
	back := []Change{{Key: []byte("b")}, {Key: []byte("a")}}
	if _, err := Merge(t.Context(), NewWriter(Config{}), open(t, write(t, Config{}, nil)), each(back, nil)); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("descending changes: %v", err)
	}
	// A damaged block is not copied.
	for at := range 2000 {
		bad := bytes.Clone(file)
		bad[at*len(bad)/2000] ^= 0x10
		r, err := Open(t.Context(), storage.BytesSource(bad))
		if err != nil {
			continue
		}
		w := NewWriter(Config{})
		_, err = Merge(t.Context(), w, r, each(nil, nil))
		if blocks, _ := r.Blocks(t.Context()); err == nil && blocks > 0 {
			b, _ := w.Finish()
			if !maps.Equal(cellsOf(t, b), cellsOf(t, file)) {
				t.Fatalf("byte %d flipped: other cells", at*len(bad)/2000)
			}
		}
	}
}
