// Package mem is a storage.Store in memory, for tests and throw-away tables.
//
// It owns the same semantics as a local disk: create-if-absent, compare-and-swap by a version that never repeats,
// modification times by a clock that tests may own. It refuses to persist anything. It may import storage only.
// Invariant: bytes handed in or out are copies.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidemark/internal/storage"
)

// Store is an in-memory tree. The zero value is not usable; see New.
type Store struct {
	name string

	mu    sync.Mutex // guards the fields below
	now   func() time.Time
	files map[string]entry
	last  int64 // version of the newest change
	past  []change
	keep  int
}

type entry struct {
	data    []byte
	modTime time.Time
	version int64
}

var _ storage.Store = (*Store)(nil)

// New returns an empty store; name appears in its URL.
func New(name string) *Store {
	return &Store{name: name, now: time.Now, files: map[string]entry{}}
}

// FromDir returns a store with a copy of all regular files below a local directory, modification times included.
func FromDir(name, dir string) (*Store, error) {
	s := New(name)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s.last++
		s.files[filepath.ToSlash(rel)] = entry{data: data, modTime: info.ModTime(), version: s.last}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", dir, err)
	}
	return s, nil
}

// SetClock makes now the source of modification times. Defaults to time.Now.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Clone returns an independent store with the same content and clock.
func (s *Store) Clone() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Store{name: s.name, now: s.now, files: make(map[string]entry, len(s.files)), last: s.last}
	for p, e := range s.files {
		c.files[p] = e // contents are never changed in place
	}
	return c
}

// Put writes a file whatever is there, for tests that play another writer.
func (s *Store) Put(path string, data []byte, modTime time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(path)
	s.last++
	s.files[path] = entry{data: append([]byte(nil), data...), modTime: modTime, version: s.last}
}

// Version grows with every write and every deletion that had an effect.
func (s *Store) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Paths returns all file paths, sorted.
func (s *Store) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.files))
	for p := range s.files {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

// URL returns "mem://name".
func (s *Store) URL() string { return "mem://" + s.name }

func tagOf(version int64) string { return "v" + strconv.FormatInt(version, 10) }

// get returns a file after the checks that every operation makes.
func (s *Store) get(ctx context.Context, op, path string) (entry, error) {
	if err := check(ctx, op, path); err != nil {
		return entry{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.files[path]
	if !ok {
		return entry{}, &storage.Error{Op: op, Path: path, Err: storage.ErrNotFound}
	}
	return e, nil
}

func check(ctx context.Context, op, path string) error {
	if err := storage.CheckPath(op, path); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &storage.Error{Op: op, Path: path, Err: err}
	}
	return nil
}

// ReadFile implements storage.Store.
func (s *Store) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	e, err := s.get(ctx, "read", path)
	if err != nil {
		return nil, storage.Info{}, err
	}
	return append([]byte{}, e.data...), e.info(path, true), nil
}

// ReadRange implements storage.Store.
func (s *Store) ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error) {
	e, err := s.get(ctx, "read", path)
	if err != nil {
		return nil, err
	}
	b, err := storage.BytesSource(e.data).ReadRange(ctx, off, n)
	if err != nil {
		return nil, &storage.Error{Op: "read", Path: path, Err: err}
	}
	return b, nil
}

// Stat implements storage.Store.
func (s *Store) Stat(ctx context.Context, path string) (storage.Info, error) {
	e, err := s.get(ctx, "stat", path)
	if err == nil {
		return e.info(path, false), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.files {
		if path == "" || strings.HasPrefix(p, path+"/") {
			return storage.Info{Path: path, IsDir: true}, nil
		}
	}
	return storage.Info{}, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, dir string) ([]storage.Info, error) {
	if err := check(ctx, "list", dir); err != nil {
		return nil, err
	}
	prefix := dir + "/"
	if dir == "" {
		prefix = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(dir, prefix, s.files)
}

func list(dir, prefix string, files map[string]entry) ([]storage.Info, error) {
	found := map[string]storage.Info{}
	for p, e := range files {
		rest, ok := strings.CutPrefix(p, prefix)
		if !ok {
			continue
		}
		if name, _, deeper := strings.Cut(rest, "/"); deeper {
			found[prefix+name] = storage.Info{Path: prefix + name, IsDir: true}
		} else {
			found[p] = e.info(p, false)
		}
	}
	if len(found) == 0 && dir != "" {
		return nil, &storage.Error{Op: "list", Path: dir, Err: storage.ErrNotFound}
	}
	out := make([]storage.Info, 0, len(found))
	for _, i := range found {
		out = append(out, i)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, path string, data []byte) (storage.Info, error) {
	return s.write(ctx, "create", path, data, func(e entry, ok bool) error {
		if ok {
			return storage.ErrExists
		}
		return nil
	})
}

// CreateFrom implements storage.Store; a store in memory holds the content all the same.
func (s *Store) CreateFrom(ctx context.Context, path string, size int64, open storage.Open) (storage.Info, error) {
	if err := check(ctx, "create", path); err != nil {
		return storage.Info{}, err
	}
	var data bytes.Buffer
	if err := storage.CopyExactly(ctx, &data, size, open); err != nil {
		return storage.Info{}, &storage.Error{Op: "create", Path: path, Err: err}
	}
	return s.Create(ctx, path, data.Bytes())
}

// Replace implements storage.Store.
func (s *Store) Replace(ctx context.Context, path string, data []byte, tag string) (storage.Info, error) {
	return s.write(ctx, "replace", path, data, func(e entry, ok bool) error {
		if ok != (tag != "") || ok && tagOf(e.version) != tag {
			return storage.ErrConflict
		}
		return nil
	})
}

func (s *Store) write(ctx context.Context, op, path string, data []byte, may func(entry, bool) error) (storage.Info, error) {
	if err := check(ctx, op, path); err != nil {
		return storage.Info{}, err
	}
	if path == "" {
		return storage.Info{}, &storage.Error{Op: op, Path: "/", Err: storage.ErrRefused}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.files[path]
	if err := may(e, ok); err != nil {
		return storage.Info{}, &storage.Error{Op: op, Path: path, Err: err}
	}
	s.remember(path)
	s.last++
	e = entry{data: append([]byte(nil), data...), modTime: s.now(), version: s.last}
	s.files[path] = e
	return e.info(path, true), nil
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	if err := check(ctx, "delete", path); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.files[path]; !ok {
		for p := range s.files {
			if path == "" || strings.HasPrefix(p, path+"/") {
				return &storage.Error{Op: "delete", Path: path, Err: fmt.Errorf("a directory: %w", storage.ErrRefused)}
			}
		}
	}
	if _, ok := s.files[path]; ok {
		s.remember(path)
		s.last++
		delete(s.files, path)
	}
	return nil
}

func (e entry) info(path string, tag bool) storage.Info {
	i := storage.Info{Path: path, Size: int64(len(e.data)), ModTime: e.modTime}
	if tag {
		i.Tag = tagOf(e.version)
	}
	return i
}
