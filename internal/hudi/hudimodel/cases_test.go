package hudimodel_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// The histories of docs/cases.md that no recorded table has. Each is followed one instant at a time and all at once.

// paces runs a history twice: once with a sync where it says so, once with one at its end.
func paces(t *testing.T, run func(t *testing.T, sync func(h *history))) {
	t.Helper()
	for _, name := range []string{"each", "at once"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h *history
			run(t, func(of *history) {
				if h = of; name == "each" {
					h.sync(0, true)
				}
			})
			h.sync(0, true)
		})
	}
}

func row(key, vec string) hudimodel.Row {
	return hudimodel.Row{Key: key, TS: 5, Vec: hudimodel.Hex(vec)}
}

func removal(keys ...string) hudimodel.Block {
	b := hudimodel.Block{Kind: hudimodel.Deletes}
	for _, k := range keys {
		b.Keys = append(b.Keys, hudimodel.Delete{Key: k})
	}
	return b
}

const east, west, north = "0000803f00000000", "000000c000000000", "0000803f0000803f"

// begin is a table with rows a and d in eu/g-0 and e in eu/g-1, and its index.
func begin(t *testing.T, cfg hudimodel.Config) *history {
	t.Helper()
	w := hudimodel.New(t, cfg)
	h := follow(t.Context(), t, w)
	t1 := w.Begin(action(cfg), "INSERT")
	t1.Base("eu", "g-0", row("a", east), row("d", west))
	t1.Base("eu", "g-1", row("e", north))
	t1.Complete()
	h.create(t1, twoClusters)
	return h
}

func action(cfg hudimodel.Config) string {
	if cfg.MoR {
		return "deltacommit"
	}
	return "commit"
}

// A key is deleted and inserted again: by one commit, by two in one batch of ours, by two in two batches; with the same vector and another one.
func TestCase_DeletedAndInsertedAgain(t *testing.T) {
	t.Parallel()
	for _, vec := range []string{west, north} {
		for _, mor := range []bool{false, true} {
			cfg := hudimodel.Config{MoR: mor}
			paces(t, func(t *testing.T, sync func(*history)) {
				h := begin(t, cfg)
				gone := h.w.Begin(action(cfg), "DELETE")
				if mor {
					gone.Log("eu", "g-0", removal("d"))
				} else {
					gone.Base("eu", "g-0", row("a", east))
				}
				gone.Complete()
				sync(h)
				back := h.w.Begin(action(cfg), "INSERT")
				back.Base("us", "g-0", row("d", vec))
				back.Complete()
				sync(h)
				if mor {
					both := h.w.Begin(action(cfg), "UPSERT")
					both.Log("eu", "g-0", removal("a"), hudimodel.Block{Rows: []hudimodel.Row{row("a", vec)}})
					both.Complete()
				}
				sync(h)
			})
		}
	}
}

// A row moves twice within a batch, and comes back to where it was.
func TestCase_MovedTwiceInABatch(t *testing.T) {
	t.Parallel()
	for _, vec := range []string{west, north} {
		paces(t, func(t *testing.T, sync func(*history)) {
			h := begin(t, hudimodel.Config{MoR: true})
			for _, to := range []string{"us", "ap", "eu"} {
				m := h.w.Begin("deltacommit", "UPSERT")
				for _, from := range h.w.Groups() {
					for _, r := range h.w.Rows(from, func(*hudimodel.Txn) bool { return true }) {
						if r.Key == "d" {
							m.Log(from.Partition, from.ID, removal("d"))
						}
					}
				}
				if to == "eu" {
					m.Log(to, "g-0", hudimodel.Block{Rows: []hudimodel.Row{row("d", vec)}})
				} else {
					m.Base(to, "g-0", row("d", vec))
				}
				m.Complete()
				sync(h)
			}
		})
	}
}

// Commits that change no row: nothing written, only the schema changed.
func TestCase_EmptyAndSchemaOnlyCommits(t *testing.T) {
	t.Parallel()
	for _, mor := range []bool{false, true} {
		cfg := hudimodel.Config{MoR: mor}
		paces(t, func(t *testing.T, sync func(*history)) {
			h := begin(t, cfg)
			h.w.Begin(action(cfg), "UPSERT").Complete()
			sync(h)
			h.w.Evolve("add")
			h.w.Begin(action(cfg), "ALTER_SCHEMA").Complete()
			sync(h)
			u := h.w.Begin(action(cfg), "UPSERT")
			u.Base("eu", "g-0", row("a", north), row("d", west))
			u.Complete()
			sync(h)
			h.w.Evolve("drop")
			h.w.Begin(action(cfg), "ALTER_SCHEMA").Complete()
			sync(h)
		})
	}
}

// A clustering is planned, updates and inserts beside its groups complete, then it does: its rows moved, nothing else.
func TestCase_ClusteringOverlapsUpdates(t *testing.T) {
	t.Parallel()
	for _, mor := range []bool{false, true} {
		cfg := hudimodel.Config{MoR: mor}
		paces(t, func(t *testing.T, sync func(*history)) {
			h := begin(t, cfg)
			if mor {
				u := h.w.Begin("deltacommit", "UPSERT")
				u.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{row("a", north)}}, removal("d"))
				u.Complete()
			}
			c := h.w.Begin("clustering", "CLUSTER", h.w.Group("eu", "g-0"))
			var rows []hudimodel.Row
			for _, r := range h.w.Rows(h.w.Group("eu", "g-0"), func(*hudimodel.Txn) bool { return true }) {
				rows = append(rows, r.Row)
			}
			u := h.w.Begin(action(cfg), "UPSERT")
			u.Base("eu", "g-1", row("e", east))
			u.Base("eu", "g-2", row("n", west))
			u.Complete()
			sync(h)
			c.Base("eu", "g-3", rows...)
			c.Replace("eu", "g-0")
			c.Complete()
			h.sync(0, true)
			list, err := coverage.Markers(t.Context(), coverage.Deps{Place: h.place}, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			m := list[0]
			if m.Requested != c.Requested {
				list, err = coverage.Markers(t.Context(), coverage.Deps{Place: h.place}, "", 0)
				m = list[slices.IndexFunc(list, func(m coverage.Marker) bool { return m.Requested == c.Requested })]
			}
			if err != nil || m.Counts["insert"]+m.Counts["delete"]+m.Counts["vector_update"] != 0 || m.Counts["locator_refresh"] != int64(len(rows)) {
				t.Errorf("marker of the clustering: %+v, %v", m, err)
			}
		})
	}
}

// A clustering is planned, then updates, an insert and a delete land in the very groups that it replaces (an update strategy that
// allows them), then it completes with the rows as of its plan: what those writes did is lost, and the index follows the rows as they then are.
func TestCase_ClusteringLosesUpdatesOfItsGroups(t *testing.T) {
	t.Parallel()
	for _, mor := range []bool{false, true} {
		cfg := hudimodel.Config{MoR: mor}
		paces(t, func(t *testing.T, sync func(*history)) {
			h := begin(t, cfg)
			all := func(*hudimodel.Txn) bool { return true }
			g0, g1 := h.w.Group("eu", "g-0"), h.w.Group("eu", "g-1")
			c := h.w.Begin("clustering", "CLUSTER", g0, g1)
			var planned []hudimodel.Row
			for _, g := range []*hudimodel.Group{g0, g1} {
				for _, r := range h.w.Rows(g, all) {
					planned = append(planned, r.Row)
				}
			}
			update := h.w.Begin(action(cfg), "UPSERT") // another vector of a, a row that is new; of e another ordering value alone
			later := row("e", north)
			later.TS++
			if mor {
				update.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{row("a", north), row("n", west)}})
				update.Log("eu", "g-1", hudimodel.Block{Rows: []hudimodel.Row{later}})
			} else {
				update.Base("eu", "g-0", row("a", north), row("d", west), row("n", west))
				update.Base("eu", "g-1", later)
			}
			update.Complete()
			sync(h)
			gone := h.w.Begin(action(cfg), "DELETE")
			if mor {
				gone.Log("eu", "g-0", removal("d"))
			} else {
				gone.Base("eu", "g-0", row("a", north), row("n", west))
			}
			gone.Complete()
			sync(h)
			c.Base("eu", "g-3", planned...)
			c.Replace("eu", "g-0")
			c.Replace("eu", "g-1")
			c.Complete()
			h.sync(0, true) // compares markers, postings and verify with the model

			list, err := coverage.Markers(t.Context(), coverage.Deps{Place: h.place}, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []struct {
				txn                        *hudimodel.Txn
				insert, update, move, gone int64
			}{
				{update, 1, 1, -1, 0}, // n; a. What it rewrote beside them is another matter
				{gone, 0, 0, -1, 1},   // d
				{c, 1, 1, 1, 1},       // d is back; a has its old vector; e moved; n is lost
			} {
				i := slices.IndexFunc(list, func(m coverage.Marker) bool { return m.Requested == want.txn.Requested })
				if i < 0 {
					t.Fatalf("no marker of %s", want.txn)
				}
				m := list[i]
				n := m.Counts
				if m.Mode != "full" || n["insert"] != want.insert || n["vector_update"] != want.update || n["delete"] != want.gone ||
					want.move >= 0 && n["locator_refresh"] != want.move {
					t.Errorf("marker of %s: mode %s, %v; want %d inserts, %d updates, %d moves, %d deletes", want.txn, m.Mode, n, want.insert, want.update, want.move, want.gone)
				}
			}
			rep, err := coverage.Verify(t.Context(), coverage.Deps{Place: h.place}, coverage.VerifyRequest{})
			if err != nil || !rep.OK || rep.WrongLocator != 0 || rep.Checked != 3 {
				t.Errorf("verify: %+v, %v", rep, err)
			}
		})
	}
}

// A failed append of version 6, whole or cut, with the command block that rolls it back, in a log that later commits go on with.
func TestCase_RolledBackBlocks(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		paces(t, func(t *testing.T, sync func(*history)) {
			h := begin(t, hudimodel.Config{MoR: true, Upgraded: true})
			good := func(key, vec string) {
				u := h.w.Begin("deltacommit", "UPSERT")
				u.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{row(key, vec)}})
				u.Complete()
				sync(h)
			}
			good("a", north)
			if cut != (len(h.w.Txns())%2 == 1) { // the model cuts every second one
				h.w.Begin("deltacommit", "UPSERT").Complete()
			}
			bad := h.w.Begin("deltacommit", "UPSERT")
			bad.Log("eu", "g-0", hudimodel.Block{Rows: []hudimodel.Row{row("a", west), row("x", west)}}, removal("d"))
			bad.Rollback()
			good("d", east)
			h.w.Upgrade()
			good("a", east)
		})
	}
}

// Of the preceding slices of one commit one is cleaned away: that group degrades, the other one is compared in full, and the state says which.
func TestCase_PartOfASliceCleaned(t *testing.T) {
	t.Parallel()
	h := begin(t, hudimodel.Config{})
	w := h.w
	u := w.Begin("commit", "UPSERT")
	u.Base("eu", "g-0", row("a", north)) // d is deleted
	u.Base("eu", "g-1")                  // e is deleted
	u.Complete()
	for _, p := range w.Store.Paths() { // only the older base file of g-0
		if strings.HasPrefix(p, "eu/g-0_") && !strings.Contains(p, u.Requested) {
			w.Store.Delete(t.Context(), p)
		}
	}
	if r, err := indexer.Sync(t.Context(), h.place, indexer.SyncOptions{}); err != nil || r.Processed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	list, err := coverage.Markers(t.Context(), coverage.Deps{Place: h.place}, "", 0)
	if err != nil || len(list) != 1 || list[0].Mode != "current_only" {
		t.Fatalf("%+v, %v", list, err)
	}
	if c := list[0].Counts; c["delete"] != 1 || c["vector_update"] != 1 {
		t.Errorf("counts %v, want the delete of e and the update of a", c)
	}
	st, _, err := mdt.ReadState(t.Context(), h.place)
	if err != nil || len(st.Degraded) != 1 || st.Degraded[0].FileID != "g-0" || st.Degraded[0].Partition != "eu" || st.Degraded[0].Since != u.Requested {
		t.Errorf("degraded %+v, %v", st.Degraded, err)
	}
	h.in[u.Requested] = true
	h.blind[table.Group{Partition: "eu", FileID: "g-0"}] = true
	h.check("after the cleaned commit", true)
}

// Every kind of value turns into every other: as rows of a log and of a base file, by every metric that tells them apart.
func TestCase_EveryTransition(t *testing.T) {
	t.Parallel()
	nan := func(payload uint32) float32 { return math.Float32frombits(0x7fc00000 | payload) }
	inf, zero, tiny := float32(math.Inf(1)), float32(0), math.Float32frombits(1)
	kinds := []struct {
		name string
		x, y float32
		null bool
	}{
		{"value", 1, 2, false}, {"other value", 1, 3, false}, {"denormal", tiny, 0, false}, {"negative denormal", -tiny, 0, false}, {"zero", 0, 0, false},
		{"negative zero", float32(math.Copysign(0, -1)), 0, false}, {"-0 in a value", zero * -1, 2, false}, {"NaN", nan(0), 1, false},
		{"NaN of a payload", nan(7), 1, false}, {"infinite", inf, 1, false}, {"-infinite", -inf, 1, false}, {"largest", math.MaxFloat32, -math.MaxFloat32, false},
		{"NULL", 0, 0, true},
	}
	stored := func(el avrox.Element, i int) []byte {
		k := kinds[i]
		if k.null {
			return nil
		}
		var b []byte
		for _, f := range []float32{k.x, k.y} {
			if el == avrox.ElementDouble {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(f)))
			} else {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
		}
		return b
	}
	for _, el := range []avrox.Element{avrox.ElementFloat, avrox.ElementDouble} {
		for _, metric := range []string{"l2", "cosine"} {
			for _, mor := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s mor=%v", el, metric, mor), func(t *testing.T) {
					t.Parallel()
					cfg := hudimodel.Config{MoR: mor, Element: el}
					w := hudimodel.New(t, cfg)
					h := follow(t.Context(), t, w)
					var before, after []hudimodel.Row
					for i := range kinds {
						for j := range kinds {
							key := kinds[i].name + " → " + kinds[j].name
							before = append(before, hudimodel.Row{Key: key, TS: 1, Vec: stored(el, i)})
							after = append(after, hudimodel.Row{Key: key, TS: 2, Vec: stored(el, j)})
						}
					}
					t1 := w.Begin(action(cfg), "INSERT")
					t1.Base("", "g-0", before...)
					t1.Complete()
					h.create(t1, map[string]string{"vector.metric": metric, "vector.num_clusters": "3"})
					t2 := w.Begin(action(cfg), "UPSERT")
					if mor {
						t2.Log("", "g-0", hudimodel.Block{Rows: after})
					} else {
						t2.Base("", "g-0", after...)
					}
					t2.Complete()
					h.sync(0, true)
				})
			}
		}
	}
}
