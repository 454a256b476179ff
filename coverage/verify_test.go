package coverage_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/sink"

	"github.com/google/go-cmp/cmp"
)

// committer is the sink as generation's Committer, as the program wires it.
type committer struct{ *sink.Sink }

func (c committer) Commit(ctx context.Context, b generation.Batch) (string, error) {
	return c.Sink.Commit(ctx, sink.Batch{
		Kind: b.Kind, Revision: b.Revision, Apply: b.Apply, NewestData: b.Newest,
		Build: func(id, completion string) ([]sink.FileRecords, error) {
			files, err := b.Build(id, completion)
			out := make([]sink.FileRecords, len(files))
			for i, f := range files {
				out[i] = sink.FileRecords{Index: f.Index, Group: f.Group, Base: f.Base}
				for _, r := range f.Records {
					out[i].Records = append(out[i].Records, sink.Record{Key: r.Key, Payload: r.Value})
				}
			}
			return out, err
		},
	})
}

func openSink(t testing.TB, st storage.Store) *sink.Sink {
	t.Helper()
	s, err := sink.Open(t.Context(), mdt.Inside(st), sink.Config{Schema: delta.SchemaJSON, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var unpacked sync.Map // fixture name → *mem.Store

// copyOf is a private copy of a fixture table in memory.
func copyOf(t testing.TB, name string) *mem.Store {
	t.Helper()
	if st, ok := unpacked.Load(name); ok {
		return st.(*mem.Store).Clone()
	}
	st, err := mem.FromDir(name, testkit.Table(t, name))
	if err != nil {
		t.Fatal(err)
	}
	unpacked.Store(name, st)
	return st.Clone()
}

func createIndex(t testing.TB, st storage.Store, asOf string) *generation.Result {
	t.Helper()
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	o, err := generation.ParseOptions(map[string]string{"vector.metric": "l2", "vector.num_clusters": "4"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := generation.Create(t.Context(), tab, committer{openSink(t, st)}, generation.CreateRequest{Column: "embedding", AsOf: asOf, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verify(t testing.TB, st storage.Store, r coverage.VerifyRequest) *coverage.VerifyReport {
	t.Helper()
	report, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, r)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func stateOf(t testing.TB, st storage.Store) coverage.IndexStatus {
	t.Helper()
	all, err := coverage.Status(t.Context(), coverage.Deps{Place: mdt.Inside(st)})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}

func mustSync(t testing.TB, st storage.Store, most int) int {
	t.Helper()
	r, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{MaxInstants: most})
	if err != nil {
		t.Fatal(err)
	}
	return r.Processed
}

// indexable counts an oracle step's distinct keys whose vector can be indexed under l2.
func indexable(step testkit.Step) (keys, unindexable int64) {
	seen := map[string]bool{}
	for _, row := range step.Rows {
		raw := row.Vector("embedding")
		v := make([]float32, len(raw)/4)
		ok := raw != nil && kernel.ToFloat32(v, raw, kernel.Float)
		if ok {
			ok, _ = kernel.Indexable(kernel.L2, v)
		}
		if !ok {
			unindexable++
		} else if !seen[row.Key] {
			seen[row.Key] = true
			keys++
		}
	}
	return keys, unindexable
}

// From a table's first commit to its last, one commit at a time: status counts down, the markers' counts are what the oracle's
// rows imply, and verify finds the index equal to the table.
func TestFollowingRealTables(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "mor_basic", "unindexable"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, steps := copyOf(t, name), testkit.Oracle(t, name)
			createIndex(t, st, steps[0].Instants[0].Requested)
			var due int
			for _, s := range steps[1:] {
				due += len(s.Instants)
			}
			for n, step := range steps {
				for range step.Instants {
					if n > 0 {
						if s := stateOf(t, st); s.State != coverage.StateCatchingUp || s.Fresh || *s.LagInstants != due || len(s.Gaps) != due {
							t.Errorf("step %d: %+v, want %d due", step.Step, s, due)
						}
						if got := mustSync(t, st, 1); got != 1 {
							t.Fatalf("step %d: synced %d instants", step.Step, got)
						}
						due--
					}
				}
				r := verify(t, st, coverage.VerifyRequest{})
				keys, unindexable := indexable(step)
				if !r.OK || r.Checked != keys || r.Unindexable != unindexable || r.WrongLocator+r.Hidden+r.ForeignFiles != 0 {
					t.Errorf("step %d: %+v, want %d keys, %d unindexable", step.Step, r, keys, unindexable)
				}
			}
			if s := stateOf(t, st); !s.Fresh || s.State != coverage.StateFresh || s.HeldBy != nil || *s.LagSeconds != 0 {
				t.Errorf("at the end: %+v", s)
			}
			list, err := coverage.Markers(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			checkMarkers(t, steps, list)
		})
	}
}

// checkMarkers compares inserts, vector updates and deletes per step with what the oracle's rows before and after imply.
func checkMarkers(t *testing.T, steps []testkit.Step, list []coverage.Marker) {
	t.Helper()
	byInstant := map[string]coverage.Marker{}
	for _, m := range list {
		byInstant[m.Requested] = m
	}
	if !slices.IsSortedFunc(list, func(a, b coverage.Marker) int { return strings.Compare(a.Completed, b.Completed) }) {
		t.Error("markers are not in completion order")
	}
	before := vectorsOf(steps[0])
	for _, step := range steps[1:] {
		after := vectorsOf(step)
		want := map[string]int64{"insert": 0, "vector_update": 0, "delete": 0}
		for key, v := range after {
			if old, ok := before[key]; !ok {
				want["insert"]++
			} else if old != v {
				want["vector_update"]++
			}
		}
		for key := range before {
			if _, ok := after[key]; !ok {
				want["delete"]++
			}
		}
		got := map[string]int64{"insert": 0, "vector_update": 0, "delete": 0}
		for _, i := range step.Instants {
			m, ok := byInstant[i.Requested]
			if !ok {
				t.Errorf("step %d: no marker of %s", step.Step, i.Requested)
			}
			for class := range got {
				got[class] += m.Counts[class]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step %d (%s): counts differ (-oracle +marker):\n%s", step.Step, step.Op, diff)
		}
		before = after
	}
}

func vectorsOf(step testkit.Step) map[string]string {
	out := map[string]string{}
	for _, row := range step.Rows {
		raw := row.Vector("embedding")
		v := make([]float32, len(raw)/4)
		if raw == nil || !kernel.ToFloat32(v, raw, kernel.Float) {
			continue
		}
		if ok, _ := kernel.Indexable(kernel.L2, v); ok {
			out[row.Key] = string(raw)
		}
	}
	return out
}

// damage commits records of an index as the sink would any others.
func damage(t testing.TB, st storage.Store, change func(g *generation.Generation, live map[string]generation.Posting) []delta.KV) {
	t.Helper()
	s := openSink(t, st)
	if err := s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := s.State()
	view, err := mdt.OpenView(t.Context(), mdt.Inside(st), state, "embedding_idx")
	if err != nil {
		t.Fatal(err)
	}
	g, err := generation.Load(t.Context(), view, state.Indexes["embedding_idx"])
	if err != nil {
		t.Fatal(err)
	}
	live := map[string]generation.Posting{}
	if err := g.Postings(t.Context(), view, func(p generation.Posting) error { live[p.Key] = p; return nil }); err != nil {
		t.Fatal(err)
	}
	records := change(g, live)
	delta.SortKV(records)
	_, err = s.Commit(t.Context(), sink.Batch{Kind: "sync",
		Build: func(string, string) ([]sink.FileRecords, error) {
			var out []sink.FileRecords
			for _, r := range records {
				if len(out) == 0 || out[len(out)-1].Group != r.Group {
					out = append(out, sink.FileRecords{Index: "embedding_idx", Group: r.Group})
				}
				last := &out[len(out)-1]
				last.Records = append(last.Records, sink.Record{Key: r.Key, Payload: r.Value})
			}
			return out, nil
		},
		Apply: func(state *mdt.State, id, completion string, files []mdt.DataFile) error {
			state.Commits = append(state.Commits, mdt.Commit{ID: id, Completion: completion, Kind: "sync", Files: files})
			return nil
		}})
	if err := errors.Join(err, s.Release(context.WithoutCancel(t.Context()))); err != nil {
		t.Fatal(err)
	}
}

// put puts a record under the posting key of a cluster.
func put(g *generation.Generation, key string, cluster int, r delta.Record) delta.KV {
	k := delta.PostingKey(g.Number, uint32(cluster), uint16(delta.SegmentOf(key, g.Segments[cluster])), key)
	return delta.KV{Key: k, Value: delta.EncodeRecord(nil, r), Group: delta.FileGroup(k, g.Groups)}
}

// posting is the right delta of a key, made from the oracle's vector, in a cluster.
func posting(g *generation.Generation, row testkit.Row, at delta.Locator, cluster int) *delta.PostingDelta {
	v := make([]float32, g.Dim)
	kernel.ToFloat32(v, row.Vector("embedding"), kernel.Float)
	return delta.NewPosting(row.Key, at, g.Encode(v, cluster))
}

func TestVerifyFindsEachFault(t *testing.T) {
	t.Parallel()
	steps := testkit.Oracle(t, "cow_basic")
	rows := steps[len(steps)-1].Rows
	one, other := rows[0], rows[len(rows)-1]
	clean := copyOf(t, "cow_basic")
	createIndex(t, clean, "")
	elsewhere := func(g *generation.Generation, p generation.Posting) int { return (p.Cluster + 1) % g.K }

	for _, tt := range []struct {
		name   string
		change func(g *generation.Generation, live map[string]generation.Posting) []delta.KV
		want   map[string]int64 // all others 0
		ok     bool
	}{
		{"missing", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			return []delta.KV{put(g, one.Key, live[one.Key].Cluster, &delta.Tombstone{DeleteInstant: "1", DeleteReason: "x"})}
		}, map[string]int64{"missing": 1}, false},
		{"extra", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			d := posting(g, one, live[one.Key].Locator, 0)
			d.RecordKey = "nobody"
			return []delta.KV{put(g, "nobody", 0, d)}
		}, map[string]int64{"extra": 1}, false},
		{"stale: another row's vector", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			d := posting(g, other, p.Locator, p.Cluster)
			d.RecordKey = one.Key
			return []delta.KV{put(g, one.Key, p.Cluster, d)}
		}, map[string]int64{"stale": 1}, false},
		{"misrouted", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			return []delta.KV{
				put(g, one.Key, p.Cluster, &delta.Tombstone{DeleteInstant: "1", DeleteReason: "x"}),
				put(g, one.Key, elsewhere(g, p), posting(g, one, p.Locator, elsewhere(g, p))),
			}
		}, map[string]int64{"misrouted": 1}, false},
		{"left in a second cluster", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			d := posting(g, other, p.Locator, elsewhere(g, p))
			d.RecordKey = one.Key
			return []delta.KV{put(g, one.Key, elsewhere(g, p), d)}
		}, map[string]int64{"stale": 1}, false},
		{"wrong code", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			d := posting(g, one, p.Locator, p.Cluster)
			d.BinaryCode[0] ^= 1
			return []delta.KV{put(g, one.Key, p.Cluster, d)}
		}, map[string]int64{"wrong_code": 1}, false},
		{"wrong factor", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			d := posting(g, one, p.Locator, p.Cluster)
			d.FRescaleEx *= 2
			return []delta.KV{put(g, one.Key, p.Cluster, d)}
		}, map[string]int64{"wrong_code": 1}, false},
		{"wrong locator", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			p.Locator.Position += 7
			return []delta.KV{put(g, one.Key, p.Cluster, posting(g, one, p.Locator, p.Cluster))}
		}, map[string]int64{"wrong_locator": 1}, true},
		{"a delta that says the same", func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
			p := live[one.Key]
			return []delta.KV{put(g, one.Key, p.Cluster, posting(g, one, p.Locator, p.Cluster))}
		}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := clean.Clone()
			damage(t, st, tt.change)
			r := verify(t, st, coverage.VerifyRequest{})
			got := map[string]int64{}
			for class, n := range map[string]int64{"missing": r.Missing, "extra": r.Extra, "stale": r.Stale, "misrouted": r.Misrouted,
				"wrong_code": r.WrongCode, "wrong_locator": r.WrongLocator, "hidden": r.Hidden, "duplicate_keys": r.DuplicateKeys} {
				if n != 0 {
					got[class] = n
					if len(r.Examples[class]) == 0 {
						t.Errorf("no example of %s", class)
					}
				}
			}
			if tt.want == nil {
				tt.want = map[string]int64{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || r.OK != tt.ok {
				t.Errorf("ok %v; faults differ (-want +got):\n%s", r.OK, diff)
			}
			if r.Checked != int64(len(rows)) {
				t.Errorf("checked %d of %d keys", r.Checked, len(rows))
			}
			if strings.HasPrefix(r.Sentence(), "ok") != r.OK {
				t.Error(r.Sentence())
			}
		})
	}
}

// Dead postings of a group whose dead rows are unknown are hidden, not extra (design, decision 13).
func TestHiddenPostings(t *testing.T) {
	t.Parallel()
	st := copyOf(t, "cow_basic")
	createIndex(t, st, "")
	damage(t, st, func(g *generation.Generation, live map[string]generation.Posting) []delta.KV {
		steps := testkit.Oracle(t, "cow_basic")
		d := posting(g, steps[0].Rows[0], delta.Locator{FileID: "degraded", BaseInstant: "1", Position: -1}, 0)
		d.RecordKey = "dead"
		return []delta.KV{put(g, "dead", 0, d)}
	})
	s := openSink(t, st)
	if err := s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.Update(t.Context(), func(state *mdt.State) error {
		state.Degraded = append(state.Degraded, mdt.DegradedGroup{Index: "embedding_idx", FileID: "degraded"})
		return nil
	})
	if err := errors.Join(err, s.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, st, coverage.VerifyRequest{}); !r.OK || r.Hidden != 1 || r.Extra != 0 {
		t.Errorf("got %+v", r)
	}
	if s := stateOf(t, st); s.State != coverage.StateDegraded || !s.Fresh || s.Degraded != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestVerifyFiles(t *testing.T) {
	t.Parallel()
	st := copyOf(t, "cow_basic")
	createIndex(t, st, "")
	dir := ".hoodie/metadata/vector_index_embedding_idx/"
	infos, err := st.List(t.Context(), strings.TrimSuffix(dir, "/"))
	if err != nil || len(infos) == 0 {
		t.Fatal(infos, err)
	}
	st.Put(dir+"someone.else", []byte("x"), time.Unix(0, 0))
	if r := verify(t, st, coverage.VerifyRequest{}); !r.OK || r.ForeignFiles != 1 || r.Examples["foreign_files"][0] != "someone.else" {
		t.Errorf("foreign file: %+v", r)
	}
	const never = ".vector-index-0000-0_20991130023819001.log.1_7427-1-0"
	st.Put(dir+never, []byte("x"), time.Unix(0, 0))
	if r := verify(t, st, coverage.VerifyRequest{}); !r.OK || r.ForeignFiles != 2 || !slices.Contains(r.Examples["foreign_files"], never) {
		t.Errorf("a file of ours by name, of an id that was never given out: %+v", r)
	}
	st.Put(dir+strings.Replace(never, "2099", "2009", 1), []byte("x"), time.Unix(0, 0))
	if r := verify(t, st, coverage.VerifyRequest{}); !r.OK || r.ForeignFiles != 2 {
		t.Errorf("a file that is swept: %+v", r)
	}
	b, info, err := st.ReadFile(t.Context(), infos[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, len(b) / 2, len(b) - 1} {
		flipped := slices.Clone(b)
		flipped[i] ^= 0x10
		st.Put(info.Path, flipped, time.Unix(0, 0))
		_, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, coverage.VerifyRequest{})
		if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), info.Path) || storage.Hint(err) == "" {
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
	if err := st.Delete(t.Context(), info.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, coverage.VerifyRequest{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("file gone: %v", err)
	}
}

func TestVerifyAtAndSample(t *testing.T) {
	t.Parallel()
	st, steps := copyOf(t, "cow_basic"), testkit.Oracle(t, "cow_basic")
	createIndex(t, st, steps[0].Instants[0].Requested)
	mustSync(t, st, 1)
	mustSync(t, st, 2) // one commit of ours for two of the table's
	for n, wantErr := range []bool{false, false, true, false, true} {
		instant := steps[n].Instants[0]
		r, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, coverage.VerifyRequest{At: instant.Completion})
		if wantErr {
			if !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" {
				t.Errorf("at step %d: %v", n+1, err)
			}
			continue
		}
		keys, _ := indexable(steps[n])
		if err != nil || !r.OK || r.Checked != keys || r.Snapshot != instant.Requested || r.WrongLocator != 0 {
			t.Errorf("at step %d: %+v, %v", n+1, r, err)
		}
	}
	keys, _ := indexable(steps[3])
	r := verify(t, st, coverage.VerifyRequest{Sample: 0.5})
	if !r.OK || r.Checked == 0 || r.Checked == keys {
		t.Errorf("sample of %d keys: %+v", keys, r)
	}
	for _, req := range []coverage.VerifyRequest{{Sample: 2}, {Sample: -1}, {At: "nothing"}, {Index: "none"}} {
		if _, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, req); err == nil {
			t.Errorf("%+v was accepted", req)
		}
	}
}

func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	st := copyOf(t, "keys_unicode")
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	o, err := generation.ParseOptions(map[string]string{"vector.metric": "l2", "vector.num_clusters": "2", "tidemark.on_duplicate_key": "last_wins"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := generation.Create(t.Context(), tab, committer{openSink(t, st)}, generation.CreateRequest{Column: "embedding", Options: o}); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, st, coverage.VerifyRequest{}); !r.OK || r.DuplicateKeys != 1 || r.Checked != 34 || r.WrongLocator != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestFreshForReaders(t *testing.T) {
	t.Parallel()
	st, steps := copyOf(t, "cow_basic"), testkit.Oracle(t, "cow_basic")
	createIndex(t, st, steps[0].Instants[0].Requested)
	judge := func() coverage.Verdict {
		state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
		if err != nil {
			t.Fatal(err)
		}
		tab, err := table.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		v, err := coverage.Fresh(t.Context(), mdt.Inside(st), tab, state, "embedding_idx")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := coverage.Fresh(t.Context(), mdt.Inside(st), tab, state, "none"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("no such index: %v", err)
		}
		return v
	}
	if v := judge(); v.Fresh || v.Reason == "" || !v.Known() || v.Lag.Instants != len(steps)-1 {
		t.Errorf("behind: %+v", v)
	}
	mustSync(t, st, 0)
	if v := judge(); !v.Fresh || v.Reason != "" || v.Lag.Instants != 0 {
		t.Errorf("caught up: %+v", v)
	}
}

// Nothing passes a completed commit of zero bytes, and it is named (O-TL-01).
func TestZeroByteCommitStopsTheFrontier(t *testing.T) {
	t.Parallel()
	st, steps := copyOf(t, "cow_basic"), testkit.Oracle(t, "cow_basic")
	createIndex(t, st, steps[0].Instants[0].Requested)
	bad := steps[3].Instants[0]
	name := ".hoodie/timeline/" + bad.Requested + "_" + bad.Completion + ".commit"
	whole, _, err := st.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	st.Put(name, nil, time.Unix(0, 0))
	if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{}); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("sync: %v", err)
	}
	s := stateOf(t, st)
	if s.State != coverage.StateBlocked || s.Fresh || s.Frontier == nil || s.Frontier.Completed >= bad.Completion || !strings.Contains(s.Reason, bad.Requested) || !strings.Contains(s.Details, name) {
		t.Errorf("status: %+v", s)
	}
	for _, g := range s.Gaps {
		if want := g.Requested == bad.Requested; want != (g.Reason == "failed") {
			t.Errorf("gap %+v", g)
		}
	}
	st.Put(name, whole, time.Unix(0, 0))
	mustSync(t, st, 0)
	if s := stateOf(t, st); !s.Fresh || s.State != coverage.StateFresh {
		t.Errorf("repaired: %+v", s)
	}
	if r := verify(t, st, coverage.VerifyRequest{}); !r.OK {
		t.Errorf("verify: %+v", r)
	}
}
