package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"tidemark/internal/storage"
)

// Config says what a Store stands on. All fields are required but Prefix.
type Config struct {
	URL    string // of the bucket, for people
	Bucket string // for people
	Prefix string // of all keys; slashes at its ends do not count. Defaults to "", the whole bucket.
	MaxPut int64  // largest object that one put can write, bytes
}

// Store is the objects below a prefix. See New.
type Store struct {
	c   Client
	cfg Config
}

var _ storage.Store = (*Store)(nil)

// New returns the store of what is below a prefix in the bucket that c reaches; it makes no request. No bucket is
// ErrUnsupported, and a prefix that is no clean path ErrRefused.
func New(c Client, cfg Config) (storage.Store, error) {
	cfg.Prefix = strings.Trim(cfg.Prefix, "/")
	if cfg.Bucket == "" {
		return nil, &storage.Error{Op: "open", Path: cfg.URL, Err: fmt.Errorf("no bucket: %w", storage.ErrUnsupported),
			Hint: "write " + cfg.URL + "bucket/path/to/table"}
	}
	if err := storage.CheckPath("open", cfg.Prefix); err != nil {
		return nil, err
	}
	return &Store{c: c, cfg: cfg}, nil
}

// URL returns the place's whole URL, without a slash at its end.
func (s *Store) URL() string { return strings.TrimSuffix(s.cfg.URL+"/"+s.cfg.Prefix, "/") }

// Broad implements storage.Broad: a call waits for a network.
func (s *Store) Broad() bool { return true }

// key checks path and ctx and returns the object's whole key.
func (s *Store) key(ctx context.Context, op, path string) (string, error) {
	if err := storage.CheckPath(op, path); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", &storage.Error{Op: op, Path: path, Err: err}
	}
	if s.cfg.Prefix == "" || path == "" {
		return s.cfg.Prefix + path, nil
	}
	return s.cfg.Prefix + "/" + path, nil
}

// locate gives a client's error its place.
func (s *Store) locate(op, path string, err error) error {
	if path == "" {
		path = "/"
	}
	out := &storage.Error{Op: op, Path: path, Err: err}
	var f *Failure
	if errors.As(err, &f) {
		out.Hint, out.Again = f.Hint, f.Again
	}
	if errors.Is(err, ErrNoBucket) {
		// Not ErrNotFound: that no table can be there must not read as that this table is not there yet, or any more.
		out.Err = fmt.Errorf("%w: %w", storage.ErrRefused, err)
		out.Hint = "there is no bucket " + s.cfg.Bucket + " there: check the URL, or create it"
	}
	return out
}

// ReadFile implements storage.Store.
func (s *Store) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	key, err := s.key(ctx, "read", path)
	if err != nil {
		return nil, storage.Info{}, err
	}
	if key == "" {
		return nil, storage.Info{}, &storage.Error{Op: "read", Path: "/", Err: storage.ErrNotFound}
	}
	body, err := s.c.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, storage.Info{}, s.locate("read", path, err)
	}
	b, err := readAll(ctx, body)
	if err != nil {
		return nil, storage.Info{}, s.locate("read", path, err)
	}
	body.Size = int64(len(b))
	return b, info(path, body.Attr, true), nil
}

// ReadRange implements storage.Store.
func (s *Store) ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error) {
	key, err := s.key(ctx, "read", path)
	if err != nil {
		return nil, err
	}
	short := func(size int64) error {
		return &storage.Error{Op: "read", Path: path,
			Err: fmt.Errorf("%d bytes at %d of %d: short: %w", n, off, size, storage.ErrCorrupt)}
	}
	if n <= 0 || off < 0 || off+n < off { // nothing to fetch, but the file must be there
		a, err := s.head(ctx, key)
		if err != nil {
			return nil, s.locate("read", path, err)
		}
		if n != 0 || off < 0 || off > a.Size {
			return nil, short(a.Size)
		}
		return []byte{}, nil
	}
	if key == "" {
		return nil, &storage.Error{Op: "read", Path: "/", Err: storage.ErrNotFound}
	}
	body, err := s.c.Get(ctx, key, off, n)
	if err != nil {
		return nil, s.locate("read", path, err)
	}
	if body.Len != n {
		body.Close()
		return nil, short(body.Size)
	}
	b, err := readAll(ctx, body)
	if err != nil {
		return nil, s.locate("read", path, err)
	}
	return b, nil
}

// trustLength is the largest length in an answer's header that memory is taken for before the bytes come.
const trustLength = 64 << 20

// readAll reads a body to its announced end. One that ends early is no short file but a broken connection.
func readAll(ctx context.Context, body Body) ([]byte, error) {
	defer body.Close() // only read from
	if body.Len < 0 {
		b, err := io.ReadAll(body)
		if err != nil {
			return nil, NoAnswer(ctx, err, "the endpoint")
		}
		return b, nil
	}
	var buf bytes.Buffer
	buf.Grow(int(min(body.Len, trustLength)))
	n, err := io.Copy(&buf, io.LimitReader(body, body.Len))
	if err == nil && n < body.Len {
		err = fmt.Errorf("the answer ends after %d of %d bytes: %w", n, body.Len, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, NoAnswer(ctx, err, "the endpoint")
	}
	return buf.Bytes(), nil
}

func (s *Store) head(ctx context.Context, key string) (Attr, error) {
	if key == "" {
		return Attr{}, &Failure{Kind: storage.ErrNotFound}
	}
	return s.c.Head(ctx, key)
}

// Stat implements storage.Store. What is no object costs a second request, to tell a directory from nothing.
func (s *Store) Stat(ctx context.Context, path string) (storage.Info, error) {
	key, err := s.key(ctx, "stat", path)
	if err != nil {
		return storage.Info{}, err
	}
	if path != "" {
		a, err := s.head(ctx, key)
		if err == nil {
			return info(path, a, true), nil
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return storage.Info{}, s.locate("stat", path, err)
		}
	}
	for token := ""; ; {
		page, err := s.c.List(ctx, below(key), token, 1)
		if err != nil {
			return storage.Info{}, s.locate("stat", path, err)
		}
		if path == "" || len(page.Objects)+len(page.Prefixes) > 0 {
			return storage.Info{Path: path, IsDir: true}, nil
		}
		if token = page.Next; token == "" { // pages before the last may be empty
			return storage.Info{}, &storage.Error{Op: "stat", Path: path, Err: storage.ErrNotFound}
		}
	}
}

func below(key string) string {
	if key == "" {
		return ""
	}
	return key + "/"
}

// List implements storage.Store. An object that only marks a directory (its name ends in a slash) is no file.
func (s *Store) List(ctx context.Context, dir string) ([]storage.Info, error) {
	key, err := s.key(ctx, "list", dir)
	if err != nil {
		return nil, err
	}
	prefix, found := below(key), false
	var out []storage.Info
	dirs := map[string]bool{}
	add := func(name string, i storage.Info) {
		found = true
		if name == "" || strings.Contains(name, "/") || i.IsDir && dirs[name] {
			return // a marker, a name that no path can have, or a directory both marked and implied
		}
		dirs[name] = dirs[name] || i.IsDir
		i.Path = name
		if dir != "" {
			i.Path = dir + "/" + name
		}
		out = append(out, i)
	}
	for token := ""; ; {
		page, err := s.c.List(ctx, prefix, token, 0)
		if err != nil {
			return nil, s.locate("list", dir, err)
		}
		for _, o := range page.Objects {
			add(strings.TrimPrefix(o.Key, prefix), info("", o, false))
		}
		for _, p := range page.Prefixes {
			add(strings.TrimSuffix(strings.TrimPrefix(p, prefix), "/"), storage.Info{IsDir: true})
		}
		if page.Next == "" {
			break
		}
		if page.Next == token {
			return nil, &storage.Error{Op: "list", Path: dir, Err: errors.New("the store repeats a page for ever")}
		}
		token = page.Next
	}
	if !found && dir != "" {
		return nil, &storage.Error{Op: "list", Path: dir, Err: storage.ErrNotFound}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

// info cuts times to the second: that is what headers carry, and listings of the same object may say more.
func info(path string, a Attr, tag bool) storage.Info {
	i := storage.Info{Path: path, Size: a.Size, ModTime: a.ModTime.Truncate(time.Second)}
	if tag {
		i.Tag = a.Tag
	}
	return i
}

// Delete implements storage.Store. A directory is left alone.
func (s *Store) Delete(ctx context.Context, path string) error {
	key, err := s.key(ctx, "delete", path)
	if err != nil {
		return err
	}
	if path == "" {
		return &storage.Error{Op: "delete", Path: "/", Err: fmt.Errorf("a directory: %w", storage.ErrRefused)}
	}
	if err := s.c.Delete(ctx, key); err != nil {
		return s.locate("delete", path, err)
	}
	return nil
}
