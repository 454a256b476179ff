package spill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"tidemark/internal/storage"
)

// empty fails if a folder holds anything.
func empty(t testing.TB, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		t.Errorf("left behind: %s", e.Name())
	}
}

func TestSorterIsAStableSort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s := NewSorter(dir, rapid.Int64Range(0, 2000).Draw(rt, "limit"))
		defer s.Close()
		type pair struct{ key, value string }
		var want []pair
		check := func() {
			slices.SortStableFunc(want, func(a, b pair) int { return strings.Compare(a.key, b.key) })
			i := 0
			for e, err := range s.All() {
				if err != nil {
					rt.Fatal(err)
				}
				if i == len(want) || string(e.Key) != want[i].key || string(e.Value) != want[i].value {
					rt.Fatalf("entry %d is %q %q", i, e.Key, e.Value)
				}
				i++
			}
			if i != len(want) {
				rt.Fatalf("%d entries of %d", i, len(want))
			}
		}
		for n := range rapid.IntRange(0, 200).Draw(rt, "entries") {
			p := pair{rapid.StringMatching("[a-c]{0,3}").Draw(rt, "key"), strings.Repeat("x", rapid.IntRange(0, 90).Draw(rt, "size")) + fmt.Sprint(n)}
			if err := s.Add([]byte(p.key), []byte(p.value)); err != nil {
				rt.Fatal(err)
			}
			want = append(want, p)
			if rapid.IntRange(0, 60).Draw(rt, "look") == 0 {
				check()
			}
		}
		check()
		if rapid.Bool().Draw(rt, "release") {
			if err := s.Release(); err != nil {
				rt.Fatal(err)
			}
		}
		check()
	})
	empty(t, dir)
}

func TestSorterHoldsItsBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const limit = 64 << 10
	s := NewSorter(dir, limit)
	for i := range 20000 {
		if err := s.Add(fmt.Appendf(nil, "%08x", uint32(i)*2654435761), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, c := range s.chunks {
			held += cap(c)
		}
		if held += cap(s.refs) * entryBytes; held > 2*limit {
			t.Fatalf("%d bytes in memory after %d entries, bound %d", held, i, limit)
		}
	}
	size, runs := s.Spilled()
	if size < 19000*100 || runs < 30 {
		t.Errorf("%d bytes in %d runs", size, runs)
	}
	empty(t, dir) // the file has no name
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSmallThingsMakeNoFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	s, sp := NewSorter(missing, 1000), NewSpace(missing, 1000)
	if err := s.Add(make([]byte, 100), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	b := sp.Buffer()
	if _, err := b.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Bytes(); !ok || sp.Spilled() != 0 {
		t.Error("not in memory")
	}
	if err := errors.Join(s.Release(), s.Close(), sp.Close()); err != nil {
		t.Error(err)
	}
}

func TestBuffersDoNotDependOnTheBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, limit := range []int64{0, 1, 10, 25, 1000} {
		s := NewSpace(dir, limit)
		var all []*Buffer
		var want []string
		for i := range 6 {
			b, text := s.Buffer(), ""
			for j := range i * 3 {
				piece := strings.Repeat(string(rune('a'+i)), j)
				text += piece
				if _, err := b.Write([]byte(piece)); err != nil {
					t.Fatal(err)
				}
			}
			all, want = append(all, b), append(want, text)
		}
		if s.held > max(limit, 0) {
			t.Errorf("limit %d: %d bytes in memory", limit, s.held)
		}
		for i, b := range all {
			for range 2 {
				got, err := io.ReadAll(b.Reader())
				if err != nil || string(got) != want[i] || b.Size() != int64(len(got)) {
					t.Errorf("limit %d: buffer %d is %q, %v", limit, i, got, err)
				}
			}
			if mem, ok := b.Bytes(); ok && string(mem) != want[i] {
				t.Errorf("limit %d: buffer %d in memory is %q", limit, i, mem)
			}
		}
		if _, err := all[0].Write(nil); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("write to an earlier buffer: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	empty(t, dir)
}

// full is a disk with room for so many bytes.
type full struct {
	handle
	left int
}

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if n < len(p) {
		return n, &os.PathError{Op: "write", Path: "tmp", Err: syscall.ENOSPC}
	}
	return f.handle.Write(p)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := func(what string, err error) {
		t.Helper()
		var e *storage.Error
		if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &e) || !strings.Contains(err.Error(), dir) || !strings.Contains(e.Hint, "TMPDIR") {
			t.Errorf("%s: %v, hint %q", what, err, storage.Hint(err))
		}
	}
	file, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	file.f = &full{file.f, 1000}
	s := NewSorter(dir, 100)
	s.file = file
	for range 100 {
		if err = s.Add([]byte("key"), make([]byte, 50)); err != nil {
			break
		}
	}
	check("sorter", err)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if file, err = Create(dir); err != nil {
		t.Fatal(err)
	}
	file.f = &full{file.f, 10}
	sp := NewSpace(dir, 5)
	sp.file = file
	_, err = sp.Buffer().Write(bytes.Repeat([]byte("x"), 20))
	check("buffer", err)
	if err := sp.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir)
	missing := filepath.Join(dir, "missing")
	_, err = Create(missing)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) || !strings.Contains(storage.Hint(err), "TMPDIR") {
		t.Errorf("missing folder: %v, hint %q", err, storage.Hint(err))
	}
}
