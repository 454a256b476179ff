package coverage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"tidemark/coverage"
	"tidemark/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// docs/operations.md has one entry per state, in the order in which states are shown.
func TestEveryStateIsExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []coverage.State
	for _, m := range regexp.MustCompile(`(?m)^### ([a-z_]+)$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, coverage.State(m[1]))
	}
	want := []coverage.State{
		coverage.StateUnsupported, coverage.StateAbsent, coverage.StateHandedOver, coverage.StateFailClosed, coverage.StateBlocked, coverage.StateStalled,
		coverage.StatePaused, coverage.StateCatchingUp, coverage.StateDegraded, coverage.StateWaiting, coverage.StateFresh,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}
