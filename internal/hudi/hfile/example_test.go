package hfile

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// hexBlock returns the bytes of the fenced block that follows a marker in a page: per line the hex digits before two blanks,
// after an offset and a colon.
func hexBlock(t testing.TB, page, marker string) []byte {
	t.Helper()
	_, rest, ok := strings.Cut(page, marker)
	if !ok {
		t.Fatalf("page has no %q", marker)
	}
	_, rest, _ = strings.Cut(rest, "```\n")
	body, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("no fenced block behind %q", marker)
	}
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

// TestDocExample builds the file of the page's worked example and compares its bytes with the page.
func TestDocExample(t *testing.T) {
	t.Parallel()
	file := write(t, Config{Compression: None, Schema: `"bytes"`}, []Cell{{EncodeKey([]byte{0x10, 0xff}), []byte("hi")}})
	if pad := file[len(file)-trailerSize+200 : len(file)-4]; len(bytes.Trim(pad, "\x00")) != 0 {
		t.Fatal("example has bytes in the part that the page leaves out")
	}
	got := hexBlock(t, docPage(t), "## Worked example")
	end := len(file) - trailerSize + 8 + 1 + int(file[len(file)-trailerSize+8])
	want := append(bytes.Clone(file[:end]), file[len(file)-4:]...)
	if !bytes.Equal(got, want) {
		t.Errorf("page and writer differ at byte %d (page %d bytes, file %d)\n%s", firstDiff(got, want), len(got), len(want), hex.Dump(want))
	}
}

// TestGoldenExample checks the cell and index bytes that the page quotes from a metadata table of Hudi 1.2.0.
func TestGoldenExample(t *testing.T) {
	t.Parallel()
	blocks, _ := split(t, testkit.File(t, "golden/mdt-files/none/"+goldenBase+".gz"))
	got := hexBlock(t, docPage(t), "### Hudi's own bytes")
	if want := append(bytes.Clone(blocks[0].header), blocks[0].payload[:len(got)-headerSize]...); !bytes.Equal(got, want) {
		t.Errorf("page differs from the golden file at byte %d\n%s", firstDiff(got, want), hex.Dump(want))
	}
}
