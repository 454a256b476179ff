package search

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tidemark/delta"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// largest returns the rows of the table's largest file slice.
func largest(t *testing.T, s *snapshot, c table.Columns) (table.Slice, []table.Row) {
	t.Helper()
	var slice table.Slice
	var rows []table.Row
	for x, err := range s.files.Slices(table.Cut{}) {
		if err != nil {
			t.Fatal(err)
		}
		var got []table.Row
		if err := s.table.ReadMerged(t.Context(), x, c, func(r table.Row) error {
			got = append(got, r)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) > len(rows) {
			slice, rows = x, got
		}
	}
	if len(rows) < 6 {
		t.Fatalf("the largest slice has %d rows", len(rows))
	}
	return slice, rows
}

func pinnedTable(t *testing.T, name string) *snapshot {
	t.Helper()
	s, err := pinAt(t.Context(), Fixture(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Locators are hints: whatever they say, a fetch gives each wanted row as the table holds it, or nothing.
func TestFetchChecksLocators(t *testing.T) {
	t.Parallel()
	c := table.Columns{Vectors: []string{"embedding"}}
	for _, name := range []string{"cow_basic", "mor_basic"} {
		s := pinnedTable(t, name)
		slice, rows := largest(t, s, c)
		logs := slices.ContainsFunc(rows, func(r table.Row) bool { return r.Position < 0 })
		rows = slices.DeleteFunc(rows, func(r table.Row) bool { return r.Position < 0 })
		at := func(r table.Row, position int64, instant string) candidate {
			return candidate{key: r.Key, locator: delta.Locator{Partition: slice.Partition, FileID: slice.FileID, BaseInstant: instant, Position: position}}
		}
		base := slice.Base.Instant
		for _, x := range []struct {
			what       string
			wanted     []candidate
			absent     int
			mismatches int
		}{
			{"right positions", []candidate{at(rows[4], rows[4].Position, base), at(rows[1], rows[1].Position, base)}, 0, 0},
			{"swapped positions", []candidate{at(rows[0], rows[2].Position, base), at(rows[2], rows[0].Position, base), at(rows[3], rows[3].Position, base)}, 0, 2},
			{"one position twice", []candidate{at(rows[0], rows[0].Position, base), at(rows[1], rows[0].Position, base)}, 0, 0},
			{"beyond the file", []candidate{at(rows[0], 1<<30, base), at(rows[5], rows[5].Position, base)}, 0, 2},
			{"of an older base file", []candidate{at(rows[0], rows[3].Position, "20200101000000000")}, 0, 0},
			{"without a position", []candidate{at(rows[2], -1, base)}, 0, 0},
			{"a key that is not there", []candidate{at(table.Row{Key: "nobody"}, rows[0].Position, base)}, 1, 1},
		} {
			r := &sliceReader{snapshot: s, columns: c, fresh: true}
			got := map[string]table.Row{}
			mismatched, err := r.fetch(t.Context(), slice.Group, x.wanted, func(row table.Row) error {
				if _, twice := got[row.Key]; twice {
					t.Errorf("%s, %s: %s came twice", name, x.what, row.Key)
				}
				row.Vectors = [][]byte{bytes.Clone(row.Vectors[0])}
				got[row.Key] = row
				return nil
			})
			if err != nil {
				t.Fatalf("%s, %s: %v", name, x.what, err)
			}
			if len(got) != len(x.wanted)-x.absent || len(mismatched) != x.mismatches {
				t.Errorf("%s, %s: got %d of %d rows, %d mismatches", name, x.what, len(got), len(x.wanted), len(mismatched))
			}
			for _, row := range rows {
				if g, ok := got[row.Key]; ok && (!bytes.Equal(g.Vectors[0], row.Vectors[0]) || g.Position != row.Position) {
					t.Errorf("%s, %s: %s is another row", name, x.what, row.Key)
				}
			}
			// An index that lags may not trust a position where the slice has logs.
			r.fresh = false
			if mismatched, err = r.fetch(t.Context(), slice.Group, x.wanted, func(table.Row) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if logs && len(mismatched) != 0 {
				t.Errorf("%s, %s: positions were read", name, x.what)
			}
		}
		if _, err := (&sliceReader{snapshot: s, columns: c}).fetch(t.Context(), table.Group{FileID: "nobody"}, nil, nil); err != nil {
			t.Errorf("a group that is not shown: %v", err)
		}
	}
}

// A file that the newest snapshot needs cannot have been cleaned.
func TestLostFileOfTheNewestSnapshot(t *testing.T) {
	t.Parallel()
	st := Fixture(t, "cow_basic")
	s, err := pinAt(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	slice, rows := largest(t, s, table.Columns{})
	if err := st.Delete(t.Context(), slice.Base.Path); err != nil {
		t.Fatal(err)
	}
	if s, err = pinAt(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	none := func(table.Row) error { return nil }
	noneFound := func(table.Row, table.Written) error { return nil }
	r := &sliceReader{snapshot: s}
	_, fetched := r.fetch(t.Context(), slice.Group, []candidate{{key: rows[0].Key}}, none)
	for what, err := range map[string]error{
		"scan":  s.scan(t.Context(), nil, table.Columns{}, noneFound),
		"key":   s.everywhere(t.Context(), table.Columns{}, rows[0].Key, noneFound),
		"fetch": fetched,
	} {
		hint := storage.Hint(err)
		if !errors.Is(err, table.ErrGone) || !strings.Contains(err.Error(), slice.Base.Path) ||
			!strings.Contains(hint, "damaged") || !strings.Contains(hint, "restore") || strings.Contains(hint, "cleaner") {
			t.Errorf("%s: got %v, hint %q", what, err, hint)
		}
	}
}

func TestPartitionsOfTheSnapshot(t *testing.T) {
	t.Parallel()
	s := pinnedTable(t, "mor_basic")
	got, err := s.choose([]string{"eu/", "us"})
	if err != nil || len(got) != 2 || !got["eu"] {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.choose(nil); err != nil || got != nil {
		t.Errorf("all: got %v, %v", got, err)
	}
	if s.requested == "" || s.records == nil {
		t.Errorf("got snapshot %q", s.requested)
	}
	if err := s.scan(context.Background(), map[string]bool{"eu": true}, table.Columns{}, func(r table.Row, _ table.Written) error {
		if r.Partition != "eu" {
			t.Errorf("got a row of %s", r.Partition)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
