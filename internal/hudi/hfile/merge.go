package hfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"
)

// Change is what Merge does to one key.
type Change struct {
	Key   []byte // stored key
	Value []byte // the new value
	Drop  bool   // the key goes, if it is there; Value is not looked at
}

// Merged counts the data blocks of the file that was merged.
type Merged struct {
	Copied   int // as they were stored
	Unpacked int // into which a change fell, or that were too small to stand alone
}

// Merge appends to w the cells of a file with changes over them: a change stands in the place of the cell with its key. Changes ascend
// by key, each key once, and are valid until the next one; an error among them ends it and is returned. The writer must be new, and
// is to be closed by the caller.
//
// A block that no change falls into is checked and copied as it is stored, not unpacked: the file's own cell count then stands for what
// is in it, and averages of key and value lengths are rounded. Small neighbours are put together, so that blocks do not shrink from merge
// to merge. A whole file is read in order, front to back, after what Open has read.
func Merge(ctx context.Context, w *Writer, base *Reader, changes iter.Seq2[Change, error]) (Merged, error) {
	m := merge{w: w, base: base}
	blocks, err := base.index(ctx)
	if err != nil {
		return m.count, err
	}
	next, stop := iter.Pull2(changes)
	defer stop()
	m.next = next
	if err := m.step(); err != nil {
		return m.count, err
	}
	i := -1
	err = base.runs(ctx, blocks, func(e entry, raw []byte) error {
		i++
		return m.block(e, raw, blocks[i+1:])
	})
	for err == nil && m.have {
		err = m.put()
	}
	if err == nil {
		m.settle()
		err = w.err
	}
	return m.count, err
}

// merge is one Merge under way.
type merge struct {
	w      *Writer
	base   *Reader
	next   func() (Change, error, bool)
	change Change // the next one, if have
	have   bool
	count  Merged
	f      inflater

	cells, keyBytes, valueBytes uint64 // of unpacked blocks
}

func (m *merge) step() (err error) {
	m.change, err, m.have = m.next()
	return err
}

// put writes the change at hand and goes on to the next.
func (m *merge) put() error {
	if !m.change.Drop {
		if err := m.w.Append(m.change.Key, m.change.Value); err != nil {
			return err
		}
	}
	return m.step()
}

// before writes the changes below a key.
func (m *merge) before(key []byte) error {
	for m.have && bytes.Compare(m.change.Key, key) < 0 {
		if err := m.put(); err != nil {
			return err
		}
	}
	return nil
}

// block merges one block of the file; rest are those behind it.
func (m *merge) block(e entry, raw []byte, rest []entry) error {
	if err := m.before(e.row); err != nil {
		return err
	}
	touched := m.have && (len(rest) == 0 || bytes.Compare(m.change.Key, rest[0].row) < 0)
	if !touched && m.w.fits(m.base, raw) {
		if _, err := m.base.unpack(nil, e, raw, magicData); err != nil {
			return err
		}
		m.count.Copied++
		last := e.row
		if len(rest) == 0 {
			if v, ok := m.base.Info(infoLastKey); ok {
				last, _ = rowOf(v)
			}
		}
		m.w.copyBlock(e.row, last, raw)
		return m.w.err
	}
	m.count.Unpacked++
	payload, err := m.base.unpack(&m.f, e, raw, magicData)
	if err != nil {
		return err
	}
	return m.base.cells(payload, e.off, func(c Cell) error {
		m.cells++
		m.keyBytes += uint64(len(c.Key))
		m.valueBytes += uint64(len(c.Value))
		if err := m.before(c.Key); err != nil {
			return err
		}
		if m.have && bytes.Equal(m.change.Key, c.Key) {
			return m.put()
		}
		return m.w.Append(c.Key, c.Value)
	})
}

// settle adds what is in copied blocks to the writer's totals: what the file says of itself, less what was unpacked.
func (m *merge) settle() {
	if m.count.Copied == 0 {
		return
	}
	all := m.base.Entries()
	mean := func(key string) uint64 {
		v, _ := m.base.Info(key)
		if len(v) != 4 {
			return 0
		}
		return uint64(binary.BigEndian.Uint32(v))
	}
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	m.w.entries += less(all, m.cells)
	m.w.keyBytes += less(all*mean(infoAvgKey), m.keyBytes)
	m.w.valueBytes += less(all*mean(infoAvgValue), m.valueBytes)
}

// fits says whether a block of a file may stand in this one as it is: the same codec, checksums and cells, and not so small that it
// has room in the open block.
func (w *Writer) fits(r *Reader, raw []byte) bool {
	if len(raw) < headerSize || w.cfg.Checksum != CRC32C || raw[24] != 2 || r.t.compression != w.cfg.Compression || !r.mvcc {
		return false
	}
	if binary.BigEndian.Uint32(raw[25:]) != bytesPerChecksum {
		return false
	}
	plain := int64(int32(binary.BigEndian.Uint32(raw[12:])))
	return len(w.block) == 0 || int64(len(w.block))+plain > int64(w.cfg.BlockSize)
}

// copyBlock ends the open block and appends one as it is stored, but for the offset of its predecessor. raw is checked, first its first
// row, last one that is not above its last.
func (w *Writer) copyBlock(first, last, raw []byte) {
	if len(w.block) > 0 {
		w.closeBlock()
	}
	if w.err == nil && w.Reaches(maxFile-2*trailerSize+1-int64(len(raw))) {
		w.err = w.tooLarge()
	}
	p := w.spare()
	p.frame = append(p.frame[:0], raw...)
	p.first = append(p.first[:0], first...)
	w.last = append(w.last[:0], last...)
	w.plain += uint64(binary.BigEndian.Uint32(raw[12:]))
	w.stand(p, int64(len(raw)))
}
