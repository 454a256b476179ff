package logfile

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

func kindOf(err error) bool {
	return err == nil || errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrUnsupported)
}

// FuzzBlocks feeds any bytes to the reader: no panic, the regions cover the file, and Effective takes whatever comes.
func FuzzBlocks(f *testing.F) {
	file, _, _ := five()
	f.Add(file)
	f.Add(append(rollback("2", "1"), data("3", "x", "compacted", "1,2")...))
	f.Add(AppendBlock(nil, TypeDelete, hdr("1"), DeleteContent(nil, []Delete{{"k", "p", Ordering{Kind: OrderingLong, Int: 3}}})))
	for _, name := range []string{"valid_log_avro_data/.ff32ab89-5ad0-4968-83b4-89a34c95d32f-0_20250316025816068.log.1_0-54-122", "valid_log_delete/.6d3d1d6e-2298-4080-a0c1-494877d6f40a-0_20250618054711154.log.1_0-26-85"} {
		b, err := os.ReadFile(testkit.Path("hudi-rs/log_files/" + name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		blocks, err := collect(b)
		if !kindOf(err) {
			t.Fatal(err)
		}
		at := int64(0)
		for _, blk := range blocks {
			if blk.Offset != at || blk.Size <= 0 {
				t.Fatalf("block at %d of %d bytes, want it at %d", blk.Offset, blk.Size, at)
			}
			at += blk.Size
			_, e1 := blk.AvroRecords()
			_, e2 := blk.Deletes()
			_, _, e3 := blk.Positions()
			if !kindOf(e1) || !kindOf(e2) || !kindOf(e3) {
				t.Fatal(e1, e2, e3)
			}
		}
		if err == nil && at != int64(len(b)) {
			t.Fatalf("%d of %d bytes accounted for", at, len(b))
		}
		Effective(blocks, nil)
		for range Frames(context.Background(), storage.BytesSource(b)) {
		}
	})
}

// FuzzContent feeds any bytes to the parsers of records, deletes and positions.
func FuzzContent(f *testing.F) {
	f.Add(AvroContent(nil, [][]byte{[]byte("a"), {}}))
	f.Add(DeleteContent(nil, []Delete{{"k", "", Ordering{Kind: OrderingString, Bytes: []byte("x")}}}))
	raw, _ := base64.StdEncoding.DecodeString("AQAAAAAAAAAAAAAAOzAAAAEAAAsAAQAAAAsA")
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, e1 := (Block{Type: TypeAvro, Content: b}).AvroRecords()
		_, e2 := (Block{Type: TypeDelete, Content: b}).Deletes()
		text := map[HeaderKey]string{RecordPositions: base64.StdEncoding.EncodeToString(b)}
		pos, _, e3 := (Block{Header: text}).Positions()
		if !kindOf(e1) || !kindOf(e2) || !kindOf(e3) {
			t.Fatal(e1, e2, e3)
		}
		for i := 1; i < len(pos); i++ {
			if pos[i] <= pos[i-1] {
				t.Fatal("positions do not ascend")
			}
		}
	})
}

// FuzzParseName checks that a name that parses prints the same unless its version has leading zeros.
func FuzzParseName(f *testing.F) {
	f.Add(".f_1.log.1_0-0-0.cdc")
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := ParseName(s)
		if !ok {
			return
		}
		if again, ok := ParseName(n.String()); !ok || again != n {
			t.Fatalf("%q gives %+v, printed %q", s, n, n)
		}
	})
}
