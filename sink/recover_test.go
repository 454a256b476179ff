package sink

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// killedAt returns a table whose owner was killed at the n-th writing call of a commit of the newest instant, before or after
// its effect, and that instant. The calls: 1 staging, 2 and 3 files, 4 committing, 5 commit file, 6 visible.
func killedAt(t *testing.T, fixture string, n int, after bool) (*mem.Store, *clock, timeline.Instant) {
	t.Helper()
	st, s, c := built(t, fixture)
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := last(t, st)
	probe := fault.New(st.Clone(), fault.Config{})
	dry := acquired(t, probe, config(c, "dry"))
	from := probe.Calls()
	if _, err := dry.Commit(t.Context(), follow(idx, i)); err != nil {
		t.Fatal(err)
	}
	call, seen := 0, 0
	for k, what := range probe.Trace() {
		if op, _, _ := strings.Cut(what, " "); k >= from && (op == "create" || op == "replace") {
			if seen++; seen == n {
				call = k + 1
			}
		}
	}
	layer := fault.New(st, fault.Config{StopAt: call, StopAfter: after})
	one := acquired(t, layer, config(c, "dry"))
	if _, err := one.Commit(t.Context(), follow(idx, i)); !errors.Is(err, fault.ErrKilled) {
		t.Fatalf("not killed: %v", err)
	}
	return st, c, i
}

func TestRecoveryVerdicts(t *testing.T) {
	t.Parallel()
	old := time.Unix(0, 0)
	restore := func(st *mem.Store) {
		st.Put(".hoodie/timeline/20261130020930000_20261130020931000.restore", []byte("x"), old)
	}
	nothing := func(*mem.Store) {}
	for _, c := range []struct {
		name    string
		call    int
		after   bool
		change  func(st *mem.Store)
		recheck error
		covered bool // did the commit become visible
	}{
		{"staging without files", 1, true, nothing, nil, false},
		{"staging with a file", 2, true, nothing, nil, false},
		{"staging, all files", 4, false, nothing, nil, false},
		{"committing without commit file", 4, true, nothing, nil, true},
		{"committing with commit file", 5, true, nothing, nil, true},
		{"visible", 6, true, nothing, nil, true},
		{"committing, then a restore", 4, true, restore, nil, false},
		{"commit file, then a restore", 5, true, restore, nil, false},
		{"committing, frontier no longer holds", 4, true, nothing, storage.ErrStale, false},
		{"commit file, frontier no longer holds", 5, true, nothing, storage.ErrStale, false},
		{"commit file of someone else", 4, true, func(st *mem.Store) {
			state, _, _ := mdt.ReadState(context.Background(), mdt.Inside(st))
			st.Put(mdt.Inside(st).CommitPath(state.Intent.ID, state.Intent.Completion), []byte("other"), old)
		}, nil, false},
		{"committing, then a data instant of that time", 4, true, func(st *mem.Store) {
			state, _, _ := mdt.ReadState(context.Background(), mdt.Inside(st))
			st.Put(".hoodie/timeline/"+state.Intent.ID+".commit.requested", nil, old)
		}, nil, false},
		{"committing, id below the active timeline", 4, true, func(st *mem.Store) {
			for _, p := range st.Paths() {
				if strings.HasPrefix(p, ".hoodie/timeline/2") {
					_ = st.Delete(context.Background(), p)
				}
			}
			st.Put(".hoodie/timeline/20261201000000000.commit.requested", nil, old)
			st.Put(".hoodie/timeline/20261201000000000.inflight", nil, old)
			st.Put(".hoodie/timeline/20261201000000000_20261201000001000.commit", []byte("x"), old)
		}, nil, false},
		{"a staged file is gone", 4, true, func(st *mem.Store) {
			state, _, _ := mdt.ReadState(context.Background(), mdt.Inside(st))
			_ = st.Delete(context.Background(), mdt.Inside(st).File(state.Intent.Files[0].Path))
		}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, clk, i := killedAt(t, "cow_basic", c.call, c.after)
			c.change(st)
			cfg := config(clk, "next")
			asked := false
			cfg.Recheck = func(_ context.Context, now Standing) error {
				asked = true
				if _, ok := now.After.Indexes[idx].Covered[i.Requested]; !ok {
					t.Error("recheck sees the state before")
				}
				return c.recheck
			}
			s := acquired(t, st, cfg)
			state := s.State()
			if _, ok := state.Indexes[idx].Covered[i.Requested]; ok != c.covered {
				t.Errorf("covered %v", state.Indexes[idx].Covered)
			}
			if state.Intent != nil || len(state.Burned) > 0 {
				t.Errorf("not settled: %+v", state)
			}
			if c.recheck != nil && !asked {
				t.Error("the frontier was not looked at again")
			}
			place := mdt.Inside(st)
			names := snapshotNames(t, st)
			for _, p := range st.Paths() {
				if name := strings.TrimPrefix(p, place.MDTDir+"/"); strings.HasPrefix(name, "vector_index_") && !strings.Contains(names, p) {
					t.Errorf("left behind: %s", p)
				}
			}
			for _, commit := range state.Commits {
				if commit.VisibleAt.IsZero() {
					t.Errorf("commit %s without visibleAt", commit.ID)
				}
			}
		})
	}
}

func TestRecoveryWithoutMDT(t *testing.T) {
	t.Parallel()
	st, clk, i := killedAt(t, "cow_basic", 5, true)
	for _, p := range st.Paths() { // the writer deleted it; our commit file came after
		if strings.HasPrefix(p, ".hoodie/metadata/") && !strings.HasSuffix(p, ".deltacommit") {
			_ = st.Delete(t.Context(), p)
		}
	}
	s := acquired(t, st, config(clk, "next"))
	state := s.State()
	if _, ok := state.Indexes[idx].Covered[i.Requested]; ok || state.Intent != nil {
		t.Errorf("%+v", state)
	}
	if _, err := s.Commit(t.Context(), follow(idx, i)); !errors.Is(err, ErrNoMDT) || storage.Hint(err) == "" {
		t.Errorf("next commit: %v, hint %q", err, storage.Hint(err))
	}
}

func TestRebuiltMDT(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	for _, p := range st.Paths() {
		if strings.Contains(p, "vector_index_") {
			_ = st.Delete(t.Context(), p)
		}
	}
	_, err := s.Commit(t.Context(), follow(idx, last(t, st)))
	if !errors.Is(err, ErrFilesGone) || storage.Hint(err) == "" {
		t.Fatalf("got %v", err)
	}
	// Dropping and creating again gets out of it.
	if err := s.Drop(t.Context(), idx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), bootstrap(idx)); err != nil {
		t.Fatal(err)
	}
	if g := s.State().Indexes[idx].LastGeneration(); g != 2 {
		t.Errorf("generation %d", g)
	}
}

func TestLostState(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	was := s.State()
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Delete(t.Context(), ".hoodie/.tidemark/state.json"); err != nil {
		t.Fatal(err)
	}
	foreign := ".hoodie/metadata/vector_index_v_idx/notes.txt"
	st.Put(foreign, []byte("hands off"), time.Unix(0, 0))
	cfg := config(clk, "two")
	cfg.Create = false
	two := open(t, st, cfg)
	if err := two.Acquire(t.Context()); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Fatalf("without a state: %v", err)
	}
	three := acquired(t, st, config(clk, "three"))
	state := three.State()
	if state.LastTime < was.LastTime || len(state.Indexes) != 0 {
		t.Errorf("last time %s, before %s", state.LastTime, was.LastTime)
	}
	for _, p := range st.Paths() {
		if strings.Contains(p, "vector_index_") && p != foreign {
			t.Errorf("left behind: %s", p)
		}
	}
	if _, err := st.Stat(t.Context(), foreign); err != nil {
		t.Errorf("a foreign file was deleted: %v", err)
	}
	id, err := three.Commit(t.Context(), bootstrap(idx))
	if err != nil || id <= was.LastTime {
		t.Errorf("id %s, %v", id, err)
	}
}

func TestSweepLeavesRegisteredPartitionsAlone(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	orphan := ".hoodie/metadata/vector_index_another/.vector-index-0000-0_20200101000000000.log.1_7427-1-0"
	st.Put(orphan, []byte("x"), time.Unix(0, 0))
	st.Put(".hoodie/metadata/vector_index_another/.hoodie_partition_metadata", nil, time.Unix(0, 0))
	acquired(t, st, config(clk, "two"))
	if _, err := st.Stat(t.Context(), orphan); err != nil {
		t.Errorf("a file in a registered partition was deleted: %v", err)
	}
}

func TestArchivedInstants(t *testing.T) {
	t.Parallel()
	st := table(t, "archived")
	s := open(t, st, config(newClock(), "one"))
	l, err := s.look(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i, err := range timeline.NewArchive(st, ".hoodie/metadata/.hoodie", l.mdtProps).Instants(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i.Requested)
	}
	inner, err := timeline.AddMillis(all[len(all)/2], 1)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{all[0]: true, all[len(all)/2]: true, all[len(all)-1]: true, inner: false, "20270101000000000": false} {
		if got, err := s.archived(t.Context(), l, at); got != want || err != nil {
			t.Errorf("%s: %t, %v", at, got, err)
		}
	}
	// The archive is asked only about what may be in it: nothing there lies above what is active on the data timeline.
	if newest := all[len(all)-1]; newest > l.data.Earliest() {
		t.Errorf("%s is archived in the metadata table, %s is active on the data timeline", newest, l.data.Earliest())
	}
}

// TestRecoveryOfAnArchivedCommit: Hudi archived the commit file before the owner could show it.
func TestRecoveryOfAnArchivedCommit(t *testing.T) {
	t.Parallel()
	st, clk, i := killedAt(t, "archived", 5, true)
	place := mdt.Inside(st)
	l, err := open(t, st, config(clk, "look")).look(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	upto, err := timeline.NewArchive(st, place.File(".hoodie"), l.mdtProps).Upto(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state, tag, err := mdt.ReadState(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	// The fixture cannot have archived our commit, so the intent takes the time of one that it has archived.
	if err := st.Delete(t.Context(), place.CommitPath(state.Intent.ID, state.Intent.Completion)); err != nil {
		t.Fatal(err)
	}
	state.Intent.ID = upto
	if state.Intent.Completion, err = timeline.AddMillis(state.Intent.ID, 1); err != nil {
		t.Fatal(err)
	}
	b, err := mdt.EncodeState(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Replace(t.Context(), place.StatePath(), b, tag); err != nil {
		t.Fatal(err)
	}
	s := acquired(t, st, config(clk, "next"))
	if _, ok := s.State().Indexes[idx].Covered[i.Requested]; !ok {
		t.Error("the commit was taken back though Hudi has it in its archive")
	}
}

func TestRestoresAreKnownByBothTimes(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	st.Put(".hoodie/timeline/20261130020930000_20261130020931000.rollback", []byte("x"), time.Unix(0, 0))
	i := last(t, st)
	for completed, want := range map[string]error{"20261130020930999": storage.ErrStale, "20261130020931000": nil} {
		b := follow(idx, i)
		apply := b.Apply
		b.Apply = func(state *mdt.State, id, completion string, files []mdt.DataFile) error {
			state.Restores = map[string]string{"20261130020930000": completed}
			return apply(state, id, completion, files)
		}
		if _, err := s.Commit(t.Context(), b); !errors.Is(err, want) {
			t.Errorf("restore noted as completed at %s: %v", completed, err)
		}
	}
}

func TestWeakStores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		weak func(st storage.Store) storage.Store
	}{
		{"creates twice", func(st storage.Store) storage.Store { return createsTwice{st} }},
		{"ignores tags", func(st storage.Store) storage.Store { return ignoresTags{st} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := table(t, "cow_basic")
			s := open(t, c.weak(st), config(newClock(), "one"))
			if err := s.Acquire(t.Context()); !errors.Is(err, ErrWeakStore) || storage.Hint(err) == "" {
				t.Errorf("got %v", err)
			}
			if _, err := st.Stat(t.Context(), ".hoodie/.tidemark/state.json"); err == nil {
				t.Error("a state was written")
			}
		})
	}
}

type createsTwice struct{ storage.Store }

func (c createsTwice) Create(ctx context.Context, p string, data []byte) (storage.Info, error) {
	_ = c.Store.Delete(ctx, p)
	return c.Store.Create(ctx, p, data)
}

type ignoresTags struct{ storage.Store }

func (c ignoresTags) Replace(ctx context.Context, p string, data []byte, _ string) (storage.Info, error) {
	_, info, err := c.Store.ReadFile(ctx, p)
	if err != nil {
		info.Tag = ""
	}
	return c.Store.Replace(ctx, p, data, info.Tag)
}

type damages struct {
	storage.Store
	left *int // creates of log files that are still to be damaged
}

func (d damages) Create(ctx context.Context, p string, data []byte) (storage.Info, error) {
	if strings.Contains(p, ".log.") && *d.left > 0 {
		*d.left--
		data = append([]byte{data[0] ^ 1}, data[1:]...)
	}
	return d.Store.Create(ctx, p, data)
}

func TestReadBackFindsDamage(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	left := 1
	i := last(t, st)
	two := acquired(t, damages{st, &left}, config(clk, "two"))
	if _, err := two.Commit(t.Context(), follow(idx, i)); !errors.Is(err, storage.ErrCorrupt) || storage.Hint(err) == "" {
		t.Fatalf("got %v", err)
	}
	if state := two.State(); state.Intent != nil || len(state.Indexes[idx].Covered) != 0 {
		t.Errorf("not taken back: %+v", state)
	}
	if _, err := two.Commit(t.Context(), follow(idx, i)); err != nil {
		t.Error(err)
	}
}

// TestDiskFull fills the disk at each writing call in turn; once it has space again the same sink goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	full := os.ErrDeadlineExceeded // any error without one of our kinds
	for n := 1; ; n++ {
		st, s, clk := built(t, "cow_basic")
		_ = s.Release(t.Context())
		i := last(t, st)
		writesSeen, isFull := 0, false
		armed := false
		layer := fault.New(st, fault.Config{Before: func(_ int, op, _ string) error {
			if armed && (op == "create" || op == "replace") {
				if writesSeen++; writesSeen >= n {
					isFull = true
				}
				if isFull {
					return full
				}
			}
			return nil
		}})
		two := acquired(t, layer, config(clk, "two"))
		armed = true
		_, err := two.Commit(t.Context(), follow(idx, i))
		if !isFull {
			break
		}
		if !errors.Is(err, full) {
			t.Fatalf("write %d: %v", n, err)
		}
		armed = false
		_, err = two.Commit(t.Context(), follow(idx, i))
		if err != nil && !errors.Is(err, storage.ErrStale) { // stale: the attempt before became visible now
			t.Fatalf("write %d, space again: %v", n, err)
		}
		if _, ok := two.State().Indexes[idx].Covered[i.Requested]; !ok {
			t.Errorf("write %d: not covered", n)
		}
	}
}

// A file of ours by its name that no commit of the table can have made, beside a state that was lost: it is named, and once it is
// moved away the table gets a state.
func TestFirstStateBesideForeignTimes(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		".hoodie/metadata/vector_index_v_idx/.vector-index-0000-0_20991130023819001.log.1_7427-1-0",
		".hoodie/metadata/.hoodie/timeline/20991130023819001_20991130023819002.deltacommit",
	} {
		st := table(t, "cow_basic")
		st.Put(p, []byte("x"), time.Unix(0, 0))
		s := open(t, st, config(newClock(), "one"))
		err := s.Acquire(t.Context())
		if !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), p) || !strings.Contains(storage.Hint(err), "move that file away") {
			t.Errorf("got %v", err)
		}
		if err := st.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := s.Acquire(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
