package indexer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/indexertest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/sink"
)

// withoutIndex is a table whose only index has just been dropped, at a time of the test's.
func withoutIndex(t *testing.T, now func() time.Time) *mem.Store {
	t.Helper()
	st := store(t, "cow_basic")
	create(t, mdt.Inside(st), generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
	sk, err := indexer.OpenCommitter(t.Context(), mdt.Inside(st), indexer.CommitterOptions{Sink: sink.Config{Now: now}})
	if err != nil {
		t.Fatal(err)
	}
	if err := generation.Drop(t.Context(), sk, "embedding_idx"); err != nil {
		t.Fatal(err)
	}
	if n, until := indexer.KeptUntil(sk.State(), "embedding_idx"); n == 0 || n != indexFiles(st) || !until.Equal(now().Add(time.Hour)) {
		t.Errorf("%d files are said to be kept until %v, %d are there", n, until, indexFiles(st))
	}
	return st
}

func indexFiles(st *mem.Store) (n int) {
	for _, p := range st.Paths() {
		if strings.Contains(p, "/vector_index_") {
			n++
		}
	}
	return n
}

func TestSweepAfterTheLastIndexWasDropped(t *testing.T) {
	t.Parallel()
	now := indexertest.Afterwards
	st := withoutIndex(t, func() time.Time { return now })
	sweep := func() {
		t.Helper()
		opt := indexer.CommitterOptions{Sink: sink.Config{Now: func() time.Time { return now }}}
		if err := indexer.Sweep(t.Context(), mdt.Inside(st), opt); err != nil {
			t.Fatal(err)
		}
	}
	was := indexFiles(st)
	now = now.Add(59 * time.Minute)
	if sweep(); indexFiles(st) != was {
		t.Error("files are gone that a reader may need")
	}
	now = now.Add(2 * time.Minute)
	if _, err := indexer.Pause(t.Context(), mdt.Inside(st)); err != nil {
		t.Fatal(err)
	}
	if sweep(); indexFiles(st) != was {
		t.Error("a paused table was written to")
	}
	if _, err := indexer.Resume(t.Context(), mdt.Inside(st)); err != nil {
		t.Fatal(err)
	}
	if sweep(); indexFiles(st) != 0 {
		t.Errorf("%d files are left", indexFiles(st))
	}
	if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a sync says %v", err)
	}
}
