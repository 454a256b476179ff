package indexer_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

// A replay of what was covered says what its markers say, also when the commits were archived since; it writes nothing.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "mor_basic", "occ"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := store(t, name)
			p := mdt.Inside(st)
			create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
			if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
				t.Fatal(err)
			}
			want := counts(t, p)
			all := markersOf(t, p)
			from, to := all[0], all[len(all)-1]
			for _, x := range []*mem.Store{st, archiveSome(t, st, writesOf(t, st)-3)} {
				p := mdt.Inside(x)
				version := x.Version()
				for _, bounds := range [][2]string{{from.Requested, to.Requested}, {from.Completed, to.Completed}, {from.Requested, ""}} {
					got := map[string]map[string]int64{}
					list, err := indexer.Replay(t.Context(), p, indexer.ReplayOptions{From: bounds[0], To: bounds[1]})
					if err != nil {
						t.Fatal(err)
					}
					for _, d := range list {
						if d.Mode != "full" {
							t.Errorf("%s: %s", d.Instant.Requested, d.Mode)
						}
						got[d.Instant.Requested] = d.Counts
					}
					if d := cmp.Diff(want, got); d != "" {
						t.Errorf("%v: (-markers +replay)\n%s", bounds, d)
					}
				}
				one, err := indexer.Replay(t.Context(), p, indexer.ReplayOptions{From: to.Requested, To: to.Requested})
				if err != nil || len(one) != 1 {
					t.Errorf("one commit: %d, %v", len(one), err)
				}
				if x.Version() != version {
					t.Error("a replay wrote something")
				}
			}
			if _, err := indexer.Replay(t.Context(), p, indexer.ReplayOptions{From: to.Requested, To: from.Requested}); !errors.Is(err, storage.ErrRefused) {
				t.Errorf("bounds turned round: %v", err)
			}
			if _, err := indexer.Replay(t.Context(), p, indexer.ReplayOptions{From: "20200101000000000"}); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("no such commit: %v", err)
			}
		})
	}
}

// The whole recorded history, most of it archived: what can be read is compared, and nothing fails.
func TestReplayRealArchive(t *testing.T) {
	t.Parallel()
	p := place(t, "archived")
	create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
	list, err := indexer.Replay(t.Context(), p, indexer.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	modes, commits := map[string]int{}, 0
	for _, s := range testkit.Oracle(t, "archived") {
		for _, i := range s.Instants {
			if write(i.Action) {
				commits++
			}
		}
	}
	for _, d := range list {
		modes[d.Mode]++
	}
	if len(list) != commits || modes["merged"] < 30 || modes["full"] == 0 {
		t.Errorf("%d of %d commits, modes %v", len(list), commits, modes)
	}
}
