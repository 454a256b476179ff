package hfile

import (
	"os"
	"path/filepath"
	"testing"

	"tidemark/internal/testkit"
)

// docPage returns the format page of this package.
func docPage(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "hfile.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
