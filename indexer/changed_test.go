package indexer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// Real tables whose vector column was dropped, or written anew with another dimension: nothing is written, nothing is called covered, and the
// state is fail_closed with the reason.
func TestVectorColumnThatDidNotStay(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ table, reason string }{
		{"changed/vector_dropped", "embedding is gone"},
		{"changed/vector_redim", "VECTOR(4)"},
	} {
		t.Run(tc.table, func(t *testing.T) {
			t.Parallel()
			st := store(t, tc.table)
			p := mdt.Inside(st)
			steps := testkit.Oracle(t, tc.table)
			// The index is built while the table ends with its first commit.
			later := map[string][]byte{}
			for _, path := range st.Paths() {
				name := strings.TrimPrefix(path, ".hoodie/timeline/")
				if name == path || strings.HasPrefix(name, "history") || name[:17] <= steps[0].Instants[0].Requested {
					continue
				}
				b, _, err := st.ReadFile(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				later[path] = b
				if err := st.Delete(t.Context(), path); err != nil {
					t.Fatal(err)
				}
			}
			create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "4"})
			for path, b := range later {
				st.Put(path, b, time.Unix(0, 0))
			}
			before := st.Version()
			r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
			if !errors.Is(err, storage.ErrRefused) || r.Processed != 0 {
				t.Fatalf("covered %d, %v", r.Processed, err)
			}
			if s := status(t, p); s.Fresh || s.State != coverage.StateFailClosed || !strings.Contains(s.Reason, tc.reason) {
				t.Errorf("status: %+v", s)
			}
			markers, err := coverage.Markers(t.Context(), coverage.Deps{Place: p}, "", 0)
			if err != nil || len(markers) != 0 {
				t.Errorf("markers %+v, %v", markers, err)
			}
			t.Logf("%d changes of the store", st.Version()-before)
		})
	}
}
