package basefile_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// The worked example of docs/format/basefile.md is a whole file and says what it holds.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "basefile.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```\n")
	body, _, _ := strings.Cut(rest, "```")
	var b []byte
	for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
		offset, line, _ := strings.Cut(line, ": ")
		if offset != fmt.Sprintf("%04x", len(b)) {
			t.Fatalf("line at %s, want %04x", offset, len(b))
		}
		digits, _, _ := strings.Cut(line, "  ")
		part, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	f := open(t, b)
	got, err := rows(f, "v")
	if err != nil || fmt.Sprintf("%x", got) != "[[01ff] [] [0203]]" || got[1][0] != nil {
		t.Errorf("got %x %v", got, err)
	}
	if v, err := f.Vectors(); err != nil || len(v) != 1 || v[0].Bytes() != 2 {
		t.Errorf("vectors %v %v", v, err)
	}
}
