// Package storetest is the conformance suite of storage.Store: what every implementation and every layer must do.
//
// It owns the meaning of the interface as tests. It may import storage and testing only, and is never linked into the
// binary. Invariant: a row is added here, not in one store's own tests, when the behaviour is part of the interface.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"tidemark/internal/storage"
)

// Run runs the suite; open returns a fresh, empty store each time.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, st storage.Store)
	}{
		{"create once, read back", createRead},
		{"create claims a name once among many", createRace},
		{"create from a reader is whole or nothing", createFrom},
		{"replace compares first", replaceCAS},
		{"replace: one of many wins each round", replaceRace},
		{"ranges are exact", ranges},
		{"list shows direct children, sorted", list},
		{"names are kept as they are", names},
		{"missing things are not found", missing},
		{"delete is idempotent", deleting},
		{"paths that leave the root are refused", badPaths},
		{"callers own their bytes", ownership},
		{"a cancelled context stops calls", cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

func wantKind(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want kind %v", what, err, kind)
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func createRead(t *testing.T, st storage.Store) {
	ctx := t.Context()
	for _, content := range [][]byte{[]byte("hello"), {}} {
		path := fmt.Sprintf("a/b/.f%d.log.1_0-0-0", len(content))
		made := must[storage.Info](t)(st.Create(ctx, path, content))
		got, info, err := st.ReadFile(ctx, path)
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("read %q, %v", got, err)
		}
		if info.Path != path || info.Size != int64(len(content)) || info.Tag == "" || info.Tag != made.Tag || info.ModTime.IsZero() || info.IsDir {
			t.Errorf("info %+v after create %+v", info, made)
		}
		_, err = st.Create(ctx, path, []byte("other"))
		wantKind(t, "second create", err, storage.ErrExists)
		_, err = st.Create(ctx, path, content)
		wantKind(t, "second create of the same bytes", err, storage.ErrExists)
		stat := must[storage.Info](t)(st.Stat(ctx, path))
		if stat.Size != int64(len(content)) || stat.IsDir || !stat.ModTime.Equal(info.ModTime) {
			t.Errorf("stat %+v, read %+v", stat, info)
		}
		for _, i := range must[[]storage.Info](t)(st.List(ctx, "a/b")) {
			if i.Path == path && !i.ModTime.Equal(info.ModTime) {
				t.Errorf("list %+v, read %+v", i, info)
			}
		}
	}
}

func createRace(t *testing.T, st storage.Store) {
	const writers = 8
	var wg sync.WaitGroup
	won := make([]bool, writers)
	for i := range writers {
		wg.Go(func() {
			_, err := st.Create(t.Context(), "dir/name", []byte{byte(i)})
			won[i] = err == nil
			if err != nil {
				wantKind(t, "lost create", err, storage.ErrExists)
			}
		})
	}
	wg.Wait()
	got, _, err := st.ReadFile(t.Context(), "dir/name")
	if err != nil || len(got) != 1 || !won[got[0]] {
		t.Fatalf("content %v, %v, winners %v", got, err, won)
	}
	if n := len(slices.DeleteFunc(won, func(w bool) bool { return !w })); n != 1 {
		t.Errorf("%d writers created the same name", n)
	}
}

func createFrom(t *testing.T, st storage.Store) {
	ctx := t.Context()
	broken := errors.New("broken reader")
	whole := bytes.Repeat([]byte("0123456789abcdef"), 80_000) // more than one buffer of any copy
	reader := func(b []byte, end error) storage.Open {
		return func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(b), iotest.ErrReader(end))), nil
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for i, c := range []struct {
		name string
		ctx  context.Context
		size int
		open storage.Open
		want error
	}{
		{"whole", ctx, len(whole), reader(whole, io.EOF), nil},
		{"empty", ctx, 0, reader(nil, io.EOF), nil},
		{"one byte at a time", ctx, 99, func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.OneByteReader(bytes.NewReader(whole[:99]))), nil
		}, nil},
		{"short", ctx, len(whole) + 1, reader(whole, io.EOF), storage.ErrCorrupt},
		{"nothing", ctx, 1, reader(nil, io.EOF), storage.ErrCorrupt},
		{"long", ctx, len(whole) - 1, reader(whole, io.EOF), storage.ErrCorrupt},
		{"not empty", ctx, 0, reader(whole, io.EOF), storage.ErrCorrupt},
		{"negative size", ctx, -1, reader(nil, io.EOF), storage.ErrCorrupt},
		{"breaks at once", ctx, len(whole), reader(nil, broken), broken},
		{"breaks on the way", ctx, len(whole), reader(whole[:len(whole)-1], broken), broken},
		{"breaks at the end", ctx, len(whole), reader(whole, broken), broken},
		{"cannot be opened", ctx, 1, func() (io.ReadCloser, error) { return nil, fs.ErrNotExist }, fs.ErrNotExist},
		{"cancelled", gone, len(whole), reader(whole, io.EOF), context.Canceled},
	} {
		path := fmt.Sprintf("c%d/f", i)
		info, err := st.CreateFrom(c.ctx, path, int64(c.size), c.open)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		got, read, readErr := st.ReadFile(ctx, path)
		if c.want != nil {
			wantKind(t, c.name+": read after", readErr, storage.ErrNotFound)
			if infos, err := st.List(ctx, fmt.Sprintf("c%d", i)); err == nil && len(infos) > 0 {
				t.Errorf("%s: left %v", c.name, infos)
			}
			if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrExists) {
				t.Errorf("%s: the content's error became the store's: %v", c.name, err)
			}
			continue
		}
		if readErr != nil || !bytes.Equal(got, whole[:c.size]) || info.Tag == "" || info.Tag != read.Tag ||
			info.Size != int64(c.size) || info.Path != path || info.ModTime.IsZero() {
			t.Errorf("%s: read %d bytes, %v, info %+v, %+v", c.name, len(got), readErr, info, read)
		}
		_, err = st.CreateFrom(ctx, path, int64(c.size), c.open)
		wantKind(t, c.name+" again", err, storage.ErrExists)
	}
}

func replaceCAS(t *testing.T, st storage.Store) {
	ctx := t.Context()
	const path = "s/state.json"
	_, err := st.Replace(ctx, path, []byte("x"), "some tag")
	wantKind(t, "replace of an absent file with a tag", err, storage.ErrConflict)
	one := must[storage.Info](t)(st.Replace(ctx, path, []byte("one"), ""))
	_, err = st.Replace(ctx, path, []byte("two"), "")
	wantKind(t, "replace of a present file without a tag", err, storage.ErrConflict)
	two := must[storage.Info](t)(st.Replace(ctx, path, []byte("two"), one.Tag))
	if two.ModTime.IsZero() || two.Size != 3 {
		t.Errorf("replace returned %+v", two)
	}
	_, err = st.Replace(ctx, path, []byte("three"), one.Tag)
	wantKind(t, "replace with a stale tag", err, storage.ErrConflict)
	got, info, err := st.ReadFile(ctx, path)
	if err != nil || string(got) != "two" || info.Tag != two.Tag {
		t.Fatalf("after a lost replace: %q %+v %v", got, info, err)
	}
	must[storage.Info](t)(st.Replace(ctx, path, []byte("three"), info.Tag))
	if err := st.Delete(ctx, path); err != nil {
		t.Fatal(err)
	}
	_, err = st.Replace(ctx, path, []byte("four"), info.Tag)
	wantKind(t, "replace of a deleted file", err, storage.ErrConflict)
}

func replaceRace(t *testing.T, st storage.Store) {
	const writers, rounds = 6, 10
	ctx := t.Context()
	must[storage.Info](t)(st.Replace(ctx, "counter", []byte{0}, ""))
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < rounds; {
				b, info, err := st.ReadFile(ctx, "counter")
				if err != nil {
					t.Error(err)
					return
				}
				switch _, err = st.Replace(ctx, "counter", []byte{b[0] + 1}, info.Tag); {
				case err == nil:
					done++
				case !errors.Is(err, storage.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b, _, err := st.ReadFile(ctx, "counter")
	if err != nil || b[0] != writers*rounds {
		t.Errorf("counter %v, %v: an update was lost", b, err)
	}
}

func ranges(t *testing.T, st storage.Store) {
	ctx := t.Context()
	must[storage.Info](t)(st.Create(ctx, "f", []byte("0123456789")))
	for _, c := range []struct {
		off, n int64
		want   string
		kind   error
	}{
		{0, 10, "0123456789", nil},
		{3, 4, "3456", nil},
		{10, 0, "", nil},
		{9, 2, "", storage.ErrCorrupt},
		{11, 0, "", storage.ErrCorrupt},
		{-1, 2, "", storage.ErrCorrupt},
		{0, -1, "", storage.ErrCorrupt},
		{0, 1 << 62, "", storage.ErrCorrupt},
	} {
		got, err := st.ReadRange(ctx, "f", c.off, c.n)
		if string(got) != c.want || !errors.Is(err, c.kind) {
			t.Errorf("range %d+%d: %q, %v", c.off, c.n, got, err)
		}
		if src := storage.FileSource(st, "f", 10); c.kind == nil {
			if b, err := src.ReadRange(ctx, c.off, c.n); string(b) != c.want || err != nil {
				t.Errorf("source range %d+%d: %q, %v", c.off, c.n, b, err)
			}
		}
	}
	_, err := storage.FileSource(st, "f", 12).ReadRange(ctx, 8, 4)
	wantKind(t, "range of a file shorter than it was said to be", err, storage.ErrCorrupt)
}

func list(t *testing.T, st storage.Store) {
	ctx := t.Context()
	for _, p := range []string{"d/b", "d/a.x", "d/a/1", "d/a/2", "d/.hidden", "e/1", "top"} {
		must[storage.Info](t)(st.Create(ctx, p, []byte(p)))
	}
	must[storage.Info](t)(st.Replace(ctx, "d/replaced", []byte("r"), ""))
	for dir, want := range map[string][]string{
		"":    {"d/", "e/", "top 3"},
		"d":   {"d/.hidden 9", "d/a/", "d/a.x 5", "d/b 3", "d/replaced 1"},
		"d/a": {"d/a/1 5", "d/a/2 5"},
	} {
		infos, err := st.List(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range infos {
			if i.IsDir {
				got = append(got, i.Path+"/")
				continue
			}
			if i.ModTime.IsZero() {
				t.Errorf("%s has no modification time", i.Path)
			}
			got = append(got, fmt.Sprint(i.Path, " ", i.Size))
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %q: got %q, want %q", dir, got, want)
		}
	}
	if info, err := st.Stat(ctx, "d/a"); err != nil || !info.IsDir {
		t.Errorf("stat of a directory: %+v, %v", info, err)
	}
}

// names are parts of partition paths that real tables have, and what URLs and headers treat specially.
func names(t *testing.T, st storage.Store) {
	ctx := t.Context()
	var want []string
	for _, n := range []string{
		"a b", "k=v", "2026-11-30 02:08:56.513", "50%", "a%2Fb", "a+b", "?q=1", "#x", "a&b", "caf\u00e9", "cafe\u0301", "\u4e16\u754c", "\U0001f30a",
		"quo\"te", "it's", "(x)", "[0]", "{y}", "a;b", "a,b", "~t", "$v", "!x", "@at", "^c", "`b`", "<xml>", "a|b", "*", "...", " lead",
	} {
		path := "p/" + n + "/f " + n
		must[storage.Info](t)(st.Create(ctx, path, []byte(n)))
		if b, info, err := st.ReadFile(ctx, path); err != nil || string(b) != n || info.Path != path {
			t.Errorf("%q: read %q, %+v, %v", path, b, info, err)
		}
		if _, err := st.Stat(ctx, path); err != nil {
			t.Errorf("%q: stat: %v", path, err)
		}
		if infos, err := st.List(ctx, "p/"+n); err != nil || len(infos) != 1 || infos[0].Path != path {
			t.Errorf("%q: list: %v, %v", path, infos, err)
		}
		want = append(want, "p/"+n)
	}
	slices.Sort(want)
	infos, err := st.List(ctx, "p")
	var got []string
	for _, i := range infos {
		got = append(got, i.Path)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("list: got %q, %v, want %q", got, err, want)
	}
}

func missing(t *testing.T, st storage.Store) {
	ctx := t.Context()
	must[storage.Info](t)(st.Create(ctx, "d/f", nil))
	for _, p := range []string{"x", "d/x", "d/f/x", "x/y/z"} {
		_, _, err := st.ReadFile(ctx, p)
		wantKind(t, "read "+p, err, storage.ErrNotFound)
		_, err = st.ReadRange(ctx, p, 0, 1)
		wantKind(t, "range "+p, err, storage.ErrNotFound)
		_, err = st.Stat(ctx, p)
		wantKind(t, "stat "+p, err, storage.ErrNotFound)
		_, err = st.List(ctx, p)
		wantKind(t, "list "+p, err, storage.ErrNotFound)
	}
	_, _, err := st.ReadFile(ctx, "d")
	wantKind(t, "read a directory", err, storage.ErrNotFound)
	_, err = st.List(ctx, "d/f")
	wantKind(t, "list a file", err, storage.ErrNotFound)
	if infos, err := st.List(ctx, ""); err != nil || len(infos) != 1 {
		t.Errorf("list root: %v, %v", infos, err)
	}
}

func deleting(t *testing.T, st storage.Store) {
	ctx := t.Context()
	must[storage.Info](t)(st.Create(ctx, "d/f", []byte("1")))
	if err := st.Delete(ctx, "d"); err != nil {
		wantKind(t, "delete a directory", err, storage.ErrRefused)
	}
	if _, _, err := st.ReadFile(ctx, "d/f"); err != nil {
		t.Errorf("after the deletion of its directory: %v", err)
	}
	for range 2 {
		if err := st.Delete(ctx, "d/f"); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Delete(ctx, "no/such"); err != nil {
		t.Error(err)
	}
	if infos, err := st.List(ctx, "d"); err == nil && len(infos) > 0 || err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("list of an emptied directory: %v, %v", infos, err)
	}
	must[storage.Info](t)(st.Create(ctx, "d/f", []byte("2")))
}

func badPaths(t *testing.T, st storage.Store) {
	ctx := t.Context()
	for _, p := range []string{"/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "..", "a/./b", "a\x00b", `a\b`} {
		_, _, err := st.ReadFile(ctx, p)
		wantKind(t, "read "+p, err, storage.ErrRefused)
		_, err = st.Create(ctx, p, nil)
		wantKind(t, "create "+p, err, storage.ErrRefused)
		_, err = st.CreateFrom(ctx, p, 0, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil })
		wantKind(t, "create from a reader "+p, err, storage.ErrRefused)
		_, err = st.Replace(ctx, p, nil, "")
		wantKind(t, "replace "+p, err, storage.ErrRefused)
		wantKind(t, "delete "+p, st.Delete(ctx, p), storage.ErrRefused)
	}
	_, err := st.Create(ctx, "", nil)
	wantKind(t, "create the root", err, storage.ErrRefused)
}

func ownership(t *testing.T, st storage.Store) {
	ctx := t.Context()
	data := []byte("abc")
	must[storage.Info](t)(st.Create(ctx, "f", data))
	data[0] = 'X'
	got, _, err := st.ReadFile(ctx, "f")
	if err != nil || string(got) != "abc" {
		t.Fatalf("%q, %v: the store kept the caller's bytes", got, err)
	}
	got[0] = 'Y'
	part := must[[]byte](t)(st.ReadRange(ctx, "f", 0, 3))
	part[1] = 'Z'
	if again, _, _ := st.ReadFile(ctx, "f"); string(again) != "abc" {
		t.Errorf("%q: the store handed out its own bytes", again)
	}
}

func cancelled(t *testing.T, st storage.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := st.Create(ctx, "f", nil)
	wantKind(t, "create", err, context.Canceled)
	_, _, err = st.ReadFile(ctx, "f")
	wantKind(t, "read", err, context.Canceled)
	if _, err := st.Stat(t.Context(), "f"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a cancelled create had an effect: %v", err)
	}
}
