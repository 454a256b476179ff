package timeline_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

var hexLine = regexp.MustCompile(`(?m)^([0-9a-f]{8})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})  `)

// The worked examples of docs/format/timeline.md are the files they say they are.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "timeline.md"))
	if err != nil {
		t.Fatal(err)
	}
	st, _, tl := fixture(t, "merge_noop")
	archived, p, _ := fixture(t, "archived")
	rest := string(page)
	for _, file := range []struct {
		st    storage.Store
		name  string
		lines int
	}{
		{st, tl.Writes()[0].File, 20},
		{archived, "history/20261130022521740_20261130022539210_0.parquet", 5},
	} {
		_, text, found := strings.Cut(rest, filepath.Base(file.name))
		if !found {
			t.Fatalf("the page does not name %s", file.name)
		}
		example, after, _ := strings.Cut(text, "\n```\n\n")
		rest = after
		b, _, err := file.st.ReadFile(t.Context(), ".hoodie/timeline/"+file.name)
		if err != nil {
			t.Fatal(err)
		}
		lines := hexLine.FindAllStringSubmatch(example, -1)
		if len(lines) < file.lines {
			t.Errorf("%d lines of hex for %s", len(lines), file.name)
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
			if got := b[min(int(off), len(b)):min(int(off)+len(want), len(b))]; !bytes.Equal(got, want) {
				t.Errorf("%s at %s: the page says %x, the file %x", file.name, l[1], want, got)
			}
		}
	}
	rows := ""
	for _, i := range collect(t, timeline.NewArchive(archived, dotHoodie, p), "20261130022521740", "") {
		rows += fmt.Sprintf("| %s | %s | %s |\n", i.Requested, i.Completed, i.Action)
	}
	if rows == "" || !strings.Contains(rest, rows) {
		t.Errorf("the page does not show these rows:\n%s", rows)
	}
}
