package sink

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// built returns a table with an active index and the sink that owns it.
func built(t *testing.T, fixture string) (*mem.Store, *Sink, *clock) {
	t.Helper()
	c := newClock()
	st := table(t, fixture)
	st.SetClock(c.Now)
	s := acquired(t, st, config(c, "one"))
	for _, b := range []Batch{bootstrap(idx), activate(idx)} {
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return st, s, c
}

// last returns the newest data write of a table.
func last(t *testing.T, st storage.Store) timeline.Instant {
	t.Helper()
	w := writes(t, st)
	return w[len(w)-1]
}

func TestWhatHudiSees(t *testing.T) {
	t.Parallel()
	for _, fixture := range []string{"cow_basic", "mor_basic", "v8"} {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			st, s, _ := built(t, fixture)
			i := last(t, st)
			id, err := s.Commit(t.Context(), follow(idx, i))
			if err != nil {
				t.Fatal(err)
			}
			place := mdt.Inside(st)
			props, tl, err := timeline.Open(t.Context(), st, place.File(".hoodie"))
			if err != nil {
				t.Fatal(err)
			}
			inst, ok := tl.Find(id)
			if !ok || inst.State != timeline.Completed || inst.Action != timeline.DeltaCommit || inst.Pending != "" || inst.Plan != "" {
				t.Fatalf("on the MDT timeline: %+v", inst)
			}
			if _, data, _ := timeline.Open(t.Context(), st, ".hoodie"); data != nil {
				if _, there := data.Find(id); there || id <= i.Completed || len(id) != 17 {
					t.Errorf("id %s beside the data timeline's newest %s", id, i.Completed)
				}
			}
			meta, err := timeline.ReadCommit(t.Context(), st, place.File(".hoodie"), props, inst)
			if err != nil {
				t.Fatal(err)
			}
			if meta.Operation != "UPSERT_PREPPED" || meta.Compacted || len(meta.Stats) != 0 {
				t.Errorf("commit metadata %+v", meta)
			}
			for k := range meta.Extra {
				if !strings.HasPrefix(k, "tidemark.") {
					t.Errorf("extra metadata has key %s", k)
				}
			}
			if meta.Extra["tidemark.sources"] != i.Requested || meta.Extra["tidemark.epoch"] != "1" {
				t.Errorf("extra metadata %v", meta.Extra)
			}
			raw, _, _ := st.ReadFile(t.Context(), place.CommitPath(id, inst.Completed))
			schema, records, err := avrox.ReadContainer(raw)
			if err != nil || schema == nil || len(records) != 1 {
				t.Fatalf("container: %v", err)
			}
			if stats, there := records[0]["partitionToWriteStats"]; !there || stats == nil {
				t.Error("write stats are null: Hudi reads that as no commit metadata")
			}
			if v, _ := records[0].Long("version"); v != 1 {
				t.Errorf("version %v", records[0]["version"])
			}
			state := s.State()
			var names []string
			for _, f := range state.Live(idx) {
				name := path.Base(f.Path)
				own, base, ok := mdt.OwnName(name)
				if !ok || own != f.ID || base != f.Base || mdt.Group(f.Path) != f.Group {
					t.Errorf("name %s of %+v", name, f)
				}
				if n, isLog := logfile.ParseName(name); isLog == f.Base || isLog && (n.Instant != f.ID || n.FileID != mdt.FileID(f.Group) || n.Version != 1) {
					t.Errorf("log name %s: %+v", name, n)
				}
				if f.ID == id {
					names = append(names, f.Path)
				}
			}
			if got := meta.Extra["tidemark.files"]; got != strings.Join(names, ",") {
				t.Errorf("tidemark.files %q, want %q", got, names)
			}
			if want := "vector_index_v_idx/.vector-index-0001-0_" + id + ".log.1_7427-1-1"; names[1] != want {
				t.Errorf("got %s, want %s", names[1], want)
			}
			if s.Guard().Refused() != 0 {
				t.Errorf("%d writes were refused", s.Guard().Refused())
			}
		})
	}
}

// TestOrderOfWrites is the protocol's order as a trace: intent before files, files before the commit file, commit file
// before visibility.
func TestOrderOfWrites(t *testing.T) {
	t.Parallel()
	st, s, c := built(t, "cow_basic")
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	traced := fault.New(st, fault.Config{})
	s2 := acquired(t, traced, config(c, "two"))
	from := len(traced.Trace())
	if _, err := s2.Commit(t.Context(), follow(idx, last(t, st))); err != nil {
		t.Fatal(err)
	}
	var got []string
	reads := 0
	for _, call := range traced.Trace()[from:] {
		op, p, _ := strings.Cut(call, " ")
		if op == "create" || op == "replace" || op == "delete" {
			got = append(got, op+" "+kindOf(p))
		} else {
			reads++
		}
	}
	want := []string{"replace state", "create log", "create log", "replace state", "create deltacommit", "replace state"}
	if !slices.Equal(got, want) {
		t.Errorf("writes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if reads > 20 {
		t.Errorf("%d reads and listings for one commit", reads)
	}
}

func kindOf(p string) string {
	switch {
	case strings.HasSuffix(p, "state.json"):
		return "state"
	case strings.Contains(p, ".log."):
		return "log"
	case strings.HasSuffix(p, ".hfile"):
		return "base"
	}
	return strings.TrimPrefix(path.Ext(p), ".")
}

func TestSameBatchSameBytes(t *testing.T) {
	t.Parallel()
	one, _, _ := built(t, "cow_basic")
	two, _, _ := built(t, "cow_basic")
	if !slices.Equal(one.Paths(), two.Paths()) || snapshot(t, one) != snapshot(t, two) {
		t.Error("two runs wrote different bytes")
	}
}

func TestOnDisk(t *testing.T) {
	t.Parallel()
	dir := testkit.Table(t, "cow_basic")
	st, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	due := writes(t, st)[5:]
	cfg := Config{Schema: testSchema, Create: true}
	if err := work(t.Context(), open(t, st, cfg), due); err != nil {
		t.Fatal(err)
	}
	ideal := table(t, "cow_basic")
	c := newClock()
	ideal.SetClock(c.Now)
	if err := work(t.Context(), open(t, ideal, config(c, "ideal")), due); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, st), content(t, ideal); got != want {
		t.Errorf("on disk\n%s\nin memory\n%s", got, want)
	}
}

func TestRefusedBatches(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	before := snapshot(t, st)
	i := last(t, st)
	bad := errors.New("bad")
	for _, c := range []struct {
		name string
		edit func(b *Batch)
		want error
	}{
		{"build fails", func(b *Batch) { b.Build = func(string, string) ([]FileRecords, error) { return nil, bad } }, bad},
		{"apply fails", func(b *Batch) { b.Apply = func(*mdt.State, string, string, []mdt.DataFile) error { return bad } }, bad},
		{"a file group twice", func(b *Batch) {
			b.Build = func(string, string) ([]FileRecords, error) {
				return []FileRecords{{Index: idx}, {Index: idx}}, nil
			}
		}, storage.ErrRefused},
		{"keys not ascending", func(b *Batch) {
			b.Build = func(string, string) ([]FileRecords, error) {
				return []FileRecords{{Index: idx, Records: []Record{record("b", "1"), record("a", "2")}}}, nil
			}
		}, storage.ErrRefused},
		{"a file that the state does not name", func(b *Batch) { b.Apply = func(*mdt.State, string, string, []mdt.DataFile) error { return nil } }, storage.ErrRefused},
		{"a file group without base file", func(b *Batch) {
			apply := b.Apply
			b.Apply = func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
				st.Indexes[idx].FileGroups++
				return apply(st, id, completion, files)
			}
		}, storage.ErrRefused},
		{"a file that never was", func(b *Batch) {
			apply := b.Apply
			b.Apply = func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
				st.Base = append(st.Base, mdt.DataFile{Path: "vector_index_v_idx/x", Index: idx})
				return apply(st, id, completion, files)
			}
		}, storage.ErrRefused},
		{"computed from another revision", func(b *Batch) { b.Revision = 1 }, storage.ErrStale},
	} {
		b := follow(idx, i)
		c.edit(&b)
		if _, err := s.Commit(t.Context(), b); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if snapshot(t, st) != before {
		t.Error("a refused batch wrote something")
	}
	if _, err := s.Commit(t.Context(), follow(idx, i)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestChangesUnderACommit plays another writer at each writing call of a commit and asks what became visible.
func TestChangesUnderACommit(t *testing.T) {
	t.Parallel()
	old := time.Unix(0, 0)
	const instant = "20261130020930000"
	restore := func(st *mem.Store) {
		st.Put(".hoodie/timeline/"+instant+"_"+"20261130020931000.restore", []byte("x"), old)
	}
	noMDT := func(st *mem.Store) {
		for _, p := range st.Paths() {
			if strings.HasPrefix(p, ".hoodie/metadata/") {
				_ = st.Delete(context.Background(), p)
			}
		}
	}
	edit := func(key, value string) func(st *mem.Store) {
		return func(st *mem.Store) {
			b, info, _ := st.ReadFile(context.Background(), ".hoodie/hoodie.properties")
			st.Put(".hoodie/hoodie.properties", []byte(strings.Replace(string(b), key, value, 1)), info.ModTime)
		}
	}
	for _, c := range []struct {
		name   string
		change func(st *mem.Store)
		want   error
	}{
		{"restore", restore, storage.ErrStale},
		{"metadata table deleted", noMDT, ErrNoMDT},
		{"partition listed", edit("partitions=column_stats", "partitions=vector_index_v_idx,column_stats"), ErrHandedOver},
		{"partition being built", edit("partitions.inflight=", "partitions.inflight=vector_index_v_idx"), ErrHandedOver},
		{"partition defined", func(st *mem.Store) {
			st.Put(".hoodie/.index_defs/index.json", []byte(`{"indexDefinitions":{"vector_index_v_idx":{}}}`), old)
		}, ErrHandedOver},
		{"metafile", func(st *mem.Store) {
			st.Put(".hoodie/metadata/vector_index_v_idx/.hoodie_partition_metadata", nil, old)
		}, ErrHandedOver},
		{"a file of ours deleted", func(st *mem.Store) {
			for _, p := range st.Paths() {
				if strings.HasSuffix(p, ".hfile") && strings.Contains(p, "vector_index_") {
					_ = st.Delete(context.Background(), p)
					return
				}
			}
		}, ErrFilesGone},
		{"table upgraded", edit("hoodie.table.version=9", "hoodie.table.version=10"), storage.ErrUnsupported},
	} {
		// After the look that the batch was planned by; while staging; between step 5 and 6.
		for _, at := range []string{"planned", "create log", "replace state 2"} {
			t.Run(c.name+" at "+at, func(t *testing.T) {
				t.Parallel()
				st, s, clk := built(t, "cow_basic")
				_ = s.Release(t.Context())
				i := last(t, st)
				count := map[string]int{}
				armed := false
				layer := fault.New(st, fault.Config{Before: func(_ int, op, p string) error {
					if !armed {
						return nil
					}
					what := op + " " + kindOf(p)
					count[what]++
					if what == at || fmt.Sprint(what, " ", count[what]) == at {
						armed = false
						c.change(st)
					}
					return nil
				}})
				s2 := acquired(t, layer, config(clk, "two"))
				b := follow(idx, i)
				if at == "planned" {
					b.Seen = sight(t, s2)
					c.change(st)
				}
				armed = at != "planned"
				_, err := s2.Commit(t.Context(), b)
				late := at == "replace state 2"
				if late && !errors.Is(c.want, ErrNoMDT) && c.name != "restore" && c.name != "table upgraded" {
					// Step 8 looks for these two only; the next commit finds the rest.
					if err != nil {
						t.Fatalf("got %v", err)
					}
					_, err = s2.Commit(t.Context(), follow(idx, i))
				}
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				now := s2.State()
				state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
				if err != nil {
					t.Fatal(err)
				}
				if _, covered := state.Indexes[idx].Covered[i.Requested]; covered && !late {
					t.Errorf("became visible: %+v", now.Commits)
				}
				if state.Intent != nil && c.name != "table upgraded" {
					t.Errorf("intent is left: %+v", state.Intent)
				}
				if c.want == ErrNoMDT {
					if infos, err := st.List(t.Context(), ".hoodie/metadata/.hoodie/timeline"); err == nil && len(infos) > 0 {
						t.Errorf("a skeleton of the metadata table is left: %v", infos)
					}
				}
			})
		}
	}
}

func TestRecheck(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	i := last(t, st)
	b := follow(idx, i)
	b.Recheck = func(context.Context) error { return fmt.Errorf("frontier moved: %w", storage.ErrStale) }
	if _, err := s.Commit(t.Context(), b); !errors.Is(err, storage.ErrStale) {
		t.Fatalf("got %v", err)
	}
	state := s.State()
	if state.Intent != nil || len(state.Burned) != 0 || len(state.Indexes[idx].Covered) != 0 {
		t.Errorf("not taken back: %+v", state)
	}
	id, err := s.Commit(t.Context(), follow(idx, i))
	if err != nil || id <= state.LastTime {
		t.Errorf("the burned id is used again: %s after %s, %v", id, state.LastTime, err)
	}
}

func TestNameIsTaken(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	i := last(t, st)
	after, err := timeline.AddMillis(s.State().LastTime, 1)
	if err != nil {
		t.Fatal(err)
	}
	foreign := mdt.Inside(st).File(mdt.PartitionDir(idx) + "/" + mdt.LogName(1, after, "7427-1-1"))
	st.Put(foreign, []byte("someone else's"), time.Unix(0, 0))
	id, err := s.Commit(t.Context(), follow(idx, i))
	if err != nil || id == after {
		t.Fatalf("got %s, %v", id, err)
	}
	if _, err := st.Stat(t.Context(), foreign); err == nil {
		// R1 deletes the files of the intent; the name was ours by the sequence.
		t.Error("the burned name is still there")
	}
}
