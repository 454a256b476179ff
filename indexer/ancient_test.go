package indexer_test

import (
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// A commit of a time that the archive has long passed hides nothing that was archived unseen: nobody calls the index fresh, and every
// command says which commit it is. Without it the catch-up goes on.
func TestCommitBelowTheArchive(t *testing.T) {
	t.Parallel()
	const (
		n   = 30
		odd = "20200101000000000"
	)
	for _, name := range []string{odd + "_20200101000001000.commit", odd + ".commit.requested"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := absence(t, n)
			p := mdt.Inside(st)
			tb, err := table.Open(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+tb.Timeline.Writes()[0].File)
			if err != nil {
				t.Fatal(err)
			}
			st.Put(".hoodie/timeline/"+name, b, time.Time{})
			says := func(what string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), odd+" is on the active timeline") || storage.Hint(err) == "" {
					t.Errorf("%s: %v", what, err)
				}
			}
			if s := status(t, p); s.Fresh || s.State != coverage.StateStalled || !strings.Contains(s.Reason, odd+" is on the active timeline") || s.Next == "" {
				t.Errorf("%+v", s)
			}
			_, err = indexer.Sync(t.Context(), p, indexer.SyncOptions{})
			says("sync", err)
			_, err = indexer.Plan(t.Context(), p, indexer.SyncOptions{})
			says("plan", err)
			_, err = indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{})
			says("reconcile", err)
			_, err = coverage.Prove(t.Context(), coverage.Deps{Place: p}, "")
			says("prove", err)
			if err := st.Delete(t.Context(), ".hoodie/timeline/"+name); err != nil {
				t.Fatal(err)
			}
			if r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil || r.Processed != n+1 {
				t.Errorf("without it: %+v, %v", r, err)
			}
			if s := status(t, p); !s.Fresh {
				t.Errorf("without it: %+v", s)
			}
		})
	}
}
