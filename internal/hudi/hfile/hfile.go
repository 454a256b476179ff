package hfile

import (
	"fmt"

	"tidemark/internal/storage"
)

// Sizes and constants of the format (docs/format/hfile.md).
const (
	headerSize  = 33   // block header
	trailerSize = 4096 // fixed size of the trailer
	cellFixed   = 21   // bytes of a cell beside row and value
	keyFixed    = 12   // bytes of a cell's key beside the row: row length, family length, timestamp, type
	majorV3     = 3

	bytesPerChecksum = 16384
	latestTimestamp  = 0x7fffffffffffffff // the timestamp of every cell
	typePut          = 4                  // the type of every cell
)

const (
	// DefaultBlockSize is the size of a data block that Hudi's readers up to 1.2.0 read whole: they hide the cells
	// that start in the last bytes of a block whose size on disk is above 80 KiB.
	DefaultBlockSize = 65536
	// MaxKey is the longest row: its length is a signed short in Java.
	MaxKey = 32767
	// maxFile is where a file stops being readable by released readers, which cast offsets to 32 bits.
	maxFile = 1<<31 - 1
	// maxInflate is the largest ratio deflate can reach (258 bytes from 2 bits); a header that claims more is wrong.
	maxInflate = 1032
)

const (
	magicData      = "DATABLK*"
	magicEncoded   = "DATABLKE"
	magicMeta      = "METABLKc"
	magicRoot      = "IDXROOT2"
	magicLeaf      = "IDXLEAF2"
	magicInter     = "IDXINTE2"
	magicInfo      = "FILEINF2"
	magicTrailer   = "TRABLK\"$"
	magicBloomMeta = "BLMFMET2"
	magicBloomData = "BLMFBLK2"
	magicBloomDel  = "DFBLMET2"
	magicInfoProto = "PBUF"
)

// Names of comparators in the trailer: unsigned byte order in all of them.
const (
	comparatorHudi  = "org.apache.hudi.io.storage.HoodieHBaseKVComparator"
	comparatorHBase = "org.apache.hadoop.hbase.KeyValue$KVComparator"
	comparatorCell  = "org.apache.hadoop.hbase.CellComparatorImpl"
)

// Keys of the file info that this package reads or writes.
const (
	InfoSchema     = "schema" // Avro schema of the values, JSON
	infoLastKey    = "hfile.LASTKEY"
	infoAvgKey     = "hfile.AVG_KEY_LEN"
	infoAvgValue   = "hfile.AVG_VALUE_LEN"
	infoCreateTime = "hfile.CREATE_TIME_TS"
	infoKVVersion  = "KEY_VALUE_VERSION"
	infoMaxMVCC    = "MAX_MEMSTORE_TS_KEY"
)

// Cell is one key and its value, as stored. Both alias a buffer of the reader and are valid until the next step of the
// iteration; copy what is kept.
type Cell struct{ Key, Value []byte }

// KV is one entry of the file info.
type KV struct {
	Key   string
	Value []byte
}

// Compression is the codec of a file; one codec for all blocks.
type Compression uint8

// The codecs that Hudi uses. The zero value is gzip.
const (
	GZ Compression = iota
	None
)

// codec returns the number in the trailer.
func (c Compression) codec() uint64 {
	if c == None {
		return 2
	}
	return 1
}

// Checksum is the kind of checksum behind each block.
type Checksum uint8

// The checksums that are written. The zero value is CRC32C (type 2); Null is type 0, an area of zero bytes as Hudi's
// own writer leaves it.
const (
	CRC32C Checksum = iota
	Null
)

// corrupt makes an error of kind storage.ErrCorrupt at a byte offset of the file.
func corrupt(off int64, format string, args ...any) error {
	return fmt.Errorf("read hfile at byte %d: %s: %w", off, fmt.Sprintf(format, args...), storage.ErrCorrupt)
}

// unsupported makes an error of kind storage.ErrUnsupported at a byte offset of the file.
func unsupported(off int64, format string, args ...any) error {
	return fmt.Errorf("read hfile at byte %d: %s: %w", off, fmt.Sprintf(format, args...), storage.ErrUnsupported)
}
