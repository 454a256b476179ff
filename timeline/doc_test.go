package timeline_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

var hexLine = regexp.MustCompile(`(?m)^([0-9a-f]{8})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})  `)

// The worked example of docs/format/timeline.md is the file it says it is.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "timeline.md"))
	if err != nil {
		t.Fatal(err)
	}
	st, _, tl := fixture(t, "merge_noop")
	inst := tl.Writes()[0]
	if !bytes.Contains(page, []byte(inst.File)) {
		t.Fatalf("the page does not name %s", inst.File)
	}
	b, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+inst.File)
	if err != nil {
		t.Fatal(err)
	}
	lines := hexLine.FindAllStringSubmatch(string(page), -1)
	if len(lines) < 10 {
		t.Fatalf("%d lines of hex", len(lines))
	}
	for _, l := range lines {
		off, err := strconv.ParseInt(l[1], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(strings.ReplaceAll(l[2], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := b[off:min(int(off)+len(want), len(b))]; !bytes.Equal(got, want) {
			t.Errorf("at %s: the page says %x, the file %x", l[1], want, got)
		}
	}
}
