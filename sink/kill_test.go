package sink

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

// forEachKill runs the process image once per storage call, stopped before and after the call's effect, on a copy of start;
// then check sees each store that a killed image can leave. Stopping at calls without effect leaves the store of the call
// before: it is checked once. It returns the number of calls of a run without a kill.
func forEachKill(t *testing.T, start *mem.Store, image func(ctx context.Context, st *fault.Store) error, check func(t *testing.T, what string, left *mem.Store)) int {
	t.Helper()
	checked := int64(-1)
	for n := 1; ; n++ {
		for _, after := range []bool{false, true} {
			left := start.Clone()
			st := fault.New(left, fault.Config{StopAt: n, StopAfter: after})
			err := image(t.Context(), st)
			if st.Calls() < n {
				if err != nil {
					t.Fatalf("run without a kill: %v", err)
				}
				return n - 1
			}
			call := st.Trace()[n-1]
			what := map[bool]string{false: "killed before ", true: "killed after "}[after] + call
			if err == nil && !strings.HasPrefix(call, "delete ") { // deleting what is no longer in use may wait
				t.Errorf("%s: no error", what)
			}
			if v := left.Version(); v != checked {
				checked = v
				check(t, what, left)
			}
			if !slices.Contains([]string{"create", "replace", "delete"}, strings.Fields(call)[0]) {
				break // a read has no effect to stop after
			}
		}
	}
}

func TestKillAtEveryCall(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	due := writes(t, table)
	due = due[len(due)-2:]
	c := newClock()
	table.SetClock(c.Now)

	ideal := table.Clone()
	if err := work(t.Context(), open(t, ideal, config(c, "ideal")), due); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	checkTidy(t, table, ideal, "without a kill")

	image := func(ctx context.Context, st *fault.Store) error {
		return work(ctx, open(t, st, config(c, "first")), due)
	}
	calls := forEachKill(t, table, image, func(t *testing.T, what string, left *mem.Store) {
		if err := work(t.Context(), open(t, left, config(c, "second")), due); err != nil {
			t.Fatalf("%s: the next process: %v", what, err)
		}
		if got := content(t, left); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
		checkTidy(t, table, left, what)
	})
	t.Logf("bootstrap, activation and two commits: killed at each of %d calls, before and after", calls)
}

// TestKillRecovery kills the process that recovers, for every state a killed commit can leave.
func TestKillRecovery(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	due := writes(t, table)
	due = due[len(due)-1:]
	c := newClock()
	table.SetClock(c.Now)
	start := table.Clone()
	if err := work(t.Context(), open(t, start, config(c, "zero")), nil); err != nil {
		t.Fatal(err)
	}
	ideal := start.Clone()
	if err := work(t.Context(), open(t, ideal, config(c, "ideal")), due); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)

	image := func(ctx context.Context, st *fault.Store) error {
		return work(ctx, open(t, st, config(c, "first")), due)
	}
	// Only the writing calls leave something different behind.
	seen := map[string]bool{}
	recoveries := 0
	forEachKill(t, start, image, func(t *testing.T, what string, left *mem.Store) {
		if key := snapshot(t, left); seen[key] {
			return
		} else {
			seen[key] = true
		}
		again := func(ctx context.Context, st *fault.Store) error {
			return work(ctx, open(t, st, config(c, "second")), due)
		}
		recoveries += forEachKill(t, left, again, func(t *testing.T, what2 string, left *mem.Store) {
			if err := work(t.Context(), open(t, left, config(c, "third")), due); err != nil {
				t.Fatalf("%s, then %s: %v", what, what2, err)
			}
			if got := content(t, left); got != want {
				t.Fatalf("%s, then %s: got\n%s\nwant\n%s", what, what2, got, want)
			}
			checkTidy(t, table, left, what+", then "+what2)
		})
	})
	t.Logf("%d different states after a kill, recovery killed at %d calls, before and after", len(seen), recoveries)
}

// snapshot is all content of a store as one text.
func snapshot(t *testing.T, st *mem.Store) string {
	t.Helper()
	out := ""
	for _, p := range st.Paths() {
		b, _, err := st.ReadFile(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 1<<16 {
			out += p + "\x00" + string(b) + "\x00"
		}
	}
	return out
}

func TestKillDrop(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	due := writes(t, table)
	due = due[len(due)-1:]
	c := newClock()
	table.SetClock(c.Now)
	start := table.Clone()
	if err := work(t.Context(), open(t, start, config(c, "zero")), due); err != nil {
		t.Fatal(err)
	}
	// Drop, and create again under the same name.
	process := func(ctx context.Context, s *Sink) error {
		if st, err := s.Reload(ctx); err != nil {
			return err
		} else if x := st.Indexes[idx]; !x.Dropped && len(x.Generations) == 1 {
			if err := s.Drop(ctx, idx); err != nil {
				return err
			}
		}
		return work(ctx, s, due)
	}
	ideal := start.Clone()
	if err := process(t.Context(), open(t, ideal, config(c, "ideal"))); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	image := func(ctx context.Context, st *fault.Store) error { return process(ctx, open(t, st, config(c, "first"))) }
	calls := forEachKill(t, start, image, func(t *testing.T, what string, left *mem.Store) {
		s := open(t, left, config(c, "second"))
		if err := process(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := content(t, left); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	})
	t.Logf("drop and create: killed at each of %d calls, before and after", calls)
}

// TestUnknownOutcomeAtEveryCall lets one call fail with its outcome hidden; the same process goes on.
func TestUnknownOutcomeAtEveryCall(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	due := writes(t, table)
	due = due[len(due)-1:]
	c := newClock()
	table.SetClock(c.Now)
	ideal := table.Clone()
	if err := work(t.Context(), open(t, ideal, config(c, "ideal")), due); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	for n := 1; ; n++ {
		for _, after := range []bool{false, true} {
			left := table.Clone()
			st := fault.New(left, fault.Config{FailAt: n, FailAfter: after})
			s := open(t, st, config(c, "one"))
			err := work(t.Context(), s, due)
			if st.Calls() < n {
				return
			}
			if err != nil && !errors.Is(err, fault.ErrUnknown) {
				t.Fatalf("call %d %s: %v", n, st.Trace()[n-1], err)
			}
			if err := work(t.Context(), s, due); err != nil {
				t.Fatalf("call %d %s, once more: %v", n, st.Trace()[n-1], err)
			}
			if got := content(t, left); got != want {
				t.Fatalf("call %d %s: got\n%s\nwant\n%s", n, st.Trace()[n-1], got, want)
			}
			checkTidy(t, table, left, st.Trace()[n-1])
		}
	}
}
