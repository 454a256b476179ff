package storagelock

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/lock"
	"tidemark/internal/lock/locktest"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	var st *mem.Store
	var dead atomic.Bool
	locktest.Run(t, locktest.Kind{
		Wait: 20 * time.Second, Dies: 300*time.Second + 36*time.Second, Renews: true,
		Open: func(t *testing.T) (lock.Locker, lock.Locker) {
			st = mem.New("t")
			dead.Store(false)
			one := fault.New(st, fault.Config{Before: func(int, string, string) error {
				if dead.Load() {
					return fault.ErrKilled
				}
				return nil
			}})
			cfg := Config{Wait: 20 * time.Second}
			return New(one, cfg), New(st, cfg)
		},
		Kill: func(*testing.T) { dead.Store(true) },
		Steal: func(t *testing.T) {
			st.Put(Path, data{ValidUntil: time.Now().Add(time.Hour).UnixMilli(), Owner: "thief"}.encode(), time.Now())
		},
	})
}

// The bytes are those that Hudi's classes write.
func TestContent(t *testing.T) {
	t.Parallel()
	got := string(data{false, 1796008413123, "0b7e2a4e-4a4c-4d1d-9f7e-3f8a51c7f2c1"}.encode())
	if want := `{"expired":false,"validUntil":1796008413123,"owner":"0b7e2a4e-4a4c-4d1d-9f7e-3f8a51c7f2c1"}`; got != want {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct {
		name, text string
		want       data
		bad        bool
	}{
		{"another order, unknown fields", `{"owner":"x","later":{"a":[1]},"validUntil":5,"expired":true}`, data{true, 5, "x"}, false},
		{"null", `{"expired":null,"validUntil":5,"owner":"x"}`, data{}, true},
		{"missing", `{"expired":true,"validUntil":5}`, data{}, true},
		{"not JSON", `x`, data{}, true},
		{"empty", ``, data{}, true},
		{"a list", `[]`, data{}, true},
	} {
		d, err := decode([]byte(c.text))
		if errors.Is(err, storage.ErrCorrupt) != c.bad || d != c.want {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
}

// inBubble runs fn with a store whose lock file another client may have written.
func inBubble(t *testing.T, fn func(t *testing.T, st *mem.Store)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { fn(t, mem.New("t")) })
}

func until(d time.Duration) int64 { return time.Now().Add(d).UnixMilli() }

// A lock that was given back is taken at once, one whose time is over only after it was watched, and one that is renewed meanwhile never: then it is
// our clock that is wrong.
func TestClockAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, st *mem.Store) {
		ahead := func() time.Time { return time.Now().Add(time.Hour) }
		l := New(st, Config{Now: ahead, Skew: 2 * time.Hour})
		st.Put(Path, data{true, until(300 * time.Second), "other"}.encode(), time.Now())
		began := time.Now()
		h, err := l.Lock(t.Context())
		if err != nil || time.Since(began) > 0 {
			t.Fatalf("given back: %v after %s", err, time.Since(began))
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		renew := func() { st.Put(Path, data{false, until(300 * time.Second), "other"}.encode(), time.Now()) }
		renew()
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(30 * time.Second):
					renew()
				}
			}
		}()
		if _, err := l.Lock(t.Context()); !errors.Is(err, lock.ErrHeld) || storage.Hint(err) == "" && !strings.Contains(err.Error(), "held") {
			t.Errorf("renewed: %v", err)
		}
		close(done)
		synctest.Wait()
		began = time.Now()
		h, err = l.Lock(t.Context())
		if err != nil || time.Since(began) < 35*time.Second {
			t.Fatalf("abandoned: %v after %s", err, time.Since(began))
		}
		_ = h.Unlock(t.Context())
	})
}

// A clock that is an hour away from the store's does not get the lock: others could not tell when it is over.
func TestClockAwayFromTheStores(t *testing.T) {
	inBubble(t, func(t *testing.T, st *mem.Store) {
		for _, d := range []time.Duration{time.Hour, -time.Hour} {
			now := func() time.Time { return time.Now().Add(d) }
			_, err := New(st, Config{Now: now}).Lock(t.Context())
			if !errors.Is(err, storage.ErrRefused) || !strings.Contains(storage.Hint(err), "clock") {
				t.Errorf("%s: %v", d, err)
			}
		}
		h, err := New(st, Config{}).Lock(t.Context()) // it was given back
		if err != nil {
			t.Fatal(err)
		}
		_ = h.Unlock(t.Context())
	})
}

// A write whose answer is lost is found out by reading; while nothing can be found out the lock is not held, or runs out.
func TestUnknownOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, st *mem.Store) {
		for call := 1; call <= 6; call++ {
			for _, after := range []bool{false, true} {
				layer := fault.New(st, fault.Config{FailAt: call, FailAfter: after})
				h, err := New(layer, Config{}).Lock(t.Context())
				if err != nil {
					t.Fatalf("call %d: %v", call, err)
				}
				if err := h.Check(t.Context()); err != nil && !errors.Is(err, fault.ErrUnknown) {
					t.Errorf("call %d: check: %v", call, err)
				}
				if err := h.Unlock(t.Context()); err != nil && !errors.Is(err, fault.ErrUnknown) {
					t.Errorf("call %d: unlock: %v", call, err)
				}
				time.Sleep(10 * time.Minute)
			}
		}
		// Everything fails for a while: it counts as held until its time is over, not longer.
		var broken atomic.Bool
		layer := fault.New(st, fault.Config{Before: func(int, string, string) error {
			if broken.Load() {
				return fault.ErrUnknown
			}
			return nil
		}})
		h, err := New(layer, Config{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		time.Sleep(200 * time.Second)
		broken.Store(false)
		if err := h.Check(t.Context()); err != nil {
			t.Errorf("within its time: %v", err)
		}
		time.Sleep(45 * time.Second) // renewed
		broken.Store(true)
		time.Sleep(301 * time.Second)
		broken.Store(false)
		if err := h.Check(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("beyond its time: %v", err)
		}
		if err := h.Unlock(context.WithoutCancel(t.Context())); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
	})
}

// A damaged file is nobody's lock, and nobody can take it: said at once.
func TestDamaged(t *testing.T) {
	inBubble(t, func(t *testing.T, st *mem.Store) {
		st.Put(Path, []byte("{"), time.Now())
		if _, err := New(st, Config{}).Lock(t.Context()); !errors.Is(err, storage.ErrCorrupt) || storage.Hint(err) == "" {
			t.Errorf("got %v", err)
		}
	})
}

// Given back, the file says so, with owner and time as they were.
func TestGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, st *mem.Store) {
		h, err := New(st, Config{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := st.ReadFile(t.Context(), Path)
		if err != nil {
			t.Fatal(err)
		}
		held, err := decode(b)
		if err != nil || held.Expired || held.ValidUntil != until(300*time.Second) {
			t.Errorf("%s, %v", b, err)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, _, err = st.ReadFile(t.Context(), Path)
		if err != nil {
			t.Fatal(err)
		}
		held.Expired = true
		if got, err := decode(b); err != nil || got != held {
			t.Errorf("%s, %v", b, err)
		}
	})
}

// A context that ends while the lock file is read, without the read failing, takes no lock.
func TestContextEndsDuringTheRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h, err := New(&ending{Store: mem.New("t"), end: cancel}, Config{}).Lock(ctx)
	if h != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", h, err)
	}
}

// ending ends a context when a file has been read.
type ending struct {
	storage.Store
	end context.CancelFunc
}

func (s *ending) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	defer s.end()
	return s.Store.ReadFile(ctx, path)
}
