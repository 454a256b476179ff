package delta_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/vector/rabitq"
)

func FuzzDecode(f *testing.F) {
	g := goldenRecords(f)
	for _, c := range append(g.A, g.Blocks...) {
		f.Add(append(make([]byte, 5), c.Value...))
	}
	own, err := delta.NewDecoder(delta.SchemaJSON)
	if err != nil {
		f.Fatal(err)
	}
	generic, err := avrox.ParseSchema(delta.SchemaJSON)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := own.Decode(b)
		if err != nil {
			return
		}
		native, rest, err := generic.Decode(b)
		if err != nil || len(rest) != 0 {
			t.Fatalf("only the hand-written decoder reads %x: %v", b, err)
		}
		byName, err := delta.DecodeRecord(native)
		if err != nil || !cmp.Equal(plain(byName), plain(rec)) {
			t.Fatalf("the two decoders differ on %x: %v", b, err)
		}
		again := delta.EncodeRecord(nil, rec)
		if rec2, err := own.Decode(again); err != nil || !cmp.Equal(plain(rec2), plain(rec)) {
			t.Fatalf("%x does not survive encoding: %v", b, err)
		}
		if block, ok := rec.(*delta.PostingBlock); ok {
			for _, shape := range []delta.BlockShape{{Dim: 8, Bits: 4}, {Dim: 16, Bits: 8, VectorNorm: true}, {Dim: 3, Bits: 2}} {
				if v, err := delta.NewBlockView(block, shape); err == nil {
					for i := range v.Len() {
						_ = v.Posting(i)
					}
				}
			}
		}
	})
}

func float32s(t testing.TB, bitsHex []string) []float32 {
	t.Helper()
	out := make([]float32, len(bitsHex))
	for i, s := range bitsHex {
		var u uint32
		if _, err := fmt.Sscanf(s, "%x", &u); err != nil {
			t.Fatal(err)
		}
		out[i] = math.Float32frombits(u)
	}
	return out
}

func TestGoldenBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range goldenRecords(t).Blocks {
		rec, err := decoder(t, delta.SchemaJSON).Decode(append(make([]byte, 5), c.Value...))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Rows) == 0 {
			shape := delta.BlockShape{Dim: 8, Bits: 4}
			empty, err := delta.NewBlock(shape, nil)
			if err != nil || !bytes.Equal(delta.EncodeRecord(nil, empty)[5:], c.Value) {
				t.Errorf("%s: %v", c.Name, err)
			}
			continue
		}
		shape := delta.BlockShape{Dim: c.Dim, Bits: c.Bits, VectorNorm: c.Norm}
		rot := rabitq.NewRotation(c.Dim, 42)
		center := make([]float32, c.Dim)
		rot.Apply(center, float32s(t, c.Center))
		enc := rabitq.NewEncoder(rot, c.Bits)
		var rows []delta.Posting
		for _, r := range c.Rows {
			rows = append(rows, delta.Posting{
				RecordKey: r.RecordKey,
				Locator:   delta.Locator{Partition: r.Partition, FileID: r.Group, BaseInstant: r.Instant, Position: r.Position},
				Code:      enc.Encode(float32s(t, r.Vector), center),
			})
		}
		block, err := delta.NewBlock(shape, rows)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(block), plain(rec)); diff != "" {
			t.Errorf("%s: got - want +\n%s", c.Name, diff)
		}
		view, err := delta.NewBlockView(rec.(*delta.PostingBlock), shape)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if !shape.VectorNorm {
				r.Code.F.VectorNorm = 0
			}
			if diff := cmp.Diff(view.Posting(i), r); diff != "" {
				t.Errorf("%s row %d: got - want +\n%s", c.Name, i, diff)
			}
			if !bytes.Equal(view.SignRow(i), c.Rows[i].Sign) || !bytes.Equal(view.ExPlanes(i), c.Rows[i].Ex) {
				t.Errorf("%s row %d: planes differ", c.Name, i)
			}
		}
	}
}
