package storage

import (
	"sync"
	"sync/atomic"
)

// Broad is implemented by stores that answer several calls at once about as fast as one: where a call waits for a network.
type Broad interface {
	// Broad says whether they do. What wraps a store asks it.
	Broad() bool
}

// IsBroad says whether st is Broad. A store that does not say so is not, and is asked for one thing at a time, always in the same order:
// what replays a run, or stops it at the n-th call, counts on that.
func IsBroad(st Store) bool {
	b, ok := st.(Broad)
	return ok && b.Broad()
}

// together bounds how many calls of one Together are under way.
const together = 16

// Together makes calls of st that do not depend on each other: at once where st is Broad, else one after the other. It returns when all
// that were begun have ended, with the error of the first of them, in their order, that failed; after a failure no other is begun.
// Who succeeds with it has all of them. The calls must not write what others of them read.
func Together(st Store, calls ...func() error) error {
	if !IsBroad(st) || len(calls) == 1 {
		for _, call := range calls {
			if err := call(); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(calls))
	var failed atomic.Bool
	var wg sync.WaitGroup // waits for the goroutines of this call
	slots := make(chan struct{}, together)
	for i, call := range calls {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = call(); errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	for _, err := range errs { // those before a failed one were begun: it is the first of all
		if err != nil {
			return err
		}
	}
	return nil
}
