package delta

import (
	"fmt"

	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// NewPosting returns the posting delta of one row. The vector's norm is set for every metric (docs/format/posting-delta.md).
// The delta owns its code bytes.
func NewPosting(recordKey string, at Locator, code rabitq.Code) *PostingDelta {
	norm := code.F.VectorNorm
	p := posting(recordKey, at, code, rabitq.DeltaBinary(nil, code), &norm)
	return &p
}

// posting is the posting delta of a row with its code as it is stored, and its norm, which is that of the code.
func posting(recordKey string, at Locator, code rabitq.Code, binary []byte, norm *float32) PostingDelta {
	return PostingDelta{
		RecordKey:  recordKey,
		BinaryCode: binary,
		FAdd1:      code.F.FAdd1, FRescale1: code.F.FRescale1, Err1: code.F.Err1,
		FAddEx: code.F.FAddEx, FRescaleEx: code.F.FRescaleEx, ResidualNorm: code.F.ResidualNorm,
		VectorNorm:  norm,
		FileGroupID: at.FileID, PartitionPath: at.Partition, BaseInstantTime: at.BaseInstant, RowPosition: at.Position,
	}
}

// Locator returns where the row lies.
func (d *PostingDelta) Locator() Locator {
	return Locator{Partition: d.PartitionPath, FileID: d.FileGroupID, BaseInstant: d.BaseInstantTime, Position: d.RowPosition}
}

// Factors returns the stored factors; VectorNorm is 0 if the writer left it out.
func (d *PostingDelta) Factors() rabitq.Factors {
	f := rabitq.Factors{
		FAdd1: d.FAdd1, FRescale1: d.FRescale1, Err1: d.Err1,
		FAddEx: d.FAddEx, FRescaleEx: d.FRescaleEx, ResidualNorm: d.ResidualNorm,
	}
	if d.VectorNorm != nil {
		f.VectorNorm = *d.VectorNorm
	}
	return f
}

// Check refuses a delta whose code has another length than dim and bits ask for, or whose row position is below
// LogPosition. Without it a short code would be scored as if it were whole.
func (d *PostingDelta) Check(dim, bits int) error {
	if want := rabitq.DeltaBytes(dim, bits); len(d.BinaryCode) != want {
		return fmt.Errorf("check posting of %q: code of %d bytes, want %d for %d dimensions and %d bits: %w",
			d.RecordKey, len(d.BinaryCode), want, dim, bits, storage.ErrCorrupt)
	}
	if d.RowPosition < LogPosition {
		return fmt.Errorf("check posting of %q: row position %d: %w", d.RecordKey, d.RowPosition, storage.ErrCorrupt)
	}
	return nil
}
