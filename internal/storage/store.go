package storage

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"
)

// Info describes one file or directory.
type Info struct {
	Path    string    // relative to the store's root, slash separated, no leading slash
	Size    int64     // bytes; 0 for a directory
	ModTime time.Time // by the store's clock, the same from every read of one version; zero where a directory has none
	Tag     string    // version of the content, for Replace; always set by ReadFile and by what writes
	IsDir   bool
}

// Stamp tells versions of one path apart as well as size and time of modification do, which listings give, too.
func (i Info) Stamp() string { return fmt.Sprintf("%d@%d", i.Size, i.ModTime.UnixNano()) }

// Store is a tree of files below one root. It exists because a table lies on a local disk, in memory (tests) or in an
// object store, and because a fault layer must be able to sit in between.
//
// All methods block, are safe for concurrent use, and take paths as CheckPath accepts them ("" is the root).
// Directories are implied: Create makes missing parents, and an emptied directory may or may not be listed.
// A returned error that is none of the kinds means that the outcome is unknown: resolve it by reading.
type Store interface {
	// ReadFile returns a whole file, which the caller then owns, and its Info with the Tag that Replace takes.
	// ErrNotFound when it is not there or is a directory.
	ReadFile(ctx context.Context, path string) ([]byte, Info, error)
	// ReadRange returns exactly n bytes from off, which the caller then owns. ErrCorrupt when the file is shorter,
	// ErrNotFound when it is not there.
	ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error)
	// Stat describes a file or directory without reading it. ErrNotFound when it is not there.
	Stat(ctx context.Context, path string) (Info, error)
	// List returns the direct children of a directory, sorted by Path. ErrNotFound when there is no such directory.
	List(ctx context.Context, dir string) ([]Info, error)
	// Create writes a new file durably and completely, or not at all. ErrExists when the name is taken, whatever it
	// holds. It does not keep data.
	Create(ctx context.Context, path string, data []byte) (Info, error)
	// CreateFrom is Create for content that does not fit in memory: exactly size bytes are read from what open returns,
	// and ErrCorrupt says that there were fewer or more. open may be called again for a retry, and on errors from it or
	// its reader nothing is created. Memory does not grow with size.
	CreateFrom(ctx context.Context, path string, size int64, open Open) (Info, error)
	// Replace writes the file if its content is still the one that tag came from; tag "" means that it must be
	// absent. ErrConflict when that does not hold. It does not keep data.
	Replace(ctx context.Context, path string, data []byte, tag string) (Info, error)
	// Delete removes a file. An absent one is no error; a directory is ErrRefused, or left alone where directories are
	// only implied by names.
	Delete(ctx context.Context, path string) error
	// URL names the store for people.
	URL() string
}

// Sweeper is implemented by stores that can leave unfinished temporary files when their process is killed.
type Sweeper interface {
	// SweepTemps deletes temporary files in dir whose writer is dead and returns how many. A missing dir is no error.
	SweepTemps(ctx context.Context, dir string) (int, error)
}

// CheckPath says whether p is a clean relative path: slash separated, no ".", "..", empty or absolute parts. The
// empty path is the root. The error's kind is ErrRefused.
func CheckPath(op, p string) error {
	if p == "" {
		return nil
	}
	if strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") ||
		strings.ContainsAny(p, "\x00\\") {
		return &Error{Op: op, Path: fmt.Sprintf("%q", p), Err: fmt.Errorf("not a clean relative path: %w", ErrRefused)}
	}
	return nil
}
