// Package open makes a storage.Store from a URL.
//
// It owns the list of schemes, and which stores have their calls repeated: those behind a network. It refuses unknown
// schemes. It may import storage and its implementations; it exists apart from storage because those import storage.
// Invariant: the same mem:// name gives the same store within a process; opening a store makes no request.
package open

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"tidemark/internal/storage"
	"tidemark/internal/storage/azblob"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/gs"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/retry"
	"tidemark/internal/storage/s3"
)

var (
	memMu  sync.Mutex // guards memAll
	memAll = map[string]*mem.Store{}
)

// Options configure the stores beyond a network. The zero value takes everything from the environment.
type Options struct {
	S3    s3.Options
	GS    gs.Options
	Azure azblob.Options
	Retry retry.Config
}

// Open is With without options.
func Open(ctx context.Context, raw string) (storage.Store, error) { return With(ctx, raw, Options{}) }

// With returns the store that a URL names: "/path", "relative/path", "file:///path", "s3://bucket/path" (also s3a),
// "gs://bucket/path", "abfss://container@account.dfs.core.windows.net/path" (also abfs, wasb, wasbs) or "mem://name". Other
// schemes are ErrUnsupported; a local path that is not there is ErrNotFound. Stores behind a network are *retry.Store and are
// first asked when they are used.
func With(_ context.Context, raw string, o Options) (storage.Store, error) {
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
	bucket, prefix, _ := strings.Cut(rest, "/")
	switch scheme {
	case "file":
		u, err := url.Parse(raw)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return nil, &storage.Error{Op: "open", Path: raw, Err: fmt.Errorf("not a local file URL: %w", storage.ErrUnsupported),
				Hint: "write file:///absolute/path"}
		}
		return local(u.Path)
	case "s3", "s3a":
		st, err := s3.New(bucket, prefix, o.S3)
		return repeated(st, err, o)
	case "gs":
		st, err := gs.New(bucket, prefix, o.GS)
		return repeated(st, err, o)
	case "abfs", "abfss", "wasb", "wasbs":
		st, err := azblob.New(raw, o.Azure)
		return repeated(st, err, o)
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
		Hint: "tables are at local paths, file://, s3://, gs://, abfss:// or wasbs://"}
}

// repeated adds the layer that makes failed calls again.
func repeated(st storage.Store, err error, o Options) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	return retry.New(st, o.Retry), nil
}

func local(p string) (storage.Store, error) {
	s, err := file.New(p)
	if err != nil {
		return nil, err
	}
	return s, nil
}
