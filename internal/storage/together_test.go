package storage_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

type broad struct{ storage.Store }

func (broad) Broad() bool { return true }

func TestTogether(t *testing.T) {
	t.Parallel()
	plain := mem.New("plain")
	if storage.IsBroad(plain) || storage.IsBroad(storage.NewGuard(plain, nil)) || !storage.IsBroad(storage.NewGuard(broad{plain}, nil)) {
		t.Error("a store is broad only if it says so, through a guard, too")
	}

	// Two calls that wait for each other end only when they are under way at once.
	var both sync.WaitGroup
	both.Add(2)
	meet := func() error { both.Done(); both.Wait(); return nil }
	if err := storage.Together(broad{plain}, meet, meet); err != nil {
		t.Error(err)
	}

	// One after the other, until the first that fails.
	var order []int
	call := func(n int, err error) func() error {
		return func() error { order = append(order, n); return err }
	}
	first := errors.New("first")
	err := storage.Together(plain, call(1, nil), call(2, first), call(3, errors.New("second")))
	if !errors.Is(err, first) || !slices.Equal(order, []int{1, 2}) {
		t.Errorf("%v after %v", err, order)
	}

	// At once: the first in order counts, whichever fails first, and all that began have ended.
	for range 100 {
		var begun, ended atomic.Int32
		late := make(chan struct{})
		calls := []func() error{
			func() error { begun.Add(1); <-late; ended.Add(1); return first },
			func() error { begun.Add(1); close(late); ended.Add(1); return errors.New("second") },
		}
		for range 50 {
			calls = append(calls, func() error { begun.Add(1); ended.Add(1); return nil })
		}
		if err := storage.Together(broad{plain}, calls...); !errors.Is(err, first) || begun.Load() != ended.Load() {
			t.Fatalf("%v, %d begun, %d ended", err, begun.Load(), ended.Load())
		}
	}
}
