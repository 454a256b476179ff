package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
)

// hold locks the lock file of a name as another process would that is stopped there.
func hold(t *testing.T, dir, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "."+name+lockSuffix), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLockHeldForLong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock := hold(t, dir, "state")
	synctest.Test(t, func(t *testing.T) {
		s, err := New(dir)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = s.Replace(t.Context(), "state", []byte("1"), "")
		if took := time.Since(began); took != lockWait {
			t.Errorf("waited %v", took)
		}
		if !errors.Is(err, storage.ErrLocked) || !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), ".state.tidemark-lock") {
			t.Errorf("got %v", err)
		}
		if hint := storage.Hint(err); !strings.Contains(hint, fmt.Sprintf("ps %d", os.Getpid())) && !strings.Contains(hint, "fuser -v "+lock.Name()) {
			t.Errorf("hint %q", hint)
		}

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began = time.Now()
		_, err = s.Replace(ctx, "state", []byte("1"), "")
		if took := time.Since(began); took != 3*time.Second || !errors.Is(err, context.Canceled) || !errors.Is(err, storage.ErrLocked) {
			t.Errorf("ended after %v: %v", took, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "state")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it was written: %v", err)
		}

		time.AfterFunc(time.Second, func() { _ = lock.Close() })
		if _, err := s.Replace(t.Context(), "state", []byte("1"), ""); err != nil {
			t.Errorf("once it is given back: %v", err)
		}
	})
}

func TestHolderIn(t *testing.T) {
	t.Parallel()
	const locks = `1: POSIX  ADVISORY  WRITE 1 fd:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 4711 fd:01:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 4712 fd:01:77 0 EOF
3: FLOCK  ADVISORY  WRITE 12 00:30:5 0 EOF
4: FLOCK  ADVISORY  WRITE 13 00:31:5 0 EOF
5: FLOCK  ADVISORY  WRITE 0 00:31:6 0 EOF
`
	for file, want := range map[string]int{"fd:01:77": 4711, "00:31:5": 13, "00:99:5": 0, "00:99:77": 4711, "00:31:6": 0, "fd:01:7": 0} {
		if got := holderIn(locks, file); got != want {
			t.Errorf("%s: %d, want %d", file, got, want)
		}
	}
}
