package retry_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/retry"
)

// throttled is a store that refuses calls while the function says so; each refusal takes a second.
func throttled(now func() bool) storage.Store {
	return fault.New(mem.New("t"), fault.Config{Before: func(int, string, string) error {
		if now() {
			time.Sleep(time.Second) // of the bubble's clock
			return &storage.Error{Op: "ask", Err: errors.New("slow down"), Again: 2 * time.Minute}
		}
		return nil
	}})
}

// All calls of one intent share a budget, one after the other; the error of the one that finds it used up says what it went into.
func TestBudgetOfManyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		st := retry.New(throttled(func() bool { refused++; return refused%4 != 0 }), retry.Config{}) // three of four
		ctx := retry.WithBudget(t.Context(), 30*time.Second)
		began, done := time.Now(), 0
		var err error
		for ; err == nil; done++ {
			time.Sleep(time.Hour) // work between calls costs nothing
			_, err = st.Create(ctx, "f"+strings.Repeat("x", done), []byte("1"))
		}
		inTrouble := time.Since(began) - time.Duration(done)*time.Hour
		if done < 4 || done > 30 || inTrouble < 20*time.Second || inTrouble > 31*time.Second {
			t.Errorf("%d calls, %v in trouble", done, inTrouble)
		}
		for _, want := range []string{"the budget of 30s for trouble with the store is used up", "calls in trouble ", "attempts made again ", " (create ", "slow down"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
		for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused, context.DeadlineExceeded} {
			if errors.Is(err, kind) {
				t.Errorf("%v has kind %v", err, kind)
			}
		}
		if s := st.Stats(); s.GaveUp != 1 {
			t.Errorf("counted %+v", s)
		}
		// The next intent begins anew, and a call without one has the budget of a call.
		for _, ctx := range []context.Context{retry.WithBudget(t.Context(), 30*time.Second), t.Context()} {
			if _, err := st.Create(ctx, "next", []byte("1")); err != nil && !errors.Is(err, storage.ErrExists) {
				t.Error(err)
			}
		}
	})
}

// Calls side by side lose the same time once.
func TestBudgetOfCallsSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clears := time.Now().Add(20 * time.Second)
		st := retry.New(throttled(func() bool { return time.Now().Before(clears) }), retry.Config{})
		ctx := retry.WithBudget(t.Context(), 40*time.Second)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if _, err := st.Create(ctx, strings.Repeat("x", i+1), []byte("1")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// A budget that is used up ends no call that works.
func TestUsedUpBudgetStopsNothingThatWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := true
		st := retry.New(throttled(func() bool { return bad }), retry.Config{})
		ctx := retry.WithBudget(t.Context(), 0)
		if _, err := st.List(ctx, ""); err == nil || !strings.Contains(err.Error(), "tried once") || !strings.Contains(err.Error(), "calls in trouble 1, attempts made again 0:") {
			t.Errorf("got %v", err)
		}
		bad = false
		if _, err := st.Create(ctx, "f", []byte("1")); err != nil {
			t.Error(err)
		}
	})
}
