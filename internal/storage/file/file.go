// Package file is a storage.Store on a local disk.
//
// It owns create-if-absent (temporary file, sync, link to the final name, directory sync), compare-and-swap of one file
// (short exclusive flock on a lock file beside it), and the names of its temporary and lock files. It refuses to
// overwrite. It may import storage only.
// Invariant: a name that is visible holds complete, synced content, whatever call a process is killed at.
//
// Disk assumptions: link(2) fails on an existing name, rename(2) is atomic, both are durable after the directory is
// synced, flock(2) works between processes. A file system without them is found by the sink's probe and refused.
package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"tidemark/internal/storage"
)

// Store is a directory tree. See New.
type Store struct{ root string }

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Sweeper = (*Store)(nil)
)

// New returns the store below the directory root, which must exist: ErrNotFound otherwise.
func New(root string) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, wrap("open", abs, err)
	}
	if !info.IsDir() {
		return nil, &storage.Error{Op: "open", Path: abs, Err: fmt.Errorf("not a directory: %w", storage.ErrNotFound),
			Hint: "give the table's base path"}
	}
	return &Store{root: abs}, nil
}

// URL returns the absolute path of the root.
func (s *Store) URL() string { return s.root }

// local checks path and ctx and returns the absolute path.
func (s *Store) local(ctx context.Context, op, path string) (string, error) {
	if err := storage.CheckPath(op, path); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", &storage.Error{Op: op, Path: path, Err: err}
	}
	return filepath.Join(s.root, filepath.FromSlash(path)), nil
}

// wrap gives an operating system error its kind and, where the operator can do something, a hint.
func wrap(op, path string, err error) error {
	e := &storage.Error{Op: op, Path: path, Err: err}
	if content := (*storage.ContentError)(nil); errors.As(err, &content) {
		return e // what went wrong there says nothing about this place
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		e.Err = fmt.Errorf("%w (%w)", storage.ErrNotFound, plain(err))
	case errors.Is(err, fs.ErrExist):
		e.Err = storage.ErrExists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Err = fmt.Errorf("%w (%w)", storage.ErrRefused, plain(err))
		e.Hint = "give this user write permission there, or name another place for the index"
		if op == "read" || op == "list" || op == "stat" {
			e.Hint = "give this user read permission there"
		}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Err = plain(err)
		e.Hint = "free space or raise the quota, then run the same command again; nothing is lost"
	case errors.Is(err, syscall.EFBIG):
		e.Err = plain(err)
		e.Hint = "files of that size are not allowed there: raise the limit (ulimit -f), then run the same command again; nothing is lost"
	case errors.Is(err, syscall.EXDEV), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
		e.Err = fmt.Errorf("%w (%w)", storage.ErrUnsupported, plain(err))
		e.Hint = "the file system must support hard links and flock"
	default:
		e.Err = plain(err)
	}
	return e
}

// plain drops the absolute path that the os package puts into its errors.
func plain(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	var se *os.SyscallError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	case errors.As(err, &se):
		return se.Err
	}
	return err
}

// ReadFile implements storage.Store. The tag is the SHA-256 of the content in hex.
func (s *Store) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	name, err := s.local(ctx, "read", path)
	if err != nil {
		return nil, storage.Info{}, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, storage.Info{}, wrap("read", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, storage.Info{}, wrap("read", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, storage.Info{}, wrap("read", path, err)
	}
	return data, storage.Info{Path: path, Size: int64(len(data)), ModTime: info.ModTime(), Tag: tagOf(data)}, nil
}

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ReadRange implements storage.Store.
func (s *Store) ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error) {
	name, err := s.local(ctx, "read", path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, wrap("read", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, wrap("read", path, err)
	}
	if info.IsDir() {
		return nil, wrap("read", path, syscall.EISDIR)
	}
	if off < 0 || n < 0 || off > info.Size() || n > info.Size()-off {
		return nil, &storage.Error{Op: "read", Path: path,
			Err: fmt.Errorf("%d bytes at %d of %d: short: %w", n, off, info.Size(), storage.ErrCorrupt)}
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off); err != nil {
		if errors.Is(err, io.EOF) { // cut since Stat
			err = fmt.Errorf("%d bytes at %d: short: %w", n, off, storage.ErrCorrupt)
			return nil, &storage.Error{Op: "read", Path: path, Err: err}
		}
		return nil, wrap("read", path, err)
	}
	return b, nil
}

// Stat implements storage.Store.
func (s *Store) Stat(ctx context.Context, path string) (storage.Info, error) {
	name, err := s.local(ctx, "stat", path)
	if err != nil {
		return storage.Info{}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return storage.Info{}, wrap("stat", path, err)
	}
	return toInfo(path, info), nil
}

func toInfo(path string, info fs.FileInfo) storage.Info {
	out := storage.Info{Path: path, ModTime: info.ModTime(), IsDir: info.IsDir()}
	if !out.IsDir {
		out.Size = info.Size()
	}
	return out
}

// List implements storage.Store. The store's own temporary and lock files are left out.
func (s *Store) List(ctx context.Context, dir string) ([]storage.Info, error) {
	name, err := s.local(ctx, "list", dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, wrap("list", dir, err)
	}
	out := make([]storage.Info, 0, len(entries))
	for _, e := range entries {
		if isTemp(e.Name()) || isLock(e.Name()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since the directory was read
		}
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = os.Stat(filepath.Join(name, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // dangling link
			}
		}
		if err != nil {
			return nil, wrap("list", dir, err)
		}
		path := e.Name()
		if dir != "" {
			path = dir + "/" + path
		}
		out = append(out, toInfo(path, info))
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, path string) error {
	name, err := s.local(ctx, "delete", path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return wrap("delete", path, err)
	}
	if info.IsDir() {
		return &storage.Error{Op: "delete", Path: path, Err: fmt.Errorf("a directory: %w", storage.ErrRefused)}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrap("delete", path, err)
	}
	if err := syncDir(filepath.Dir(name)); err != nil {
		return wrap("delete", path, err)
	}
	return nil
}

// Names of temporary files start with a dot and end in .tmp, those of lock files in .tidemark-lock: Hudi's timeline and
// file-group listings ignore both, and List leaves them out.
const (
	tempPrefix = ".tidemark-"
	tempSuffix = ".tmp"
	lockSuffix = ".tidemark-lock"
)

func isTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

func isLock(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, lockSuffix)
}
