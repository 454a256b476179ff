package indexer_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// A commit that the index holds and whose file has other content of the same size is seen, wherever the evidence of it lies: in the
// state, in the ledger after a fold, or nowhere because the commit is of the baseline.
func TestOtherContentIsSeenAfterAFold(t *testing.T) {
	t.Parallel()
	begin := store(t, "cow_basic")
	p := mdt.Inside(begin)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
	syncFolding(t, p, always, 2)
	if r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{FoldEvery: never}); err != nil || r.Processed == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	state := stateOf(t, p)
	if state.Evidence() == 0 || len(state.Ledger) == 0 {
		t.Fatalf("evidence of %d instants in the state, %d ledger files", state.Evidence(), len(state.Ledger))
	}
	_, cert := certificate(t, p)
	tb, err := table.Open(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tb.Timeline.Writes() {
		if state.Indexes["embedding_idx"].Seen[w.Requested].Digest == "" {
			t.Errorf("no digest of %s", w.Requested)
		}
		st := begin.Clone()
		file := ".hoodie/timeline/" + w.File
		b, _, err := st.ReadFile(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		b = append([]byte(nil), b...)
		b[bytes.Index(b, []byte(".parquet"))-3] ^= 1 // another name of a file: it can be read
		st.Put(file, b, time.Time{})
		if s := seenByAll(t, st, coverage.StateBlocked, cert); !strings.Contains(s.Reason, w.Requested) {
			t.Errorf("%s: %s", w.Requested, s.Reason)
		}
	}
}
