package indexer

import (
	"context"
	"io"
	"maps"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/internal/storage"
)

// Kinds are the kinds of file that bytes are counted by.
var Kinds = []string{"timeline", "base", "log", "metadata", "index", "state", "other"}

// kindOf says of which kind a file below a table's root is.
func kindOf(p string) string {
	switch name := path.Base(p); {
	case strings.Contains(p, "/vector_index_"):
		return "index"
	case strings.Contains(p, ".tidemark/"):
		return "state"
	case strings.HasPrefix(p, ".hoodie/metadata/"):
		return "metadata"
	case strings.HasPrefix(p, ".hoodie/"):
		return "timeline"
	case strings.Contains(name, ".log."):
		return "log"
	case strings.HasSuffix(name, ".parquet"):
		return "base"
	}
	return "other"
}

// Metered is a store that counts what goes through it and bounds how many calls are under way at once. It is safe for concurrent
// use.
type Metered struct {
	inner storage.Store
	slots chan struct{} // nil: no bound; capacity: calls at once

	pending atomic.Int64 // calls under way
	last    atomic.Int64 // when a call last ended, in nanoseconds since 1970

	mu            sync.Mutex       // guards what follows
	read, written map[string]int64 // by kind, since the last take
}

var (
	_ storage.Store   = (*Metered)(nil)
	_ storage.Sweeper = (*Metered)(nil)
)

// Meter returns a store that counts the calls of inner and has at most so many under way; 0 for no bound.
func Meter(inner storage.Store, calls int) *Metered {
	m := &Metered{inner: inner, read: map[string]int64{}, written: map[string]int64{}}
	if calls > 0 {
		m.slots = make(chan struct{}, calls)
	}
	return m
}

// Stuck says for how long calls have been under way of which none has ended; 0 without any.
func (m *Metered) Stuck(now time.Time) time.Duration {
	if m.pending.Load() == 0 {
		return 0
	}
	return now.Sub(time.Unix(0, m.last.Load()))
}

// take returns the bytes counted since the last take.
func (m *Metered) take() (read, written map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read, written = maps.Clone(m.read), maps.Clone(m.written)
	clear(m.read)
	clear(m.written)
	return read, written
}

func (m *Metered) count(to map[string]int64, p string, n int64) {
	if n <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	to[kindOf(p)] += n
}

// call runs one call of the store in its turn.
func (m *Metered) call(ctx context.Context, fn func() error) error {
	if m.slots != nil {
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if m.pending.Add(1) == 1 {
		m.last.Store(time.Now().UnixNano())
	}
	defer func() {
		m.last.Store(time.Now().UnixNano())
		m.pending.Add(-1)
	}()
	return fn()
}

// ReadFile implements storage.Store.
func (m *Metered) ReadFile(ctx context.Context, p string) (b []byte, info storage.Info, err error) {
	err = m.call(ctx, func() (err error) {
		b, info, err = m.inner.ReadFile(ctx, p)
		return err
	})
	m.count(m.read, p, int64(len(b)))
	return b, info, err
}

// ReadRange implements storage.Store.
func (m *Metered) ReadRange(ctx context.Context, p string, off, n int64) (b []byte, err error) {
	err = m.call(ctx, func() (err error) {
		b, err = m.inner.ReadRange(ctx, p, off, n)
		return err
	})
	m.count(m.read, p, int64(len(b)))
	return b, err
}

// Stat implements storage.Store.
func (m *Metered) Stat(ctx context.Context, p string) (info storage.Info, err error) {
	err = m.call(ctx, func() (err error) {
		info, err = m.inner.Stat(ctx, p)
		return err
	})
	return info, err
}

// List implements storage.Store.
func (m *Metered) List(ctx context.Context, dir string) (list []storage.Info, err error) {
	err = m.call(ctx, func() (err error) {
		list, err = m.inner.List(ctx, dir)
		return err
	})
	return list, err
}

// Create implements storage.Store.
func (m *Metered) Create(ctx context.Context, p string, data []byte) (info storage.Info, err error) {
	err = m.call(ctx, func() (err error) {
		info, err = m.inner.Create(ctx, p, data)
		return err
	})
	if err == nil {
		m.count(m.written, p, int64(len(data)))
	}
	return info, err
}

// CreateFrom implements storage.Store.
func (m *Metered) CreateFrom(ctx context.Context, p string, size int64, open storage.Open) (info storage.Info, err error) {
	err = m.call(ctx, func() (err error) {
		// What is read of the content is a sign of life, too: a large file is one call.
		info, err = m.inner.CreateFrom(ctx, p, size, func() (io.ReadCloser, error) {
			r, err := open()
			return beating{r, m}, err
		})
		return err
	})
	if err == nil {
		m.count(m.written, p, size)
	}
	return info, err
}

// beating notes that a content is being read.
type beating struct {
	io.ReadCloser
	m *Metered
}

func (b beating) Read(p []byte) (int, error) {
	b.m.last.Store(time.Now().UnixNano())
	return b.ReadCloser.Read(p)
}

// Replace implements storage.Store.
func (m *Metered) Replace(ctx context.Context, p string, data []byte, tag string) (info storage.Info, err error) {
	err = m.call(ctx, func() (err error) {
		info, err = m.inner.Replace(ctx, p, data, tag)
		return err
	})
	if err == nil {
		m.count(m.written, p, int64(len(data)))
	}
	return info, err
}

// Delete implements storage.Store.
func (m *Metered) Delete(ctx context.Context, p string) error {
	return m.call(ctx, func() error { return m.inner.Delete(ctx, p) })
}

// SweepTemps implements storage.Sweeper.
func (m *Metered) SweepTemps(ctx context.Context, dir string) (n int, err error) {
	sw, ok := m.inner.(storage.Sweeper)
	if !ok {
		return 0, nil
	}
	err = m.call(ctx, func() (err error) {
		n, err = sw.SweepTemps(ctx, dir)
		return err
	})
	return n, err
}

// Broad implements storage.Broad for the wrapped store.
func (m *Metered) Broad() bool { return storage.IsBroad(m.inner) }

// URL implements storage.Store.
func (m *Metered) URL() string { return m.inner.URL() }
