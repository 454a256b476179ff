package storage

import (
	"context"
	"fmt"
)

// Source is one immutable file that is read by ranges. The bytes it returns belong to the caller.
type Source interface {
	// Size is the file's length in bytes.
	Size() int64
	// ReadRange returns exactly n bytes from off; ErrCorrupt when the range leaves the file.
	ReadRange(ctx context.Context, off, n int64) ([]byte, error)
}

// FileSource returns the file at path as a Source. size must be known (from Stat, List or metadata); it is trusted, and
// a file that turns out shorter gives ErrCorrupt when read.
func FileSource(st Store, path string, size int64) Source {
	return fileSource{st: st, path: path, size: size}
}

type fileSource struct {
	st   Store
	path string
	size int64
}

func (s fileSource) Size() int64 { return s.size }

func (s fileSource) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if err := checkRange(s.path, off, n, s.size); err != nil {
		return nil, err
	}
	return s.st.ReadRange(ctx, s.path, off, n)
}

// BytesSource returns b as a Source. It aliases b, which must not change; ranges are copied out.
func BytesSource(b []byte) Source { return bytesSource(b) }

type bytesSource []byte

func (s bytesSource) Size() int64 { return int64(len(s)) }

func (s bytesSource) ReadRange(_ context.Context, off, n int64) ([]byte, error) {
	if err := checkRange("bytes", off, n, int64(len(s))); err != nil {
		return nil, err
	}
	return append(make([]byte, 0, n), s[off:off+n]...), nil
}

func checkRange(path string, off, n, size int64) error {
	if off < 0 || n < 0 || off > size || n > size-off {
		return &Error{Op: "read", Path: path,
			Err: fmt.Errorf("%d bytes at %d of %d: short: %w", n, off, size, ErrCorrupt)}
	}
	return nil
}
