package delta

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// BlockFormatVersion is the only layout of a posting block.
const BlockFormatVersion = 1

const (
	locatorBytes = 8 // u16 file group, u16 instant, u32 position
	baseFactors  = 6
	// maxDict is how many entries a dictionary may have: its index is a u16.
	maxDict = 1 << 16
	// maxPosition is the largest row position a block can hold.
	maxPosition = math.MaxUint32
)

// BlockShape is what all blocks of a generation have in common.
type BlockShape struct {
	Dim        int
	Bits       int  // 1 to 8
	VectorNorm bool // the seventh factor array is there; see NeedsNorm
}

// NeedsNorm says whether the blocks of an index carry vector norms: only where the estimate divides by them.
func NeedsNorm(m kernel.Metric, assumeNormalized bool) bool {
	return m == kernel.Cosine && !assumeNormalized
}

func (s BlockShape) factors() int {
	if s.VectorNorm {
		return baseFactors + 1
	}
	return baseFactors
}

// Posting is a row ready to be packed.
type Posting struct {
	RecordKey string
	Locator   Locator     // where the row was when the block was packed; its position is at least 0
	Code      rabitq.Code // relative to the cluster's centroid, of the block's Dim and Bits; NewBlock copies it
}

// SortPostings puts the postings of one segment in packing order: file id, row position, record key, strings by
// UTF-16 units (docs/format/posting-block.md); the partition decides between equal file ids of one position and key.
func SortPostings(rows []Posting) {
	slices.SortFunc(rows, func(a, b Posting) int {
		return cmp.Or(
			CompareUTF16(a.Locator.FileID, b.Locator.FileID),
			cmp.Compare(a.Locator.Position, b.Locator.Position),
			CompareUTF16(a.RecordKey, b.RecordKey),
			strings.Compare(a.Locator.Partition, b.Locator.Partition),
		)
	})
}

// group identifies a file group: a file id repeats across partitions in real tables, so both are the identity, and
// one file id may occur twice in a block's dictionary.
type group struct{ partition, fileID string }

// NewBlock packs postings, in the given order, into one block. It refuses (storage.ErrRefused) a row without a base
// position, a code of another shape, and more than 65,536 file groups or instants.
func NewBlock(shape BlockShape, rows []Posting) (*PostingBlock, error) {
	w := rabitq.RowBytes(shape.Dim)
	n := len(rows)
	b := &PostingBlock{
		BlockFormatVersion: BlockFormatVersion,
		NumVectors:         int32(n),
		CodeRowBytes:       int32(w),
		SignPlane:          make([]byte, 0, n*w),
		ExPlanes:           make([]byte, 0, n*w*(shape.Bits-1)),
		ScalarFactors:      make([]byte, n*4*shape.factors()),
		RowLocators:        make([]byte, 0, n*locatorBytes),
		RecordKeyOffsets:   make([]byte, 4, 4*(n+1)),
	}
	groups, instants := map[group]int{}, map[string]int{}
	for i, r := range rows {
		refuse := func(why string) error {
			return fmt.Errorf("pack posting of %q: %s: %w", r.RecordKey, why, storage.ErrRefused)
		}
		if r.Code.Bits != shape.Bits || len(r.Code.Sign) != rabitq.SignBytes(shape.Dim) {
			return nil, refuse(fmt.Sprintf("code of %d bits and %d sign bytes", r.Code.Bits, len(r.Code.Sign)))
		}
		if r.Locator.Position < 0 || r.Locator.Position > maxPosition {
			return nil, refuse(fmt.Sprintf("row position %d does not fit a block", r.Locator.Position))
		}
		b.SignPlane = rabitq.AppendSignRow(b.SignPlane, shape.Dim, r.Code)
		b.ExPlanes = rabitq.AppendExPlanes(b.ExPlanes, shape.Dim, r.Code)
		f := r.Code.F
		arrays := [...]float32{f.FAdd1, f.FRescale1, f.Err1, f.FAddEx, f.FRescaleEx, f.ResidualNorm, f.VectorNorm}
		for j, v := range arrays[:shape.factors()] {
			binary.LittleEndian.PutUint32(b.ScalarFactors[4*(j*n+i):], math.Float32bits(v))
		}
		id := group{r.Locator.Partition, r.Locator.FileID}
		gi, seen := groups[id]
		if !seen {
			gi = len(b.FileGroupDict)
			groups[id] = gi
			b.FileGroupDict = append(b.FileGroupDict, id.fileID)
			b.PartitionDict = append(b.PartitionDict, id.partition)
		}
		ti, seen := instants[r.Locator.BaseInstant]
		if !seen {
			ti = len(b.InstantTimeDict)
			instants[r.Locator.BaseInstant] = ti
			b.InstantTimeDict = append(b.InstantTimeDict, r.Locator.BaseInstant)
		}
		if gi >= maxDict || ti >= maxDict {
			return nil, refuse("more than 65536 file groups or instants in one block")
		}
		b.RowLocators = binary.LittleEndian.AppendUint16(b.RowLocators, uint16(gi))
		b.RowLocators = binary.LittleEndian.AppendUint16(b.RowLocators, uint16(ti))
		b.RowLocators = binary.LittleEndian.AppendUint32(b.RowLocators, uint32(r.Locator.Position))
		b.RecordKeyBytes = append(b.RecordKeyBytes, r.RecordKey...)
		if int64(len(b.RecordKeyBytes)) > math.MaxInt32 {
			return nil, refuse("record keys of one block over 2 GiB")
		}
		b.RecordKeyOffsets = binary.LittleEndian.AppendUint32(b.RecordKeyOffsets, uint32(len(b.RecordKeyBytes)))
	}
	return b, nil
}

// PackSegment sorts the postings of one segment in place and packs them into blocks of perBlock vectors, ids
// counting from 0. It returns them with their keys, ascending.
func PackSegment(shape BlockShape, generation, cluster uint32, segment uint16, perBlock int, rows []Posting) ([]KV, error) {
	SortPostings(rows)
	var out []KV
	for id := uint32(0); len(rows) > 0; id++ {
		if id > MaxBlockID {
			return nil, fmt.Errorf("pack segment %d of cluster %d: no block id left: %w", segment, cluster, storage.ErrRefused)
		}
		n := min(max(1, perBlock), len(rows))
		b, err := NewBlock(shape, rows[:n])
		if err != nil {
			return nil, err
		}
		out = append(out, KV{Key: BlockKey(generation, cluster, segment, id), Value: EncodeRecord(nil, b)})
		rows = rows[n:]
	}
	return out, nil
}
