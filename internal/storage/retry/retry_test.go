package retry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/retry"
)

// flaky is a store in memory of which calls fail as told.
type flaky struct {
	*mem.Store
	// fail is asked before each call; effect says that the call takes place although the error is returned.
	fail  func(n int64) (err error, effect bool)
	calls atomic.Int64
}

func newFlaky(fail func(n int64) (error, bool)) *flaky {
	return &flaky{Store: mem.New("t"), fail: fail}
}

func (f *flaky) do(call func() error) error {
	err, effect := f.fail(f.calls.Add(1))
	if err == nil {
		return call()
	}
	if effect {
		_ = call() // the answer is lost
	}
	return err
}

func (f *flaky) ReadFile(ctx context.Context, p string) (b []byte, i storage.Info, err error) {
	err = f.do(func() (err error) { b, i, err = f.Store.ReadFile(ctx, p); return err })
	return b, i, err
}

func (f *flaky) Create(ctx context.Context, p string, data []byte) (i storage.Info, err error) {
	err = f.do(func() (err error) { i, err = f.Store.Create(ctx, p, data); return err })
	return i, err
}

func (f *flaky) CreateFrom(ctx context.Context, p string, n int64, open storage.Open) (i storage.Info, err error) {
	err = f.do(func() (err error) { i, err = f.Store.CreateFrom(ctx, p, n, open); return err })
	return i, err
}

func (f *flaky) Replace(ctx context.Context, p string, data []byte, tag string) (i storage.Info, err error) {
	err = f.do(func() (err error) { i, err = f.Store.Replace(ctx, p, data, tag); return err })
	return i, err
}

// broken is an error worth repeating for a time.
func broken(again time.Duration) error {
	return &storage.Error{Op: "call", Path: "f", Err: errors.New("broken"), Hint: "wait", Again: again}
}

func noKind(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused, storage.ErrCorrupt} {
		if errors.Is(err, kind) {
			t.Errorf("an unknown outcome has kind %v: %v", kind, err)
		}
	}
}

func TestRepeatsWhileItHelps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		again     time.Duration
		clears    time.Duration // from when on calls succeed
		wantOK    bool
		wantUntil time.Duration // at least and at most until then
		wantMax   time.Duration
	}{
		{"a blip", time.Minute, time.Second, true, time.Second, 15 * time.Second},
		{"throttled for 100 s", 2 * time.Minute, 100 * time.Second, true, 100 * time.Second, 110 * time.Second},
		{"never clears", time.Minute, time.Hour, false, 50 * time.Second, time.Minute},
		{"out of reach", 10 * time.Second, time.Hour, false, 1500 * time.Millisecond, 10 * time.Second},
		{"longer than the budget", time.Hour, time.Hour, false, 110 * time.Second, 2 * time.Minute},
		{"not worth it", 0, time.Second, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := newFlaky(func(int64) (error, bool) {
					if time.Since(began) < c.clears {
						return broken(c.again), false
					}
					return nil, false
				})
				var told time.Duration
				st := retry.New(f, retry.Config{Observe: func(err error, wait time.Duration) {
					if err == nil || wait <= 0 || wait > 10*time.Second {
						t.Errorf("told %v, %v", err, wait)
					}
					told += wait
				}})
				_, err := st.Create(t.Context(), "f", []byte("1"))
				if (err == nil) != c.wantOK {
					t.Errorf("got %v", err)
				}
				if spent := time.Since(began); spent < c.wantUntil || spent > c.wantMax {
					t.Errorf("spent %v, want %v to %v", spent, c.wantUntil, c.wantMax)
				}
				s := st.Stats()
				if s.Calls != 1 || s.Attempts != f.calls.Load() || (s.GaveUp == 1) != (err != nil && c.again > 0) || s.Waited != time.Since(began) || told != s.Waited {
					t.Errorf("counted %+v, attempts %d", s, f.calls.Load())
				}
				if err != nil && c.again > 0 && (!strings.Contains(err.Error(), "call f: tried ") || storage.Hint(err) != "wait") {
					t.Errorf("got %v, hint %q", err, storage.Hint(err))
				}
			})
		})
	}
}

// What the caller's context leaves is the budget of all its calls: nobody waits for what cannot be done in it.
func TestStopsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := retry.New(newFlaky(func(int64) (error, bool) { return broken(time.Hour), false }), retry.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _, err := st.ReadFile(ctx, "f")
		if err == nil || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("deadline: got %v, context %v; want the cause, before the deadline", err, ctx.Err())
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		_, _, err = st.ReadFile(ctx, "f")
		if !errors.Is(err, context.Canceled) || time.Since(began) != 3*time.Second {
			t.Errorf("cancelled: %v after %v", err, time.Since(began))
		}
	})
}

type hangs struct {
	storage.Store
	left int
}

func (h *hangs) ReadRange(ctx context.Context, p string, off, n int64) ([]byte, error) {
	if h.left--; h.left >= 0 {
		<-ctx.Done()
		return nil, &storage.Error{Op: "read", Path: p, Err: ctx.Err()}
	}
	return h.Store.ReadRange(ctx, p, off, n)
}

func TestAnAttemptThatHangsIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New("t")
		inner.Put("f", []byte("0123"), time.Now())
		st := retry.New(&hangs{inner, 2}, retry.Config{Attempt: 20 * time.Second})
		b, err := st.ReadRange(t.Context(), "f", 1, 2)
		if err != nil || string(b) != "12" || st.Stats().Attempts != 3 {
			t.Errorf("%q, %v, %+v", b, err, st.Stats())
		}
		st = retry.New(&hangs{inner, 99}, retry.Config{Attempt: 20 * time.Second})
		if _, err := st.ReadRange(t.Context(), "f", 1, 2); err == nil || t.Context().Err() != nil {
			t.Errorf("got %v", err)
		}
	})
}

// A lost answer to a write is settled by reading.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	small, other := []byte("mine"), []byte("theirs")
	large := bytes.Repeat([]byte("0123456789abcdef"), 270_000) // two pieces
	almost := append(bytes.Clone(large[:len(large)-1]), 'X')
	from := func(b []byte) func(ctx context.Context, st storage.Store, tag string) (storage.Info, error) {
		return func(ctx context.Context, st storage.Store, _ string) (storage.Info, error) {
			return st.CreateFrom(ctx, "f", int64(len(b)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		}
	}
	create := func(ctx context.Context, st storage.Store, _ string) (storage.Info, error) {
		return st.Create(ctx, "f", small)
	}
	replace := func(ctx context.Context, st storage.Store, tag string) (storage.Info, error) {
		return st.Replace(ctx, "f", small, tag)
	}
	for _, c := range []struct {
		name   string
		before []byte // there before the call; nil for nothing
		write  func(ctx context.Context, st storage.Store, tag string) (storage.Info, error)
		effect bool   // the first attempt has its effect and loses its answer
		then   []byte // written by somebody else between the attempts; nil for nothing
		want   error  // kind; nil for success
		known  bool   // the outcome is known
		left   []byte // there afterwards
	}{
		{"create, done", nil, create, true, nil, nil, true, small},
		{"create, not done", nil, create, false, nil, nil, true, small},
		{"create, somebody was faster", nil, create, false, other, storage.ErrExists, true, other},
		{"create, somebody wrote the same", nil, create, false, small, nil, true, small},
		{"large create, done", nil, from(large), true, nil, nil, true, large},
		{"large create, somebody was faster", nil, from(large), false, almost, storage.ErrExists, true, almost},
		{"large create, somebody wrote less", nil, from(large), false, other, storage.ErrExists, true, other},
		{"small create from a reader, done", nil, from(small), true, nil, nil, true, small},
		{"replace, done", other, replace, true, nil, nil, true, small},
		{"replace, not done", other, replace, false, nil, nil, true, small},
		{"replace, done and then replaced", other, replace, true, other, nil, false, other},
		{"replace, somebody was faster", []byte("old"), replace, false, other, nil, false, other},
		{"first replace, done", nil, replace, true, nil, nil, true, small},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f *flaky
				f = newFlaky(func(n int64) (error, bool) {
					if n == 2 && c.then != nil {
						f.Put("f", c.then, time.Now())
					}
					if n == 1 {
						return broken(time.Minute), c.effect
					}
					return nil, false
				})
				if c.before != nil {
					f.Put("f", c.before, time.Now())
				}
				_, old, _ := f.Store.ReadFile(t.Context(), "f")
				st := retry.New(f, retry.Config{})
				info, err := c.write(t.Context(), st, old.Tag)
				switch {
				case !c.known:
					noKind(t, err)
				case !errors.Is(err, c.want):
					t.Errorf("got %v, want %v", err, c.want)
				case err == nil && (info.Size != int64(len(c.left)) || info.ModTime.IsZero() || info.Path != "f"):
					t.Errorf("info %+v", info)
				}
				if got, _, err := f.Store.ReadFile(t.Context(), "f"); err != nil || !bytes.Equal(got, c.left) {
					t.Errorf("left %.20q, %v", got, err)
				}
			})
		})
	}
}

// A name that was taken before anything went wrong is taken, whatever it holds.
func TestTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	f := newFlaky(func(int64) (error, bool) { return nil, false })
	f.Put("f", []byte("mine"), time.Now())
	st := retry.New(f, retry.Config{})
	if _, err := st.Create(t.Context(), "f", []byte("mine")); !errors.Is(err, storage.ErrExists) {
		t.Errorf("create: %v", err)
	}
	if _, err := st.Replace(t.Context(), "f", []byte("mine"), "old"); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("replace: %v", err)
	}
	if s := st.Stats(); s.Attempts != 2 || s.Settled != 0 {
		t.Errorf("counted %+v", s)
	}
}
