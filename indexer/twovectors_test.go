package indexer_test

import (
	"fmt"
	"testing"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
)

// A real table with three vector columns, two of them of one named type, and an index of each: every step's counts are those of its own
// column, and one pass serves all three.
func TestIndexOfEachVectorColumn(t *testing.T) {
	t.Parallel()
	p := place(t, "two_vectors")
	steps := testkit.Oracle(t, "two_vectors")
	columns := []string{"a", "b", "c"}
	for _, column := range columns {
		create(t, p, generation.CreateRequest{Column: column, AsOf: steps[0].Instants[0].Requested}, map[string]string{"vector.num_clusters": "3", "vector.metric": "l2"})
	}
	for i, step := range steps[1:] {
		n := len(step.Instants)
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: n})
		if err != nil || r.Processed < n || len(r.Commits) != 1 {
			t.Fatalf("step %d: %+v, %v", step.Step, r, err)
		}
		for _, column := range columns {
			index := column + "_idx"
			list, err := coverage.Markers(t.Context(), coverage.Deps{Place: p}, index, n)
			if err != nil || len(list) != n {
				t.Fatal(list, err)
			}
			got := map[string]int64{}
			for _, m := range list {
				for _, class := range []string{"insert", "vector_update", "delete"} {
					got[class] += m.Counts[class]
				}
			}
			want := wantCounts(live(steps[i], column, kernel.Float, kernel.L2), live(step, column, kernel.Float, kernel.L2))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("step %d (%s), column %s: %v, want %v", step.Step, step.Op, column, got, want)
			}
			rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{Index: index})
			if err != nil || !rep.OK || rep.Checked != int64(len(live(step, column, kernel.Float, kernel.L2))) {
				t.Errorf("step %d, column %s: %+v, %v", step.Step, column, rep, err)
			}
		}
	}
}
