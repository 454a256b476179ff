package sink

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/host"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

// live is a config whose process is there.
func live(c *clock, owner string) Config {
	cfg := config(c, owner)
	cfg.Alive = func(int) bool { return true }
	return cfg
}

func TestOneHoldsTheLease(t *testing.T) {
	t.Parallel()
	c := newClock()
	st := table(t, "cow_basic")
	st.SetClock(c.Now)
	one, two := open(t, st, live(c, "one")), open(t, st, live(c, "two"))
	if err := one.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var held *LeaseError
	if err := two.Acquire(t.Context()); !errors.As(err, &held) || held.Owner != "one" || !held.Until.Equal(c.Now().Add(30*time.Second)) {
		t.Fatalf("second owner: %v", err)
	}
	if _, err := two.Commit(t.Context(), bootstrap(idx)); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("commit without a lease: %v", err)
	}
	if err := one.Acquire(t.Context()); err != nil || one.State().Epoch != 1 {
		t.Errorf("acquired again: %v, epoch %d", err, one.State().Epoch)
	}
	for range 2 {
		if err := one.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := two.Acquire(t.Context()); err != nil || two.State().Epoch != 2 {
		t.Errorf("after release: %v, epoch %d", err, two.State().Epoch)
	}
	if err := two.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(cfg *Config)
		wait time.Duration
		want bool
	}{
		{"alive and valid", func(*Config) {}, 29 * time.Second, false},
		{"alive, lease ended", func(*Config) {}, 31 * time.Second, true},
		{"dead on this host", func(cfg *Config) { cfg.Alive = func(int) bool { return false } }, 0, true},
		{"dead pid of another host", func(cfg *Config) {
			cfg.Host, cfg.Alive = "elsewhere", func(int) bool { return false }
		}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clk := newClock()
			st := table(t, "cow_basic")
			st.SetClock(clk.Now)
			one := open(t, st, live(clk, "one"))
			if err := one.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			cfg := live(clk, "two")
			c.edit(&cfg)
			clk.advance(c.wait)
			two := open(t, st, cfg)
			err := two.Acquire(t.Context())
			if (err == nil) != c.want {
				t.Errorf("takeover: %v", err)
			}
			for _, s := range []*Sink{two, one} { // releasing a lost lease is no error
				if err := s.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A lease whose owner's clock is far ahead is over once nobody has renewed it for as long as one lasts, and is its owner's while that lives.
func TestLeaseOfAClockAhead(t *testing.T) {
	t.Parallel()
	for _, lives := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := table(t, "cow_basic")
			st.SetClock(time.Now)
			far := Config{Owner: "far", Host: "far", PID: 1, Create: true, Now: func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }}
			one := open(t, st, far)
			if err := one.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !lives { // killed: nothing renews it any more
				one.turn.Lock()
				one.stop()
				<-one.done
				one.turn.Unlock()
			}
			two := open(t, st, Config{Owner: "two", Host: "near", PID: 2})
			var held *LeaseError
			var err error
			for until := time.Now().Add(two.WatchLease()); time.Now().Before(until); time.Sleep(5 * time.Second) {
				if err = two.Acquire(t.Context()); err == nil {
					break
				}
				if !errors.As(err, &held) || !held.Ahead {
					t.Fatal(err)
				}
			}
			if (err != nil) != lives {
				t.Errorf("its owner lives: %v, taken over: %v", lives, err)
			}
			if _, err := one.Commit(t.Context(), bootstrap(idx)); !lives && !errors.Is(err, ErrLeaseLost) {
				t.Errorf("the other owner commits: %v", err)
			}
			for _, s := range []*Sink{two, one} {
				if err := s.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestPausedOwner pauses an owner at each of its writing calls until its lease has ended and a successor has done the work.
// The paused one must make nothing visible.
func TestPausedOwner(t *testing.T) {
	t.Parallel()
	clk := newClock()
	base := table(t, "cow_basic")
	base.SetClock(clk.Now)
	due := writes(t, base)
	due = due[len(due)-1:]
	start := base.Clone()
	if err := work(t.Context(), open(t, start, live(clk, "zero")), nil); err != nil {
		t.Fatal(err)
	}
	ideal := start.Clone()
	if err := work(t.Context(), open(t, ideal, live(clk, "ideal")), due); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	for n := 1; ; n++ {
		c := newClock()
		st := start.Clone()
		st.SetClock(c.Now)
		paused := false
		var successor error
		layer := fault.New(st, fault.Config{Before: func(call int, op, p string) error {
			if call == n {
				paused = true
				c.advance(time.Minute)
				successor = work(context.Background(), open(t, st, live(c, "two")), due)
			}
			return nil
		}})
		one := open(t, layer, live(c, "one"))
		err := work(t.Context(), one, due)
		if !paused {
			t.Logf("paused at each of %d calls", n-1)
			return
		}
		what := layer.Trace()[n-1]
		if successor != nil {
			t.Fatalf("paused at %s: successor: %v", what, successor)
		}
		if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrStale) {
			t.Errorf("paused at %s: the old owner: %v", what, err)
		}
		// One more owner sweeps what the paused one may still have written.
		if err := work(t.Context(), open(t, st, live(c, "three")), due); err != nil {
			t.Fatal(err)
		}
		if got := content(t, st); got != want {
			t.Fatalf("paused at %s: got\n%s\nwant\n%s", what, got, want)
		}
		names := snapshotNames(t, st)
		for _, p := range st.Paths() {
			if strings.Contains(p, "vector_index_") && !strings.Contains(names, p) {
				t.Errorf("paused at %s: left behind: %s", what, p)
			}
		}
	}
}

// TestFencedOwner pauses an owner at each call of a commit while a successor takes the lease and keeps it: whatever the old
// one does next fails, and the successor finishes the work.
func TestFencedOwner(t *testing.T) {
	t.Parallel()
	base, s, _ := built(t, "cow_basic")
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	due := writes(t, base)
	due = due[len(due)-1:]
	for n := 1; ; n++ {
		c := newClock()
		st := base.Clone()
		st.SetClock(c.Now)
		two := open(t, st, live(c, "two"))
		calls := 0
		layer := fault.New(st, fault.Config{Before: func(_ int, op, p string) error {
			if !isWrite(op+" "+p) || strings.HasSuffix(p, "/probe") {
				return nil
			}
			if calls++; calls == n {
				c.advance(time.Minute)
				if err := two.Acquire(context.Background()); err != nil {
					t.Error(err)
				}
			}
			return nil
		}})
		err := work(t.Context(), open(t, layer, live(c, "one")), due)
		if calls < n {
			break
		}
		state, _, readErr := mdt.ReadState(t.Context(), mdt.Inside(st))
		if readErr != nil {
			t.Fatal(readErr)
		}
		fenced := errors.Is(err, storage.ErrConflict) || errors.As(err, new(*LeaseError))
		released := err == nil && n == 8 // paused when only giving back the lease was left
		if errors.Is(err, ErrFilesGone) {
			t.Errorf("write %d: a fenced owner says that the index is gone: %v", n, err)
		}
		if state.Owner != "two" || state.Intent != nil || !fenced && !released {
			t.Errorf("write %d: owner %q, intent %v, old owner: %v", n, state.Owner, state.Intent, err)
		}
		if err := work(t.Context(), two, due); err != nil {
			t.Errorf("write %d: successor: %v", n, err)
		}
		if got, _, _ := mdt.ReadState(t.Context(), mdt.Inside(st)); len(got.Indexes[idx].Covered) != 1 {
			t.Errorf("write %d: covered %v", n, got.Indexes[idx].Covered)
		}
	}
}

func snapshotNames(t *testing.T, st *mem.Store) string {
	t.Helper()
	place := mdt.Inside(st)
	state, _, err := mdt.ReadState(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range state.Live("") {
		b.WriteString(place.File(f.Path) + "\n")
	}
	for _, r := range state.Retired {
		b.WriteString(place.File(r.Path) + "\n")
	}
	return b.String()
}

// TestManyOwners lets sinks of several live processes fight for the work; each instant is covered once.
func TestManyOwners(t *testing.T) {
	t.Parallel()
	c := newClock()
	st := table(t, "cow_basic")
	due := writes(t, st)
	var wg sync.WaitGroup
	for _, owner := range []string{"one", "two", "three"} {
		wg.Go(func() {
			cfg := live(c, owner)
			cfg.Now = time.Now
			s := open(t, st, cfg)
			for range 10000 {
				err := work(t.Context(), s, due)
				if err == nil {
					return
				}
				if !errors.Is(err, storage.ErrRefused) && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrStale) {
					t.Errorf("%s: %v", owner, err)
					return
				}
			}
			t.Errorf("%s never got a turn", owner)
		})
	}
	wg.Wait()
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, commit := range state.Commits {
		for _, i := range commit.Covered {
			times[i.Requested]++
		}
	}
	for _, i := range due {
		if times[i.Requested] != 1 {
			t.Errorf("instant %s is covered %d times", i.Requested, times[i.Requested])
		}
	}
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	base := table(t, "cow_basic")
	synctest.Test(t, func(t *testing.T) {
		base.SetClock(time.Now)
		one := open(t, base, Config{Schema: testSchema, Create: true, Owner: "one", Host: "a"})
		if err := one.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		two := open(t, base, Config{Schema: testSchema, Create: true, Owner: "two", Host: "b"})
		for range 10 {
			<-time.After(20 * time.Second) // of the bubble's clock
			var held *LeaseError
			if err := two.Acquire(t.Context()); !errors.As(err, &held) {
				t.Fatalf("the lease ended while its owner lives: %v", err)
			}
		}
		if err := one.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := two.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := two.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLifecycle releases before, twice and during; synctest fails when a goroutine is left.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	base := table(t, "cow_basic")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, base, Config{Schema: testSchema, Create: true, Owner: "one"})
		if err := s.Release(t.Context()); err != nil {
			t.Errorf("release before acquire: %v", err)
		}
		if s.State() != nil {
			t.Error("a state before the first acquire")
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := s.Acquire(t.Context()); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := s.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire with a cancelled context: %v", err)
		}
	})
}

func TestThisHost(t *testing.T) {
	t.Parallel()
	s := open(t, mem.New("t"), Config{})
	if !s.cfg.Alive(s.cfg.PID) || s.cfg.Host != host.ID() {
		t.Errorf("host %q, process %d", s.cfg.Host, s.cfg.PID)
	}
	if o := open(t, mem.New("t"), Config{}).Owner(); o == s.Owner() || o == "" {
		t.Errorf("two sinks have one owner name %q", o)
	}
}
