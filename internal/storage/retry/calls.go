package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"tidemark/internal/storage"
)

// ReadFile implements storage.Store.
func (s *Store) ReadFile(ctx context.Context, path string) (b []byte, info storage.Info, err error) {
	_, err = s.do(ctx, wholeFile, func(ctx context.Context) (err error) {
		b, info, err = s.inner.ReadFile(ctx, path)
		return err
	})
	return b, info, err
}

// ReadRange implements storage.Store.
func (s *Store) ReadRange(ctx context.Context, path string, off, n int64) (b []byte, err error) {
	_, err = s.do(ctx, min(max(n, 0), wholeFile), func(ctx context.Context) (err error) {
		b, err = s.inner.ReadRange(ctx, path, off, n)
		return err
	})
	return b, err
}

// Stat implements storage.Store.
func (s *Store) Stat(ctx context.Context, path string) (info storage.Info, err error) {
	_, err = s.do(ctx, 0, func(ctx context.Context) (err error) {
		info, err = s.inner.Stat(ctx, path)
		return err
	})
	return info, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, dir string) (list []storage.Info, err error) {
	_, err = s.do(ctx, wholeFile, func(ctx context.Context) (err error) {
		list, err = s.inner.List(ctx, dir)
		return err
	})
	return list, err
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	_, err := s.do(ctx, 0, func(ctx context.Context) error { return s.inner.Delete(ctx, path) })
	return err
}

// SweepTemps implements storage.Sweeper.
func (s *Store) SweepTemps(ctx context.Context, dir string) (n int, err error) {
	sw, ok := s.inner.(storage.Sweeper)
	if !ok {
		return 0, nil
	}
	_, err = s.do(ctx, wholeFile, func(ctx context.Context) (err error) {
		n, err = sw.SweepTemps(ctx, dir)
		return err
	})
	return n, err
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, path string, data []byte) (info storage.Info, err error) {
	return s.create(ctx, path, int64(len(data)), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}, func(ctx context.Context) (storage.Info, error) { return s.inner.Create(ctx, path, data) })
}

// CreateFrom implements storage.Store.
func (s *Store) CreateFrom(ctx context.Context, path string, size int64, open storage.Open) (storage.Info, error) {
	return s.create(ctx, path, max(size, 0), open, func(ctx context.Context) (storage.Info, error) {
		return s.inner.CreateFrom(ctx, path, size, open)
	})
}

func (s *Store) create(ctx context.Context, path string, size int64, open storage.Open,
	call func(ctx context.Context) (storage.Info, error)) (info storage.Info, err error) {
	unknown, err := s.do(ctx, size, func(ctx context.Context) (err error) {
		info, err = call(ctx)
		return err
	})
	if !unknown || !errors.Is(err, storage.ErrExists) {
		return info, err
	}
	// The name is taken, perhaps by an attempt whose answer was lost.
	there, same, readErr := s.holds(ctx, path, size, open)
	switch {
	case readErr != nil:
		return storage.Info{}, &storage.Error{Op: "create", Path: path, Hint: storage.Hint(readErr),
			Err: fmt.Errorf("the name is taken and cannot be read, so the outcome is unknown: %s", text(readErr))}
	case same:
		s.settled.Add(1)
		return there, nil
	}
	return storage.Info{}, err
}

// ErrUnknown says that an attempt to replace had no answer and a later one found other content than the tag's, which is not the
// caller's: the write did not take place, or somebody wrote since.
var ErrUnknown = errors.New("an answer was lost and the content changed, so the outcome is unknown")

// Replace implements storage.Store. See ErrUnknown.
func (s *Store) Replace(ctx context.Context, path string, data []byte, tag string) (info storage.Info, err error) {
	unknown, err := s.do(ctx, int64(len(data)), func(ctx context.Context) (err error) {
		info, err = s.inner.Replace(ctx, path, data, tag)
		return err
	})
	if !unknown || !errors.Is(err, storage.ErrConflict) {
		return info, err
	}
	// An earlier attempt may have been the change that stands in the way of this one.
	now, info, readErr := s.ReadFile(ctx, path)
	switch {
	case readErr == nil && bytes.Equal(now, data):
		s.settled.Add(1)
		return info, nil
	case readErr != nil:
		readErr = fmt.Errorf("read it: %s", text(readErr))
	default:
		readErr = errors.New("it holds something else now")
	}
	// Not a conflict: the caller's write may have been there before what is there now.
	return storage.Info{}, &storage.Error{Op: "replace", Path: path, Err: fmt.Errorf("%w: %w", ErrUnknown, readErr)}
}

// text hides the kind of an error that says nothing about the call it is reported for.
func text(err error) string { return err.Error() }

// holds says whether a file has exactly the content, which is read in pieces.
func (s *Store) holds(ctx context.Context, path string, size int64, open storage.Open) (storage.Info, bool, error) {
	if size <= piece {
		b, info, err := s.ReadFile(ctx, path)
		if err != nil {
			return storage.Info{}, false, err
		}
		var want bytes.Buffer
		if err := storage.CopyExactly(ctx, &want, size, open); err != nil {
			return storage.Info{}, false, err
		}
		return info, bytes.Equal(b, want.Bytes()), nil
	}
	info, err := s.Stat(ctx, path)
	if err != nil || info.Size != size {
		return storage.Info{}, false, err
	}
	r, err := open()
	if err != nil {
		return storage.Info{}, false, err
	}
	defer r.Close() // only read from
	want := make([]byte, piece)
	for off := int64(0); off < size; off += piece {
		n := min(piece, size-off)
		got, err := s.ReadRange(ctx, path, off, n)
		if err != nil {
			return storage.Info{}, false, err
		}
		if _, err := io.ReadFull(r, want[:n]); err != nil {
			return storage.Info{}, false, err
		}
		if !bytes.Equal(got, want[:n]) {
			return storage.Info{}, false, nil
		}
	}
	return info, true, nil
}

// piece is how much of a large file is compared at a time.
const piece = 4 << 20
