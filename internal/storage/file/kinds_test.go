package file

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"tidemark/internal/storage"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		errno syscall.Errno
		kind  error // nil: an unknown outcome
		hint  string
	}{
		{"disk full", syscall.ENOSPC, nil, "free space"},
		{"quota", syscall.EDQUOT, nil, "quota"},
		{"file too large", syscall.EFBIG, nil, "ulimit"},
		{"read-only file system", syscall.EROFS, storage.ErrRefused, "permission"},
		{"no permission", syscall.EACCES, storage.ErrRefused, "permission"},
		{"no hard links", syscall.EOPNOTSUPP, storage.ErrUnsupported, "hard links"},
		{"input/output error", syscall.EIO, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := wrap("create", "d/f", &os.PathError{Op: "write", Path: "/secret/place", Err: c.errno})
			if !errors.Is(err, c.errno) || c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("got %v", err)
			}
			for _, k := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused} {
				if c.kind == nil && errors.Is(err, k) {
					t.Errorf("%v has kind %v", err, k)
				}
			}
			if !strings.Contains(storage.Hint(err), c.hint) || strings.Contains(err.Error(), "/secret/place") {
				t.Errorf("%v, hint %q", err, storage.Hint(err))
			}
		})
	}
}
