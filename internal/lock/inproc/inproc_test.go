package inproc_test

import (
	"testing"
	"time"

	"tidemark/internal/lock"
	"tidemark/internal/lock/inproc"
	"tidemark/internal/lock/locktest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	n := 0
	locktest.Run(t, locktest.Kind{Wait: 20 * time.Second, Open: func(t *testing.T) (lock.Locker, lock.Locker) {
		n++
		name := t.Name()
		return inproc.New(name, 20*time.Second), inproc.New(name, 20*time.Second)
	}})
	if n == 0 {
		t.Error("nothing was tried")
	}
}

func TestNamesAreApart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"t/one", "t/two"} {
		h, err := inproc.New(name, time.Millisecond).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Unlock(t.Context()) })
	}
	if _, err := inproc.New("t/one", time.Millisecond).Lock(t.Context()); err == nil {
		t.Error("two hold it")
	}
}
