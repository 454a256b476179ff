package inproc_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/internal/lock"
	"tidemark/internal/lock/inproc"
	"tidemark/internal/lock/locktest"
)

var opened atomic.Int64

func TestSuite(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Kind{Wait: 20 * time.Second, Open: func(t *testing.T) (lock.Locker, lock.Locker) {
		name := fmt.Sprint(t.Name(), opened.Add(1)) // a lock of a bubble is no other bubble's
		return inproc.New(name, 20*time.Second), inproc.New(name, 20*time.Second)
	}})
	if opened.Load() == 0 {
		t.Error("nothing was tried")
	}
}

func TestNamesAreApart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{t.Name() + "/one", t.Name() + "/two"} {
		h, err := inproc.New(name, time.Millisecond).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Unlock(t.Context()) })
	}
	if _, err := inproc.New(t.Name()+"/one", time.Millisecond).Lock(t.Context()); err == nil {
		t.Error("two hold it")
	}
}
