package open

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mount"
)

// Base returns the canonical base path of the table that a store is: its URL, of a local path the one without symbolic links.
func Base(st storage.Store) (string, error) {
	if _, local := st.(*file.Store); local {
		p, err := filepath.EvalSymlinks(st.URL())
		if err != nil {
			return "", &storage.Error{Op: "open", Path: st.URL(), Err: err}
		}
		return p, nil
	}
	return st.URL(), nil
}

// Beside opens a table that is only read, with the place at another URL where its indexes lie mounted in it, and returns the table's
// canonical base path too. A place inside the table, or one that has the table inside, is ErrRefused; a local one that is not there is ErrNotFound.
func Beside(ctx context.Context, table, sink string, o Options) (*mount.Store, string, error) {
	t, err := With(ctx, table, o)
	if err != nil {
		return nil, "", err
	}
	s, err := With(ctx, sink, o)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, "", &storage.Error{Op: "open", Path: sink, Err: err,
			Hint: "--sink must name a folder that is there: make it for a new index; if an index was there, restore it from a copy or create the index again"}
	}
	if err != nil {
		return nil, "", err
	}
	base, err := Base(t)
	if err != nil {
		return nil, "", err
	}
	at, err := Base(s)
	if err != nil {
		return nil, "", err
	}
	if at == base || strings.HasPrefix(at, strings.TrimSuffix(base, "/")+"/") {
		return nil, "", &storage.Error{Op: "open", Path: sink, Err: fmt.Errorf("it lies inside the table %s: %w", base, storage.ErrRefused),
			Hint: "without --sink the index is kept in the table's own metadata table; or name a place outside it"}
	}
	if strings.HasPrefix(base, strings.TrimSuffix(at, "/")+"/") {
		return nil, "", &storage.Error{Op: "open", Path: sink, Err: fmt.Errorf("the table %s lies inside it: %w", base, storage.ErrRefused),
			Hint: "name a folder of its own for the indexes, beside the table"}
	}
	return mount.New(t, s), base, nil
}
