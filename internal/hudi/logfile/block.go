package logfile

import (
	"fmt"
	"strings"

	"tidemark/internal/storage"
)

// BlockType is the ordinal of a block's kind.
type BlockType int32

// The kinds of block. TypeCorrupt is never stored: it is how this package hands out regions that hold no valid block.
const (
	TypeCommand BlockType = 0
	TypeDelete  BlockType = 1
	TypeCorrupt BlockType = 2
	TypeAvro    BlockType = 3
	TypeHFile   BlockType = 4
	TypeParquet BlockType = 5
	TypeCDC     BlockType = 6
)

// String returns Hudi's name of the kind.
func (t BlockType) String() string {
	names := [...]string{"COMMAND", "DELETE", "CORRUPT", "AVRO_DATA", "HFILE_DATA", "PARQUET_DATA", "CDC_DATA"}
	if t < 0 || int(t) >= len(names) {
		return fmt.Sprintf("type %d", int32(t))
	}
	return names[t]
}

// HeaderKey is the ordinal of a header entry.
type HeaderKey int32

// The header entries of log format version 1.
const (
	InstantTime          HeaderKey = 0 // instant that wrote the block
	TargetInstantTime    HeaderKey = 1 // command: instant that is rolled back
	SchemaKey            HeaderKey = 2 // Avro schema of the records, JSON
	CommandType          HeaderKey = 3 // "0" = rollback
	CompactedBlockTimes  HeaderKey = 4 // instants merged by a log compaction, comma-separated
	RecordPositions      HeaderKey = 5 // Base64 of a 64-bit roaring bitmap
	BlockIdentifier      HeaderKey = 6 // legacy; ignored
	IsPartial            HeaderKey = 7 // "true": records hold only the updated columns
	PositionsBaseInstant HeaderKey = 8 // base file instant that the positions refer to
	rollbackCommand                = "0"
)

// HeaderEntry is one header entry; a block's entries have an order that only matters for writing the same bytes again.
type HeaderEntry struct {
	Key   HeaderKey
	Value string
}

// Block is one block of a log file, or a region that holds none (TypeCorrupt).
type Block struct {
	Type   BlockType
	Header map[HeaderKey]string
	// Entries is the header in file order.
	Entries []HeaderEntry
	// Footer is the footer in file order; empty in every file seen.
	Footer []HeaderEntry
	// Offset and Size are the region in the file: the whole frame, magic included.
	Offset, Size int64
	// ContentOffset and ContentSize are the region of the content in the file.
	ContentOffset, ContentSize int64
	// Content is the content itself; nil from Frames. It aliases a buffer that is not reused.
	Content []byte
	// Reason says why a region is corrupt; "" otherwise.
	Reason string
	// File is the caller's mark, for blocks of several files handed to Effective; this package leaves it at 0.
	File int
	// Trailing marks a corrupt region of 1 to 5 bytes behind the last block, which Hudi takes for the end of the file.
	Trailing bool
}

// Instant returns the instant that wrote the block.
func (b Block) Instant() string { return b.Header[InstantTime] }

// Schema returns the Avro schema of the block's records, "" if it has none.
func (b Block) Schema() string { return b.Header[SchemaKey] }

// Partial says whether the records hold only some columns.
func (b Block) Partial() bool { return strings.EqualFold(b.Header[IsPartial], "true") }

// CompactedTimes returns the instants that a log compaction merged into this block, nil for an ordinary block.
func (b Block) CompactedTimes() []string {
	s, ok := b.Header[CompactedBlockTimes]
	if !ok {
		return nil
	}
	var out []string
	for _, t := range strings.Split(s, ",") {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// IsData says whether the block carries records or deletes.
func (b Block) IsData() bool { return b.Type != TypeCommand && b.Type != TypeCorrupt }

// Rollback returns the instant that a command block rolls back.
func (b Block) Rollback() (target string, ok bool) {
	if b.Type != TypeCommand || b.Header[CommandType] != rollbackCommand {
		return "", false
	}
	target, ok = b.Header[TargetInstantTime]
	return target, ok
}

func (b Block) corrupt(format string, args ...any) error {
	return fmt.Errorf("read log block at byte %d: %s: %w", b.Offset, fmt.Sprintf(format, args...), storage.ErrCorrupt)
}

func (b Block) unsupported(format string, args ...any) error {
	return fmt.Errorf("read log block at byte %d: %s: %w", b.Offset, fmt.Sprintf(format, args...), storage.ErrUnsupported)
}
