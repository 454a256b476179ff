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
	"tidemark/internal/storage/mem"
	"tidemark/sink"
)

// A partition that an engine which knows vector indexes has taken over is not written by any command, and every answer says so
// (design, decision 4).
func TestHandedOver(t *testing.T) {
	t.Parallel()
	start := store(t, "cow_basic")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))}, map[string]string{"vector.num_clusters": "3"})
	edit := func(key, value string) func(st *mem.Store) {
		return func(st *mem.Store) {
			b, info, err := st.ReadFile(t.Context(), ".hoodie/hoodie.properties")
			if err != nil || !strings.Contains(string(b), key) {
				t.Errorf("no %q in the properties: %v", key, err)
			}
			st.Put(".hoodie/hoodie.properties", []byte(strings.Replace(string(b), key, value, 1)), info.ModTime)
		}
	}
	for _, tt := range []struct {
		name string
		hand func(st *mem.Store)
	}{
		{"listed", edit("partitions=column_stats", "partitions=vector_index_embedding_idx,column_stats")},
		{"being built", edit("partitions.inflight=", "partitions.inflight=vector_index_embedding_idx")},
		{"defined", func(st *mem.Store) {
			st.Put(".hoodie/.index_defs/index.json", []byte(`{"indexDefinitions":{"vector_index_embedding_idx":{}}}`), time.Unix(0, 0))
		}},
		{"with a metafile", func(st *mem.Store) {
			st.Put(".hoodie/metadata/vector_index_embedding_idx/.hoodie_partition_metadata", nil, time.Unix(0, 0))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := start.Clone()
			tt.hand(st)
			p, before := mdt.Inside(st), st.Version()
			tab, err := table.Open(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			committer := func(create bool) indexer.Committer {
				c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: sink.Config{Create: create}})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			_, sync := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
			_, reconcile := indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{})
			opt, err := generation.ParseOptions(map[string]string{"vector.num_clusters": "2"})
			if err != nil {
				t.Fatal(err)
			}
			_, another := generation.Create(t.Context(), tab, committer(true), generation.CreateRequest{Column: "embedding", Name: "another", Options: opt})
			drop := generation.Drop(t.Context(), committer(false), "embedding_idx")
			_, plan := indexer.Plan(t.Context(), p, indexer.SyncOptions{})
			_, pause := indexer.Pause(t.Context(), p)
			_, resume := indexer.Resume(t.Context(), p)
			_, retry := indexer.Retry(t.Context(), p, "")
			for what, err := range map[string]error{"plan": plan, "pause": pause, "resume": resume, "retry": retry, "sync": sync, "reconcile": reconcile, "create another": another, "drop": drop} {
				if !errors.Is(err, sink.ErrHandedOver) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if s := status(t, p); s.State != coverage.StateHandedOver || s.Fresh || s.Reason == "" || s.Next == "" {
				t.Errorf("status %+v", s)
			}
			state, _, err := mdt.ReadState(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := coverage.Fresh(t.Context(), p, tab, state, "embedding_idx"); err != nil || v.Fresh || v.Reason == "" {
				t.Errorf("a search would be told %+v, %v", v, err)
			}
			if st.Version() != before {
				t.Error("something was written")
			}
		})
	}
	t.Run("the name of a new index", func(t *testing.T) {
		t.Parallel()
		st := store(t, "cow_basic")
		edit("partitions=column_stats", "partitions=vector_index_embedding_idx,column_stats")(st)
		before := st.Version()
		tab, err := table.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		c, err := indexer.OpenCommitter(t.Context(), mdt.Inside(st), indexer.CommitterOptions{Sink: sink.Config{Create: true}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := generation.Create(t.Context(), tab, c, generation.CreateRequest{Column: "embedding"}); !errors.Is(err, sink.ErrHandedOver) {
			t.Errorf("create: %v", err)
		}
		if st.Version() != before {
			t.Error("something was written")
		}
	})
}
