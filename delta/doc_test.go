package delta_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/delta"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/testkit"
)

// example returns the lines of the fenced block behind the comment "check: name" of a format page.
func example(t *testing.T, page, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "<!-- check: "+name+" -->\n```\n")
	if !ok {
		t.Fatalf("%s has no example %s", page, name)
	}
	body, _, _ := strings.Cut(rest, "\n```\n")
	return strings.Split(body, "\n")
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExamplesOfTheFormatPages(t *testing.T) {
	t.Parallel()
	want := map[string][]byte{}
	g := goldenRecords(t)
	for _, c := range append(g.A, g.Blocks...) {
		want[c.Name] = append(make([]byte, 5), c.Value...)
	}
	for _, c := range []struct{ page, name, golden string }{
		{"records.md", "tombstone", "tombstone"},
		{"records.md", "stats", "cluster_manifest_bootstrap"},
		{"posting-block.md", "block", "posting_block_d3_b2"},
		{"posting-delta.md", "delta", "posting_delta_d8_b4_row0"},
	} {
		var b []byte
		for _, line := range example(t, c.page, c.name) {
			text, _, _ := strings.Cut(line, "#")
			b = append(b, unhex(t, text)...)
		}
		if !bytes.Equal(b, want[c.golden]) {
			t.Errorf("%s: the example %s is not the golden record %s", c.page, c.name, c.golden)
		}
		rec, err := decoder(t, delta.SchemaJSON).Decode(b)
		if err != nil || !bytes.Equal(delta.EncodeRecord(nil, rec), b) {
			t.Errorf("%s: the example %s does not survive: %v", c.page, c.name, err)
		}
	}
}

func TestExampleKeys(t *testing.T) {
	t.Parallel()
	keys := [][]byte{
		delta.PointerKey(), delta.ManifestKey(1), delta.QuantizerKey(1, 0), delta.CentroidsKey(1, 1), delta.StatsKey(1, 2),
		delta.MarkerKey(1, "20260909191853000"), delta.BlockKey(1, 2, 1, 0), delta.PostingKey(1, 2, 1, "id-1"), delta.PostingKey(200, 2, 1, "é"),
	}
	lines := example(t, "keys.md", "keys")
	if len(lines) != len(keys) {
		t.Fatalf("%d example keys, want %d", len(lines), len(keys))
	}
	for i, line := range lines {
		columns := strings.FieldsFunc(strings.ReplaceAll(line, "  ", "\t"), func(r rune) bool { return r == '\t' })
		if !bytes.Equal(unhex(t, columns[0]), keys[i]) {
			t.Errorf("%q is not %x", line, keys[i])
		}
		if !bytes.Equal(unhex(t, columns[1]), hfile.EncodeKey(keys[i])) {
			t.Errorf("%q is not stored as %x", line, hfile.EncodeKey(keys[i]))
		}
	}
}
