package coverage_test

import (
	"encoding/json"
	"testing"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// The recorded tables that were cleaned and archived: how many commits are left follows from what cleaner and archiver did. The
// table archived was written with cleaner 4 and archiver 6/8, mor_compaction_clean with cleaner 2.
func TestHorizonOfRecordedTables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		table    string
		behind   int // commits that are not covered
		cleaner  string
		archiver string
	}{
		{"archived", 0, "null", "null"},
		{"archived", 1, "4", "4"}, // archiver: 6 at the most, 4 for certain
		{"archived", 3, "2", "2"},
		{"archived", 5, "0", "0"},
		{"mor_compaction_clean", 1, "2", "null"},
		{"mor_compaction_clean", 2, "1", "null"},
		{"mor_compaction_clean", 4, "0", "null"},
		{"cow_basic", 2, "null", "null"}, // never cleaned
	} {
		st := copyOf(t, tc.table)
		createIndex(t, st, "")
		p := mdt.Inside(st)
		tb, err := table.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		state, _, err := mdt.ReadState(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		writes := tb.Timeline.Writes()
		for name, x := range state.Indexes {
			for _, w := range writes[len(writes)-tc.behind:] {
				delete(state.Indexes[name].Baseline.Instants, w.Requested)
			}
			last := writes[len(writes)-tc.behind-1]
			x.Frontier = mdt.Frontier{Requested: last.Requested, Completed: last.Completed}
		}
		b, err := mdt.EncodeState(state)
		if err != nil {
			t.Fatal(err)
		}
		st.Put(p.StatePath(), b, noon)
		all, err := coverage.Status(t.Context(), coverage.Deps{Place: p})
		if err != nil {
			t.Fatal(err)
		}
		h := all[0].Horizon
		if got := text(h.Cleaner); got != tc.cleaner {
			t.Errorf("%s, %d behind: cleaner %s, want %s", tc.table, tc.behind, got, tc.cleaner)
		}
		if got := text(h.Archiver); got != tc.archiver {
			t.Errorf("%s, %d behind: archiver %s, want %s", tc.table, tc.behind, got, tc.archiver)
		}
		if (h.CleanerAbout == "") != (h.Cleaner == nil) || (h.ArchiverAbout == "") != (h.Archiver == nil) {
			t.Errorf("%s, %d behind: %+v", tc.table, tc.behind, h)
		}
	}
}

func text(n *int) string {
	b, _ := json.Marshal(n)
	return string(b)
}
