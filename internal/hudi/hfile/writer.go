package hfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

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
	// Ahead is how many data blocks may be compressed beside the caller, each by a goroutine that ends with it; the bytes are the same whatever
	// it is. Defaults to 0: a block is compressed in the call that closes it.
	Ahead int
}

// Writer writes one HFile, block by block. It is not safe for concurrent use.
type Writer struct {
	cfg    Config
	err    error        // first error; kept
	out    io.Writer    // where blocks go
	mem    bytes.Buffer // out of a writer that builds its file in memory
	off    int64        // bytes written
	ahead  []*packed    // closed data blocks that are not written yet, in order
	bound  int64        // what those take at most
	idle   []*packed    // for the next ones
	block  []byte       // plain payload of the open data block
	first  []byte       // first key of the open block
	index  []byte       // root index payload
	blocks int64
	prev   int64 // offset of the previous data block, -1 if none
	last   []byte

	entries, keyBytes, valueBytes, plain uint64
}

// NewWriter returns a writer of one file that is built in memory; Finish returns it. A Config that makes no file Hudi could
// read is reported by the first Append or by Finish, with kind storage.ErrRefused.
func NewWriter(cfg Config) *Writer {
	w := NewWriterTo(nil, cfg)
	w.out = &w.mem
	return w
}

// NewWriterTo is NewWriter for a file that goes to out as it grows, the same bytes; Close ends it. In memory are one data block, those ahead, and
// the index, about 100 bytes a block. An error of out is returned by the call that meets it and by all later ones.
func NewWriterTo(out io.Writer, cfg Config) *Writer {
	w := &Writer{cfg: cfg, out: out, prev: -1}
	if w.cfg.BlockSize == 0 {
		w.cfg.BlockSize = DefaultBlockSize
	}
	if w.cfg.BlockSize < 0 || w.cfg.BlockSize > DefaultBlockSize {
		w.err = fmt.Errorf("write hfile: block size %d, allowed are 1 to %d: %w", cfg.BlockSize, DefaultBlockSize, storage.ErrRefused)
	}
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
	case w.Reaches(maxFile - 2*trailerSize + 1 - int64(len(w.block)+len(value))):
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

// closeBlock hands on the open data block.
func (w *Writer) closeBlock() {
	p := w.spare()
	p.plain, w.block = w.block, p.plain[:0]
	p.first = append(p.first[:0], w.first...)
	w.queue(p, int64(len(p.plain)+len(p.plain)/1000)+frameRoom)
}

// writeBlock writes a block that is no data block, or that does not count as one.
func (w *Writer) writeBlock(magic string, payload []byte, prev int64) {
	p := w.spare()
	p.plain = append(p.plain[:0], payload...)
	p.pack(magic, w.cfg)
	w.emit(p, prev)
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

// Size is how many bytes the closed blocks have. It waits for those ahead.
func (w *Writer) Size() int64 {
	w.leave(0)
	return w.off
}

// Reaches says whether Size is n at least, and waits only where it may be.
func (w *Writer) Reaches(n int64) bool { return w.off+w.bound >= n && w.Size() >= n }

// Close ends the file. The writer cannot be used afterwards.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if len(w.block) > 0 {
		w.closeBlock()
	}
	w.leave(0)
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
