package logfile

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// hexBlock returns the bytes of the fenced block behind a heading of docs/format/logfile.md: per line the hex digits
// between an offset with a colon and two blanks.
func hexBlock(t testing.TB, heading string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "logfile.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), heading)
	if !ok {
		t.Fatalf("page has no %q", heading)
	}
	_, rest, _ = strings.Cut(rest, "```\n")
	body, _, _ := strings.Cut(rest, "```")
	var out []byte
	for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
		_, line, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, b...)
	}
	return out
}

// TestDocExamples builds the files of the page and compares them with real ones.
func TestDocExamples(t *testing.T) {
	t.Parallel()
	// The first log file of a metadata file group, as Hudi leaves it.
	empty := AppendBlock(nil, TypeDelete, []HeaderEntry{{InstantTime, "00000000000000002"}}, DeleteContent(nil, nil))
	if page := hexBlock(t, "### An empty file group"); !bytes.Equal(page, empty) || len(page) != 80 {
		t.Errorf("empty file group:\n%s\nbuilt:\n%s", hex.Dump(page), hex.Dump(empty))
	}
	found := false
	for path, b := range logsOf(t, testkit.Table(t, "mor_basic")) {
		if strings.Contains(path, "record_index") && strings.HasSuffix(path, "_00000000000000002.log.1_0-0-0") {
			found = true
			if !bytes.Equal(b, empty) {
				t.Errorf("%s differs from the example", path)
			}
		}
	}
	if !found {
		t.Error("the table holds no such file")
	}
	// A rollback command, as Hudi wrote it.
	real, err := os.ReadFile(testkit.Path("hudi-rs/log_files/valid_log_rollback/.0712b9f9-d2d5-4cae-bcf4-8fd7146af503-0_20250126040823628.log.2_1-0-1"))
	if err != nil {
		t.Fatal(err)
	}
	built := AppendBlock(nil, TypeCommand, []HeaderEntry{{InstantTime, "20250126040936578"}, {CommandType, "0"}, {TargetInstantTime, "20250126040826878"}}, nil)
	if page := hexBlock(t, "### A rollback"); !bytes.Equal(page, real) || !bytes.Equal(built, real) {
		t.Errorf("rollback:\n%s\nreal:\n%s\nbuilt:\n%s", hex.Dump(page), hex.Dump(real), hex.Dump(built))
	}
	// The content of a delete block of a record index.
	deletes := DeleteContent(nil, []Delete{{Key: "TXN-009", Partition: "record_index"}})
	if page := hexBlock(t, "### Delete content"); !bytes.Equal(page, deletes) {
		t.Errorf("deletes:\n%s\nbuilt:\n%s", hex.Dump(page), hex.Dump(deletes))
	}
}
