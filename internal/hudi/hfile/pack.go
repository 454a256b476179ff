package hfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/gzip"
)

const (
	// level is the effort of gzip. Postings are codes that look like chance, and texts that repeat: the lowest level finds those, too. Files are
	// one to six hundredths larger than at level 6, and made in less than half of the time.
	level = gzip.BestSpeed
	// frameRoom is what a block takes at most beside its payload and a thousandth of that: header, checksums of 64 KiB, gzip's own bytes.
	frameRoom = 1 << 10
)

// packed is a block that is made apart from its file, of which it needs only where the one before it lies.
type packed struct {
	plain []byte
	first []byte // its first key; of a data block
	frame []byte // header, payload, checksums
	room  int64  // the most that it takes
	zip   bytes.Buffer
	zw    *gzip.Writer
	err   error
	done  chan struct{} // is sent to when it is packed; nil: it is
}

// spare returns a block to be filled.
func (w *Writer) spare() *packed {
	n := len(w.idle)
	if n == 0 {
		return &packed{}
	}
	p := w.idle[n-1]
	w.idle = w.idle[:n-1]
	return p
}

// queue packs a data block, beside the caller if it may. room is the most that it takes.
func (w *Writer) queue(p *packed, room int64) {
	if w.cfg.Ahead <= 0 || w.cfg.Compression != GZ {
		p.pack(magicData, w.cfg)
	} else {
		w.leave(w.cfg.Ahead - 1)
		p.done = make(chan struct{}, 1) // whoever leaves the writer alone leaves no goroutine behind
		go func(done chan<- struct{}) {
			p.pack(magicData, w.cfg)
			done <- struct{}{}
		}(p.done)
	}
	w.stand(p, room)
}

// stand puts a data block behind those ahead.
func (w *Writer) stand(p *packed, room int64) {
	p.room = room
	w.ahead, w.bound = append(w.ahead, p), w.bound+room
	w.leave(max(w.cfg.Ahead, 0))
}

// leave writes blocks ahead until n of them are left.
func (w *Writer) leave(n int) {
	for len(w.ahead) > n {
		w.next()
	}
}

// next writes the first block ahead, and its index entry.
func (w *Writer) next() {
	p := w.ahead[0]
	w.ahead = append(w.ahead[:0], w.ahead[1:]...)
	w.bound -= p.room
	if p.done != nil {
		<-p.done
		p.done = nil
	}
	off := w.off
	w.emit(p, w.prev)
	w.prev = off
	w.blocks++
	w.index = binary.BigEndian.AppendUint64(w.index, uint64(off))
	w.index = binary.BigEndian.AppendUint32(w.index, uint32(w.off-off))
	w.index = appendVint(w.index, keyFixed+len(p.first))
	w.index = appendCellKey(w.index, p.first)
}

// emit writes a packed block: what it could not know is the offset of the one before it, which is in its first checksum, too.
func (w *Writer) emit(p *packed, prev int64) {
	if w.err == nil {
		w.err = p.err
	}
	binary.BigEndian.PutUint64(p.frame[16:], uint64(prev))
	if data := binary.BigEndian.Uint32(p.frame[29:]); p.frame[24] == 2 {
		binary.BigEndian.PutUint32(p.frame[data:], crc32.Checksum(p.frame[:min(bytesPerChecksum, data)], castagnoli))
	}
	w.write(p.frame)
	w.idle = append(w.idle, p)
}

// pack makes header, payload and checksum area of plain, all but what emit fills in.
func (p *packed) pack(magic string, cfg Config) {
	stored := p.plain
	if cfg.Compression == GZ {
		if p.zw == nil {
			p.zw, p.err = gzip.NewWriterLevel(&p.zip, level)
		}
		if p.err == nil {
			p.zip.Reset()
			p.zw.Reset(&p.zip)
			_, p.err = p.zw.Write(p.plain)
		}
		if p.err == nil {
			p.err = p.zw.Close()
		}
		if p.err != nil { // a bytes.Buffer never fails
			p.err = fmt.Errorf("compress hfile block: %w", p.err)
		}
		stored = p.zip.Bytes()
	}
	data := headerSize + len(stored)
	chunks := (data + bytesPerChecksum - 1) / bytesPerChecksum
	f := append(p.frame[:0], magic...)
	f = binary.BigEndian.AppendUint32(f, uint32(len(stored)+4*chunks))
	f = binary.BigEndian.AppendUint32(f, uint32(len(p.plain)))
	f = append(f, make([]byte, 8)...) // offset of the block before
	sumType := byte(2)
	if cfg.Checksum == Null {
		sumType = 0
	}
	f = append(f, sumType)
	f = binary.BigEndian.AppendUint32(f, bytesPerChecksum)
	f = binary.BigEndian.AppendUint32(f, uint32(data))
	f = append(f, stored...)
	for i := range chunks {
		var sum uint32
		if cfg.Checksum == CRC32C && i > 0 {
			sum = crc32.Checksum(f[i*bytesPerChecksum:min((i+1)*bytesPerChecksum, data)], castagnoli)
		}
		f = binary.BigEndian.AppendUint32(f, sum)
	}
	p.frame = f
}
