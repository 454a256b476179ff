package sink

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/host"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/lock/filelock"
	"tidemark/internal/lock/storagelock"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
)

// watched is a lock that writes down when it is taken, checked and given back, and can be lost.
type watched struct {
	note func(what string)
	lose func(check int) error
	n    int
}

func (w *watched) Lock(context.Context) (lock.Held, error) { w.note("lock"); return w, nil }
func (w *watched) Unlock(context.Context) error            { w.note("unlock"); return nil }
func (w *watched) Check(context.Context) error {
	w.n++
	if w.lose == nil {
		return nil
	}
	return w.lose(w.n)
}

// The lock is held from before step 5 looks again until the commit file is there, and at no other time.
func TestLockIsHeldForTheLastSteps(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	var notes []string
	held := false
	w := &watched{note: func(what string) { held = what == "lock"; notes = append(notes, what) }}
	layer := fault.New(st, fault.Config{Before: func(_ int, op, p string) error {
		what := op + " " + kindOf(p)
		if op == "create" || op == "replace" {
			notes = append(notes, what)
			if what == "create deltacommit" != held && what != "replace state" {
				t.Errorf("%s, held %t", what, held)
			}
		}
		return nil
	}})
	cfg := config(clk, "two")
	cfg.Lock = w
	s2 := acquired(t, layer, cfg)
	notes = nil
	if _, err := s2.Commit(t.Context(), follow(idx, last(t, st))); err != nil {
		t.Fatal(err)
	}
	want := "replace state, create log, create log, lock, replace state, create deltacommit, unlock, replace state"
	if got := strings.Join(notes, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A lock that is lost before step 6, or between 6 and 7, makes the commit redo; one that is lost each time makes it fail, with nothing visible.
func TestLostLockIsRedone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose func(n int) error
		ok   bool
	}{
		{"before step 6", func(n int) error { return lostIf(n == 1) }, true},
		{"before step 7", func(n int) error { return lostIf(n == 2) }, true},
		{"twice", func(n int) error { return lostIf(n == 2 || n == 3) }, true},
		{"always", func(int) error { return lock.ErrLost }, false},
		{"always before step 7", func(n int) error { return lostIf(n%2 == 0) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, s, clk := built(t, "cow_basic")
			_ = s.Release(t.Context())
			before := table(t, "cow_basic")
			cfg := config(clk, "two")
			cfg.Lock = &watched{note: func(string) {}, lose: c.lose}
			s2 := acquired(t, st, cfg)
			i := last(t, st)
			id, err := s2.Commit(t.Context(), follow(idx, i))
			if (err == nil) != c.ok || err != nil && !errors.Is(err, storage.ErrStale) {
				t.Fatalf("%s, %v", id, err)
			}
			if err := s2.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
			if err != nil {
				t.Fatal(err)
			}
			if _, covered := state.Indexes[idx].Covered[i.Requested]; covered != c.ok {
				t.Errorf("covered %t", covered)
			}
			checkTidy(t, before, st, c.name)
		})
	}
}

func lostIf(lost bool) error {
	if lost {
		return lock.ErrLost
	}
	return nil
}

// A lock that someone else holds takes the batch back; nothing is left behind, and the next try works.
func TestHeldLock(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(st storage.Store) lock.Locker{
		"storage": func(st storage.Store) lock.Locker {
			return storagelock.New(st, storagelock.Config{Wait: 1, Skew: 1 << 62})
		},
		"file": func(st storage.Store) lock.Locker { return filelock.New(st, filelock.Config{Wait: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, s, clk := built(t, "cow_basic")
			_ = s.Release(t.Context())
			other, err := of(st).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(clk, "two")
			cfg.Lock = of(st)
			s2 := acquired(t, st, cfg)
			b := follow(idx, last(t, st))
			if _, err := s2.Commit(t.Context(), b); !errors.Is(err, lock.ErrHeld) || storage.Hint(err) == "" {
				t.Errorf("held: %v", err)
			}
			if st := s2.State(); st.Intent != nil || len(st.Burned) > 0 {
				t.Errorf("left: %+v", st)
			}
			if err := other.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s2.Commit(t.Context(), b); err != nil {
				t.Errorf("free: %v", err)
			}
		})
	}
}

// With a lock configured its file is the only thing outside our places that is written, and without one it is not.
func TestLockFileIsAllThatIsWritten(t *testing.T) {
	t.Parallel()
	for file, of := range map[string]func(st storage.Store) lock.Locker{
		"":                               func(storage.Store) lock.Locker { return nil },
		".hoodie/.locks/table_lock.json": func(st storage.Store) lock.Locker { return storagelock.New(st, storagelock.Config{Skew: 1 << 62}) },
		".hoodie/.aux/lock":              func(st storage.Store) lock.Locker { return filelock.New(st, filelock.Config{Dir: ".hoodie/.aux"}) },
	} {
		st := table(t, "cow_basic")
		var foreign []string
		own := storage.AllowOwn(".hoodie/.tidemark", ".hoodie/metadata")
		layer := fault.New(st, fault.Config{Before: func(_ int, op, p string) error {
			if slices.Contains([]string{"create", "replace", "delete"}, op) && !own(p) {
				foreign = append(foreign, p)
			}
			return nil
		}})
		cfg := config(newClock(), "one")
		cfg.Lock = of(layer)
		s := acquired(t, layer, cfg)
		for _, b := range []Batch{bootstrap(idx), activate(idx), follow(idx, last(t, st))} {
			if _, err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if slices.ContainsFunc(foreign, func(p string) bool { return p != file }) || (len(foreign) == 0) != (file == "") {
			t.Errorf("lock %q: written %q", file, foreign)
		}
	}
}

// The table's lock that a process left behind when it was killed is given back by the next one that gets the lease, whether or not that
// has anything to commit.
func TestLockLeftBehind(t *testing.T) {
	t.Parallel()
	self, ok := host.Self()
	c := exec.Command("true")
	if err := c.Run(); err != nil || !ok {
		t.Skip("no process can be told to be dead here")
	}
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	dead := "tidemark-A@" + host.Process{Host: self.Host, PID: c.Process.Pid, Start: 1}.String()
	if _, err := st.Create(t.Context(), ".hoodie/lock", []byte(`{"lockThreadName":"`+dead+`"}`)); err != nil {
		t.Fatal(err)
	}
	cfg := config(clk, "two")
	cfg.Lock = filelock.New(st, filelock.Config{})
	acquired(t, st, cfg)
	if _, err := st.Stat(t.Context(), ".hoodie/lock"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the lock is still there: %v", err)
	}
}
