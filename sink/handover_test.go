package sink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/mem"
)

// forms are the ways in which an engine that knows vector indexes owns a partition (decision 4).
func forms() map[string]func(st *mem.Store) {
	edit := func(key, value string) func(st *mem.Store) {
		return func(st *mem.Store) {
			b, info, _ := st.ReadFile(context.Background(), ".hoodie/hoodie.properties")
			st.Put(".hoodie/hoodie.properties", []byte(strings.Replace(string(b), key, value, 1)), info.ModTime)
		}
	}
	return map[string]func(st *mem.Store){
		"listed":      edit("partitions=column_stats", "partitions=vector_index_v_idx,column_stats"),
		"being built": edit("partitions.inflight=", "partitions.inflight=vector_index_v_idx"),
		"defined": func(st *mem.Store) {
			st.Put(".hoodie/.index_defs/index.json", []byte(`{"indexDefinitions":{"vector_index_v_idx":{}}}`), time.Unix(0, 0))
		},
		"metafile": func(st *mem.Store) {
			st.Put(".hoodie/metadata/vector_index_v_idx/.hoodie_partition_metadata", nil, time.Unix(0, 0))
		},
		"metafile in the base format": func(st *mem.Store) {
			st.Put(".hoodie/metadata/vector_index_v_idx/.hoodie_partition_metadata.hfile", nil, time.Unix(0, 0))
		},
	}
}

// Before a pass: not even the lease is written, and a drop is refused, too. After a half-made commit nothing is taken back.
func TestHandedOverPartitionIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, hand := range forms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, halfMade := range []bool{false, true} {
				st, s, clk := built(t, "cow_basic")
				if halfMade {
					leaveIntent(t, st, s)
				} else if err := s.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				clk.advance(time.Hour)
				hand(st)
				before := st.Version()
				s2 := open(t, st, config(clk, "two"))
				if err := s2.Acquire(t.Context()); !errors.Is(err, ErrHandedOver) {
					t.Errorf("acquire: %v", err)
				}
				if err := s2.Drop(t.Context(), idx); !errors.Is(err, ErrHandedOver) {
					t.Errorf("drop: %v", err)
				}
				if err := s2.Release(t.Context()); err != nil {
					t.Error(err)
				}
				if st.Version() != before {
					t.Errorf("something was written, half made %t", halfMade)
				}
			}
		})
	}
}

// leaveIntent puts a commit that is half made into the state, as a killed owner leaves it.
func leaveIntent(t *testing.T, st *mem.Store, s *Sink) {
	t.Helper()
	now := s.State()
	after := now.Clone()
	after.Revision++
	now.Intent = &mdt.Intent{State: mdt.Staging, Kind: "sync", ID: "20301130020922683", Completion: "20301130020922684", After: after}
	b, err := mdt.EncodeState(now)
	if err != nil {
		t.Fatal(err)
	}
	st.Put(mdt.Inside(st).StatePath(), b, time.Unix(0, 0))
}
