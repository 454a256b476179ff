package open_test

import (
	"errors"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/open"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		url  string
		want string
		kind error
	}{
		{dir, dir, nil},
		{"file://" + dir, dir, nil},
		{"file://localhost" + dir, dir, nil},
		{"file:" + dir, dir, nil},
		{"mem://one", "mem://one", nil},
		{dir + "/none", "", storage.ErrNotFound},
		{"", "", storage.ErrNotFound},
		{"file://host/x", "", storage.ErrUnsupported},
		{"s3://bucket/t/", "s3://bucket/t", nil},
		{"s3a://bucket/a b/t", "s3://bucket/a b/t", nil},
		{"s3://bucket", "s3://bucket", nil},
		{"gs://bucket/t", "gs://bucket/t", nil},
		{"abfss://c@a.dfs.core.windows.net/t/", "abfss://c@a.dfs.core.windows.net/t", nil},
		{"wasb://c@a.blob.core.windows.net/t", "wasb://c@a.blob.core.windows.net/t", nil},
		{"s3:///t", "", storage.ErrUnsupported},
		{"gs://", "", storage.ErrUnsupported},
		{"s3://bucket/a/../t", "", storage.ErrRefused},
		{"abfs://a.dfs.core.windows.net/t", "", storage.ErrUnsupported},
		{"ftp://host/t", "", storage.ErrUnsupported},
	} {
		st, err := open.Open(t.Context(), c.url)
		if c.kind != nil {
			if !errors.Is(err, c.kind) || storage.Hint(err) == "" && c.kind == storage.ErrUnsupported {
				t.Errorf("%q: %v", c.url, err)
			}
			continue
		}
		if err != nil || st.URL() != c.want {
			t.Errorf("%q: %v, %v", c.url, st, err)
		}
	}
	one, _ := open.Open(t.Context(), "mem://one")
	again, _ := open.Open(t.Context(), "mem://one")
	other, _ := open.Open(t.Context(), "mem://two")
	if one != again || one == other {
		t.Error("a mem name is not one store")
	}
}
