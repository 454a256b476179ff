package hfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"sync"

	"tidemark/internal/storage"
)

const (
	// tailRead is what Open reads at once: trailer and, for most files of a metadata table, everything else that is needed.
	tailRead = 32 << 10
	// runGap and runSize bound how blocks are read together: a hole is cheaper than a request up to runGap, and one
	// request asks for no more than runSize bytes unless a single block is larger.
	runGap  = 16 << 10
	runSize = 1 << 20
)

// Reader reads one HFile. It is safe for concurrent use.
type Reader struct {
	src       storage.Source
	t         trailer
	tail      []byte // last bytes of the file, from tailOff on
	tailOff   int64
	info      []KV
	schema    string
	root      []entry
	rootBytes uint64 // plain size of the root index
	metas     []entry
	mvcc      bool
	kept      *Blocks // of look-ups; nil: none are kept
	file      string  // among those that share kept

	mu     sync.Mutex
	blocks []entry // guarded by mu: all data blocks of a multi-level file, once they are known
}

// Open reads trailer, root index and file info, and checks them: checksums (zero bytes for type 0), lengths, contiguous
// sections, known comparator. Data blocks are checked when they are read. Errors are storage.ErrCorrupt and
// storage.ErrUnsupported (other codecs, encryption, HFile versions 1 and 2), or what src returns.
func Open(ctx context.Context, src storage.Source) (*Reader, error) {
	size := src.Size()
	if size < trailerSize+3*headerSize {
		return nil, corrupt(0, "file of %d bytes is too short for an hfile", size)
	}
	r := &Reader{src: src}
	n := min(size, tailRead)
	r.tailOff = size - n
	var err error
	if r.tail, err = src.ReadRange(ctx, r.tailOff, n); err != nil {
		return nil, fmt.Errorf("read hfile trailer: %w", err)
	}
	end := size - trailerSize
	if r.t, err = parseTrailer(r.tail[n-trailerSize:], end); err != nil {
		return nil, err
	}
	section, err := r.read(ctx, r.t.loadOnOpen, end-r.t.loadOnOpen)
	if err != nil {
		return nil, fmt.Errorf("read hfile index: %w", err)
	}
	if err := r.load(section); err != nil {
		return nil, err
	}
	if r.t.native {
		if err := r.contiguous(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// load parses the load-on-open section: root index, meta index, file info, then perhaps bloom filters of HBase.
func (r *Reader) load(b []byte) error {
	var f inflater
	off := r.t.loadOnOpen
	next := func(want ...string) (block, int64, error) {
		at := off
		blk, err := decode(b, at, r.t.compression, &f, want...)
		if err == nil {
			blk.payload = bytes.Clone(blk.payload)
			off += blk.size
			b = b[blk.size:]
		}
		return blk, at, err
	}
	blk, at, err := next(magicRoot)
	if err != nil {
		return err
	}
	r.rootBytes = uint64(len(blk.payload))
	if r.root, err = parseRoot(blk.payload, at, r.t.roots, true, r.t.levels > 1); err != nil {
		return err
	}
	if err := ascending(r.root, at); err != nil {
		return err
	}
	if blk, at, err = next(magicRoot); err != nil {
		return err
	}
	if r.metas, err = parseRoot(blk.payload, at, r.t.metas, false, false); err != nil {
		return err
	}
	if off != r.t.infoOffset {
		return corrupt(off, "file info expected here, the trailer says %d", r.t.infoOffset)
	}
	if blk, at, err = next(magicInfo); err != nil {
		return err
	}
	if r.info, err = parseInfo(blk.payload, at); err != nil {
		return err
	}
	schema, _ := r.Info(InfoSchema)
	r.schema = string(schema)
	for len(b) > 0 {
		if _, _, err := next(magicBloomMeta, magicBloomDel, magicRoot); err != nil {
			return err
		}
	}
	v, ok := r.Info(infoKVVersion)
	r.mvcc = ok && len(v) == 4 && binary.BigEndian.Uint32(v) == 1
	if len(r.root) == 0 {
		if r.t.entries != 0 || r.t.first != -1 || (r.t.last != 0 && r.t.last != -1) {
			return corrupt(at, "no index entries, but %d cells, first block at %d, last at %d", r.t.entries, r.t.first, r.t.last)
		}
		return nil
	}
	if r.t.levels == 1 && (r.root[0].off != r.t.first || r.root[len(r.root)-1].off != r.t.last) {
		return corrupt(at, "data blocks from %d to %d, the trailer says %d to %d", r.root[0].off, r.root[len(r.root)-1].off, r.t.first, r.t.last)
	}
	return nil
}

// ascending refuses an index whose blocks overlap or go back.
func ascending(list []entry, off int64) error {
	for i := 1; i < len(list); i++ {
		if list[i].off < list[i-1].off+list[i-1].size {
			return corrupt(off, "index entry %d points at %d, inside or before its predecessor", i, list[i].off)
		}
	}
	return nil
}

// contiguous checks that the blocks of a native file cover it without a hole: data, meta, load-on-open section.
func (r *Reader) contiguous() error {
	at := int64(0)
	for _, list := range [][]entry{r.root, r.metas} {
		for i, e := range list {
			if e.off != at {
				return corrupt(at, "%d bytes belong to no block (before index entry %d)", e.off-at, i)
			}
			at += e.size
		}
	}
	if at != r.t.loadOnOpen {
		return corrupt(at, "%d bytes belong to no block (before the index)", r.t.loadOnOpen-at)
	}
	return nil
}

// Schema returns the Avro schema of the values, "" if the file carries none.
func (r *Reader) Schema() string { return r.schema }

// Info returns an entry of the file info. The value must not be changed.
func (r *Reader) Info(key string) ([]byte, bool) {
	for _, e := range r.info {
		if e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}

// InfoEntries returns the file info in file order. It must not be changed.
func (r *Reader) InfoEntries() []KV { return r.info }

// Entries returns the number of cells that the trailer names; a whole Scan checks it.
func (r *Reader) Entries() uint64 { return r.t.entries }

// Compression returns the codec of the file.
func (r *Reader) Compression() Compression { return r.t.compression }

// MetaNames returns the names of the meta blocks (bloom filters), which this package never reads.
func (r *Reader) MetaNames() []string {
	var out []string
	for _, e := range r.metas {
		out = append(out, string(e.row))
	}
	return out
}

// Blocks returns how many data blocks the file has.
func (r *Reader) Blocks(ctx context.Context) (int, error) {
	blocks, err := r.index(ctx)
	return len(blocks), err
}

// read returns n bytes at off, from the tail that Open kept if it holds them.
func (r *Reader) read(ctx context.Context, off, n int64) ([]byte, error) {
	if off >= r.tailOff {
		return r.tail[off-r.tailOff : off-r.tailOff+n : off-r.tailOff+n], nil
	}
	return r.src.ReadRange(ctx, off, n)
}

// runs reads the named blocks in order, neighbours together, and hands each block's bytes to fn.
func (r *Reader) runs(ctx context.Context, list []entry, fn func(e entry, raw []byte) error) error {
	for len(list) > 0 {
		n := 1
		start, end := list[0].off, list[0].off+list[0].size
		for n < len(list) && list[n].off-end <= runGap && list[n].off+list[n].size-start <= runSize {
			end = list[n].off + list[n].size
			n++
		}
		raw, err := r.read(ctx, start, end-start)
		if err != nil {
			return fmt.Errorf("read hfile blocks: %w", err)
		}
		for _, e := range list[:n] {
			if err := fn(e, raw[e.off-start:e.off-start+e.size]); err != nil {
				return err
			}
		}
		list = list[n:]
	}
	return nil
}

// unpack decodes the block of an index entry; the sizes in index and header must agree.
func (r *Reader) unpack(f *inflater, e entry, raw []byte, want ...string) ([]byte, error) {
	blk, err := decode(raw, e.off, r.t.compression, f, want...)
	if err != nil {
		return nil, err
	}
	if blk.size != e.size {
		return nil, corrupt(e.off, "block of %d bytes, the index says %d", blk.size, e.size)
	}
	return blk.payload, nil
}

// index returns all data blocks. A multi-level index is read at first use and kept.
func (r *Reader) index(ctx context.Context) ([]entry, error) {
	if r.t.levels == 1 || len(r.root) == 0 {
		return r.root, nil
	}
	r.mu.Lock()
	blocks := r.blocks
	r.mu.Unlock()
	if blocks != nil {
		return blocks, nil
	}
	list := r.root
	for level := r.t.levels; level > 1; level-- {
		var next []entry
		var f inflater
		err := r.runs(ctx, list, func(e entry, raw []byte) error {
			payload, err := r.unpack(&f, e, raw, magicLeaf, magicInter)
			if err != nil {
				return err
			}
			more, err := parseBranch(bytes.Clone(payload), e.off)
			next = append(next, more...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if err := ascending(next, list[0].off); err != nil {
			return nil, err
		}
		list = next
	}
	if list[0].off != r.t.first || list[len(list)-1].off != r.t.last {
		return nil, corrupt(r.t.loadOnOpen, "data blocks from %d to %d, the trailer says %d to %d", list[0].off, list[len(list)-1].off, r.t.first, r.t.last)
	}
	r.mu.Lock()
	r.blocks = list
	r.mu.Unlock()
	return list, nil
}

// stop ends an iteration early; it never leaves the package.
type stop struct{}

func (stop) Error() string { return "stop" }

// Scan returns the cells whose key starts with prefix, in file order; nil means all. Keys are stored keys (EncodeKey).
// A whole scan also checks the cell count, the plain size and the last key that the file names. An error is the last step.
func (r *Reader) Scan(ctx context.Context, prefix []byte) iter.Seq2[Cell, error] {
	return func(yield func(Cell, error) bool) {
		err := r.scan(ctx, prefix, func(c Cell) error {
			if !yield(c, nil) {
				return stop{}
			}
			return nil
		})
		if err != nil && err != error(stop{}) {
			yield(Cell{}, err)
		}
	}
}

func (r *Reader) scan(ctx context.Context, prefix []byte, fn func(Cell) error) error {
	blocks, err := r.index(ctx)
	if err != nil {
		return err
	}
	if len(prefix) > 0 {
		first := max(0, floor(blocks, prefix))
		last := first
		for last < len(blocks) && (bytes.Compare(blocks[last].row, prefix) <= 0 || bytes.HasPrefix(blocks[last].row, prefix)) {
			last++
		}
		blocks = blocks[first:last]
	}
	var f inflater
	var count, plain uint64
	var last []byte
	err = r.runs(ctx, blocks, func(e entry, raw []byte) error {
		payload, err := r.unpack(&f, e, raw, magicData)
		if err != nil {
			return err
		}
		return r.cells(payload, e.off, func(c Cell) error {
			count++
			plain += uint64(cellFixed + len(c.Key) + len(c.Value))
			if len(prefix) == 0 {
				last = append(last[:0], c.Key...)
			}
			if !bytes.HasPrefix(c.Key, prefix) {
				return nil
			}
			return fn(c)
		})
	})
	if err != nil || len(prefix) > 0 {
		return err
	}
	return r.totals(count, plain, last)
}

// totals compares what a whole scan saw with what the file says about itself.
func (r *Reader) totals(count, plain uint64, last []byte) error {
	at := r.tailOff + int64(len(r.tail)) - trailerSize
	if count != r.t.entries {
		return corrupt(at, "%d cells, the trailer says %d", count, r.t.entries)
	}
	// The native writer puts the plain size of the cells where HBase puts the size of the index.
	if r.t.native && r.t.indexBytes != plain && r.t.indexBytes != r.rootBytes {
		return corrupt(at, "%d bytes of cells, the trailer says %d", plain, r.t.indexBytes)
	}
	key, ok := r.Info(infoLastKey)
	if !ok || len(key) == 0 || count == 0 {
		return nil
	}
	if row, ok := rowOf(key); !ok || !bytes.Equal(row, last) {
		return corrupt(r.t.infoOffset, "last key is %x, the file info says %x", last, key)
	}
	return nil
}

// cells walks the cells of a data block. Any family, qualifier or type other than Hudi's is refused.
func (r *Reader) cells(b []byte, off int64, fn func(Cell) error) error {
	size := len(b)
	for len(b) > 0 {
		at := size - len(b)
		if len(b) < cellFixed-1 {
			return corrupt(off, "cell at %d of the block is cut", at)
		}
		keyLen, valueLen := int64(int32(binary.BigEndian.Uint32(b))), int64(int32(binary.BigEndian.Uint32(b[4:])))
		if keyLen < keyFixed || valueLen < 0 || keyLen+valueLen > int64(len(b)-8) {
			return corrupt(off, "cell at %d of the block: key of %d and value of %d bytes, %d are left", at, keyLen, valueLen, len(b)-8)
		}
		key, value := b[8:8+keyLen], b[8+keyLen:8+keyLen+valueLen]
		rowLen := int64(binary.BigEndian.Uint16(key))
		if rowLen > MaxKey || rowLen+keyFixed > keyLen {
			return corrupt(off, "cell at %d of the block: row of %d bytes in a key of %d", at, rowLen, keyLen)
		}
		if rowLen+keyFixed != keyLen || key[2+rowLen] != 0 {
			return unsupported(off, "cell at %d of the block has a column family or qualifier", at)
		}
		if typ := key[keyLen-1]; typ != typePut {
			return unsupported(off, "cell at %d of the block is of type %d, not Put", at, typ)
		}
		b = b[8+keyLen+valueLen:]
		if r.mvcc {
			_, n := vint(b)
			if n == 0 {
				return corrupt(off, "cell at %d of the block: version number is cut", at)
			}
			b = b[n:]
		}
		if err := fn(Cell{Key: key[2 : 2+rowLen : 2+rowLen], Value: value[:valueLen:valueLen]}); err != nil {
			return err
		}
	}
	return nil
}
