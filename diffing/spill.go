package diffing

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	spilling "tidemark/internal/spill"
)

const (
	// parts is how many files a side's waiting rows are spread over: 64, so that one part fits the window as long as no more
	// than 64 windows wait, 4 GiB by default. A larger part is held in memory all the same.
	parts = 64
	// spillBuffer is the write buffer of one file: 32 KiB, 4 MiB for all.
	spillBuffer = 32 << 10
)

// spill is waiting rows in temporary files: each side's by the hash of the key.
type spill struct {
	dir   string
	seed  maphash.Seed
	files [2][parts]*spilling.File
	out   [2][parts]*bufio.Writer
	buf   []byte
}

func newSpill(dir string, seed maphash.Seed) *spill { return &spill{dir: dir, seed: seed} }

// put appends a row: key, commit, vectors (length + 1, 0 for NULL), place, position.
func (s *spill) put(side int, v *view) error {
	part := maphash.Bytes(s.seed, v.key) % parts
	if s.out[side][part] == nil {
		f, err := spilling.Create(s.dir)
		if err != nil {
			return fmt.Errorf("write waiting rows: %w", err)
		}
		s.files[side][part], s.out[side][part] = f, bufio.NewWriterSize(f, spillBuffer)
	}
	b := appendBytes(appendBytes(s.buf[:0], v.key), v.commit)
	for _, raw := range v.raw {
		b = appendBytes(b, raw)
	}
	b = binary.AppendVarint(binary.AppendUvarint(b, uint64(v.place)), v.position)
	s.buf = b
	w := s.out[side][part]
	if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
		return fmt.Errorf("write waiting rows: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write waiting rows: %w", err)
	}
	return nil
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// read hands on the rows of one part. A row is valid during the call only.
func (s *spill) read(part, side, vectors int, fn func(*view) error) error {
	f := s.files[side][part]
	if f == nil {
		return nil
	}
	if err := s.out[side][part].Flush(); err != nil {
		return fmt.Errorf("write waiting rows: %w", err)
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, f.Size()), 1<<20)
	v := view{raw: make([][]byte, vectors)}
	var buf []byte
	for {
		n, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			if uint64(cap(buf)) < n {
				buf = make([]byte, n)
			}
			buf = buf[:n]
			_, err = io.ReadFull(in, buf)
		}
		if err != nil {
			return fmt.Errorf("read waiting rows: %w", err)
		}
		b := buf
		v.key, b = cutBytes(b)
		v.commit, b = cutBytes(b)
		for i := range v.raw {
			v.raw[i], b = cutBytes(b)
		}
		place, k := binary.Uvarint(b)
		v.place = int(place)
		v.position, _ = binary.Varint(b[k:])
		if err := fn(&v); err != nil {
			return err
		}
	}
}

// cutBytes undoes appendBytes. The bytes are our own of a moment ago, so they are not checked.
func cutBytes(b []byte) (value, rest []byte) {
	n, k := binary.Uvarint(b)
	b = b[k:]
	if n == 0 {
		return nil, b
	}
	return b[: n-1 : n-1], b[n-1:]
}

// close removes the files.
func (s *spill) close() error {
	var errs []error
	for _, side := range s.files {
		for _, f := range side {
			if f != nil {
				errs = append(errs, f.Close())
			}
		}
	}
	return errors.Join(errs...)
}
