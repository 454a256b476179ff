package hfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/gzip"

	"tidemark/internal/storage"
)

// Config says how a file is written. The zero value is what Tidemark writes: gzip, CRC32C, 64 KiB blocks, no schema.
type Config struct {
	// Compression is the codec of all blocks. Defaults to GZ.
	Compression Compression
	// Checksum is the kind of checksum behind each block. Defaults to CRC32C.
	Checksum Checksum
	// BlockSize is the plain size in bytes above which a data block is closed, at most DefaultBlockSize: larger blocks
	// lose their last cells in Java readers up to Hudi 1.2.0. Defaults to DefaultBlockSize.
	BlockSize int
	// Schema is the Avro schema of the values, JSON, stored in the file info. Defaults to none.
	Schema string
	// Info holds more entries of the file info, written behind the schema in this order. Defaults to none.
	Info []KV
}

// Writer writes one HFile, block by block. It is not safe for concurrent use.
type Writer struct {
	cfg    Config
	err    error        // first error; kept
	out    io.Writer    // where blocks go
	mem    bytes.Buffer // out of a writer that builds its file in memory
	off    int64        // bytes written
	frame  []byte       // the block that is being written, reused
	block  []byte       // plain payload of the open data block
	first  []byte       // first key of the open block
	index  []byte       // root index payload
	blocks int64
	prev   int64 // offset of the previous data block, -1 if none
	last   []byte

	entries, keyBytes, valueBytes, plain uint64

	zip bytes.Buffer
	zw  *gzip.Writer
}

// NewWriter returns a writer of one file that is built in memory; Finish returns it. A Config that makes no file Hudi could
// read is reported by the first Append or by Finish, with kind storage.ErrRefused.
func NewWriter(cfg Config) *Writer {
	w := NewWriterTo(nil, cfg)
	w.out = &w.mem
	return w
}

// NewWriterTo is NewWriter for a file that goes to out as it grows, the same bytes; Close ends it. In memory are one data block and the
// index, about 100 bytes a block. An error of out is returned by the call that meets it and by all later ones.
func NewWriterTo(out io.Writer, cfg Config) *Writer {
	w := &Writer{cfg: cfg, out: out, prev: -1}
	if w.cfg.BlockSize == 0 {
		w.cfg.BlockSize = DefaultBlockSize
	}
	if w.cfg.BlockSize < 0 || w.cfg.BlockSize > DefaultBlockSize {
		w.err = fmt.Errorf("write hfile: block size %d, allowed are 1 to %d: %w", cfg.BlockSize, DefaultBlockSize, storage.ErrRefused)
	}
	w.zw, _ = gzip.NewWriterLevel(&w.zip, 6)
	return w
}

// Append adds a cell. key is the stored key (EncodeKey of a logical one), 1 to MaxKey bytes, strictly above the one before
// in unsigned byte order; anything else is storage.ErrRefused. Both slices are copied.
func (w *Writer) Append(key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	switch {
	case len(key) == 0 || len(key) > MaxKey:
		w.err = fmt.Errorf("write hfile: key of %d bytes, allowed are 1 to %d: %w", len(key), MaxKey, storage.ErrRefused)
	case len(w.last) > 0 && bytes.Compare(key, w.last) <= 0:
		w.err = fmt.Errorf("write hfile: key %x is not above its predecessor %x: %w", key, w.last, storage.ErrRefused)
	case w.off+int64(len(w.block)+len(value)) > maxFile-2*trailerSize:
		w.err = w.tooLarge()
	}
	if w.err != nil {
		return w.err
	}
	size := cellFixed + len(key) + len(value)
	if len(w.block) > 0 && len(w.block)+size > w.cfg.BlockSize {
		w.closeBlock()
		if w.err != nil {
			return w.err
		}
	}
	if len(w.block) == 0 {
		w.first = append(w.first[:0], key...)
	}
	w.block = binary.BigEndian.AppendUint32(w.block, uint32(keyFixed+len(key)))
	w.block = binary.BigEndian.AppendUint32(w.block, uint32(len(value)))
	w.block = appendCellKey(w.block, key)
	w.block = append(w.block, value...)
	w.block = append(w.block, 0) // MVCC version 0
	w.last = append(w.last[:0], key...)
	w.entries++
	w.keyBytes += uint64(len(key))
	w.valueBytes += uint64(len(value))
	w.plain += uint64(size)
	return nil
}

func (w *Writer) tooLarge() error {
	return fmt.Errorf("write hfile: more than %d bytes: %w", maxFile, storage.ErrRefused)
}

// appendCellKey appends the whole key of a cell: row, no family, no qualifier, latest timestamp, Put.
func appendCellKey(dst, row []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(row)))
	dst = append(append(dst, row...), 0)
	dst = binary.BigEndian.AppendUint64(dst, latestTimestamp)
	return append(dst, typePut)
}

// closeBlock writes the open data block and its index entry.
func (w *Writer) closeBlock() {
	off := w.off
	w.writeBlock(magicData, w.block, w.prev)
	w.block = w.block[:0]
	w.indexed(off)
}

// indexed makes the index entry of the block at off, which was just written.
func (w *Writer) indexed(off int64) {
	w.prev = off
	w.blocks++
	w.index = binary.BigEndian.AppendUint64(w.index, uint64(off))
	w.index = binary.BigEndian.AppendUint32(w.index, uint32(w.off-off))
	w.index = appendVint(w.index, keyFixed+len(w.first))
	w.index = appendCellKey(w.index, w.first)
}

// writeBlock appends header, payload and checksum area.
func (w *Writer) writeBlock(magic string, payload []byte, prev int64) {
	stored := payload
	if w.cfg.Compression == GZ {
		w.zip.Reset()
		w.zw.Reset(&w.zip)
		_, err := w.zw.Write(payload)
		if err == nil {
			err = w.zw.Close()
		}
		if err != nil && w.err == nil { // a bytes.Buffer never fails
			w.err = fmt.Errorf("compress hfile block: %w", err)
		}
		stored = w.zip.Bytes()
	}
	data := headerSize + len(stored)
	chunks := (data + bytesPerChecksum - 1) / bytesPerChecksum
	f := append(w.frame[:0], magic...)
	f = binary.BigEndian.AppendUint32(f, uint32(len(stored)+4*chunks))
	f = binary.BigEndian.AppendUint32(f, uint32(len(payload)))
	f = binary.BigEndian.AppendUint64(f, uint64(prev))
	sumType := byte(2)
	if w.cfg.Checksum == Null {
		sumType = 0
	}
	f = append(f, sumType)
	f = binary.BigEndian.AppendUint32(f, bytesPerChecksum)
	f = binary.BigEndian.AppendUint32(f, uint32(data))
	f = append(f, stored...)
	for i := 0; i < chunks; i++ {
		var sum uint32
		if w.cfg.Checksum == CRC32C {
			sum = crc32.Checksum(f[i*bytesPerChecksum:min((i+1)*bytesPerChecksum, data)], castagnoli)
		}
		f = binary.BigEndian.AppendUint32(f, sum)
	}
	w.frame = f
	w.write(f)
}

// write hands bytes on, unless there was an error.
func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.off += int64(n)
	if err != nil {
		w.err = fmt.Errorf("write hfile: %w", err)
	}
}

// Size is how many bytes were written so far; the open block is not among them.
func (w *Writer) Size() int64 { return w.off }

// Close ends the file. The writer cannot be used afterwards.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if len(w.block) > 0 {
		w.closeBlock()
	}
	t := trailer{
		loadOnOpen: w.off, indexBytes: w.plain, roots: w.blocks, entries: w.entries, levels: 1,
		first: 0, last: max(0, w.prev), comparator: comparatorHudi, compression: w.cfg.Compression,
	}
	if w.blocks == 0 {
		t.first = -1
	}
	w.writeBlock(magicRoot, w.index, -1)
	w.writeBlock(magicRoot, nil, -1)
	t.infoOffset = w.off
	w.writeBlock(magicInfo, appendInfo(nil, w.infoEntries()), -1)
	w.write(t.append(nil))
	if w.err == nil && w.off > maxFile {
		w.err = fmt.Errorf("write hfile: %d bytes, at most %d: %w", w.off, maxFile, storage.ErrRefused)
	}
	if w.err != nil {
		return w.err
	}
	w.err = fmt.Errorf("write hfile: already finished: %w", storage.ErrRefused)
	return nil
}

// Finish is Close for a file in memory. It returns the file's bytes, which are the caller's.
func (w *Writer) Finish() ([]byte, error) {
	if err := w.Close(); err != nil {
		return nil, err
	}
	return w.mem.Bytes(), nil
}

func (w *Writer) infoEntries() []KV {
	var out []KV
	if w.cfg.Schema != "" {
		out = append(out, KV{InfoSchema, []byte(w.cfg.Schema)})
	}
	out = append(out, w.cfg.Info...)
	var last []byte
	var avgKey, avgValue uint64
	if w.entries > 0 {
		last = appendCellKey(nil, w.last)
		avgKey, avgValue = w.keyBytes/w.entries, w.valueBytes/w.entries
	}
	return append(out,
		KV{infoLastKey, last},
		KV{infoAvgValue, binary.BigEndian.AppendUint32(nil, uint32(avgValue))},
		KV{infoAvgKey, binary.BigEndian.AppendUint32(nil, uint32(avgKey))},
		KV{infoKVVersion, []byte{0, 0, 0, 1}},
		KV{infoMaxMVCC, make([]byte, 8)},
		KV{infoCreateTime, make([]byte, 8)},
	)
}
