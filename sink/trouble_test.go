package sink

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
)

// A store in trouble, from any call of a commit or a fold on: an error that says what, and where there is one what to do; once it is over the
// same sink, of the same process, ends where a run without trouble ends.
func TestTroubleEndsWithoutARestart(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	c := newClock()
	table.SetClock(c.Now)
	due := writes(t, table)
	due = due[len(due)-2:]
	start := table.Clone()
	if err := work(t.Context(), open(t, start, config(c, "zero")), due[:1]); err != nil {
		t.Fatal(err)
	}
	commitAndFold := func(ctx context.Context, s *Sink) error {
		if err := s.Acquire(ctx); err != nil {
			return err
		}
		if b, done := next(s.State(), due); !done {
			if _, err := s.Commit(ctx, b); err != nil {
				return err
			}
		}
		if n, _ := s.State().Unfolded(); n > 0 {
			if _, err := s.Fold(ctx, Fold{}); err != nil {
				return err
			}
		}
		return s.Release(ctx)
	}
	ideal := start.Clone()
	if err := commitAndFold(t.Context(), open(t, ideal, config(c, "ideal"))); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	bare := withoutUs(t, start)
	write := func(op string) bool { return op == "create" || op == "replace" }
	for name, tt := range map[string]struct {
		what fault.Outcome
		hurt func(op string) bool
		kind error // that the error must be; nil: any
	}{
		"disk full":    {fault.Outcome{Err: fault.DiskFull()}, write, fault.DiskFull()},
		"short writes": {fault.Outcome{Short: true}, write, io.ErrShortWrite},
		"throttled":    {fault.Outcome{Err: fault.Throttled()}, func(string) bool { return true }, nil},
		"no answers":   {fault.Outcome{Err: fault.TimedOut(), After: true}, func(string) bool { return true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			for from := 1; ; from++ {
				left := start.Clone()
				n, over := 0, false
				s := open(t, fault.New(left, fault.Config{Decide: func(op, _ string) fault.Outcome {
					if !tt.hurt(op) {
						return fault.Outcome{}
					}
					if n++; n >= from && !over {
						return tt.what
					}
					return fault.Outcome{}
				}}), config(c, "one"))
				err := commitAndFold(t.Context(), s)
				if n < from {
					break
				}
				runs++
				if err == nil && !strings.Contains(name, "answers") {
					t.Fatalf("from call %d on: no error", from)
				}
				if err != nil && tt.kind != nil && !errors.Is(err, errors.Unwrap(tt.kind)) && !errors.Is(err, tt.kind) {
					t.Fatalf("from call %d on: %v", from, err)
				}
				if name == "disk full" && !strings.Contains(storage.Hint(err), "space") {
					t.Fatalf("from call %d on: %v, hint %q", from, err, storage.Hint(err))
				}
				over = true
				if err := commitAndFold(t.Context(), s); err != nil {
					t.Fatalf("from call %d on, once it is over: %v", from, err)
				}
				if got := content(t, left); got != want {
					t.Fatalf("from call %d on: got\n%s\nwant\n%s", from, got, want)
				}
				// What could not be deleted is, at the next takeover.
				if err := commitAndFold(t.Context(), open(t, left, config(c, "two"))); err != nil {
					t.Fatal(err)
				}
				checkTidy(t, bare, left, name)
			}
			t.Logf("%d runs", runs)
		})
	}
}
