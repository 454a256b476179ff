package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"tidemark/internal/storage"
)

// Create implements storage.Store: one put on the condition that there is nothing.
func (s *Store) Create(ctx context.Context, path string, data []byte) (storage.Info, error) {
	return s.put(ctx, "create", path, bytes.NewReader(data), int64(len(data)), "")
}

// Replace implements storage.Store: one put on the condition that the version is the one that was read.
func (s *Store) Replace(ctx context.Context, path string, data []byte, tag string) (storage.Info, error) {
	return s.put(ctx, "replace", path, bytes.NewReader(data), int64(len(data)), tag)
}

// smallContent is up to where content is taken into memory: it is then read once, however often the client wants to see it.
const smallContent = 1 << 20

// CreateFrom implements storage.Store: one put, streamed. Content over MaxPut is ErrUnsupported.
func (s *Store) CreateFrom(ctx context.Context, path string, size int64, open storage.Open) (storage.Info, error) {
	if _, err := s.key(ctx, "create", path); err != nil {
		return storage.Info{}, err
	}
	if size <= smallContent {
		var buf bytes.Buffer
		if err := storage.CopyExactly(ctx, &buf, size, open); err != nil {
			return storage.Info{}, &storage.Error{Op: "create", Path: path, Err: err}
		}
		return s.Create(ctx, path, buf.Bytes())
	}
	if size > s.cfg.MaxPut {
		return storage.Info{}, &storage.Error{Op: "create", Path: path, Hint: "make the index's files smaller",
			Err: fmt.Errorf("%d bytes, of %d that one put can write: %w", size, s.cfg.MaxPut, storage.ErrUnsupported)}
	}
	body := &content{ctx: ctx, size: size, open: open}
	defer body.close()
	info, err := s.put(ctx, "create", path, body, size, "")
	if err != nil && body.err != nil {
		err = &storage.Error{Op: "create", Path: path, Err: body.err}
	}
	return info, err
}

func (s *Store) put(ctx context.Context, op, path string, body io.ReadSeeker, size int64, tag string) (storage.Info, error) {
	key, err := s.key(ctx, op, path)
	if err != nil {
		return storage.Info{}, err
	}
	if path == "" {
		return storage.Info{}, &storage.Error{Op: op, Path: "/", Err: storage.ErrRefused}
	}
	a, err := s.c.Put(ctx, key, body, size, tag)
	switch {
	case err == nil:
		a.Size = size
		return info(path, a, true), nil
	case op == "create" && errors.Is(err, ErrPrecondition):
		return storage.Info{}, &storage.Error{Op: op, Path: path, Err: storage.ErrExists}
	case errors.Is(err, ErrPrecondition):
		return storage.Info{}, &storage.Error{Op: op, Path: path, Err: storage.ErrConflict}
	case op == "replace" && tag != "" && errors.Is(err, storage.ErrNotFound):
		return storage.Info{}, &storage.Error{Op: op, Path: path, Err: fmt.Errorf("gone: %w", storage.ErrConflict)}
	}
	return storage.Info{}, s.locate(op, path, err)
}

// content is an io.ReadSeeker over content that can be opened again; it keeps its context because io.Reader takes none, and
// lives for one put. The clients only seek to learn the size and to start again.
type content struct {
	ctx  context.Context
	size int64
	open storage.Open
	pos  int64
	from io.ReadCloser // what is open, at fromPos
	at   int64
	r    io.Reader
	err  error // the first error of the content itself
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if c.from == nil || c.at != c.pos {
		if err := c.reopen(); err != nil {
			return 0, c.fail(err)
		}
	}
	n, err := c.r.Read(p)
	c.pos += int64(n)
	c.at = c.pos
	return n, c.fail(err)
}

func (c *content) reopen() error {
	c.close()
	from, err := c.open()
	if err != nil {
		return &storage.ContentError{Err: err}
	}
	c.from, c.r, c.at = from, storage.Exactly(c.ctx, from, c.size), c.pos
	if c.pos > 0 {
		_, err = io.CopyN(io.Discard, c.r, c.pos)
	}
	return err
}

func (c *content) fail(err error) error {
	if err != nil && err != io.EOF && c.err == nil {
		c.err = err
	}
	return err
}

func (c *content) close() {
	if c.from != nil {
		_ = c.from.Close() // only read from
		c.from = nil
	}
}

// Close implements io.Closer for clients that close what they send; what follows opens it again.
func (c *content) Close() error {
	c.close()
	return nil
}

// Seek implements io.Seeker.
func (c *content) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += c.pos
	case io.SeekEnd:
		off += c.size
	}
	if off < 0 || off > c.size {
		return 0, fmt.Errorf("seek to %d of %d", off, c.size)
	}
	c.pos = off
	return off, nil
}
