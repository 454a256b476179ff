package storage

import (
	"bufio"
	"context"
	"fmt"
	"io"
)

// Open returns a fresh reader over content that does not fit in memory; each call starts at the first byte. The caller
// closes what it gets.
type Open = func() (io.ReadCloser, error)

// ContentError says that content that was to be written could not be read, or is not as long as was said: the fault is
// the caller's content, not the store, and nothing was created.
type ContentError struct{ Err error }

// Error returns the cause's text.
func (e *ContentError) Error() string { return "content: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ContentError) Unwrap() error { return e.Err }

// CopyExactly opens content and copies it to w. ErrCorrupt when it is not exactly size bytes long; the last bytes are
// written only after the end was seen. It stops between reads when ctx ends. All errors but w's are *ContentError.
func CopyExactly(ctx context.Context, w io.Writer, size int64, open Open) error {
	r, err := open()
	if err != nil {
		return &ContentError{err}
	}
	defer r.Close() // only read from
	_, err = io.Copy(w, Exactly(ctx, r, size))
	return err
}

// Exactly returns a reader that hands on r's size bytes. A shorter or longer r is ErrCorrupt, found before the last
// bytes are handed on, so that nothing that counts bytes can take a longer content for a complete one. Its errors are
// *ContentError.
func Exactly(ctx context.Context, r io.Reader, size int64) io.Reader {
	return &exactly{ctx: ctx, r: bufio.NewReaderSize(r, copyBuffer), left: size, size: size}
}

// copyBuffer is the number of bytes read at a time: enough that a system call is cheap beside the copy.
const copyBuffer = 256 << 10

// exactly keeps its context because io.Reader takes none; it lives for one copy.
type exactly struct {
	ctx        context.Context
	r          *bufio.Reader
	left, size int64
	ended      bool // nothing follows the bytes handed on
}

func (e *exactly) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, &ContentError{err}
	}
	if len(p) == 0 {
		return 0, nil
	}
	if e.left < 0 {
		return 0, &ContentError{fmt.Errorf("a size of %d bytes: %w", e.size, ErrCorrupt)}
	}
	n := 0
	if e.left > 0 {
		var err error
		n, err = e.r.Read(p[:min(int64(len(p)), e.left)])
		e.left -= int64(n)
		if err == io.EOF {
			return 0, &ContentError{fmt.Errorf("it ends after %d of %d bytes: %w", e.size-e.left, e.size, ErrCorrupt)}
		}
		if err != nil {
			return 0, &ContentError{err}
		}
	}
	if e.left > 0 {
		return n, nil
	}
	if !e.ended {
		switch _, err := e.r.Peek(1); {
		case err == nil:
			return 0, &ContentError{fmt.Errorf("it goes on after %d bytes: %w", e.size, ErrCorrupt)}
		case err != io.EOF:
			return 0, &ContentError{err}
		}
		e.ended = true
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
