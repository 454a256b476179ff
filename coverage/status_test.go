package coverage_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

const rollbackSchema = `{"type":"record","name":"HoodieRollbackMetadata","fields":[{"name":"commitsRollback","type":{"type":"array","items":"string"}}]}`

func rollbackOf(t testing.TB, requested ...string) string {
	t.Helper()
	b, err := avrox.WriteContainer(rollbackSchema, map[string]any{"commitsRollback": requested}, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func restoreOf(t testing.TB, requested string) string {
	t.Helper()
	const schema = `{"type":"record","name":"HoodieRestoreMetadata","fields":[{"name":"restoreInstantInfo","type":{"type":"array","items":{"type":"record","name":"HoodieInstantInfo","fields":[{"name":"commitTime","type":"string"},{"name":"action","type":"string"}]}}}]}`
	b, err := avrox.WriteContainer(schema, map[string]any{"restoreInstantInfo": []any{map[string]any{"commitTime": requested, "action": "commit"}}}, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// end is where a reason ends.
const end = "\n"

// One story a row: what is done to a table of five commits, of which the index covers the first four or five.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		covered    int
		change     func(w *world)
		want       coverage.State
		wantFresh  bool
		wantReason string
		wantNext   string
	}{
		{"all covered", 5, nil, coverage.StateFresh, true, "", ""},
		{"one due", 4, nil, coverage.StateCatchingUp, false, "1 commit not covered", "tidemark sync /data/t"},
		{"degraded group", 5, func(w *world) {
			w.state.Degraded = []mdt.DegradedGroup{{Index: "embedding_idx", Partition: "eu", FileID: "f"}, {Index: "other"}}
		}, coverage.StateDegraded, true, "1 file group", "tidemark reconcile /data/t"},
		{"inflight before the newest", 5, func(w *world) { w.instant(at(4, 30)+".deltacommit.inflight", "") },
			coverage.StateWaiting, true, "deltacommit " + at(4, 30) + ", which is inflight since 55 min, without a heartbeat", "tidemark status"},
		{"inflight for hours", 5, func(w *world) { w.instant(at(4, 30)+".inflight", ""); w.now = noon.Add(30 * time.Hour) },
			coverage.StateWaiting, true, "since 29 h", "commit rollback --commit " + at(4, 30)},
		{"inflight with a heartbeat", 5, func(w *world) {
			w.instant(at(4, 30)+".inflight", "")
			w.store.Put(".hoodie/.heartbeat/"+at(4, 30), nil, w.now.Add(-20*time.Second))
		}, coverage.StateWaiting, true, "last heartbeat 20 s ago", ""},
		{"inflight with a copied heartbeat", 5, func(w *world) {
			w.instant(at(4, 30)+".inflight", "")
			w.store.Put(".hoodie/.heartbeat/"+at(4, 30), nil, time.Unix(0, 0))
		}, coverage.StateWaiting, true, "inflight since 55 min" + end, ""},
		{"inflight with a heartbeat of the future", 5, func(w *world) {
			w.instant(at(4, 30)+".inflight", "")
			w.store.Put(".hoodie/.heartbeat/"+at(4, 30), nil, w.now.Add(time.Hour))
		}, coverage.StateWaiting, true, "inflight since 55 min" + end, ""},
		{"inflight after the newest", 5, func(w *world) { w.instant(at(9, 0)+".inflight", "") }, coverage.StateFresh, true, "", ""},
		{"pending compaction", 5, func(w *world) { w.instant(at(4, 30)+".compaction.requested", "") }, coverage.StateFresh, true, "", ""},
		{"paused", 4, func(w *world) { w.state.Paused = true }, coverage.StatePaused, false, "paused by an operator; 1 commit", "tidemark resume"},
		{"paused and fresh", 5, func(w *world) { w.state.Paused = true }, coverage.StatePaused, true, "paused", "tidemark resume"},
		{"zero bytes", 4, func(w *world) { w.instant(at(5, 0)+"_"+at(5, 10)+".deltacommit", "") }, coverage.StateBlocked, false, "deltacommit " + at(5, 0) + " proves nothing: a file of it is damaged" + end, "Hudi's tools"},
		{"cut commit", 4, func(w *world) { w.instant(at(5, 0)+"_"+at(5, 10)+".deltacommit", `{"part`) }, coverage.StateBlocked, false, "proves nothing: a file of it is damaged" + end, "Hudi's tools"},
		{"quarantined", 4, func(w *world) {
			w.state.Quarantine = map[string]mdt.Quarantine{at(5, 0): {Reason: "read x.parquet: thrift type 14: corrupt", Attempts: 3}}
		}, coverage.StateBlocked, false, "set aside after 3 attempts: a file of it is damaged" + end, "tidemark retry /data/t " + at(5, 0) + "; if it cannot be removed: tidemark skip /data/t " + at(5, 0) + " --reason"},
		{"covered commit gone", 5, func(w *world) { w.drop(".hoodie/timeline/" + at(3, 0) + "_" + at(3, 10) + ".deltacommit") },
			coverage.StateBlocked, false, "commit " + at(3, 0) + ", which the index holds, is on the timeline no longer: it was rolled back", "tidemark reconcile /data/t"},
		{"rollback of nothing covered", 5, func(w *world) {
			w.instant(at(6, 0)+"_"+at(6, 5)+".rollback", rollbackOf(w.t, at(5, 30)))
		}, coverage.StateCatchingUp, false, "rollback " + at(6, 0) + " is not dealt with", "tidemark sync"},
		{"rollback dealt with", 5, func(w *world) {
			w.instant(at(6, 0)+"_"+at(6, 5)+".rollback", rollbackOf(w.t, at(5, 30)))
			w.state.Restores = map[string]string{at(6, 0): at(6, 5)}
		}, coverage.StateFresh, true, "", ""},
		{"another rollback of that time", 5, func(w *world) {
			w.instant(at(6, 0)+"_"+at(6, 6)+".rollback", rollbackOf(w.t, at(5, 30)))
			w.state.Restores = map[string]string{at(6, 0): at(6, 5)}
		}, coverage.StateCatchingUp, false, "rollback", "tidemark sync"},
		{"restore of a covered commit", 5, func(w *world) {
			w.instant(at(6, 0)+"_"+at(6, 5)+".restore", restoreOf(w.t, at(5, 0)))
		}, coverage.StateBlocked, false, "undid commit " + at(5, 0), "tidemark reconcile /data/t"},
		{"archived past the frontier", 2, func(w *world) {
			for _, i := range []int{1, 2, 3} {
				w.drop(".hoodie/timeline/" + at(i, 0) + "_" + at(i, 10) + ".deltacommit")
			}
			w.archive(archivedWrite(1), archivedWrite(2), archivedWrite(3))
		}, coverage.StateCatchingUp, false, "3 commits not covered, the first is deltacommit " + at(3, 0) + "; 1 of them archived", "tidemark sync /data/t"},
		{"archived below the frontier", 5, func(w *world) {
			for _, i := range []int{1, 2, 3} {
				w.drop(".hoodie/timeline/" + at(i, 0) + "_" + at(i, 10) + ".deltacommit")
			}
			w.archive(archivedWrite(1), archivedWrite(2), archivedWrite(3))
		}, coverage.StateFresh, true, "", ""},
		{"rolled back, and the rollback is archived", 5, func(w *world) {
			for _, i := range []int{1, 2, 3} {
				w.drop(".hoodie/timeline/" + at(i, 0) + "_" + at(i, 10) + ".deltacommit")
			}
			w.archive(archivedWrite(1), [3]string{at(2, 30), at(2, 40), "rollback"}, archivedWrite(3))
		}, coverage.StateBlocked, false, "rolled back or restored away", ""},
		{"gone from the timeline, and in no archive", 5, func(w *world) {
			for _, i := range []int{1, 2, 3} {
				w.drop(".hoodie/timeline/" + at(i, 0) + "_" + at(i, 10) + ".deltacommit")
			}
		}, coverage.StateBlocked, false, "rolled back or restored away", "tidemark reconcile /data/t"},
		{"column dropped", 4, func(w *world) {
			w.instant(at(5, 0)+"_"+at(5, 10)+".deltacommit", commitOf(`{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}`))
		}, coverage.StateFailClosed, false, "embedding is gone", "tidemark index drop"},
		{"other dimension", 5, func(w *world) { w.index().Dim = 16 }, coverage.StateFailClosed, false, "is now VECTOR(8)", "tidemark index drop"},
		{"plain type", 5, func(w *world) { w.index().Column = "id" }, coverage.StateFailClosed, false, "of type string", ""},
		{"listed", 5, func(w *world) {
			w.put(".hoodie/hoodie.properties", strings.Replace(properties, "=files", "=files,vector_index_embedding_idx", 1))
		}, coverage.StateHandedOver, false, "listed", "unregister the partition"},
		{"being listed", 5, func(w *world) {
			w.put(".hoodie/hoodie.properties", properties+"hoodie.table.metadata.partitions.inflight=vector_index_embedding_idx\n")
		}, coverage.StateHandedOver, false, "inflight", ""},
		{"defined", 5, func(w *world) {
			w.put(".hoodie/.index_defs/index.json", `{"indexDefinitions":{"vector_index_embedding_idx":{}}}`)
		}, coverage.StateHandedOver, false, "index.json", ""},
		{"others defined", 5, func(w *world) { w.put(".hoodie/.index_defs/index.json", `{"indexDefinitions":{"column_stats":{}}}`) },
			coverage.StateFresh, true, "", ""},
		{"metafile", 5, func(w *world) { w.put(metadata+"vector_index_embedding_idx/.hoodie_partition_metadata", "") },
			coverage.StateHandedOver, false, "metafile", ""},
		{"damaged definitions", 5, func(w *world) { w.put(".hoodie/.index_defs/index.json", `{`) }, coverage.StateStalled, false, "index.json", ""},
		{"own file gone", 5, func(w *world) { w.drop(metadata + "vector_index_embedding_idx/base.hfile") }, coverage.StateAbsent, false, "base.hfile", "tidemark index create"},
		{"own file cut", 5, func(w *world) { w.put(metadata+"vector_index_embedding_idx/base.hfile", "x") }, coverage.StateAbsent, false, "another size", ""},
		{"metadata table gone", 5, func(w *world) { w.drop(metadata + ".hoodie/hoodie.properties") }, coverage.StateAbsent, false, "metadata table", "write to the table once with hoodie.metadata.enable=true, then: tidemark index drop /data/t --index embedding_idx --yes-drop embedding_idx && tidemark index create"},
		{"metadata table gone and dropped", 5, func(w *world) {
			w.drop(metadata + ".hoodie/hoodie.properties")
			w.index().Dropped = true
		}, coverage.StateAbsent, false, "no metadata table", "write to the table once with hoodie.metadata.enable=true, then: tidemark index create /data/t --column embedding"},
		{"metadata table switched off", 5, func(w *world) {
			w.put(".hoodie/hoodie.properties", strings.Replace(properties, "=files", "=", 1))
		}, coverage.StateAbsent, false, "metadata table", "hoodie.metadata.enable=true"},
		{"being built", 5, func(w *world) { w.index().Generations[0].State = mdt.GenBuilding }, coverage.StateAbsent, false, "was not finished", "tidemark index create /data/t --column embedding --name embedding_idx, or to give it up: tidemark index drop"},
		{"dropped", 5, func(w *world) { w.index().Dropped = true }, coverage.StateAbsent, false, "no index", "tidemark index create /data/t --column embedding"},
		{"no state", 5, func(w *world) { w.state = nil }, coverage.StateAbsent, false, "no index", "tidemark index create"},
		{"version 10", 5, func(w *world) {
			w.put(".hoodie/hoodie.properties", strings.Replace(properties, "version=9", "version=10", 1))
		}, coverage.StateUnsupported, false, "table version 10", ""},
		{"version 10 without an index", 5, func(w *world) {
			w.state = nil
			w.put(".hoodie/hoodie.properties", strings.Replace(properties, "version=9", "version=10", 1))
		}, coverage.StateUnsupported, false, "table version 10", ""},
		{"unknown layout", 5, func(w *world) { w.put(".hoodie/hoodie.properties", properties+"hoodie.timeline.layout.version=3\n") },
			coverage.StateUnsupported, false, "layout 3", ""},
		{"no vector column", 0, func(w *world) {
			w.state = nil
			w.instant(at(9, 0)+"_"+at(9, 10)+".deltacommit", commitOf(`{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}`))
		}, coverage.StateUnsupported, false, "no VECTOR column", "VECTOR(n)"},
		{"no metadata table and no index", 0, func(w *world) {
			w.state = nil
			w.put(".hoodie/hoodie.properties", strings.Replace(properties, "=files", "=", 1))
		}, coverage.StateAbsent, false, "no metadata table", "hoodie.metadata.enable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 5, tt.covered)
				if tt.change != nil {
					tt.change(w)
				}
				s := w.status()
				if s.State != tt.want || s.Fresh != tt.wantFresh {
					t.Errorf("state %s, fresh %v, want %s, %v (%s)", s.State, s.Fresh, tt.want, tt.wantFresh, s.Reason)
				}
				if !strings.Contains(s.Reason+end, tt.wantReason) || !strings.Contains(s.Next, tt.wantNext) {
					t.Errorf("reason %q, next %q, want %q, %q", s.Reason, s.Next, tt.wantReason, tt.wantNext)
				}
				if s.State != coverage.StateFresh && s.Reason == "" {
					t.Error("no reason")
				}
				if got := s.Sentence(); strings.HasPrefix(got, "fresh") != s.Fresh || !strings.Contains(got, s.Reason) || strings.Contains(got, "\n") {
					t.Errorf("sentence %q", got)
				}
			})
		})
	}
}

// Of several states the first of the fixed order is shown.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 4)
	step := func(want coverage.State, change func()) {
		t.Helper()
		change()
		if s := w.status(); s.State != want {
			t.Errorf("state %s, want %s (%s)", s.State, want, s.Reason)
		}
	}
	step(coverage.StateCatchingUp, func() {
		w.state.Degraded = []mdt.DegradedGroup{{Index: "embedding_idx"}}
		w.instant(at(4, 30)+".inflight", "")
	})
	step(coverage.StatePaused, func() { w.state.Paused = true })
	step(coverage.StateBlocked, func() {
		w.state.Quarantine = map[string]mdt.Quarantine{at(5, 0): {Reason: "x"}}
	})
	step(coverage.StateFailClosed, func() { w.index().Dim = 9 })
	step(coverage.StateHandedOver, func() { w.put(metadata+"vector_index_embedding_idx/.hoodie_partition_metadata", "") })
	step(coverage.StateAbsent, func() { w.drop(metadata + "vector_index_embedding_idx/base.hfile") })
	step(coverage.StateUnsupported, func() { w.put(".hoodie/hoodie.properties", strings.Replace(properties, "version=9", "version=10", 1)) })
}

func TestFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 2)
	w.index().Covered[at(4, 0)] = at(4, 10)
	w.witness()
	w.instant(at(2, 30)+".inflight", "")
	w.now = noon.Add(10 * time.Minute)
	b, err := json.Marshal(w.status())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"table": w.store.URL(), "index": "embedding_idx", "generation": 1.0, "fresh": false, "state": "catching_up",
		"reason": "2 commits not covered, the first is deltacommit " + at(3, 0), "next": "tidemark sync /data/t",
		"frontier": map[string]any{"requested": at(2, 0), "completed": at(2, 10)}, "held_by": at(3, 0),
		"latest":       map[string]any{"requested": at(5, 0), "completed": at(5, 10)},
		"lag_instants": 2.0, "lag_seconds": 180.0, "oldest_uncovered_seconds": 410.0, "covered_ahead": 1.0, "degraded": 0.0,
		"gaps": []any{
			map[string]any{"requested": at(3, 0), "completed": at(3, 10), "action": "deltacommit", "reason": "pending"},
			map[string]any{"requested": at(5, 0), "completed": at(5, 10), "action": "deltacommit", "reason": "pending"},
			map[string]any{"requested": at(2, 30), "completed": nil, "action": "commit", "reason": "inflight"},
		},
		"horizon": map[string]any{"cleaner_instants": nil, "archiver_instants": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status differs (-want +got):\n%s", diff)
	}
}

func TestNullsWhereUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 0)
	w.put(".hoodie/hoodie.properties", strings.Replace(properties, "UTC", "LOCAL", 1))
	w.store.Put(".hoodie/timeline/"+at(2, 0)+"_"+at(2, 10)+".deltacommit", []byte(commitOf(vectorOf8)), time.Unix(0, 0))
	s := w.status()
	if s.Frontier != nil || s.LagSeconds != nil || s.OldestUncovered != nil || s.LagInstants == nil || *s.LagInstants != 2 {
		t.Errorf("got %+v", s)
	}
	// A known offset gives the seconds: the table's clock is an hour ahead of UTC.
	d := w.deps()
	hour := time.Hour
	d.ZoneOffset = &hour
	w.now = noon
	all, err := coverage.Status(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if got := all[0].OldestUncovered; got == nil || *got != 3600-70 {
		t.Errorf("oldest uncovered %v, want 3530 s", got)
	}
	// An age below zero is a wrong clock, not an age (O-TL-06).
	minus := -time.Hour
	d.ZoneOffset = &minus
	if all, err = coverage.Status(t.Context(), d); err != nil || all[0].OldestUncovered != nil {
		t.Errorf("got %v, %v", all[0].OldestUncovered, err)
	}
}

// The lag of a table that nobody writes to stays zero (O-OP-01).
func TestIdleTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 5)
	w.now = noon.Add(51 * 24 * time.Hour)
	if s := w.status(); !s.Fresh || *s.LagSeconds != 0 || *s.OldestUncovered != 0 || *s.LagInstants != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 2)
	w.put(".hoodie/hoodie.properties", properties+"hoodie.clean.commits.retained=4\nhoodie.keep.min.commits=2\n")
	s := w.status()
	if s.Horizon.Cleaner == nil || *s.Horizon.Cleaner != 2 || s.Horizon.Archiver == nil || *s.Horizon.Archiver != 0 {
		t.Errorf("got %+v", s.Horizon)
	}
}

func TestGapReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6, 3)
	w.drop(".hoodie/timeline/" + at(3, 0) + "_" + at(3, 10) + ".deltacommit")
	w.instant(at(4, 0)+"_"+at(4, 10)+".deltacommit", "")
	w.state.Quarantine = map[string]mdt.Quarantine{at(5, 0): {Reason: "x"}}
	var got []string
	for _, g := range w.status().Gaps {
		got = append(got, g.Requested+" "+g.Reason)
	}
	want := []string{at(3, 0) + " restored", at(4, 0) + " failed", at(5, 0) + " quarantined", at(6, 0) + " pending"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gaps differ (-want +got):\n%s", diff)
	}
}

func TestDamagedTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5, 5)
		w.put(".hoodie/hoodie.properties", "")
		if s := w.status(); s.State != coverage.StateStalled || s.Fresh || *s.Index != "embedding_idx" || s.LagInstants != nil || s.Next == "" {
			t.Errorf("properties: %+v", s)
		}
	})
	w := newWorld(t, 5, 5)
	d := w.deps()
	w.put(".hoodie/.tidemark/state.json", "{")
	all, err := coverage.Status(t.Context(), d)
	if err != nil || all[0].State != coverage.StateStalled || all[0].Next == "" {
		t.Errorf("state: %+v, %v", all, err)
	}
	w.drop(".hoodie/hoodie.properties")
	_, err = coverage.Status(t.Context(), coverage.Deps{Place: mdt.Inside(newEmpty(t))})
	if !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("no table: %v", err)
	}
}

// Real tables without an index: v6 is told apart, and no table makes status fail.
func TestStatusOfFixtures(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]coverage.State{
		"cow_basic": coverage.StateAbsent, "v6": coverage.StateUnsupported, "v6_array": coverage.StateUnsupported, "flink_v6_mor": coverage.StateUnsupported,
		"v8": coverage.StateAbsent, "flink_upgraded_mor": coverage.StateUnsupported, "local_zone": coverage.StateAbsent, "occ_inflight": coverage.StateAbsent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := coverage.Status(t.Context(), coverage.Deps{Place: mdt.Inside(openFixture(t, testkit.Table(t, name)))})
			if err != nil {
				t.Fatal(err)
			}
			s := all[0]
			if len(all) != 1 || s.Index != nil || s.Fresh || s.State != want || s.Reason == "" || s.Next == "" || s.Latest == nil {
				t.Errorf("got %+v, want %s", s, want)
			}
		})
	}
}
