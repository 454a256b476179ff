// Package open makes a storage.Store from a URL.
//
// It owns the list of schemes. It refuses unknown ones. It may import storage and its implementations; it exists apart
// from storage because those import storage. Invariant: the same mem:// name gives the same store within a process.
package open

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mem"
)

var (
	memMu  sync.Mutex // guards memAll
	memAll = map[string]*mem.Store{}
)

// Open returns the store that a URL names: "/path", "relative/path", "file:///path" or "mem://name". Other schemes are
// ErrUnsupported; a local path that is not there is ErrNotFound.
func Open(_ context.Context, raw string) (storage.Store, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		// Hadoop also writes file:/path.
		if p, cut := strings.CutPrefix(raw, "file:"); cut && strings.HasPrefix(p, "/") {
			return local(p)
		}
		if raw == "" {
			return nil, &storage.Error{Op: "open", Path: `""`, Err: fmt.Errorf("empty path: %w", storage.ErrNotFound),
				Hint: "give the table's base path"}
		}
		return local(raw)
	}
	switch scheme {
	case "file":
		u, err := url.Parse(raw)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return nil, &storage.Error{Op: "open", Path: raw, Err: fmt.Errorf("not a local file URL: %w", storage.ErrUnsupported),
				Hint: "write file:///absolute/path"}
		}
		return local(u.Path)
	case "mem":
		memMu.Lock()
		defer memMu.Unlock()
		s, ok := memAll[rest]
		if !ok {
			s = mem.New(rest)
			memAll[rest] = s
		}
		return s, nil
	}
	return nil, &storage.Error{Op: "open", Path: raw, Err: fmt.Errorf("scheme %q: %w", scheme, storage.ErrUnsupported),
		Hint: "this build reads local paths, file:// and mem://"}
}

func local(p string) (storage.Store, error) {
	s, err := file.New(p)
	if err != nil {
		return nil, err
	}
	return s, nil
}
