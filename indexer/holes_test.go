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
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// Savepoints leave holes in the active timeline: what lies between two saved commits is archived, although an older one is active. It is
// looked up, never assumed to be covered: an index that saw none of it catches up, one that saw all of it stays fresh.
func TestSavepointsLeaveHoles(t *testing.T) {
	t.Parallel()
	begin := store(t, "cow_basic")
	steps := testkit.Oracle(t, "cow_basic")
	create(t, mdt.Inside(begin), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(begin))}, map[string]string{"vector.num_clusters": "2"})
	tb, err := table.Open(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	saved := []timeline.Instant{writes[0], writes[2]}
	hole := func(t *testing.T, from *mem.Store) *mem.Store {
		st := archiveSome(t, from, 4, saved[0].Requested, saved[1].Requested)
		for _, w := range saved {
			st.Put(".hoodie/timeline/"+w.Requested+"_"+w.Completed[:14]+"999.savepoint", []byte("x"), time.Time{})
		}
		return st
	}
	whole := func(t *testing.T, st *mem.Store) {
		t.Helper()
		if s := status(t, mdt.Inside(st)); !s.Fresh {
			t.Errorf("%+v", s)
		}
		verify(t, mdt.Inside(st), len(live(steps[len(steps)-1], "embedding", kernel.Float, kernel.Cosine)), "with holes")
		if c, b := certificate(t, mdt.Inside(st)); !c.Fresh || !check(t, mdt.Inside(st), b).OK {
			t.Errorf("certificate: fresh %v", c.Fresh)
		}
	}
	t.Run("unseen", func(t *testing.T) {
		t.Parallel()
		st := hole(t, begin)
		if s := status(t, mdt.Inside(st)); s.Fresh || s.State != coverage.StateCatchingUp || s.LagInstants == nil || *s.LagInstants != len(writes)-1 {
			t.Errorf("%+v", s)
		}
		if r, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{}); err != nil || r.Processed != len(writes)-1 {
			t.Fatalf("%+v, %v", r, err)
		}
		whole(t, st)
	})
	t.Run("seen", func(t *testing.T) {
		t.Parallel()
		st := begin.Clone()
		if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{}); err != nil {
			t.Fatal(err)
		}
		st = hole(t, st)
		whole(t, st)
		if r, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{}); err != nil || r.Processed != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		whole(t, st)
	})
}

// A commit that was empty when it was archived proves nothing: a catch-up does not go past it, and says which one it is; who goes by the table as it
// is now does.
func TestArchivedCommitWithoutContent(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	create(t, mdt.Inside(st), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(st))}, map[string]string{"vector.num_clusters": "2"})
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	empty := tb.Timeline.Writes()[2]
	st.Put(".hoodie/timeline/"+empty.File, nil, time.Time{})
	st = archiveSome(t, st, 4)
	p := mdt.Inside(st)
	if s := status(t, p); s.Fresh {
		t.Errorf("%+v", s)
	}
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), empty.Requested) {
		t.Errorf("sync: %+v, %v", r, err)
	}
	if s := status(t, p); s.Fresh || s.Frontier != nil && s.Frontier.Completed >= empty.Completed {
		t.Errorf("%+v", s)
	}
}
