package sink

import (
	"context"
	"errors"
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
// is taken up as after a kill in order. In the fast set each call in one of these ways.
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
	kills := 0
	for n := 1; ; n++ {
		ended := false
		ways := []fault.Config{{StopAt: n}, {StopAt: n, StopAfter: true}, {FailAt: n}, {FailAt: n, FailAfter: true}}
		if os.Getenv("TIDEMARK_TEST_LONG") == "" {
			ways = ways[n%len(ways):][:1]
		}
		for _, cfg := range ways {
			left := start.Clone()
			layer := fault.New(left, cfg)
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
				s = open(t, broad{left}, config(c, "second"))
			}
			if err := work(context.Background(), s, due); err != nil {
				t.Fatalf("%+v: once more: %v", cfg, err)
			}
			if got := content(t, left); got != want {
				t.Fatalf("%+v: got\n%s\nwant\n%s", cfg, got, want)
			}
			checkTidy(t, start, left, "killed at once")
		}
		if ended {
			break
		}
	}
	t.Logf("%d kills", kills)
}
