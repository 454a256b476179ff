package hfile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/gzip"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block is one decoded block. payload may alias the input or the reader's buffer.
type block struct {
	magic   string
	size    int64 // on disk, header and checksums included
	payload []byte
}

// blockSize returns the size on disk that the header at the start of b claims. b holds at least a header.
func blockSize(b []byte) int64 {
	return headerSize + int64(int32(binary.BigEndian.Uint32(b[8:])))
}

// inflater decompresses gzip members into one buffer that grows as needed.
type inflater struct {
	zr  *gzip.Reader
	src bytes.Reader
	buf []byte
}

// inflate unpacks one gzip member that must give exactly n bytes. The result aliases the inflater's buffer.
func (f *inflater) inflate(off int64, comp []byte, n int) ([]byte, error) {
	if int64(n) > int64(len(comp))*maxInflate {
		return nil, corrupt(off, "%d compressed bytes cannot hold %d", len(comp), n)
	}
	f.src.Reset(comp)
	var err error
	if f.zr == nil {
		f.zr, err = gzip.NewReader(&f.src)
	} else {
		err = f.zr.Reset(&f.src)
	}
	if err != nil {
		f.zr = nil
		return nil, corrupt(off, "gzip header: %v", err)
	}
	f.zr.Multistream(false)
	if cap(f.buf) < n+1 {
		f.buf = make([]byte, n+1)
	}
	buf := f.buf[:n]
	if _, err := io.ReadFull(f.zr, buf); err != nil {
		return nil, corrupt(off, "gzip data: %v", err)
	}
	// One more read reaches the member's own checksum and length.
	if k, err := f.zr.Read(f.buf[n : n+1]); k != 0 || err != io.EOF {
		return nil, corrupt(off, "gzip data: longer than the %d bytes the header says, or %v", n, err)
	}
	if f.src.Len() != 0 {
		return nil, corrupt(off, "%d bytes behind the gzip member", f.src.Len())
	}
	return buf, nil
}

// decode checks and unpacks the block at the start of b, which lies at byte off of the file. want lists the magics that may
// stand there. With a nil inflater the payload is checked but not unpacked.
func decode(b []byte, off int64, c Compression, f *inflater, want ...string) (block, error) {
	if len(b) < headerSize {
		return block{}, corrupt(off, "block header needs %d bytes, %d are left", headerSize, len(b))
	}
	blk := block{magic: string(b[:8])}
	known := false
	for _, m := range want {
		known = known || m == blk.magic
	}
	if !known {
		if blk.magic == magicEncoded {
			return block{}, unsupported(off, "data block encoding")
		}
		return block{}, corrupt(off, "magic %q, want %q", blk.magic, want)
	}
	onDisk := int64(int32(binary.BigEndian.Uint32(b[8:])))
	plain := int64(int32(binary.BigEndian.Uint32(b[12:])))
	sumType := b[24]
	perSum := int64(int32(binary.BigEndian.Uint32(b[25:])))
	dataSize := int64(int32(binary.BigEndian.Uint32(b[29:])))
	if onDisk < 0 || onDisk > int64(len(b))-headerSize {
		return block{}, corrupt(off, "block of %d bytes, %d are left", onDisk, len(b)-headerSize)
	}
	if plain < 0 || perSum <= 0 || dataSize < headerSize || dataSize > headerSize+onDisk {
		return block{}, corrupt(off, "block header: uncompressed %d, bytes per checksum %d, data %d of %d", plain, perSum, dataSize, onDisk)
	}
	blk.size = headerSize + onDisk
	if chunks := (dataSize + perSum - 1) / perSum; 4*chunks != blk.size-dataSize {
		return block{}, corrupt(off, "checksum area of %d bytes for %d chunks", blk.size-dataSize, chunks)
	}
	if err := verify(b[:dataSize], b[dataSize:blk.size], off, sumType, perSum); err != nil {
		return block{}, err
	}
	stored := b[headerSize:dataSize]
	if c == None {
		if plain != int64(len(stored)) {
			return block{}, corrupt(off, "uncompressed size %d, payload %d", plain, len(stored))
		}
		blk.payload = stored
		return blk, nil
	}
	if f == nil {
		return blk, nil
	}
	var err error
	blk.payload, err = f.inflate(off, stored, int(plain))
	return blk, err
}

// verify checks the checksum area: CRC per chunk for types 1 and 2, zero bytes for type 0.
func verify(data, sums []byte, off int64, sumType byte, perSum int64) error {
	var table *crc32.Table
	switch sumType {
	case 0:
		for _, c := range sums {
			if c != 0 {
				return corrupt(off, "checksum type 0 with a checksum area that is not zero")
			}
		}
		return nil
	case 1:
		table = crc32.IEEETable
	case 2:
		table = castagnoli
	default:
		return corrupt(off, "checksum type %d", sumType)
	}
	for i := 0; len(data) > 0; i++ {
		n := min(int64(len(data)), perSum)
		if got, want := crc32.Checksum(data[:n], table), binary.BigEndian.Uint32(sums[4*i:]); got != want {
			return corrupt(off, "checksum of chunk %d is %08x, stored %08x", i, got, want)
		}
		data = data[n:]
	}
	return nil
}
