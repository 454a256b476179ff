package mdt

import "testing"

func TestNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, sink, want string }{
		{"/data/t", "", "/data/t"},
		{"/data/t", "s3://b/i", "/data/t --sink s3://b/i"},
		{"/my data/t", "/i'x", `'/my data/t' --sink '/i'\''x'`},
		{"a b", "", "'a b'"},
		{"aäb", "", "'aäb'"},
		{"a$b/c", "", "'a$b/c'"},
		{"", "", "''"},
	} {
		if got := Named(c.table, c.sink); got != c.want {
			t.Errorf("%q, %q: %s", c.table, c.sink, got)
		}
	}
}
