package sink

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/retry"
)

// What is repeated for a store in trouble is never held against it, and trouble hides no weakness.
func TestProbeOfATroubledStore(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]fault.Outcome{
		"throttled":    {Err: fault.Throttled()},
		"request lost": {Err: fault.TimedOut()},
		"answer lost":  {Err: fault.TimedOut(), After: true},
	} {
		for what, c := range map[string]struct {
			store func(storage.Store) storage.Store
			want  error
		}{
			"honest":        {func(st storage.Store) storage.Store { return st }, nil},
			"creates twice": {func(st storage.Store) storage.Store { return createsTwice{st} }, ErrWeakStore},
			"ignores tags":  {func(st storage.Store) storage.Store { return ignoresTags{st} }, ErrWeakStore},
		} {
			for at := 1; at <= 4; at++ { // two creates, two replaces
				t.Run(name+", "+what, func(t *testing.T) {
					t.Parallel()
					inner := table(t, "cow_basic")
					synctest.Test(t, func(t *testing.T) {
						n := 0
						st := retry.New(fault.New(c.store(inner), fault.Config{Decide: func(op, p string) fault.Outcome {
							if !strings.HasSuffix(p, "/probe") || op == "read" {
								return fault.Outcome{}
							}
							if n++; n == at {
								return trouble
							}
							return fault.Outcome{}
						}}), retry.Config{})
						if err := open(t, st, config(newClock(), "one")).probe(t.Context()); !errors.Is(err, c.want) {
							t.Errorf("trouble at write %d: %v", at, err)
						}
					})
				})
			}
		}
	}
}

// A store that refuses every call for a minute and a half before it answers would hold a commit up for three quarters of an hour. It
// ends with its budget and says so; once the store is well, the next one covers the same.
func TestCommitHasABudget(t *testing.T) {
	t.Parallel()
	inner := table(t, "cow_basic")
	synctest.Test(t, func(t *testing.T) {
		bad := false
		var until time.Time
		layer := fault.New(inner, fault.Config{Decide: func(string, string) fault.Outcome {
			switch {
			case !bad:
				return fault.Outcome{}
			case until.IsZero():
				until = time.Now().Add(90 * time.Second)
			case !time.Now().Before(until):
				until = time.Time{} // the next call meets trouble again
				return fault.Outcome{}
			}
			return fault.Outcome{Err: fault.Throttled()}
		}})
		cfg := config(newClock(), "one")
		s := acquired(t, retry.New(layer, retry.Config{}), cfg)
		for _, b := range []Batch{bootstrap(idx), activate(idx)} {
			if _, err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		bad = true
		began := time.Now()
		_, err := s.Commit(t.Context(), follow(idx, last(t, inner)))
		if spent := time.Since(began); err == nil || spent < 3*time.Minute || spent > 6*time.Minute {
			t.Fatalf("after %v: %v", spent, err)
		}
		for _, want := range []string{"the budget of 5m0s for trouble with the store is used up", "attempts made again"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
		bad = false
		if _, err := s.Commit(t.Context(), follow(idx, last(t, inner))); err != nil {
			t.Errorf("once it is over: %v", err)
		}
	})
}
