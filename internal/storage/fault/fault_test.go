package fault_test

import (
	"errors"
	"slices"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

func TestStop(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		inner := mem.New("t")
		st := fault.New(inner, fault.Config{StopAt: 2, StopAfter: after})
		if _, err := st.Create(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Create(t.Context(), "b", nil); !errors.Is(err, fault.ErrKilled) {
			t.Fatalf("second call: %v", err)
		}
		if _, err := st.Stat(t.Context(), "a"); !errors.Is(err, fault.ErrKilled) {
			t.Fatalf("third call: %v", err)
		}
		_, err := inner.Stat(t.Context(), "b")
		if (err == nil) != after {
			t.Errorf("after=%v: effect there: %v", after, err)
		}
		if want := []string{"create a", "create b", "stat a"}; st.Calls() != 3 || !slices.Equal(st.Trace(), want) {
			t.Errorf("trace %q", st.Trace())
		}
	}
}

func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		inner := mem.New("t")
		st := fault.New(inner, fault.Config{FailAt: 1, FailAfter: after})
		_, err := st.Replace(t.Context(), "s", []byte("x"), "")
		if !errors.Is(err, fault.ErrUnknown) {
			t.Fatal(err)
		}
		for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused} {
			if errors.Is(err, kind) {
				t.Errorf("an unknown outcome has kind %v", kind)
			}
		}
		if _, err := st.Stat(t.Context(), "s"); (err == nil) != after {
			t.Errorf("after=%v: %v", after, err)
		}
	}
}

func TestBeforeAndKill(t *testing.T) {
	t.Parallel()
	refuse := errors.New("no")
	st := fault.New(mem.New("t"), fault.Config{Before: func(n int, op, path string) error {
		if op == "delete" {
			return refuse
		}
		return nil
	}})
	if err := st.Delete(t.Context(), "x"); !errors.Is(err, refuse) {
		t.Errorf("delete: %v", err)
	}
	st.Kill()
	if _, err := st.List(t.Context(), ""); !errors.Is(err, fault.ErrKilled) {
		t.Errorf("list: %v", err)
	}
}
