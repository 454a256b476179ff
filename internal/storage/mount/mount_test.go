package mount_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/mount"
	"tidemark/internal/storage/storetest"
)

// sub shows a directory of a store as a store, for the suite.
type sub struct {
	storage.Store
	dir string
}

func (s sub) in(p string) string { return strings.TrimSuffix(s.dir+"/"+p, "/") }

// check keeps the suite's bad paths bad.
func (s sub) check(p string) error { return storage.CheckPath("use", p) }

func (s sub) out(i storage.Info, err error) (storage.Info, error) {
	i.Path = strings.TrimPrefix(strings.TrimPrefix(i.Path, s.dir), "/")
	return i, err
}

func (s sub) ReadFile(ctx context.Context, p string) ([]byte, storage.Info, error) {
	if err := s.check(p); err != nil {
		return nil, storage.Info{}, err
	}
	b, i, err := s.Store.ReadFile(ctx, s.in(p))
	i, err = s.out(i, err)
	return b, i, err
}

func (s sub) ReadRange(ctx context.Context, p string, off, n int64) ([]byte, error) {
	if err := s.check(p); err != nil {
		return nil, err
	}
	return s.Store.ReadRange(ctx, s.in(p), off, n)
}

func (s sub) Stat(ctx context.Context, p string) (storage.Info, error) {
	if err := s.check(p); err != nil {
		return storage.Info{}, err
	}
	return s.out(s.Store.Stat(ctx, s.in(p)))
}

func (s sub) List(ctx context.Context, dir string) ([]storage.Info, error) {
	if err := s.check(dir); err != nil {
		return nil, err
	}
	infos, err := s.Store.List(ctx, s.in(dir))
	for i := range infos {
		infos[i], _ = s.out(infos[i], nil)
	}
	return infos, err
}

func (s sub) Create(ctx context.Context, p string, data []byte) (storage.Info, error) {
	if err := s.check(p); err != nil {
		return storage.Info{}, err
	}
	return s.out(s.Store.Create(ctx, s.in(p), data))
}

func (s sub) CreateFrom(ctx context.Context, p string, size int64, open storage.Open) (storage.Info, error) {
	if err := s.check(p); err != nil {
		return storage.Info{}, err
	}
	return s.out(s.Store.CreateFrom(ctx, s.in(p), size, open))
}

func (s sub) Replace(ctx context.Context, p string, data []byte, tag string) (storage.Info, error) {
	if err := s.check(p); err != nil {
		return storage.Info{}, err
	}
	return s.out(s.Store.Replace(ctx, s.in(p), data, tag))
}

func (s sub) Delete(ctx context.Context, p string) error {
	if err := s.check(p); err != nil {
		return err
	}
	return s.Store.Delete(ctx, s.in(p))
}

// The mounted store keeps every promise of a store.
func TestMountedIsAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storage.Store {
		return sub{mount.New(mem.New("table"), mem.New("beside")), mount.Dir}
	})
}

// The table is read as it is, and never written.
func TestTableIsReadOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	table, beside := mem.New("table"), mem.New("beside")
	table.Put("p/f", []byte("row"), time.Time{})
	beside.Put("state.json", []byte("{}"), time.Time{})
	table.Put(mount.Dir+"/hidden", nil, time.Time{})
	st := mount.New(table, beside)
	before := table.Version()

	if b, info, err := st.ReadFile(ctx, "p/f"); err != nil || string(b) != "row" || info.Path != "p/f" {
		t.Errorf("read: %q %v %v", b, info, err)
	}
	if b, info, err := st.ReadFile(ctx, mount.Dir+"/state.json"); err != nil || string(b) != "{}" || info.Path != mount.Dir+"/state.json" {
		t.Errorf("read beside: %q %v %v", b, info, err)
	}
	if _, _, err := st.ReadFile(ctx, mount.Dir+"/hidden"); !errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), mount.Dir+"/hidden") {
		t.Errorf("a file of the table shines through: %v", err)
	}
	if infos, err := st.List(ctx, mount.Dir); err != nil || len(infos) != 1 || infos[0].Path != mount.Dir+"/state.json" {
		t.Errorf("list beside: %v %v", infos, err)
	}
	for _, p := range []string{"x", "p/f", ".hoodie/.tidemark/state.json", mount.Dir + "x/y", "p/" + mount.Dir + "/x"} {
		_, create := st.Create(ctx, p, nil)
		_, from := st.CreateFrom(ctx, p, 0, nil)
		_, replace := st.Replace(ctx, p, nil, "")
		for _, err := range []error{create, from, replace, st.Delete(ctx, p)} {
			if !errors.Is(err, storage.ErrRefused) {
				t.Errorf("%s: %v", p, err)
			}
		}
	}
	if _, err := st.SweepTemps(ctx, ""); err != nil {
		t.Error(err)
	}
	if table.Version() != before {
		t.Error("the table was written to")
	}
	if st.URL() != "mem://table" {
		t.Error(st.URL())
	}
}
