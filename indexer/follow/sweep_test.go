package follow_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/sink"
)

// The files of the last index are deleted an hour after it was dropped, though nothing is ever committed again.
func TestFollowSweepsAfterTheLastIndexWasDropped(t *testing.T) {
	t.Parallel()
	st := late(t, "cow_basic").st
	files := func() (n int) {
		for _, p := range st.Paths() {
			if strings.Contains(p, "/vector_index_") {
				n++
			}
		}
		return n
	}
	indexertest.InBubble(t, func(t *testing.T) {
		sk, err := indexer.OpenCommitter(t.Context(), mdt.Inside(st), indexer.CommitterOptions{Sink: sink.Config{Now: time.Now}})
		if err != nil {
			t.Fatal(err)
		}
		if err := generation.Drop(t.Context(), sk, "embedding_idx"); err != nil {
			t.Fatal(err)
		}
		f := launch(t, follow.Config{}, map[string]storage.Store{"t": st}, follow.TableConfig{URL: "t"})
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if files() == 0 {
			t.Error("files are gone that a reader may need")
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n := files(); n != 0 {
			t.Errorf("%d files are left", n)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}
