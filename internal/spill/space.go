package spill

import (
	"bytes"
	"fmt"
	"io"

	"tidemark/internal/storage"
)

// Space is where buffers are kept: together they take up to a bound of memory, what does not fit is in one temporary file.
// It is not safe for concurrent use.
type Space struct {
	dir   string
	limit int64
	held  int64
	file  *File
	last  *Buffer // the only one that may still be written to
}

// NewSpace returns an empty space. dir is as Create takes it; nothing is made there before the bound is reached.
func NewSpace(dir string, limit int64) *Space { return &Space{dir: dir, limit: limit} }

// Buffer is bytes in a space, written from front to end, then read any number of times.
type Buffer struct {
	space *Space
	mem   []byte
	file  bool // they are in the file, from off on
	off   int64
	size  int64
}

// Buffer begins a new buffer; the one before cannot be written to any more.
func (s *Space) Buffer() *Buffer {
	s.last = &Buffer{space: s}
	return s.last
}

// Write appends.
func (b *Buffer) Write(p []byte) (int, error) {
	s := b.space
	if s.last != b {
		return 0, fmt.Errorf("write buffer: another one was begun: %w", storage.ErrRefused)
	}
	if !b.file && s.held+int64(len(p)) <= s.limit {
		b.mem = append(b.mem, p...)
		s.held += int64(len(p))
		b.size += int64(len(p))
		return len(p), nil
	}
	if !b.file {
		if err := s.open(); err != nil {
			return 0, err
		}
		b.file, b.off = true, s.file.Size()
		if _, err := s.file.Write(b.mem); err != nil {
			return 0, err
		}
		s.held -= int64(len(b.mem))
		b.mem = nil
	}
	n, err := s.file.Write(p)
	b.size += int64(n)
	return n, err
}

func (s *Space) open() (err error) {
	if s.file == nil {
		s.file, err = Create(s.dir)
	}
	return err
}

// Size is the number of bytes written.
func (b *Buffer) Size() int64 { return b.size }

// Bytes returns the content if it is in memory; it must not be changed.
func (b *Buffer) Bytes() (content []byte, ok bool) { return b.mem, !b.file }

// Reader returns a new reader from the front. It is valid until the space is closed.
func (b *Buffer) Reader() io.Reader {
	if !b.file {
		return bytes.NewReader(b.mem)
	}
	return io.NewSectionReader(b.space.file, b.off, b.size)
}

// Spilled says how many bytes are in the temporary file.
func (s *Space) Spilled() int64 {
	if s.file == nil {
		return 0
	}
	return s.file.Size()
}

// Close removes the temporary file; buffers cannot be used any more.
func (s *Space) Close() error {
	f := s.file
	s.file, s.last = nil, nil
	if f == nil {
		return nil
	}
	return f.Close()
}
