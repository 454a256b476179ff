package delta_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/delta"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

func somePostings(n, dim, bits int) []delta.Posting {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	enc := rabitq.NewEncoder(rabitq.NewRotation(dim, 42), bits)
	rows := make([]delta.Posting, n)
	for i := range rows {
		v := make([]float32, dim)
		for d := range v {
			v[d] = r.Float32() - 0.5
		}
		rows[i] = delta.Posting{
			RecordKey: fmt.Sprintf("key-%03d", i),
			Locator: delta.Locator{
				Partition: fmt.Sprint("p", r.IntN(2)), FileID: fmt.Sprint("f", r.IntN(3)),
				BaseInstant: fmt.Sprint(100 + r.IntN(2)), Position: int64(r.IntN(5)),
			},
			Code: enc.Encode(v, nil),
		}
	}
	return rows
}

func TestPackSegmentIsStableUnderOrder(t *testing.T) {
	t.Parallel()
	shape := delta.BlockShape{Dim: 5, Bits: 3, VectorNorm: true}
	rows := somePostings(70, 5, 3)
	want, err := delta.PackSegment(shape, 9, 4, 2, 32, slices.Clone(rows))
	if err != nil {
		t.Fatal(err)
	}
	shuffled := slices.Clone(rows)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	got, err := delta.PackSegment(shape, 9, 4, 2, 32, shuffled)
	if err != nil || !cmp.Equal(got, want) {
		t.Fatalf("another order gives other blocks: %v", err)
	}
	if len(want) != 3 {
		t.Fatalf("got %d blocks, want 3", len(want))
	}
	var back []delta.Posting
	for i, kv := range want {
		if !bytes.Equal(kv.Key, delta.BlockKey(9, 4, 2, uint32(i))) {
			t.Errorf("block %d has key %x", i, kv.Key)
		}
		rec, err := decoder(t, delta.SchemaJSON).Decode(kv.Value)
		if err != nil {
			t.Fatal(err)
		}
		v, err := delta.NewBlockView(rec.(*delta.PostingBlock), shape)
		if err != nil {
			t.Fatal(err)
		}
		for j := range v.Len() {
			back = append(back, v.Posting(j))
		}
	}
	delta.SortPostings(rows)
	if diff := cmp.Diff(back, rows); diff != "" {
		t.Errorf("got - want +\n%s", diff)
	}
}

func TestSameFileIDInTwoPartitions(t *testing.T) {
	t.Parallel()
	rows := somePostings(2, 2, 1)
	rows[0].Locator = delta.Locator{Partition: "eu", FileID: "f", BaseInstant: "1", Position: 3}
	rows[1].Locator = delta.Locator{Partition: "us", FileID: "f", BaseInstant: "1", Position: 3}
	b, err := delta.NewBlock(delta.BlockShape{Dim: 2, Bits: 1}, rows)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.FileGroupDict, []string{"f", "f"}) || !slices.Equal(b.PartitionDict, []string{"eu", "us"}) {
		t.Errorf("dictionaries %q %q", b.FileGroupDict, b.PartitionDict)
	}
	v, err := delta.NewBlockView(b, delta.BlockShape{Dim: 2, Bits: 1})
	if err != nil || v.Locator(0) != rows[0].Locator || v.Locator(1) != rows[1].Locator {
		t.Errorf("locators %+v %+v, %v", v.Locator(0), v.Locator(1), err)
	}
}

func TestNewBlockRefuses(t *testing.T) {
	t.Parallel()
	shape := delta.BlockShape{Dim: 4, Bits: 2}
	for name, change := range map[string]func(*delta.Posting){
		"log row":           func(p *delta.Posting) { p.Locator.Position = delta.LogPosition },
		"position over u32": func(p *delta.Posting) { p.Locator.Position = math.MaxUint32 + 1 },
		"other bits":        func(p *delta.Posting) { p.Code.Bits = 3 },
		"other dimension":   func(p *delta.Posting) { p.Code.Sign = append(p.Code.Sign, 0) },
	} {
		rows := somePostings(3, 4, 2)
		change(&rows[1])
		if _, err := delta.PackSegment(shape, 1, 0, 0, 256, rows); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := make([]delta.Posting, 1<<16+1)
	code := somePostings(1, 4, 2)[0].Code
	for i := range many {
		many[i] = delta.Posting{Locator: delta.Locator{FileID: fmt.Sprint(i)}, Code: code}
	}
	if _, err := delta.NewBlock(shape, many); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("65,537 file groups: %v", err)
	}
	if _, err := delta.NewBlock(shape, many[:1<<16]); err != nil {
		t.Errorf("65,536 file groups: %v", err)
	}
}

func TestNewBlockViewRefuses(t *testing.T) {
	t.Parallel()
	shape := delta.BlockShape{Dim: 4, Bits: 2}
	fresh := func() *delta.PostingBlock {
		b, err := delta.NewBlock(shape, somePostings(3, 4, 2))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, change := range map[string]func(*delta.PostingBlock){
		"negative count":      func(b *delta.PostingBlock) { b.NumVectors = -1 },
		"huge count":          func(b *delta.PostingBlock) { b.NumVectors = math.MaxInt32 },
		"row width":           func(b *delta.PostingBlock) { b.CodeRowBytes = 16 },
		"sign plane cut":      func(b *delta.PostingBlock) { b.SignPlane = b.SignPlane[1:] },
		"extended planes cut": func(b *delta.PostingBlock) { b.ExPlanes = b.ExPlanes[1:] },
		"factors cut":         func(b *delta.PostingBlock) { b.ScalarFactors = b.ScalarFactors[4:] },
		"locators cut":        func(b *delta.PostingBlock) { b.RowLocators = b.RowLocators[1:] },
		"offsets cut":         func(b *delta.PostingBlock) { b.RecordKeyOffsets = b.RecordKeyOffsets[4:] },
		"first offset not 0":  func(b *delta.PostingBlock) { b.RecordKeyOffsets[0] = 1 },
		"offsets fall":        func(b *delta.PostingBlock) { b.RecordKeyOffsets[4] = 0xff },
		"keys longer":         func(b *delta.PostingBlock) { b.RecordKeyBytes = append(b.RecordKeyBytes, 'x') },
		"partition missing":   func(b *delta.PostingBlock) { b.PartitionDict = b.PartitionDict[1:] },
		"group out of range":  func(b *delta.PostingBlock) { b.RowLocators[1] = 0xff },
		"instant over range":  func(b *delta.PostingBlock) { b.RowLocators[3] = 0xff },
	} {
		b := fresh()
		change(b)
		if _, err := delta.NewBlockView(b, shape); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := fresh()
	b.BlockFormatVersion = 2
	if _, err := delta.NewBlockView(b, shape); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("layout version 2: %v", err)
	}
}

func TestPostingDelta(t *testing.T) {
	t.Parallel()
	p := somePostings(1, 10, 4)[0]
	d := delta.NewPosting(p.RecordKey, p.Locator, p.Code)
	if d.Locator() != p.Locator || d.Factors() != p.Code.F || d.VectorNorm == nil {
		t.Errorf("got %+v", d)
	}
	if err := d.Check(10, 4); err != nil {
		t.Error(err)
	}
	if err := d.Check(10, 5); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("other bits: %v", err)
	}
	d.RowPosition = -2
	if err := d.Check(10, 4); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("position -2: %v", err)
	}
	d.VectorNorm = nil
	if d.Factors().VectorNorm != 0 {
		t.Error("a norm out of nowhere")
	}
	if !delta.NeedsNorm(kernel.Cosine, false) || delta.NeedsNorm(kernel.Cosine, true) || delta.NeedsNorm(kernel.Dot, false) {
		t.Error("which blocks have norms")
	}
}
