package copies_test

import (
	"testing"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/copies"
	"tidemark/indexer/indexertest"
	"tidemark/internal/hudi/mdt"
)

// Hudi's record index missed a key once, so the table holds it in two file groups. The record index itself tells where the first copy is, so no
// file group is scanned; the state knows both.
func TestCopiesByTheRecordIndex(t *testing.T) {
	t.Parallel()
	p := mdt.Inside(indexertest.Store(t, "keys_unicode"))
	indexertest.Create(t, p, generation.CreateRequest{Column: "embedding", AsOf: indexertest.EarliestInstant(t, p)}, map[string]string{"vector.num_clusters": "4"})
	var total copies.Stats
	found := false
	for {
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 1})
		if err != nil {
			t.Fatal(err)
		}
		if r.Processed == 0 {
			break
		}
		total.Looked, total.Scanned = total.Looked+r.Copies.Looked, total.Scanned+r.Copies.Scanned
		found = found || r.Copies.Keys > 0
	}
	if !found || total.Looked == 0 || total.Scanned != 0 {
		t.Errorf("copies found %v, %+v", found, total)
	}
	rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{})
	if err != nil || !rep.OK || rep.DuplicateKeys != 1 {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	st, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	k, ok := st.Indexes["embedding_idx"].Copies.Find("\U00010348")
	if !ok || k.Rows != 2 || len(k.Groups) != 2 {
		t.Errorf("state: %+v, %v", k, ok)
	}
}
