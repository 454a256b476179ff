package spill

import (
	"errors"
	"fmt"
	"io"
	"os"

	"tidemark/internal/storage"
)

// File is a temporary file of this process: written from front to end, read anywhere. It is not safe for concurrent use, except
// that ReadAt may be called by several at a time.
type File struct {
	dir  string
	name string // to be removed at Close; "" when it is gone already
	f    handle
	size int64
}

// handle is what is used of an *os.File, so that tests can put a full disk in its place.
type handle interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Create makes a temporary file in dir; "" is the system's folder for temporary files (TMPDIR). Errors of it and of the file's
// methods name the folder and have a hint.
func Create(dir string) (*File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	f, err := os.CreateTemp(dir, "tidemark-*.tmp")
	if err != nil {
		return nil, failed("create temporary file", dir, err)
	}
	t := &File{dir: dir, f: f}
	if os.Remove(f.Name()) != nil { // some systems do not let go of an open file
		t.name = f.Name()
	}
	return t, nil
}

func failed(op, dir string, err error) error {
	return &storage.Error{Op: op + " in", Path: dir, Err: err,
		Hint: "what does not fit in memory is put there: make room in that folder, or set TMPDIR to another one"}
}

// Write appends.
func (t *File) Write(p []byte) (int, error) {
	n, err := t.f.Write(p)
	t.size += int64(n)
	if err != nil {
		return n, failed("write temporary file", t.dir, err)
	}
	return n, nil
}

// ReadAt is io.ReaderAt.
func (t *File) ReadAt(p []byte, off int64) (int, error) {
	n, err := t.f.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, failed("read temporary file", t.dir, err)
	}
	return n, err
}

// Size is how many bytes were written.
func (t *File) Size() int64 { return t.size }

// Close removes the file.
func (t *File) Close() error {
	err := t.f.Close()
	if t.name != "" {
		err = errors.Join(err, os.Remove(t.name))
	}
	if err != nil {
		return fmt.Errorf("remove temporary file: %w", err)
	}
	return nil
}
