package search

import (
	"slices"
	"testing"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// Where the row of a candidate is looked for: nil where the record index decides.
func TestPlacesOfCopies(t *testing.T) {
	t.Parallel()
	in := func(id string) table.Group { return table.Group{Partition: "p", FileID: id} }
	known := []mdt.CopiedKey{{Key: "k", Rows: 2, Groups: []mdt.CopiedIn{{Partition: "p", FileID: "b"}, {Partition: "p", FileID: "c"}}}}
	for _, c := range []struct {
		name, key string
		more      bool
		at        string // what the record index says, "" for nothing
		want      []table.Group
	}{
		{"a known key, wherever the record index says", "k", false, "d", []table.Group{in("a"), in("d"), in("b"), in("c")}},
		{"a known key that the record index lacks", "k", false, "", []table.Group{in("a"), in("b"), in("c")}},
		{"another key", "x", false, "d", nil},
		{"another key that is dead", "x", false, "", nil},
		{"not all are known, the record index agrees", "x", true, "a", nil},
		{"not all are known, the record index says another place", "x", true, "d", []table.Group{in("a"), in("d")}},
		{"not all are known, the record index lacks it", "x", true, "", []table.Group{in("a")}},
	} {
		x := &copies{known: mdt.NewCopies(slices.Clone(known), c.more)}
		got := x.places(candidate{key: c.key, locator: delta.Locator{Partition: "p", FileID: "a"}}, in(c.at), c.at != "")
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
