package sink

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

// process runs one process image on a store until its work is done or the store fails.
type process func(ctx context.Context, st *fault.Store) error

// isWrite says whether a call of a trace has an effect.
func isWrite(call string) bool {
	op, _, _ := strings.Cut(call, " ")
	return op == "create" || op == "replace" || op == "delete"
}

// trace returns the calls of a run without a kill.
func trace(t *testing.T, start *mem.Store, image process) []string {
	t.Helper()
	st := fault.New(start.Clone(), fault.Config{})
	if err := image(t.Context(), st); err != nil {
		t.Fatalf("run without a kill: %v", err)
	}
	return st.Trace()
}

// forEachKill runs the process image once per storage call, stopped before and after the call's effect, on a copy of start;
// then check sees each store that a killed image can leave. A call without effect leaves the store of the call before,
// which is checked once; with reads it is run all the same. It returns the number of kills.
func forEachKill(t *testing.T, start *mem.Store, reads bool, image process, check func(t *testing.T, what string, left *mem.Store)) int {
	t.Helper()
	checked := int64(-1)
	kills := 0
	kill := func(n int, call string, after bool) {
		left := start.Clone()
		st := fault.New(left, fault.Config{StopAt: n, StopAfter: after})
		err := image(t.Context(), st)
		kills++
		what := map[bool]string{false: "killed before ", true: "killed after "}[after] + call
		if got := st.Trace()[n-1]; got != call {
			t.Fatalf("%s: call %d is %s now: the run is not deterministic", what, n, got)
		}
		if err == nil && !strings.HasPrefix(call, "delete ") { // deleting what is no longer in use may wait
			t.Errorf("%s: no error", what)
		}
		if v := left.Version(); v != checked {
			checked = v
			check(t, what, left)
		}
	}
	for i, call := range trace(t, start, image) {
		if reads || isWrite(call) {
			kill(i+1, call, false)
		}
		if isWrite(call) {
			kill(i+1, call, true)
		}
	}
	return kills
}

func TestKillAtEveryCall(t *testing.T) {
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
	checkTidy(t, table, ideal, "without a kill")

	image := func(ctx context.Context, st *fault.Store) error {
		return work(ctx, open(t, st, config(c, "first")), due)
	}
	kills := forEachKill(t, table, true, image, func(t *testing.T, what string, left *mem.Store) {
		if err := work(t.Context(), open(t, left, config(c, "second")), due); err != nil {
			t.Fatalf("%s: the next process: %v", what, err)
		}
		if got := content(t, left); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
		checkTidy(t, table, left, what)
	})
	t.Logf("bootstrap, activation and a commit: %d kills", kills)
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
	twoKills(t, start, table, 1, func(ctx context.Context, st storage.Store, owner string) error {
		return work(ctx, open(t, st, config(c, owner)), due)
	})
}

// twoKills kills a process, and the one that recovers, at every call that leaves something different behind, and compares what a third one
// makes of it with a run without a kill. In the fast set it takes one pair of so many.
func twoKills(t *testing.T, start, bare *mem.Store, sample int, work func(ctx context.Context, st storage.Store, owner string) error) {
	long := os.Getenv("TIDEMARK_TEST_LONG") != ""
	if long {
		sample = 1
	}
	ideal := start.Clone()
	if err := work(t.Context(), ideal, "ideal"); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	image := func(owner string) process {
		return func(ctx context.Context, st *fault.Store) error { return work(ctx, st, owner) }
	}
	seen := map[string]bool{}
	kills, pairs := 0, 0
	forEachKill(t, start, long, image("first"), func(t *testing.T, what string, left *mem.Store) {
		key := snapshot(t, left)
		if seen[key] {
			return
		}
		seen[key] = true
		kills += forEachKill(t, left, long, image("second"), func(t *testing.T, what2 string, left *mem.Store) {
			if pairs++; pairs%sample != 0 {
				return
			}
			if err := work(t.Context(), left, "third"); err != nil {
				t.Fatalf("%s, then %s: %v", what, what2, err)
			}
			if got := content(t, left); got != want {
				t.Fatalf("%s, then %s: got\n%s\nwant\n%s", what, what2, got, want)
			}
			checkTidy(t, bare, left, what+", then "+what2)
		})
	})
	t.Logf("%d different states after a kill, %d kills of the recovery, %d pairs that differ, one of %d checked", len(seen), kills, pairs, sample)
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
	redo := func(ctx context.Context, s *Sink) error {
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
	if err := redo(t.Context(), open(t, ideal, config(c, "ideal"))); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	image := func(ctx context.Context, st *fault.Store) error { return redo(ctx, open(t, st, config(c, "first"))) }
	kills := forEachKill(t, start, os.Getenv("TIDEMARK_TEST_LONG") != "", image, func(t *testing.T, what string, left *mem.Store) {
		s := open(t, left, config(c, "second"))
		if err := redo(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := content(t, left); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	})
	t.Logf("drop and create again: %d kills", kills)
}

// TestUnknownOutcome lets one call of a commit fail with its outcome hidden; the same process goes on.
func TestUnknownOutcome(t *testing.T) {
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
	calls := trace(t, start, func(ctx context.Context, st *fault.Store) error { return work(ctx, open(t, st, config(c, "one")), due) })
	for i, call := range calls {
		for _, after := range []bool{false, true} {
			if after && !isWrite(call) {
				break
			}
			left := start.Clone()
			st := fault.New(left, fault.Config{FailAt: i + 1, FailAfter: after})
			s := open(t, st, config(c, "one"))
			if err := work(t.Context(), s, due); err != nil && !errors.Is(err, fault.ErrUnknown) {
				t.Fatalf("call %d %s: %v", i+1, call, err)
			}
			if err := work(t.Context(), s, due); err != nil {
				t.Fatalf("call %d %s, once more: %v", i+1, call, err)
			}
			if got := content(t, left); got != want {
				t.Fatalf("call %d %s: got\n%s\nwant\n%s", i+1, call, got, want)
			}
			checkTidy(t, table, left, call)
		}
	}
}
