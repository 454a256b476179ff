package hudimodel_test

import (
	"strings"
	"testing"

	"tidemark/internal/hudi/hudimodel"
)

var twoClusters = map[string]string{"vector.metric": "l2", "vector.num_clusters": "2"}

// A row was deleted from a slice that is gone, so its posting outlives it. When the key is inserted again in another file group,
// in another cluster, that posting must go.
func TestHistory_InsertedAgainAfterUnseenDelete(t *testing.T) {
	t.Parallel()
	a, d := hudimodel.Row{Key: "a", Vec: hudimodel.Hex("0000803f00000000")}, hudimodel.Row{Key: "d", Vec: hudimodel.Hex("000000c000000000")}
	for _, atOnce := range []bool{false, true} {
		w := hudimodel.New(t, hudimodel.Config{})
		h := follow(t.Context(), t, w)
		t1 := w.Begin("commit", "INSERT")
		t1.Base("", "g-0", a, d)
		t1.Complete()
		h.create(t1, twoClusters)
		t2 := w.Begin("commit", "DELETE")
		t2.Base("", "g-0", a)
		t2.Complete()
		w.Clean(t2)
		if !atOnce {
			h.sync(0, true)
		}
		t3 := w.Begin("commit", "INSERT")
		t3.Base("", "g-1", hudimodel.Row{Key: "d", Vec: hudimodel.Hex("0000803f0000803f")})
		t3.Complete()
		h.sync(0, true)
	}
}

// A row moves out of a file group whose preceding slice is gone: its old posting must go.
func TestHistory_MovedOutOfCleanedSlice(t *testing.T) {
	t.Parallel()
	a, d := hudimodel.Row{Key: "a", Vec: hudimodel.Hex("0000803f00000000")}, hudimodel.Row{Key: "d", Vec: hudimodel.Hex("000000c000000000")}
	w := hudimodel.New(t, hudimodel.Config{})
	h := follow(t.Context(), t, w)
	t1 := w.Begin("commit", "INSERT")
	t1.Base("eu", "g-0", a, d)
	t1.Complete()
	h.create(t1, twoClusters)
	t2 := w.Begin("commit", "UPSERT")
	t2.Base("eu", "g-0", a)
	t2.Base("us", "g-0", hudimodel.Row{Key: "d", Vec: hudimodel.Hex("0000803f0000803f")})
	t2.Complete()
	w.Clean(t2)
	h.sync(0, true)
}

// The frontier has passed a pending compaction, which then completes. A sync that ends before it must not take it for an instant
// that speaks against the frontier.
func TestHistory_FrontierBeyondPendingCompaction(t *testing.T) {
	t.Parallel()
	a := hudimodel.Row{Key: "a", Vec: hudimodel.Hex("0000803f00000000")}
	w := hudimodel.New(t, hudimodel.Config{MoR: true})
	h := follow(t.Context(), t, w)
	t1 := w.Begin("deltacommit", "INSERT")
	t1.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{a}})
	t1.Complete()
	t2 := w.Begin("compaction", "COMPACT", w.Group("eu", "g-0"))
	t3 := w.Begin("deltacommit", "UPSERT")
	t3.Complete()
	h.create(t3, twoClusters)
	t4 := w.Begin("deltacommit", "UPSERT")
	t4.Complete()
	t2.Compact("eu", "g-0")
	t2.Complete()
	h.sync(1, true)
	h.sync(1, true)
}

// An append deletes one key that the base file holds once and one that it holds twice. The second look, which the copies ask for,
// must still find the first key.
func TestHistory_DeleteBesideCopies(t *testing.T) {
	t.Parallel()
	row := func(key, vec string) hudimodel.Row { return hudimodel.Row{Key: key, Vec: hudimodel.Hex(vec)} }
	w := hudimodel.New(t, hudimodel.Config{MoR: true})
	h := follow(t.Context(), t, w)
	t1 := w.Begin("deltacommit", "BULK_INSERT")
	t1.Base("", "g-0", row("c", "000000c000000000"), row("f", "0000004000000000"), row("0", "0000803f00000000"), row("0", "0000803f0000803f"))
	t1.Complete()
	h.create(t1, map[string]string{"vector.metric": "l2", "vector.num_clusters": "1", "tidemark.on_duplicate_key": "last_wins"})
	t2 := w.Begin("deltacommit", "DELETE")
	t2.Log("", "g-0", hudimodel.Block{Kind: hudimodel.Deletes, Keys: []hudimodel.Delete{{Key: "f"}, {Key: "0"}}})
	t2.Complete()
	h.sync(0, true)
}

// Before an upgrade from version 6 several commits append to one log file; a snapshot shows the blocks of its commits only.
func TestSeveralCommitsInOneLog(t *testing.T) {
	t.Parallel()
	row := func(key, vec string) hudimodel.Row { return hudimodel.Row{Key: key, Vec: hudimodel.Hex(vec)} }
	w := hudimodel.New(t, hudimodel.Config{MoR: true, Upgraded: true})
	h := follow(t.Context(), t, w)
	t1 := w.Begin("deltacommit", "INSERT")
	t1.Base("eu", "g-0", row("a", "0000803f00000000"), row("b", "000000c000000000"))
	t1.Complete()
	h.create(t1, twoClusters)
	for _, vec := range []string{"0000803f0000803f", "0000803f00000040"} {
		u := w.Begin("deltacommit", "UPSERT")
		u.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{row("a", vec)}})
		u.Complete()
	}
	w.Upgrade()
	t4 := w.Begin("deltacommit", "UPSERT")
	t4.Log("eu", "g-0", hudimodel.Block{Kind: hudimodel.Deletes, Keys: []hudimodel.Delete{{Key: "b"}}})
	t4.Complete()
	logs := 0
	for _, p := range w.Store.Paths() {
		if strings.HasPrefix(p, "eu/.g-0_") {
			logs++
		}
	}
	if logs != 2 {
		t.Fatalf("%d log files, want the old one and the new one", logs)
	}
	for range 3 {
		h.sync(1, true)
	}
}
