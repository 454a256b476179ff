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

func TestComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, table, sink, want string }{
		{"", "/t", "", ""},
		{"restore the file from a copy", "/t", "", "restore the file from a copy"},
		{"tidemark reconcile makes it equal again", "/t", "", "tidemark reconcile /t makes it equal again"},
		{"see what there is: tidemark index list", "/t", "s3://b/i", "see what there is: tidemark index list /t --sink s3://b/i"},
		{"'tidemark status' names the commits", "/my t", "", "'tidemark status '/my t'' names the commits"},
		{"create one: tidemark index create", "t", "i", "create one: tidemark index create t --sink i --column COLUMN"},
		{"tidemark index create t --sink i --column v", "t", "i", "tidemark index create t --sink i --column v"},
		{"tidemark sync '/my t'; tidemark sync", "/my t", "", "tidemark sync '/my t'; tidemark sync '/my t'"},
		{"tidemark sync s3://b/t, or tidemark config, or a newer tidemark", "s3://b/t", "", "tidemark sync s3://b/t, or tidemark config, or a newer tidemark"},
		{"drop it: tidemark index drop, then create", "/t", "", "drop it: tidemark index drop /t, then create"},
		{"tidemark prove TABLE", "/t", "", "tidemark prove TABLE"},
		{"catch up: tidemark sync T; or ask otherwise", "T", "", "catch up: tidemark sync T; or ask otherwise"},
		{"(tidemark sync T), 'tidemark sync T', tidemark sync T, tidemark sync T.", "T", "", "(tidemark sync T), 'tidemark sync T', tidemark sync T, tidemark sync T."},
		{"tidemark sync T --sink s; or ask", "T", "s", "tidemark sync T --sink s; or ask"},
		{"tidemark sync 'a b'; or ask", "a b", "", "tidemark sync 'a b'; or ask"},
		{"tidemark sync and wait", "a", "", "tidemark sync a and wait"},
		{"tidemark search --policy WARN", "T", "", "tidemark search T --policy WARN"},
		{"tidemark synchronise", "/t", "", "tidemark synchronise"},
	} {
		if got := Complete(c.text, c.table, c.sink); got != c.want {
			t.Errorf("Complete(%q, %q, %q) = %q, want %q", c.text, c.table, c.sink, got, c.want)
		}
		if again := Complete(c.want, c.table, c.sink); again != c.want {
			t.Errorf("Complete(%q, %q, %q) again = %q", c.want, c.table, c.sink, again)
		}
	}
}
