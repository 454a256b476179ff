// Package locktest is the suite that every lock.Locker passes.
//
// It owns what holders and waiters may rely on. It may import lock and testing. It runs in a bubble with a clock of its own.
package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/lock"
)

// Kind is an implementation and what it can do.
type Kind struct {
	// Open returns contenders for one lock that is free; each call another lock.
	Open func(t *testing.T) (a, b lock.Locker)
	// Wait is how long its Lock waits.
	Wait time.Duration
	// Dies is how long after its holder has died the lock can be taken at the latest; 0: never.
	Dies time.Duration
	// Renews says that a holder that lives keeps the lock beyond Dies.
	Renews bool
	// Steal takes the lock away from its holder as another client would, of the pair that Open returned last; nil: nobody can.
	Steal func(t *testing.T)
	// Kill makes the renewals and the give-back of the first contender fail from now on, as if its process were dead; nil: nothing to kill.
	Kill func(t *testing.T)
}

// Run runs the suite.
func Run(t *testing.T, k Kind) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, k Kind)
	}{
		{"one holds it at a time", exclusive},
		{"who waits gets it when it is given back", handedOn},
		{"a wait ends", waitEnds},
		{"a wait ends with the context", cancelled},
		{"given back twice", twice},
		{"check says whether it is held", checks},
		{"a living holder keeps it", keeps},
		{"a dead holder loses it", dies},
		{"what was taken away is not given back", stolen},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { c.test(t, k) }) })
	}
}

func take(t *testing.T, l lock.Locker) lock.Held {
	t.Helper()
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context()); err != nil {
		t.Fatalf("just taken: %v", err)
	}
	return h
}

func give(t *testing.T, h lock.Held) {
	t.Helper()
	if err := h.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func exclusive(t *testing.T, k Kind) {
	a, b := k.Open(t)
	holders, most, taken := 0, 0, 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l := []lock.Locker{a, b}[i%2]
			for range 3 {
				h, err := l.Lock(t.Context())
				if err != nil {
					if !errors.Is(err, lock.ErrHeld) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				holders++
				taken++
				most = max(most, holders)
				mu.Unlock()
				time.Sleep(time.Second)
				if err := h.Check(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				holders--
				mu.Unlock()
				if err := h.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most != 1 || taken < 8 {
		t.Errorf("%d held it at once, %d times in all", most, taken)
	}
}

func handedOn(t *testing.T, k Kind) {
	a, b := k.Open(t)
	h := take(t, a)
	got := make(chan lock.Held)
	go func() {
		h, err := b.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	time.Sleep(5 * time.Second)
	select {
	case <-got:
		t.Fatal("two hold it")
	default:
	}
	give(t, h)
	second := <-got
	if err := second.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Check(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the first one says %v", err)
	}
	give(t, second)
}

func waitEnds(t *testing.T, k Kind) {
	a, b := k.Open(t)
	h := take(t, a)
	began := time.Now()
	_, err := b.Lock(t.Context())
	if took := time.Since(began); !errors.Is(err, lock.ErrHeld) || took < k.Wait || took > k.Wait+2*lock.Poll {
		t.Errorf("after %s: %v", took, err)
	}
	if err := h.Check(t.Context()); err != nil {
		t.Error(err)
	}
	give(t, h)
	give(t, take(t, b))
}

func cancelled(t *testing.T, k Kind) {
	a, b := k.Open(t)
	h := take(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := b.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	give(t, h)
}

func twice(t *testing.T, k Kind) {
	a, b := k.Open(t)
	h := take(t, a)
	give(t, h)
	second := take(t, b)
	give(t, h) // must not give back what the other holds
	if err := second.Check(t.Context()); err != nil {
		t.Error(err)
	}
	give(t, second)
}

func checks(t *testing.T, k Kind) {
	a, _ := k.Open(t)
	h := take(t, a)
	give(t, h)
	if err := h.Check(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("given back: %v", err)
	}
}

func keeps(t *testing.T, k Kind) {
	a, b := k.Open(t)
	h := take(t, a)
	if k.Renews {
		time.Sleep(2 * k.Dies)
	}
	if err := h.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.Lock(t.Context()); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the other one: %v", err)
	}
	give(t, h)
}

func dies(t *testing.T, k Kind) {
	if k.Kill == nil {
		return
	}
	a, b := k.Open(t)
	h := take(t, a)
	k.Kill(t)
	if k.Dies == 0 {
		time.Sleep(24 * time.Hour)
		if _, err := b.Lock(t.Context()); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("a lock that never ends was taken: %v", err)
		}
		return
	}
	time.Sleep(k.Dies)
	second := take(t, b)
	if err := h.Check(t.Context()); err == nil {
		t.Error("the dead holder believes that it holds the lock")
	}
	if err := h.Unlock(t.Context()); err == nil && k.Steal == nil {
		t.Error("the dead holder gave it back")
	}
	if err := second.Check(t.Context()); err != nil {
		t.Error(err)
	}
	give(t, second)
}

func stolen(t *testing.T, k Kind) {
	if k.Steal == nil {
		return
	}
	a, b := k.Open(t)
	h := take(t, a)
	k.Steal(t)
	if err := h.Check(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("taken away: %v", err)
	}
	if err := h.Unlock(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) {
		t.Errorf("given back: %v", err)
	}
	if _, err := b.Lock(t.Context()); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the thief does not hold it: %v", err)
	}
}
