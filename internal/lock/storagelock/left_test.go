package storagelock

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/host"
	"tidemark/internal/lock"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

// A lock of ours whose process was killed on this host is taken over at once, and given back where nobody wants it. One that lives, is
// elsewhere, or is not ours is waited for, and the error names it.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	self, ok := host.Self()
	c := exec.Command("true")
	if err := c.Run(); err != nil || !ok {
		t.Skip("no process can be told to be dead here")
	}
	dead := host.Process{Host: self.Host, PID: c.Process.Pid, Start: 1}
	elsewhere := host.Process{Host: "other/boot/pid:[1]", PID: 7, Start: 1}
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			owner, who string
			left       bool
		}{
			{"tidemark-A@" + dead.String(), "", true},
			{"tidemark-A@" + self.String(), "tidemark, process", false},
			{"tidemark-A@" + elsewhere.String(), "tidemark, process 7 on host other", false},
			{"tidemark-A", "tidemark", false},
			{"main@" + dead.String(), `writer "main@`, false},
		} {
			st := mem.New("t")
			put := func(owner string) {
				st.Put(Path, data{ValidUntil: time.Now().Add(5 * time.Minute).UnixMilli(), Owner: owner}.encode(), time.Now())
			}
			put(tc.owner)
			l := New(st, Config{Wait: 5 * time.Second})
			if err := l.Clear(t.Context()); err != nil {
				t.Error(err)
			}
			if free := len(st.Paths()) == 1 && readLock(t, st).Expired; free != tc.left {
				t.Errorf("%s: cleared %v", tc.owner, free)
			}
			put(tc.owner)
			began := time.Now()
			h, err := l.Lock(t.Context())
			if !tc.left {
				if !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), tc.who) || strings.Contains(err.Error(), "changed") || !strings.Contains(storage.Hint(err), "if that holder is dead") {
					t.Errorf("%s: %v; %s", tc.owner, err, storage.Hint(err))
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.owner, err)
			}
			if time.Since(began) > 0 {
				t.Errorf("%s: taken after %v", tc.owner, time.Since(began))
			}
			if err := errors.Join(h.Check(t.Context()), h.Unlock(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
}

func readLock(t *testing.T, st *mem.Store) data {
	t.Helper()
	b, _, err := st.ReadFile(t.Context(), Path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
