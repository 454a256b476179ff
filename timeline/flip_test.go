package timeline_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"tidemark/timeline"
)

// describe is everything that an archive says, or its error.
func describe(ctx context.Context, a *timeline.Archive) string {
	out := ""
	for i, err := range a.Instants(ctx, "", "") {
		if err != nil {
			return "error"
		}
		out += fmt.Sprintln(i.Requested, i.Completed, i.Action, i.Derived)
		if i.Action.IsWrite() {
			m, err := a.Commit(ctx, i)
			if err != nil {
				return "error"
			}
			out += fmt.Sprintf("%x\n", m.Digest)
		}
		if i.Action == timeline.Clean {
			m, err := a.Clean(ctx, i)
			if err != nil {
				return "error"
			}
			out += fmt.Sprintln(m)
		}
	}
	return out
}

// A flipped byte of a real level file is found, or changes nothing that is read.
func TestFlippedLevelFile(t *testing.T) {
	t.Parallel()
	const name = ".hoodie/timeline/history/20261130022521740_20261130022539210_0.parquet"
	st := table(t, "archived")
	p := mustLoad(t, v9)
	whole, info, err := st.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	want := describe(t.Context(), timeline.NewArchive(st, dotHoodie, p))
	step := 61
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		step = 1
	}
	found := 0
	for at := 0; at < len(whole); at += step {
		b := append([]byte(nil), whole...)
		b[at] ^= 1 << (at % 8)
		st.Put(name, b, info.ModTime)
		switch got := describe(t.Context(), timeline.NewArchive(st, dotHoodie, p)); got {
		case "error":
			found++
		case want:
		default:
			t.Errorf("byte %d flipped: %s", at, got)
		}
	}
	if found < len(whole)/step/4 {
		t.Errorf("%d flips of %d found", found, len(whole)/step)
	}
}
