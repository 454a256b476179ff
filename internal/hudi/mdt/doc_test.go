package mdt

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// hexBlock returns the bytes of the fenced block behind a heading of docs/format/mdt.md: per line the hex digits
// between an offset with a colon and two blanks.
func hexBlock(t testing.TB, heading string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "mdt.md"))
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

// TestDocExamples compares the page's records with the stored ones of mor_basic.
func TestDocExamples(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, m, data := real(t, "mor_basic")
	keep := m.ValidInstants(data)
	for _, tt := range []struct{ heading, partition, key string }{
		{"### A record index entry", recordIndex, "k0001"},
		{"### The list of partitions", filesPartition, allPartitions},
	} {
		p, err := m.partition(ctx, tt.partition)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := m.layers(ctx, p.groups[0], keep)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		err = newest(ctx, layers[:1], []string{tt.key}, func(_ string, _ layer, value []byte) error {
			found = true
			if page := hexBlock(t, tt.heading); !bytes.Equal(page, value) {
				t.Errorf("%s: page\n%s\nstored\n%s", tt.heading, hex.Dump(page), hex.Dump(value))
			}
			return nil
		})
		if err != nil || !found {
			t.Errorf("%s: %v, found %v", tt.heading, err, found)
		}
	}
	got, err := m.LookupRecords(ctx, data, []string{"k0001"})
	want := Location{Partition: "us", FileID: "a6abac6c-92d6-47ae-8a44-4dd3e5e01e8f-1", Millis: got["k0001"].Millis, Instant: "20261130023707408", Position: -1}
	if err != nil || got["k0001"] != want {
		t.Errorf("%+v %v", got, err)
	}
	if g := recordGroup("k0001", 10); g != 0 {
		t.Errorf("k0001 is in group %d", g)
	}
}
