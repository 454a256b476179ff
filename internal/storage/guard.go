package storage

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
)

// Guard wraps a Store and refuses every write and delete that its rule does not allow. It is the safety net below
// the only room that writes: a mistake above it cannot reach the table's own files.
type Guard struct {
	Store
	allow           func(path string) bool
	writes, refused atomic.Int64
}

var (
	_ Store   = (*Guard)(nil)
	_ Sweeper = (*Guard)(nil)
	_ Broad   = (*Guard)(nil)
)

// NewGuard wraps st; allow is asked for every path that is to be created, replaced or deleted.
func NewGuard(st Store, allow func(path string) bool) *Guard { return &Guard{Store: st, allow: allow} }

// AllowOwn is the rule for a sink: everything below stateDir, everything in the vector_index_* directories of mdtDir, and
// deltacommit files (no other action) of the MDT timeline. The partition metafile is never allowed: creating it would
// hand the directory to writers that cannot read it.
func AllowOwn(stateDir, mdtDir string) func(string) bool {
	timeline := path.Join(mdtDir, ".hoodie/timeline")
	return func(p string) bool {
		if strings.HasPrefix(p, stateDir+"/") && p != mdtDir && !strings.HasPrefix(p, mdtDir+"/") {
			return true
		}
		dir, name := path.Split(p)
		dir = strings.TrimSuffix(dir, "/")
		if dir == timeline {
			return strings.HasSuffix(name, ".deltacommit") && !strings.HasPrefix(name, ".")
		}
		return path.Dir(dir) == mdtDir && strings.HasPrefix(path.Base(dir), "vector_index_") &&
			!strings.HasPrefix(name, ".hoodie_partition_metadata")
	}
}

// AllowBeside is AllowOwn beside a table, where the metadata table is our own below stateDir: its hoodie.properties may be made.
func AllowBeside(stateDir, mdtDir string) func(string) bool {
	own, properties := AllowOwn(stateDir, mdtDir), path.Join(mdtDir, ".hoodie/hoodie.properties")
	return func(p string) bool { return own(p) || p == properties }
}

// AllowOnly is the rule for a lock: exactly these paths.
func AllowOnly(paths ...string) func(string) bool {
	return func(p string) bool { return slices.Contains(paths, p) }
}

// Writes returns how many writes and deletes were let through.
func (g *Guard) Writes() int64 { return g.writes.Load() }

// Refused returns how many writes and deletes were refused.
func (g *Guard) Refused() int64 { return g.refused.Load() }

func (g *Guard) check(op, p string) error {
	if err := CheckPath(op, p); err != nil {
		g.refused.Add(1)
		return err
	}
	if !g.allow(p) {
		g.refused.Add(1)
		return &Error{Op: op, Path: p, Err: fmt.Errorf("outside the places that may be written: %w", ErrRefused)}
	}
	g.writes.Add(1)
	return nil
}

// Create is Store.Create for allowed paths.
func (g *Guard) Create(ctx context.Context, p string, data []byte) (Info, error) {
	if err := g.check("create", p); err != nil {
		return Info{}, err
	}
	return g.Store.Create(ctx, p, data)
}

// CreateFrom is Store.CreateFrom for allowed paths.
func (g *Guard) CreateFrom(ctx context.Context, p string, size int64, open Open) (Info, error) {
	if err := g.check("create", p); err != nil {
		return Info{}, err
	}
	return g.Store.CreateFrom(ctx, p, size, open)
}

// Replace is Store.Replace for allowed paths.
func (g *Guard) Replace(ctx context.Context, p string, data []byte, tag string) (Info, error) {
	if err := g.check("replace", p); err != nil {
		return Info{}, err
	}
	return g.Store.Replace(ctx, p, data, tag)
}

// Delete is Store.Delete for allowed paths.
func (g *Guard) Delete(ctx context.Context, p string) error {
	if err := g.check("delete", p); err != nil {
		return err
	}
	return g.Store.Delete(ctx, p)
}

// Broad implements storage.Broad for the wrapped store.
func (g *Guard) Broad() bool { return IsBroad(g.Store) }

// SweepTemps passes on to the wrapped store; temporary files are the store's own, whatever directory they are in.
func (g *Guard) SweepTemps(ctx context.Context, dir string) (int, error) {
	if s, ok := g.Store.(Sweeper); ok {
		return s.SweepTemps(ctx, dir)
	}
	return 0, nil
}
