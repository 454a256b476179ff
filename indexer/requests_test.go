package indexer_test

import (
	"strings"
	"testing"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/fault"
)

// A process that follows a table reads each file of the data timeline once, however many passes it makes and however often it
// looks.
func TestTimelineIsReadOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_compaction_clean", "cow_basic"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := place(t, name)
			create(t, plain, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, plain)}, map[string]string{"vector.num_clusters": "4"})
			st := fault.New(plain.Store, fault.Config{})
			p := mdt.Inside(st)
			tables := table.NewCache(st)
			passes := 0
			for ; ; passes++ {
				r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 1, Tables: tables})
				if err != nil {
					t.Fatal(err)
				}
				if r.Processed == 0 {
					break
				}
			}
			reads := map[string]int{}
			for _, line := range st.Trace() {
				if path, ok := strings.CutPrefix(line, "read .hoodie/timeline/"); ok && strings.Contains(path, "commit") {
					reads[path]++
				}
			}
			for path, n := range reads {
				if n > 1 {
					t.Errorf("%s was read %d times in %d passes", path, n, passes)
				}
			}
			if passes < 3 || len(reads) < passes {
				t.Errorf("%d passes, %d commits read", passes, len(reads))
			}
		})
	}
}
