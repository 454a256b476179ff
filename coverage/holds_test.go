package coverage

import (
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// An active commit that the state does not name is not held, wherever the frontier is: only archived ones are taken for it.
func TestHolds(t *testing.T) {
	t.Parallel()
	st := mem.New("t")
	st.Put(".hoodie/hoodie.properties", []byte("hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.timeline.timezone=UTC\n"), time.Time{})
	const active, named = "20261130020300000", "20261130020500000"
	for _, requested := range []string{active, named} {
		st.Put(".hoodie/timeline/"+requested+"_"+requested[:14]+"900.commit", []byte("{}"), time.Time{})
	}
	props, tl, err := timeline.Open(t.Context(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	e := &evidence{props: props, tl: tl, index: &mdt.Index{
		Baseline: mdt.Baseline{Instants: map[string]string{}, Before: "20261130020400000"},
		Covered:  map[string]string{named: "20261130020500900"},
		Frontier: mdt.Frontier{Requested: named, Completed: "20261130020500900"},
	}}
	for _, tt := range []struct {
		requested, completed string
		want                 bool
	}{
		{named, "20261130020500900", true},
		{active, "20261130020300900", false},              // active and not named
		{"20261130020200000", "20261130020200900", true},  // archived, below the frontier
		{"20261130020600000", "20261130020600900", false}, // after both
	} {
		if got := e.holds(tt.requested, tt.completed); got != tt.want {
			t.Errorf("holds(%s, %s) = %v", tt.requested, tt.completed, got)
		}
	}
}
