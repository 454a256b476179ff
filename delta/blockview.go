package delta

import (
	"encoding/binary"
	"fmt"
	"math"

	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// BlockView reads a posting block without copying it. Everything it returns aliases the block.
type BlockView struct {
	block *PostingBlock
	shape BlockShape
	n, w  int
}

// NewBlockView checks every length, offset and dictionary index of the block against the shape, so that no later
// call can fail. A block that does not fit is storage.ErrCorrupt, another layout version storage.ErrUnsupported.
func NewBlockView(b *PostingBlock, shape BlockShape) (*BlockView, error) {
	bad := func(format string, args ...any) (*BlockView, error) {
		return nil, fmt.Errorf("read posting block: %s: %w", fmt.Sprintf(format, args...), storage.ErrCorrupt)
	}
	if b.BlockFormatVersion != BlockFormatVersion {
		return nil, fmt.Errorf("read posting block: layout version %d: %w", b.BlockFormatVersion, storage.ErrUnsupported)
	}
	n, w := int(b.NumVectors), rabitq.RowBytes(shape.Dim)
	if n < 0 || n > len(b.RowLocators) {
		return bad("%d vectors", n)
	}
	if int(b.CodeRowBytes) != w {
		return bad("rows of %d bytes, want %d for %d dimensions", b.CodeRowBytes, w, shape.Dim)
	}
	for _, s := range []struct {
		name      string
		got, want int
	}{
		{"signPlane", len(b.SignPlane), n * w},
		{"exPlanes", len(b.ExPlanes), n * w * (shape.Bits - 1)},
		{"scalarFactors", len(b.ScalarFactors), n * 4 * shape.factors()},
		{"rowLocators", len(b.RowLocators), n * locatorBytes},
		{"recordKeyOffsets", len(b.RecordKeyOffsets), 4 * (n + 1)},
	} {
		if s.got != s.want {
			return bad("%s of %d bytes, want %d for %d vectors", s.name, s.got, s.want, n)
		}
	}
	if len(b.PartitionDict) != len(b.FileGroupDict) {
		return bad("%d partitions for %d file groups", len(b.PartitionDict), len(b.FileGroupDict))
	}
	last := uint32(0)
	for i := range n + 1 {
		off := binary.LittleEndian.Uint32(b.RecordKeyOffsets[4*i:])
		if off < last || int64(off) > int64(len(b.RecordKeyBytes)) || (i == 0 && off != 0) {
			return bad("record key offset %d at %d", off, i)
		}
		last = off
	}
	if int64(last) != int64(len(b.RecordKeyBytes)) {
		return bad("record keys end at %d of %d bytes", last, len(b.RecordKeyBytes))
	}
	v := &BlockView{block: b, shape: shape, n: n, w: w}
	for i := range n {
		g, t, _ := v.locator(i)
		if g >= len(b.FileGroupDict) || t >= len(b.InstantTimeDict) {
			return bad("locator %d names file group %d of %d, instant %d of %d", i, g, len(b.FileGroupDict), t, len(b.InstantTimeDict))
		}
	}
	return v, nil
}

// Len returns the number of vectors.
func (v *BlockView) Len() int { return v.n }

// SignRow returns the sign plane's row of vector i.
func (v *BlockView) SignRow(i int) []byte { return v.block.SignPlane[i*v.w : (i+1)*v.w] }

// SignRows returns the sign plane's rows of all vectors, back to back.
func (v *BlockView) SignRows() []byte { return v.block.SignPlane }

// ExPlanes returns the extended rows of vector i, highest bit first, back to back.
func (v *BlockView) ExPlanes(i int) []byte {
	size := v.w * (v.shape.Bits - 1)
	return v.block.ExPlanes[i*size : (i+1)*size]
}

// ExRows returns the extended rows of all vectors, back to back.
func (v *BlockView) ExRows() []byte { return v.block.ExPlanes }

// Factors returns the factors of vector i; VectorNorm is 0 if the block has none.
func (v *BlockView) Factors(i int) rabitq.Factors {
	f := rabitq.Factors{
		FAdd1: v.factor(0, i), FRescale1: v.factor(1, i), Err1: v.factor(2, i),
		FAddEx: v.factor(3, i), FRescaleEx: v.factor(4, i), ResidualNorm: v.factor(5, i),
	}
	if v.shape.VectorNorm {
		f.VectorNorm = v.factor(6, i)
	}
	return f
}

func (v *BlockView) factor(array, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(v.block.ScalarFactors[4*(array*v.n+i):]))
}

func (v *BlockView) locator(i int) (group, instant int, position int64) {
	l := v.block.RowLocators[i*locatorBytes:]
	return int(binary.LittleEndian.Uint16(l)), int(binary.LittleEndian.Uint16(l[2:])), int64(binary.LittleEndian.Uint32(l[4:]))
}

// Locator returns where row i lies.
func (v *BlockView) Locator(i int) Locator {
	g, t, pos := v.locator(i)
	return Locator{Partition: v.block.PartitionDict[g], FileID: v.block.FileGroupDict[g], BaseInstant: v.block.InstantTimeDict[t], Position: pos}
}

// RecordKey returns the record key of row i as a copy.
func (v *BlockView) RecordKey(i int) string { return string(v.RecordKeyBytes(i)) }

// RecordKeyBytes returns the record key of row i in UTF-8, aliasing the block.
func (v *BlockView) RecordKeyBytes(i int) []byte {
	off := v.block.RecordKeyOffsets[4*i:]
	return v.block.RecordKeyBytes[binary.LittleEndian.Uint32(off):binary.LittleEndian.Uint32(off[4:])]
}

// Posting returns row i unpacked, as it was handed to NewBlock. It copies; for scans use the row accessors.
func (v *BlockView) Posting(i int) Posting {
	code := rabitq.Code{Bits: v.shape.Bits, Sign: append([]byte(nil), v.SignRow(i)[:rabitq.SignBytes(v.shape.Dim)]...), F: v.Factors(i)}
	if planes := v.shape.Bits - 1; planes > 0 {
		code.Levels = make([]byte, v.shape.Dim)
		rows := v.ExPlanes(i)
		for p := range planes {
			row := rows[p*v.w:]
			for d := range code.Levels {
				code.Levels[d] = code.Levels[d]<<1 | row[d/8]>>(d%8)&1
			}
		}
	}
	return Posting{RecordKey: v.RecordKey(i), Locator: v.Locator(i), Code: code}
}
