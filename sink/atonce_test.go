package sink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

// broad answers several calls at once, as a store behind a network does; those of the other tests are asked for one thing at a time.
type broad struct{ storage.Store }

func (broad) Broad() bool { return true }

// TestAtOnce makes the calls of a step at once: what is there in the end is the same, and so are the requests but for their order.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	start := table(t, "cow_basic")
	due := writes(t, start)
	due = due[len(due)-1:]
	c := newClock()
	start.SetClock(c.Now)
	run := func(wrap func(storage.Store) storage.Store) (*mem.Store, []string) {
		st := start.Clone()
		layer := fault.New(st, fault.Config{})
		if err := work(t.Context(), open(t, wrap(layer), config(c, "one")), due); err != nil {
			t.Fatal(err)
		}
		calls := slices.DeleteFunc(layer.Trace(), func(call string) bool { // of looks with news, listing and Stat are made twice
			return strings.HasSuffix(call, ".hoodie/timeline") || strings.HasSuffix(call, "hoodie.properties")
		})
		slices.Sort(calls)
		return st, calls
	}
	one, calls := run(func(st storage.Store) storage.Store { return st })
	two, atOnce := run(func(st storage.Store) storage.Store { return broad{st} })
	if !slices.Equal(one.Paths(), two.Paths()) || snapshot(t, one) != snapshot(t, two) {
		t.Error("other files")
	}
	if !slices.Equal(calls, atOnce) {
		t.Errorf("asked for\n%s\nwant\n%s", strings.Join(atOnce, "\n"), strings.Join(calls, "\n"))
	}
}

// TestKillAtOnce kills at the n-th call, and lets it fail with its outcome hidden, where which call that is depends on chance: whatever is left
// is taken up as after a kill in order. In the fast set each call in one of these ways; otherwise whoever recovers from a kill is killed, too, at
// every call.
func TestKillAtOnce(t *testing.T) {
	t.Parallel()
	start := table(t, "cow_basic")
	due := writes(t, start)
	due = due[len(due)-1:]
	c := newClock()
	start.SetClock(c.Now)
	ideal := start.Clone()
	if err := work(t.Context(), open(t, ideal, config(c, "ideal")), due); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	long := os.Getenv("TIDEMARK_TEST_LONG") != ""
	left, kills, pairs := map[string]*mem.Store{}, 0, 0
	right := func(what string, st *mem.Store) {
		t.Helper()
		if got := content(t, st); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
		checkTidy(t, start, st, what)
	}
	for n := 1; ; n++ {
		ended := false
		ways := []fault.Config{{StopAt: n}, {StopAt: n, StopAfter: true}, {FailAt: n}, {FailAt: n, FailAfter: true}}
		if !long {
			ways = ways[n%len(ways):][:1]
		}
		for _, cfg := range ways {
			st := start.Clone()
			layer := fault.New(st, cfg)
			s := open(t, broad{layer}, config(c, "first"))
			err := work(t.Context(), s, due)
			if ended = layer.Calls() < n; ended {
				break
			}
			kills++
			if err != nil && !errors.Is(err, fault.ErrKilled) && !errors.Is(err, fault.ErrUnknown) {
				t.Fatalf("%+v: %v", cfg, err)
			}
			if cfg.StopAt > 0 {
				if key := snapshot(t, st); long && left[key] == nil {
					left[key] = st.Clone()
				}
				s = open(t, broad{st}, config(c, "second"))
			}
			if err := work(context.Background(), s, due); err != nil {
				t.Fatalf("%+v: once more: %v", cfg, err)
			}
			right(fmt.Sprintf("%+v", cfg), st)
		}
		if ended {
			break
		}
	}
	for _, from := range left {
		for n, ended := 1, false; !ended; n++ {
			for _, after := range []bool{false, true} {
				st := from.Clone()
				layer := fault.New(st, fault.Config{StopAt: n, StopAfter: after})
				err := work(t.Context(), open(t, broad{layer}, config(c, "second")), due)
				if ended = layer.Calls() < n; ended {
					break
				}
				pairs++
				if err != nil && !errors.Is(err, fault.ErrKilled) {
					t.Fatalf("recovery killed at call %d: %v", n, err)
				}
				if err := work(t.Context(), open(t, broad{st}, config(c, "third")), due); err != nil {
					t.Fatalf("recovery killed at call %d: the third process: %v", n, err)
				}
				right(fmt.Sprintf("recovery killed at call %d, after %v", n, after), st)
			}
		}
	}
	t.Logf("a commit, calls at once: %d kills and hidden outcomes, %d kills of the recovery from %d different states", kills, pairs, len(left))
}
