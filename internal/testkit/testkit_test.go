package testkit_test

import (
	"os"
	"path/filepath"
	"testing"

	"tidemark/internal/testkit"
)

func TestTableAndOracle(t *testing.T) {
	t.Parallel()
	base := testkit.Table(t, "cow_basic")
	if _, err := os.Stat(filepath.Join(base, ".hoodie", "hoodie.properties")); err != nil {
		t.Fatal(err)
	}
	steps := testkit.Oracle(t, "demo_words")
	if len(steps) != 5 || len(steps[4].Rows) != 4170 {
		t.Fatalf("got %d steps, %d rows at the end; want 5, 4170", len(steps), len(steps[len(steps)-1].Rows))
	}
	for _, s := range steps {
		for _, r := range s.Rows {
			if len(r.Vector("embedding")) != 400 {
				t.Fatalf("step %d key %q: vector of %d bytes", s.Step, r.Key, len(r.Vector("embedding")))
			}
		}
	}
}
