package fault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

// outcomes is a layer of which calls meet what the test says next, by operation.
func outcomes(inner storage.Store, next *map[string]fault.Outcome) *fault.Store {
	return fault.New(inner, fault.Config{Decide: func(op, _ string) fault.Outcome { return (*next)[op] }})
}

// Faults say whether repeating helps, and none of them says more of the call's outcome than a client could know.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault error
		again bool
		is    error
	}{
		{"throttled", fault.Throttled(), true, nil},
		{"timed out", fault.TimedOut(), true, fault.ErrUnknown},
		{"cut short", fault.CutShort(), true, io.ErrUnexpectedEOF},
		{"disk full", fault.DiskFull(), false, syscall.ENOSPC},
	} {
		for _, after := range []bool{false, true} {
			inner := mem.New("t")
			st := outcomes(inner, &map[string]fault.Outcome{"create": {Err: c.fault, After: after}, "read": {Err: c.fault}, "range": {Err: c.fault}})
			_, err := st.Create(t.Context(), "f", []byte("0123"))
			_, _, read := st.ReadFile(t.Context(), "f")
			_, part := st.ReadRange(t.Context(), "f", 0, 2)
			for _, err := range []error{err, read, part} {
				if c.is != nil && !errors.Is(err, c.is) || (storage.Again(err) > 0) != c.again || storage.Hint(err) == "" {
					t.Errorf("%s: %v, again %v, hint %q", c.name, err, storage.Again(err), storage.Hint(err))
				}
				for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused, storage.ErrCorrupt} {
					if errors.Is(err, kind) {
						t.Errorf("%s has kind %v", c.name, kind)
					}
				}
			}
			if _, err := inner.Stat(t.Context(), "f"); (err == nil) != after {
				t.Errorf("%s, after %v: effect there: %v", c.name, after, err == nil)
			}
		}
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New("t")
		st := outcomes(inner, &map[string]fault.Outcome{"create": {Wait: time.Hour}})
		began := time.Now()
		if _, err := st.Create(t.Context(), "f", nil); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := st.Create(ctx, "g", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := inner.Stat(t.Context(), "g"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a call that ended had an effect: %v", err)
		}
	})
}

func TestListingsLag(t *testing.T) {
	t.Parallel()
	next := map[string]fault.Outcome{"list": {Stale: true}}
	st := outcomes(mem.New("t"), &next)
	count := func() int {
		t.Helper()
		l, err := st.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return len(l)
	}
	for _, f := range []string{"a", "b"} {
		if _, err := st.Create(t.Context(), f, nil); err != nil {
			t.Fatal(err)
		}
		if n := count(); n != 1 { // the first listing is true, the second is the first one
			t.Errorf("%d names after %s", n, f)
		}
	}
	if _, _, err := st.ReadFile(t.Context(), "b"); err != nil {
		t.Errorf("only listings lag: %v", err)
	}
	next = nil
	if n := count(); n != 2 {
		t.Errorf("%d names once it is over", n)
	}
}

func TestShortWrites(t *testing.T) {
	t.Parallel()
	inner := mem.New("t")
	old, err := inner.Replace(t.Context(), "state", []byte("old"), "")
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]fault.Outcome{"create": {Short: true}, "replace": {Short: true}}
	st := outcomes(inner, &next)
	content := bytes.NewReader(make([]byte, 100))
	_, create := st.Create(t.Context(), "f", []byte("0123"))
	_, from := st.CreateFrom(t.Context(), "g", 100, func() (io.ReadCloser, error) { return io.NopCloser(content), nil })
	_, replace := st.Replace(t.Context(), "state", []byte("new"), old.Tag)
	for what, err := range map[string]error{"create": create, "create from a reader": from, "replace": replace} {
		if !errors.Is(err, io.ErrShortWrite) || storage.Hint(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if content.Len() != 50 {
		t.Errorf("%d of 100 bytes are left of the content", content.Len())
	}
	if l, err := inner.List(t.Context(), ""); err != nil || len(l) != 1 {
		t.Errorf("left %v, %v", l, err)
	}
	if b, _, err := inner.ReadFile(t.Context(), "state"); string(b) != "old" || err != nil {
		t.Errorf("state %q, %v", b, err)
	}
}
