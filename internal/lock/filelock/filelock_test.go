package filelock

import (
	"encoding/json"
	"errors"
	"regexp"
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
	for name, expire := range map[string]time.Duration{"never expires": 0, "expires": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var st *mem.Store
			var dead atomic.Bool
			k := locktest.Kind{
				Wait: 20 * time.Second,
				Open: func(t *testing.T) (lock.Locker, lock.Locker) {
					st = mem.New("t")
					dead.Store(false)
					one := fault.New(st, fault.Config{Before: func(int, string, string) error {
						if dead.Load() {
							return fault.ErrKilled
						}
						return nil
					}})
					cfg := Config{Wait: 20 * time.Second, Expire: expire}
					return New(one, cfg), New(st, cfg)
				},
				Kill: func(*testing.T) { dead.Store(true) },
				Steal: func(t *testing.T) {
					st.Put(".hoodie/lock", []byte("{}"), time.Now())
				},
			}
			if expire > 0 {
				k.Dies = expire + time.Second
			}
			locktest.Run(t, k)
		})
	}
}

// The file is where Hudi looks for it, with the fields that Hudi writes, laid out alike.
func TestContent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for dir, file := range map[string]string{"": ".hoodie/lock", ".hoodie/.aux": ".hoodie/.aux/lock"} {
			st := mem.New("t")
			h, err := New(st, Config{Dir: dir}).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := st.ReadFile(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			var i info
			if err := json.Unmarshal(b, &i); err != nil || i.Stack == nil || !regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$`).MatchString(i.Created) {
				t.Errorf("%s, %v", b, err)
			}
			if err := h.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(st.Paths()) != 0 {
				t.Errorf("left: %v", st.Paths())
			}
		}
	})
}

// A Java client that closes deletes the file, whoever's it is: that is noticed.
func TestDeletedByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := mem.New("t")
		h, err := New(st, Config{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Delete(t.Context(), ".hoodie/lock"); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

// Held for half of the expiry, it counts as lost.
func TestHeldForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := mem.New("t")
		h, err := New(st, Config{Expire: time.Minute}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		if err := h.Check(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

// An answer that was lost is found out by reading; a place that must not be written is told at once.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for call := 1; call <= 5; call++ {
			for _, after := range []bool{false, true} {
				st := mem.New("t")
				h, err := New(fault.New(st, fault.Config{FailAt: call, FailAfter: after}), Config{}).Lock(t.Context())
				if err != nil {
					t.Fatalf("call %d: %v", call, err)
				}
				_ = h.Check(t.Context())
				if err := h.Unlock(t.Context()); err != nil && !errors.Is(err, fault.ErrUnknown) {
					t.Errorf("call %d: %v", call, err)
				}
			}
		}
		refused := storage.NewGuard(mem.New("t"), func(string) bool { return false })
		if _, err := New(refused, Config{}).Lock(t.Context()); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("got %v", err)
		}
	})
}
