package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/open"
)

func TestBeside(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	table, sink := filepath.Join(dir, "t"), filepath.Join(dir, "t_idx")
	for _, d := range []string{table + "/inner", sink} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(table, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, table, sink string
		base              string
		kind              error
	}{
		{"a directory beside it", table, sink, table, nil},
		{"the table by a symbolic link", "file://" + link, sink, table, nil},
		{"another store", table, "mem://beside", table, nil},
		{"a table in a bucket", "s3a://b/t", sink, "s3://b/t", nil},
		{"a name that begins alike", "s3://b/t", "s3://b/t2", "s3://b/t", nil},
		{"the table itself", table, table, "", storage.ErrRefused},
		{"inside the table", table, table + "/inner", "", storage.ErrRefused},
		{"inside the table by a link", link, link + "/inner", "", storage.ErrRefused},
		{"inside a table in a bucket", "s3://b/t", "s3a://b/t/x", "", storage.ErrRefused},
		{"the table's parent", table, dir, "", storage.ErrRefused},
		{"the root", table, "/", "", storage.ErrRefused},
		{"a bucket with the table inside", "s3://b/x/t", "s3a://b/x", "", storage.ErrRefused},
		{"not there", table, filepath.Join(dir, "none"), "", storage.ErrNotFound},
		{"no table", filepath.Join(dir, "none"), sink, "", storage.ErrNotFound},
		{"no such scheme", table, "ftp://x", "", storage.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, base, err := open.Beside(t.Context(), c.table, c.sink, open.Options{})
			if c.kind != nil {
				if !errors.Is(err, c.kind) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || base != c.base || st == nil {
				t.Errorf("%v, base %q, want %q", err, base, c.base)
			}
		})
	}
}
