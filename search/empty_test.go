package search

import (
	"testing"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
)

// An index without postings, one whose rows were all deleted, and one whose rows are all dead in the table: an answer without rows that is
// whole, exactly and approximately.
func TestNothingToFind(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(w *world){
		"no postings": func(w *world) { w.kvs = nil },
		"all deleted": func(w *world) {
			for key := range w.rows {
				w.record(delta.PostingKey(1, uint32(w.cluster(w.vector(key))), 0, key), &delta.Tombstone{DeleteInstant: "2"})
			}
		},
		"all dead": func(w *world) {},
	} {
		for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
			for _, rerank := range []bool{true, false} {
				w := newWorld(t, 60, 3, m)
				q := w.vector("k0001")
				empty(w)
				clear(w.rows)
				clear(w.where)
				e := w.engine(t, q, 10, 1)
				e.rerank = rerank
				if a := e.must(t); len(a.Results) != 0 || !a.Complete || a.Stats.Clusters != w.g.K {
					t.Errorf("%s, %s: %d rows, complete %v, %q, %+v", name, m, len(a.Results), a.Complete, a.Reason, a.Stats)
				}
			}
		}
	}
}
