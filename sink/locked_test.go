package sink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/testkit"
)

// A process that is stopped under the lock of the state blocks nobody for ever: others fail in the time of one wait, whatever they have
// to take back, and at once when they are told to end; and go on when the lock is free.
func TestStoppedUnderTheLock(t *testing.T) {
	t.Parallel()
	dir := testkit.Table(t, "mor_basic")
	st, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	due := writes(t, st)
	clk := newClock()
	made := acquired(t, st, config(clk, "first"))
	if _, err := made.Commit(t.Context(), bootstrap(idx)); err != nil {
		t.Fatal(err)
	}
	if _, err := made.Commit(t.Context(), activate(idx)); err != nil {
		t.Fatal(err)
	}
	if err := made.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	hold := func() *os.File {
		f, err := os.Open(filepath.Join(dir, ".hoodie/.tidemark/.state.json.tidemark-lock"))
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	synctest.Test(t, func(t *testing.T) {
		s := open(t, st, config(clk, "second"))
		lock := hold()
		fails := func(what string, most time.Duration, err error, began time.Time) {
			if took := time.Since(began); !errors.Is(err, storage.ErrLocked) || storage.Hint(err) == "" || took > most {
				t.Errorf("%s after %v: %v", what, took, err)
			}
		}
		began := time.Now()
		fails("acquire", 10*time.Second, s.Acquire(t.Context()), began)
		began = time.Now()
		fails("drop", time.Second, s.Drop(t.Context(), idx), began)
		_ = lock.Close()
		if err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		lock = hold()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began = time.Now()
		_, err := s.Commit(ctx, follow(idx, due[len(due)-1]))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("commit: %v", err)
		}
		fails("commit", 100*time.Millisecond, err, began)
		began = time.Now()
		fails("release", time.Second, s.Release(context.WithoutCancel(ctx)), began)
		_ = lock.Close()
		if err := s.Acquire(t.Context()); err != nil {
			t.Errorf("once the lock is free: %v", err)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
