package mem

import (
	"context"
	"maps"

	"tidemark/internal/storage"
)

// change is what a path held before it was changed.
type change struct {
	path string
	old  entry
	had  bool
}

// Remember makes the store keep its newest n changes, for Lagging. Defaults to none.
func (s *Store) Remember(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = n
}

// remember notes what a path holds; s.mu is held.
func (s *Store) remember(path string) {
	if s.keep == 0 {
		return
	}
	e, had := s.files[path]
	if s.past = append(s.past, change{path, e, had}); len(s.past) > s.keep {
		s.past = s.past[1:]
	}
}

// Lagging is a view of a store whose listings are late: they show the tree as it was some changes ago, as a store without
// consistent listings does. Everything else is as in the store.
type Lagging struct {
	*Store
	// Behind says by how many of the remembered changes a listing of a directory is late.
	Behind func(dir string) int
}

var _ storage.Store = Lagging{}

// List implements storage.Store.
func (l Lagging) List(ctx context.Context, dir string) ([]storage.Info, error) {
	n := l.Behind(dir)
	if n <= 0 {
		return l.Store.List(ctx, dir)
	}
	if err := check(ctx, "list", dir); err != nil {
		return nil, err
	}
	prefix := dir + "/"
	if dir == "" {
		prefix = ""
	}
	s := l.Store
	s.mu.Lock()
	defer s.mu.Unlock()
	files := maps.Clone(s.files)
	for i := len(s.past) - 1; i >= max(0, len(s.past)-n); i-- {
		if c := s.past[i]; c.had {
			files[c.path] = c.old
		} else {
			delete(files, c.path)
		}
	}
	return list(dir, prefix, files)
}
