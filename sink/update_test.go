package sink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

func TestOperatorFieldsBesideARunningOwner(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	i := last(t, st)
	operator := open(t, st, live(clk, "operator"))
	b := follow(idx, i)
	build := b.Build
	b.Build = func(id, completion string) ([]FileRecords, error) {
		// In the middle of the owner's commit.
		if err := operator.Update(t.Context(), func(st *mdt.State) error {
			st.Paused = true
			st.Skipped = map[string]mdt.Skip{"20260101000000000": {Reason: "broken file"}}
			st.Epoch, st.Owner, st.LastTime, st.Burned = 99, "operator", "1", []string{"x"}
			return nil
		}); err != nil {
			t.Error(err)
		}
		return build(id, completion)
	}
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	state := s.State()
	if !state.Paused || state.Skipped["20260101000000000"].Reason == "" {
		t.Error("the operator's decision was lost")
	}
	if state.Epoch != 1 || state.Owner != "one" || len(state.Burned) != 0 {
		t.Errorf("an operator changed the lease: %+v", state)
	}
	if _, ok := state.Indexes[idx].Covered[i.Requested]; !ok {
		t.Error("the commit was lost")
	}
}

func TestDropWhileACommitIsUnderWay(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	i := last(t, st)
	operator := open(t, st, live(clk, "operator"))
	b := follow(idx, i)
	b.Recheck = nil
	var staged error
	cfgBuild := b.Build
	b.Build = func(id, completion string) ([]FileRecords, error) {
		// Before the intent: the drop wins and the batch is stale.
		if err := operator.Drop(t.Context(), idx); err != nil {
			t.Error(err)
		}
		return cfgBuild(id, completion)
	}
	if _, err := s.Commit(t.Context(), b); !errors.Is(err, storage.ErrStale) {
		t.Fatalf("got %v", err)
	}
	if state := s.State(); state.Intent != nil {
		t.Errorf("intent %+v", state.Intent)
	}
	// After the intent: the drop has to wait.
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	st2, s2, clk2 := built(t, "cow_basic")
	operator2 := open(t, st2, live(clk2, "operator"))
	b = follow(idx, last(t, st2))
	state, err := s2.Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Revision = state.Revision
	b.Recheck = nil
	rechecked := func() { staged = operator2.Drop(t.Context(), idx) }
	s2.cfg.Recheck = func(context.Context, Standing) error { rechecked(); return nil }
	if _, err := s2.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(staged, ErrBusy) || storage.Hint(staged) == "" {
		t.Errorf("drop during a commit: %v", staged)
	}
	if err := operator2.Drop(t.Context(), idx); err != nil {
		t.Errorf("drop after it: %v", err)
	}
}

func TestDropAndRetention(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(t.Context(), idx); err != nil {
		t.Fatal(err)
	}
	state := s.State()
	x := state.Indexes[idx]
	if !x.Dropped || x.Generations[0].State != mdt.GenDropped || len(state.Live("")) != 0 || len(state.Retired) != groups+1 {
		t.Fatalf("after drop: %+v, %d retired", x, len(state.Retired))
	}
	if err := s.Drop(t.Context(), idx); err != nil {
		t.Errorf("dropped again: %v", err)
	}
	if err := s.Drop(t.Context(), "other"); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("unknown index: %v", err)
	}
	count := func() (n int) {
		for _, p := range st.Paths() {
			if strings.Contains(p, "vector_index_") {
				n++
			}
		}
		return n
	}
	clk.advance(59 * time.Minute)
	two := acquired(t, st, config(clk, "two"))
	if count() != groups+1 {
		t.Errorf("%d files: readers that started before still need them", count())
	}
	clk.advance(2 * time.Minute)
	if err := two.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if count() != 0 || len(two.State().Retired) != 0 {
		t.Errorf("%d files and %d entries are left after the retention", count(), len(two.State().Retired))
	}
}

func TestCreateAgainDeletesRetiredFilesFirst(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	old := s.State().Live(idx)
	if err := s.Drop(t.Context(), idx); err != nil {
		t.Fatal(err)
	}
	b := bootstrap(idx)
	b.Recheck = func(context.Context) error {
		for _, f := range old {
			if _, err := st.Stat(t.Context(), mdt.Inside(st).File(f.Path)); err == nil {
				t.Errorf("%s is still there when the new files are", f.Path)
			}
		}
		return nil
	}
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	state := s.State()
	if len(state.Retired) != 0 || state.Indexes[idx].LastGeneration() != 2 || len(state.Live(idx)) != groups {
		t.Errorf("%+v", state)
	}
}

// TestUnfinishedGeneration starts a build anew over one that never became active: its files go at once.
func TestUnfinishedGeneration(t *testing.T) {
	t.Parallel()
	c := newClock()
	st := table(t, "cow_basic")
	st.SetClock(c.Now)
	s := acquired(t, st, config(c, "one"))
	for range 2 {
		if _, err := s.Commit(t.Context(), bootstrap(idx)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(strings.Join(st.Paths(), "\n"), ".hfile\n"); strings.Count(strings.Join(st.Paths(), "\n"), "vector_index_") != groups {
		t.Errorf("files are left (%d base files in all)", got)
	}
	if state := s.State(); len(state.Retired) != 0 || len(state.Indexes[idx].Building) != groups {
		t.Errorf("%+v", state)
	}
}

func TestUpdateWithoutState(t *testing.T) {
	t.Parallel()
	s := open(t, table(t, "cow_basic"), config(newClock(), "one"))
	if err := s.Update(t.Context(), func(*mdt.State) error { return nil }); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestBadTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fixture string
		want    error
	}{
		{"v6", storage.ErrUnsupported},
		{"flink_v6_mor", storage.ErrUnsupported},
	} {
		st := table(t, c.fixture)
		before := snapshot(t, st)
		s := open(t, st, config(newClock(), "one"))
		if err := s.Acquire(t.Context()); !errors.Is(err, c.want) || storage.Hint(err) == "" {
			t.Errorf("%s: %v", c.fixture, err)
		}
		if snapshot(t, st) != before {
			t.Errorf("%s: something was written", c.fixture)
		}
	}
	if _, err := Open(t.Context(), mdt.Place{}, Config{}); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("no place: %v", err)
	}
}
