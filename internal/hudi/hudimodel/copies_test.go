package hudimodel_test

import (
	"fmt"
	"testing"

	"tidemark/indexer"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/mdt"
)

const far = "0000803f00000040"

var lastWins = map[string]string{"vector.metric": "l2", "vector.num_clusters": "2", "tidemark.on_duplicate_key": "last_wins"}

func rowOf(key, vec string) hudimodel.Row {
	r := hudimodel.Row{Key: key}
	if vec != "" {
		r.Vec = hudimodel.Hex(vec)
	}
	return r
}

func carried(r hudimodel.Row, by *hudimodel.Txn) hudimodel.Row {
	r.Written = by.Requested
	return r
}

// copyPaces follow the rest of a history commit by commit and in one batch.
func copyPaces(t *testing.T, cfg hudimodel.Config, fn func(w *hudimodel.World, h *history, step func())) {
	t.Helper()
	for _, each := range []bool{true, false} {
		t.Run(fmt.Sprintf("each commit %v", each), func(t *testing.T) {
			t.Parallel()
			w := hudimodel.New(t, cfg)
			h := follow(t.Context(), t, w)
			fn(w, h, func() {
				if each {
					h.sync(0, true)
				}
			})
			h.sync(0, true)
		})
	}
}

// A key is inserted into a file group while a copy lives in one that the commit does not touch: the old posting, in another cluster, goes.
func TestCopies_InsertedElsewhere(t *testing.T) {
	t.Parallel()
	copyPaces(t, hudimodel.Config{}, func(w *hudimodel.World, h *history, step func()) {
		t1 := w.Begin("commit", "INSERT")
		t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west))
		t1.Complete()
		h.create(t1, twoClusters)
		t2 := w.Begin("commit", "BULK_INSERT")
		t2.Base("us", "g-0", rowOf("d", east))
		t2.Complete()
		step()
	})
}

// The newest copy is deleted: the posting goes back to the one that is left, in a file group that the commit does not touch.
func TestCopies_NewestDeleted(t *testing.T) {
	t.Parallel()
	copyPaces(t, hudimodel.Config{}, func(w *hudimodel.World, h *history, step func()) {
		t1 := w.Begin("commit", "INSERT")
		t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west))
		t1.Complete()
		h.create(t1, twoClusters)
		t2 := w.Begin("commit", "BULK_INSERT")
		t2.Base("us", "g-0", rowOf("d", east), rowOf("e", east))
		t2.Complete()
		step()
		t3 := w.Begin("commit", "DELETE")
		t3.Base("us", "g-0", carried(rowOf("e", east), t2))
		t3.Complete()
		step()
		t4 := w.Begin("commit", "UPSERT") // the one that is left can change and go
		t4.Base("eu", "g-0", carried(rowOf("a", east), t1), rowOf("d", far))
		t4.Complete()
		step()
		t5 := w.Begin("commit", "DELETE")
		t5.Base("eu", "g-0", carried(rowOf("a", east), t1))
		t5.Complete()
		step()
	})
}

// The newest copy has no vector, at once or later: the key has no posting, though another copy could have one. When it goes, the other copy has it again.
func TestCopies_NewestUnindexable(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"", east} {
		copyPaces(t, hudimodel.Config{MoR: true}, func(w *hudimodel.World, h *history, step func()) {
			t1 := w.Begin("deltacommit", "INSERT")
			t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west))
			t1.Complete()
			h.create(t1, twoClusters)
			t2 := w.Begin("deltacommit", "BULK_INSERT")
			t2.Base("us", "g-0", rowOf("d", first), rowOf("e", east))
			t2.Complete()
			step()
			t3 := w.Begin("deltacommit", "UPSERT")
			t3.Log("us", "g-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("d", "")}})
			t3.Complete()
			step()
			t4 := w.Begin("deltacommit", "DELETE")
			t4.Log("us", "g-0", hudimodel.Block{Kind: hudimodel.Deletes, Keys: []hudimodel.Delete{{Key: "d"}}})
			t4.Complete()
			step()
		})
	}
}

// A service rewrites the file group of an older copy, which keeps its commit time: the posting stays with the newer one. A log compaction writes
// the commit time anew, and with it the older copy becomes the key's row.
func TestCopies_ServicesDoNotSteal(t *testing.T) {
	t.Parallel()
	copyPaces(t, hudimodel.Config{MoR: true}, func(w *hudimodel.World, h *history, step func()) {
		t1 := w.Begin("deltacommit", "INSERT")
		t1.Base("eu", "g-0", rowOf("a", east), rowOf("b", east))
		t1.Complete()
		t2 := w.Begin("deltacommit", "UPSERT")
		t2.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("d", west)}})
		t2.Complete()
		t3 := w.Begin("deltacommit", "BULK_INSERT")
		t3.Base("us", "g-0", rowOf("d", east))
		t3.Complete()
		h.create(t3, lastWins)
		compaction := w.Begin("compaction", "COMPACT", w.Group("eu", "g-0"))
		compaction.Compact("eu", "g-0")
		compaction.Complete()
		step()
		clustering := w.Begin("clustering", "CLUSTER", w.Group("eu", "g-0"))
		clustering.Base("eu", "h-0", carried(rowOf("a", east), t1), carried(rowOf("b", east), t1), carried(rowOf("d", west), t2))
		clustering.Replace("eu", "g-0")
		clustering.Complete()
		step()
		for _, vec := range []string{east, far} {
			u := w.Begin("deltacommit", "UPSERT")
			u.Log("eu", "h-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("a", vec)}})
			u.Complete()
		}
		t4 := w.Begin("deltacommit", "UPSERT")
		t4.Log("us", "g-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("d", far)}})
		t4.Complete()
		step()
		t5 := w.Begin("deltacommit", "UPSERT")
		t5.Log("eu", "h-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("d", west)}})
		t5.Complete()
		t6 := w.Begin("deltacommit", "UPSERT")
		t6.Log("us", "g-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("d", east)}})
		t6.Complete()
		step()
		again := w.Begin("logcompaction", "LOG_COMPACT", w.Group("eu", "h-0"))
		again.CompactLogs("eu", "h-0")
		again.Complete()
		step()
	})
}

// One instant writes two versions of a key, into one file group and into two.
func TestCopies_TwoVersionsInOneInstant(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"g-1", "g-2"} {
		copyPaces(t, hudimodel.Config{}, func(w *hudimodel.World, h *history, step func()) {
			t1 := w.Begin("commit", "INSERT")
			t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west))
			t1.Complete()
			h.create(t1, twoClusters)
			t2 := w.Begin("commit", "BULK_INSERT")
			if second == "g-1" {
				t2.Base("us", "g-1", rowOf("k", east), rowOf("k", west))
			} else {
				t2.Base("us", "g-1", rowOf("k", east))
				t2.Base("us", second, rowOf("k", west))
			}
			t2.Complete()
			step()
			t3 := w.Begin("commit", "DELETE")
			t3.Base("us", second)
			t3.Complete()
			step()
		})
	}
}

// A key moves from partition to partition, twice within a batch, while a copy lives in a fourth: the posting follows it.
func TestCopies_MovedTwice(t *testing.T) {
	t.Parallel()
	for _, copied := range []bool{false, true} {
		copyPaces(t, hudimodel.Config{}, func(w *hudimodel.World, h *history, step func()) {
			t1 := w.Begin("commit", "INSERT")
			t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west))
			t1.Complete()
			h.create(t1, twoClusters)
			if copied {
				c := w.Begin("commit", "BULK_INSERT")
				c.Base("in", "g-0", rowOf("d", far))
				c.Complete()
				step()
			}
			t2 := w.Begin("commit", "UPSERT")
			t2.Base("eu", "g-0", carried(rowOf("a", east), t1))
			t2.Base("us", "g-0", rowOf("d", east))
			t2.Complete()
			step()
			t3 := w.Begin("commit", "UPSERT")
			t3.Base("us", "g-0")
			t3.Base("ap", "g-0", rowOf("d", west))
			t3.Complete()
			step()
			t4 := w.Begin("commit", "BULK_INSERT") // and a copy where the move within the batch must be known
			t4.Base("us", "g-1", rowOf("d", east))
			t4.Complete()
			step()
		})
	}
}

// A file group with the only other copy is replaced, by an overwrite that does not name the key.
func TestCopies_OneIsOverwritten(t *testing.T) {
	t.Parallel()
	copyPaces(t, hudimodel.Config{}, func(w *hudimodel.World, h *history, step func()) {
		t1 := w.Begin("commit", "INSERT")
		t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west))
		t1.Complete()
		t2 := w.Begin("commit", "BULK_INSERT")
		t2.Base("us", "g-0", rowOf("d", east))
		t2.Complete()
		h.create(t2, lastWins)
		t3 := w.Begin("replacecommit", "INSERT_OVERWRITE")
		t3.Base("us", "g-1", rowOf("z", east))
		t3.Replace("us", "g-0")
		t3.Complete()
		step()
	})
}

// More keys have copies than the state keeps: they are found again where a commit touches them, and counted.
func TestCopies_MoreThanAreKept(t *testing.T) {
	t.Parallel()
	w := hudimodel.New(t, hudimodel.Config{})
	h := follow(t.Context(), t, w)
	var before, after []hudimodel.Row
	const size = 4000
	keys := mdt.MaxCopiedBytes/size + 5
	for i := range keys {
		key := fmt.Sprintf("%0*d", size, i)
		before, after = append(before, rowOf(key, west)), append(after, rowOf(key, east))
	}
	t1 := w.Begin("commit", "INSERT")
	t1.Base("eu", "g-0", before...)
	t1.Complete()
	h.create(t1, twoClusters)
	t2 := w.Begin("commit", "BULK_INSERT")
	t2.Base("us", "g-0", after...)
	t2.Complete()
	h.beyond = true
	h.sync(0, true)
	t3 := w.Begin("commit", "DELETE") // the last key is not among those kept
	for i := range after {
		after[i].Written = t2.Requested
	}
	t3.Base("us", "g-0", after[:len(after)-1]...)
	t3.Complete()
	r, err := indexer.Sync(t.Context(), h.place, indexer.SyncOptions{})
	if err != nil || !r.Copies.More || r.Copies.Keys == 0 || r.Copies.Keys >= int64(keys)-1 || r.Copies.Scanned == 0 || r.Copies.Reason == "" {
		t.Errorf("sync: %+v, %v", r, err)
	}
	h.in[t3.Requested] = true
	h.check("at the end", true)
}

// A commit deletes a key that the base file holds twice and says the position of one row only, as Hudi's writers do.
func TestCopies_PositionOfOne(t *testing.T) {
	t.Parallel()
	copyPaces(t, hudimodel.Config{MoR: true}, func(w *hudimodel.World, h *history, step func()) {
		t1 := w.Begin("deltacommit", "BULK_INSERT")
		t1.Base("eu", "g-0", rowOf("a", east), rowOf("d", west), rowOf("d", east))
		t1.Complete()
		h.create(t1, lastWins)
		t2 := w.Begin("deltacommit", "UPSERT")
		t2.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{rowOf("d", far), rowOf("a", west)}, Positions: true})
		t2.Complete()
		step()
		t3 := w.Begin("deltacommit", "DELETE")
		t3.Log("eu", "g-0", hudimodel.Block{Kind: hudimodel.Deletes, Keys: []hudimodel.Delete{{Key: "d"}}, Positions: true})
		t3.Complete()
		step()
	})
}
