// Package mount shows one store at a directory of another, and makes the other read-only.
//
// It owns the mapping of names between the two. It refuses every write outside that directory, whoever asks for it, so
// that a table which may only be read is only read. It may import storage.
// Invariant: what lies under Dir is the mounted store's, everything else is the first one's; listings of the first one do not show Dir.
package mount

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"tidemark/internal/storage"
)

// Dir is where the mounted store is shown. No directory of a Hudi table has such a name; it is the flag that names the
// place, so that the paths in messages say where a file is.
const Dir = "--sink"

// Store is a read-only store with another one at Dir. See New.
type Store struct {
	base, sink storage.Store
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Sweeper = (*Store)(nil)
)

// New returns base, read-only, with sink at Dir. It makes no call.
func New(base, sink storage.Store) *Store { return &Store{base: base, sink: sink} }

// URL names the store that is read-only.
func (s *Store) URL() string { return s.base.URL() }

// pick returns the store that a path belongs to and its name there.
func (s *Store) pick(p string) (st storage.Store, name string, mounted bool) {
	if p == Dir {
		return s.sink, "", true
	}
	if rest, ok := strings.CutPrefix(p, Dir+"/"); ok {
		return s.sink, rest, true
	}
	return s.base, p, false
}

// shown returns err with the path under which this store shows the file.
func shown(err error) error {
	var e *storage.Error
	if !errors.As(err, &e) || e != err { //nolint:errorlint // only the outermost is made anew
		return err
	}
	c := *e
	c.Path = path.Join(Dir, e.Path)
	return &c
}

func (s *Store) info(i storage.Info, mounted bool) storage.Info {
	if mounted {
		i.Path = path.Join(Dir, i.Path)
	}
	return i
}

// ReadFile implements storage.Store.
func (s *Store) ReadFile(ctx context.Context, p string) ([]byte, storage.Info, error) {
	st, name, mounted := s.pick(p)
	b, info, err := st.ReadFile(ctx, name)
	if err != nil && mounted {
		err = shown(err)
	}
	return b, s.info(info, mounted && err == nil), err
}

// ReadRange implements storage.Store.
func (s *Store) ReadRange(ctx context.Context, p string, off, n int64) ([]byte, error) {
	st, name, mounted := s.pick(p)
	b, err := st.ReadRange(ctx, name, off, n)
	if err != nil && mounted {
		err = shown(err)
	}
	return b, err
}

// Stat implements storage.Store.
func (s *Store) Stat(ctx context.Context, p string) (storage.Info, error) {
	st, name, mounted := s.pick(p)
	info, err := st.Stat(ctx, name)
	if err != nil && mounted {
		err = shown(err)
	}
	return s.info(info, mounted && err == nil), err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, dir string) ([]storage.Info, error) {
	st, name, mounted := s.pick(dir)
	infos, err := st.List(ctx, name)
	if !mounted {
		return infos, err
	}
	if err != nil {
		return nil, shown(err)
	}
	for i := range infos {
		infos[i] = s.info(infos[i], true)
	}
	return infos, nil
}

// writable returns the mounted store and the name there, or ErrRefused for a path outside it.
func (s *Store) writable(op, p string) (storage.Store, string, error) {
	if err := storage.CheckPath(op, p); err != nil {
		return nil, "", err
	}
	st, name, mounted := s.pick(p)
	if !mounted {
		return nil, "", &storage.Error{Op: op, Path: p, Hint: "with --sink the table is only read",
			Err: fmt.Errorf("outside the place beside the table: %w", storage.ErrRefused)}
	}
	return st, name, nil
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, p string, data []byte) (storage.Info, error) {
	return s.write("create", p, func(st storage.Store, name string) (storage.Info, error) { return st.Create(ctx, name, data) })
}

// CreateFrom implements storage.Store.
func (s *Store) CreateFrom(ctx context.Context, p string, size int64, open storage.Open) (storage.Info, error) {
	return s.write("create", p, func(st storage.Store, name string) (storage.Info, error) { return st.CreateFrom(ctx, name, size, open) })
}

// Replace implements storage.Store.
func (s *Store) Replace(ctx context.Context, p string, data []byte, tag string) (storage.Info, error) {
	return s.write("replace", p, func(st storage.Store, name string) (storage.Info, error) { return st.Replace(ctx, name, data, tag) })
}

func (s *Store) write(op, p string, call func(st storage.Store, name string) (storage.Info, error)) (storage.Info, error) {
	st, name, err := s.writable(op, p)
	if err != nil {
		return storage.Info{}, err
	}
	info, err := call(st, name)
	if err != nil {
		return info, shown(err)
	}
	return s.info(info, true), nil
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, p string) error {
	st, name, err := s.writable("delete", p)
	if err != nil {
		return err
	}
	if err := st.Delete(ctx, name); err != nil {
		return shown(err)
	}
	return nil
}

// Broad implements storage.Broad: both stores must be, so that a local one is never asked at once.
func (s *Store) Broad() bool { return storage.IsBroad(s.base) && storage.IsBroad(s.sink) }

// SweepTemps implements storage.Sweeper for the mounted store.
func (s *Store) SweepTemps(ctx context.Context, dir string) (int, error) {
	st, name, mounted := s.pick(dir)
	if sw, ok := st.(storage.Sweeper); ok && mounted {
		return sw.SweepTemps(ctx, name)
	}
	return 0, nil
}
