package mdt_test

import (
	"errors"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// The first instant is found on the active timeline, or in the archive when it has been archived; any other is another table's.
func TestSameTable(t *testing.T) {
	t.Parallel()
	st, err := mem.FromDir("t", testkit.Table(t, "archived"))
	if err != nil {
		t.Fatal(err)
	}
	p, tl, err := timeline.Open(t.Context(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	archive := timeline.NewArchive(st, ".hoodie", p)
	oldest := ""
	for i, err := range archive.Instants(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if oldest == "" || i.Requested < oldest {
			oldest = i.Requested
		}
	}
	if oldest == "" || oldest >= tl.Earliest() {
		t.Fatalf("nothing is archived: %q", oldest)
	}
	here := mdt.NewTableID("/t", p, tl)
	if here.Name != p.Name || here.First == "" || here.Path != "/t" {
		t.Errorf("%+v", here)
	}
	for _, c := range []struct {
		name string
		id   *mdt.TableID
		same bool
	}{
		{"inside", nil, true},
		{"as it is", here, true},
		{"first instant archived", &mdt.TableID{Name: p.Name, First: oldest}, true},
		{"no instant then", &mdt.TableID{Name: p.Name}, true},
		{"another name", &mdt.TableID{Name: "other", First: here.First}, false},
		{"an instant that never was", &mdt.TableID{Name: p.Name, First: "20200101000000000"}, false},
		{"a later one that never was", &mdt.TableID{Name: p.Name, First: "20990101000000000"}, false},
	} {
		err := mdt.SameTable(t.Context(), c.id, p, tl, archive)
		if (err == nil) != c.same || err != nil && (!errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Every byte of a commit file is checked, and the id that it is for.
func TestCheckCommitFile(t *testing.T) {
	t.Parallel()
	const id = "20261130020922683"
	b, err := mdt.CommitFile(id, 1, []mdt.DataFile{{Path: "vector_index_v_idx/f"}}, []mdt.CoveredInstant{{Requested: "20261130020919736"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := mdt.CheckCommitFile(id, b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 0x20
		if err := mdt.CheckCommitFile(id, b); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		b[i] ^= 0x20
	}
	for _, n := range []int{0, 1, len(b) / 2, len(b) - 1} {
		if err := mdt.CheckCommitFile(id, b[:n]); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if err := mdt.CheckCommitFile("20261130020922685", b); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("under another name: %v", err)
	}
}
