package source_test

import (
	"testing"

	"tidemark/indexer/source"
)

func TestKey(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"/data/tables/x", "file:///data/tables/x", "file:/data/tables/x", "/data/tables/x/", "/data//tables/x", "file://localhost/data/tables/x/"},
		{"/data/a b", "file:///data/a%20b"},
		{"relative/x", "./relative/x/"},
		{"s3://bucket/t", "s3a://bucket/t/", "s3n://bucket//t"},
		{"gs://bucket/t", "gs://bucket/t/"},
		{"s3://bucket", "s3a://bucket/"},
		{"abfss://c@acc.dfs.core.windows.net/t", "abfs://c@acc.dfs.core.windows.net/t", "wasbs://c@acc.blob.core.windows.net/t"},
		{"mem://t", "mem://t/"},
	} {
		for _, name := range same {
			if got, want := source.Key(name), source.Key(same[0]); got != want {
				t.Errorf("%s: got %s, want that of %s: %s", name, got, same[0], want)
			}
		}
	}
	different := []string{"/data/x", "/data/X", "data/x", "s3://data/x", "gs://data/x", "s3://data/x/y", "/data/a%20b", "/data/a b", "mem://data/x", ""}
	seen := map[string]string{}
	for _, name := range different {
		if other, twice := seen[source.Key(name)]; twice {
			t.Errorf("%q and %q have one key", name, other)
		}
		seen[source.Key(name)] = name
	}
}
