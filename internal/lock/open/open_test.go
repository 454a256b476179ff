package open_test

import (
	"errors"
	"testing"

	"tidemark/internal/lock/open"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/s3"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, file string
		ok         bool
	}{
		{"", "", true},
		{"none", "", true},
		{"process", "", true},
		{"storage", ".hoodie/.locks/table_lock.json", true},
		{"file", ".hoodie/lock", true},
		{"file:.hoodie/.aux", ".hoodie/.aux/lock", true},
		{"file:.hoodie/.aux:10m", ".hoodie/.aux/lock", true},
		{"file::1m", ".hoodie/lock", true},
		{"file:../x", "", false},
		{"file:/x", "", false},
		{"file:.hoodie:soon", "", false},
		{"storage:x", "", false},
		{"none:x", "", false},
		{"zookeeper", "", false},
	} {
		st := mem.New("t")
		l, err := open.Parse(c.text, st)
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, storage.ErrUnsupported) || storage.Hint(err) == "") {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if l == nil {
			continue
		}
		h, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if paths := st.Paths(); len(paths) != min(1, len(c.file)) || c.file != "" && paths[0] != c.file {
			t.Errorf("%q: %v", c.text, paths)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	bucket, err := s3.New("b", "t", s3.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Parse("file", bucket); !errors.Is(err, storage.ErrUnsupported) || storage.Hint(err) == "" {
		t.Errorf("a file lock in a bucket: %v", err)
	}
	if _, err := open.Parse("storage", bucket); err != nil {
		t.Error(err)
	}
}
