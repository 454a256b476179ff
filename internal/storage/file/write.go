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
	"syscall"

	"tidemark/internal/storage"
)

// Create implements storage.Store: temporary file, sync, link(2) to the final name, directory sync.
func (s *Store) Create(ctx context.Context, path string, data []byte) (storage.Info, error) {
	name, err := s.target(ctx, "create", path)
	if err != nil {
		return storage.Info{}, err
	}
	return s.create(name, path, func(f io.Writer) (string, error) {
		_, err := f.Write(data)
		return tagOf(data), err
	})
}

// CreateFrom implements storage.Store: as Create, with the content streamed into the temporary file.
func (s *Store) CreateFrom(ctx context.Context, path string, size int64, open storage.Open) (storage.Info, error) {
	name, err := s.target(ctx, "create", path)
	if err != nil {
		return storage.Info{}, err
	}
	return s.create(name, path, func(f io.Writer) (string, error) {
		h := sha256.New()
		err := storage.CopyExactly(ctx, io.MultiWriter(f, h), size, open)
		return hex.EncodeToString(h.Sum(nil)), err
	})
}

func (s *Store) create(name, path string, fill fill) (storage.Info, error) {
	// Cheap way out before anything is written; link decides.
	if _, err := os.Lstat(name); err == nil {
		return storage.Info{}, &storage.Error{Op: "create", Path: path, Err: storage.ErrExists}
	}
	info, err := s.place(name, path, fill, os.Link)
	if err != nil {
		return storage.Info{}, wrap("create", path, err)
	}
	return info, nil
}

// Replace implements storage.Store: under an exclusive flock on a lock file beside it, compare the content's digest
// with tag, write a temporary file, rename it, sync the directory. The lock file stays. storage.ErrLocked when someone holds it for
// longer than that can take.
func (s *Store) Replace(ctx context.Context, path string, data []byte, tag string) (_ storage.Info, err error) {
	name, err := s.target(ctx, "replace", path)
	if err != nil {
		return storage.Info{}, err
	}
	dir, base := filepath.Split(name)
	lock, err := os.OpenFile(filepath.Join(dir, "."+base+lockSuffix), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return storage.Info{}, wrap("replace", path, err)
	}
	defer lock.Close() // gives up the flock
	if err := await(ctx, lock, "replace", path); err != nil {
		return storage.Info{}, err
	}
	old, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if tag != "" {
			return storage.Info{}, &storage.Error{Op: "replace", Path: path,
				Err: fmt.Errorf("gone: %w", storage.ErrConflict)}
		}
	case err != nil:
		return storage.Info{}, wrap("replace", path, err)
	case tagOf(old) != tag:
		return storage.Info{}, &storage.Error{Op: "replace", Path: path, Err: storage.ErrConflict}
	}
	info, err := s.place(name, path, func(f io.Writer) (string, error) {
		_, err := f.Write(data)
		return tagOf(data), err
	}, os.Rename)
	if err != nil {
		return storage.Info{}, wrap("replace", path, err)
	}
	return info, nil
}

// target checks a path that is to be written and makes its parent directories, durably.
func (s *Store) target(ctx context.Context, op, path string) (string, error) {
	name, err := s.local(ctx, op, path)
	if err != nil {
		return "", err
	}
	if path == "" {
		return "", &storage.Error{Op: op, Path: "/", Err: storage.ErrRefused}
	}
	if err := mkdirs(filepath.Dir(name)); err != nil {
		return "", wrap(op, path, err)
	}
	return name, nil
}

// mkdirs makes dir and its missing parents, and syncs each directory that got a new entry.
func mkdirs(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := mkdirs(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// fill writes a file's content and returns its tag.
type fill = func(io.Writer) (tag string, err error)

// place fills a temporary file beside name, syncs it, moves it to name by move (link or rename) and syncs the
// directory. The temporary file is locked while it exists, so that a sweep can tell a dead writer's from a live one's; one
// that was swept between its creation and its locking is written again.
func (s *Store) place(name, path string, fill fill, move func(from, to string) error) (storage.Info, error) {
	const attempts = 3
	for try := 1; ; try++ {
		info, err := s.placeOnce(name, path, fill, move)
		if try < attempts && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return info, err
	}
}

func (s *Store) placeOnce(name, path string, fill fill, move func(from, to string) error) (_ storage.Info, err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, tempPrefix+"*"+tempSuffix)
	if err != nil {
		return storage.Info{}, err
	}
	temp := f.Name()
	defer func() {
		rm := os.Remove(temp)
		if errors.Is(rm, fs.ErrNotExist) {
			rm = nil // renamed, or swept
		}
		if cl := f.Close(); err == nil && cl != nil {
			err = cl
		} else if err != nil && rm != nil {
			err = errors.Join(err, rm)
		}
	}()
	if err := tryLock(f); errors.Is(err, syscall.EWOULDBLOCK) {
		return storage.Info{}, fs.ErrNotExist // a sweep has it, and is about to remove it
	} else if err != nil {
		return storage.Info{}, err
	}
	if err := f.Chmod(0o644); err != nil { // CreateTemp makes 0600, but Hudi's users must read it
		return storage.Info{}, err
	}
	tag, err := fill(f)
	if err != nil {
		return storage.Info{}, err
	}
	if err := f.Sync(); err != nil {
		return storage.Info{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return storage.Info{}, err
	}
	if err := move(temp, name); err != nil {
		return storage.Info{}, err
	}
	if err := syncDir(dir); err != nil {
		return storage.Info{}, err
	}
	return storage.Info{Path: path, Size: info.Size(), ModTime: info.ModTime(), Tag: tag}, nil
}

// SweepTemps implements storage.Sweeper: a temporary file that can be locked has no living writer.
func (s *Store) SweepTemps(ctx context.Context, dir string) (int, error) {
	name, err := s.local(ctx, "sweep", dir)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, wrap("sweep", dir, err)
	}
	swept := 0
	for _, e := range entries {
		if !isTemp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		gone, err := sweepOne(filepath.Join(name, e.Name()))
		if err != nil {
			return swept, wrap("sweep", dir+"/"+e.Name(), err)
		}
		if gone {
			swept++
		}
	}
	return swept, nil
}

func sweepOne(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := tryLock(f); err != nil {
		return false, nil // being written
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// syncDir makes renames, links and deletions in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
