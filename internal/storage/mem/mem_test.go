package mem_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tidemark/internal/storage/mem"
)

func TestFromDirCloneAndClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a/b/f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "a/b/f"), old, old); err != nil {
		t.Fatal(err)
	}
	st, err := mem.FromDir("t", dir)
	if err != nil {
		t.Fatal(err)
	}
	clone := st.Clone()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	st.SetClock(func() time.Time { return now })
	if _, err := st.Create(t.Context(), "a/g", nil); err != nil {
		t.Fatal(err)
	}
	st.Put("a/h", []byte("h"), old)
	if got := st.Paths(); !slices.Equal(got, []string{"a/b/f", "a/g", "a/h"}) {
		t.Errorf("paths %q", got)
	}
	if got := clone.Paths(); !slices.Equal(got, []string{"a/b/f"}) {
		t.Errorf("the clone changed: %q", got)
	}
	for p, want := range map[string]time.Time{"a/b/f": old, "a/g": now, "a/h": old} {
		if info, err := st.Stat(t.Context(), p); err != nil || !info.ModTime.Equal(want) {
			t.Errorf("%s: %v, %v", p, info.ModTime, err)
		}
	}
	if _, err := mem.FromDir("t", filepath.Join(dir, "none")); err == nil {
		t.Error("a missing directory was copied")
	}
}
