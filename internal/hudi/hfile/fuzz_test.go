package hfile

import (
	"context"
	"errors"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// FuzzOpen feeds any bytes to the reader: no panic, no run-away allocation, and only the two kinds of error.
func FuzzOpen(f *testing.F) {
	f.Add(write(f, Config{}, randomCells(1, 3, 20)))
	f.Add(write(f, Config{Compression: None, Checksum: Null, BlockSize: 50}, randomCells(1, 4, 20)))
	f.Add(write(f, Config{}, nil))
	f.Add(testkit.File(f, "hudi-rs/hfile/hudi_1_0_hbase_2_4_9_no_entry.hfile"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open(context.Background(), storage.BytesSource(b))
		if err == nil {
			var cells []Cell
			if cells, err = all(r, nil); err == nil {
				for _, c := range cells[:min(len(cells), 4)] {
					// A mis-sorted file may hide a key; it must not give an error.
					if err := r.Lookup(context.Background(), [][]byte{c.Key}, func(int, []byte) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
			t.Fatal(err)
		}
	})
}

// FuzzCells feeds any payload under a right checksum to the cell parser, both index codings.
func FuzzCells(f *testing.F) {
	f.Add(cellBytes("row", "value"), []byte("row"))
	f.Add(append(cellBytes("a", ""), cellBytes("b", "x")...), []byte("a"))
	f.Fuzz(func(t *testing.T, payload, row []byte) {
		if len(row) > MaxKey {
			return
		}
		r, err := Open(context.Background(), storage.BytesSource(single(payload, 1, string(row), false)))
		if err == nil {
			_, err = all(r, nil)
		}
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
			t.Fatal(err)
		}
	})
}

// FuzzIndex feeds any bytes to the parsers of index blocks and file info.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 3, 'r', 'o', 'w'}, int64(1))
	f.Add(bare(nil, entry{off: 0, size: 50}, "row", true), int64(1))
	f.Add(appendInfo(nil, []KV{{"k", []byte("v")}}), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, count int64) {
		_, e1 := parseBranch(b, 1000)
		_, e2 := parseRoot(b, 1000, max(0, count), true, count&1 == 0)
		_, e3 := parseInfo(b, 0)
		for _, err := range []error{e1, e2, e3} {
			if err != nil && !errors.Is(err, storage.ErrCorrupt) {
				t.Fatal(err)
			}
		}
	})
}
