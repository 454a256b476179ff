package sink

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

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
