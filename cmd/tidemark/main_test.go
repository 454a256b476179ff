package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidemark/fixtures"
	"tidemark/internal/testkit"
)

// The main path in one process, so that the race detector sees the commands' wiring too.
func TestInProcess(t *testing.T) {
	t.Parallel()
	table := testkit.Table(t, "cow_basic")
	for _, args := range [][]string{
		{"index", "create", table, "--column", "embedding", "--as-of", "20261130020913200"},
		{"sync", table},
		{"status", table},
		{"markers", table},
		{"wait", table, "--covers", "20261130020919736", "--timeout", "0"},
		{"search", table, "--vector", "[1,0,0,0,0,0,0,0]"},
		{"verify", table},
		{"index", "list", table},
		{"index", "drop", table, "--index", "embedding_idx", "--yes-drop", "embedding_idx"},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), args, &stdout, &stderr); got != exitOK || stdout.Len() == 0 {
			t.Errorf("%q: exit code %d: %s%s", args, got, &stdout, &stderr)
		}
	}
}

// An interrupt ends a command with one line, and the table is as consistent as before.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := fixtures.Unpack(bytes.NewReader(fixtures.DemoTable), dir); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(dir, fixtures.DemoName)
	for _, args := range [][]string{
		{"index", "create", table, "--column", "embedding"},
		{"sync", table},
		{"status", table},
		{"inspect", filepath.Join(table, ".hoodie", "hoodie.properties")},
	} {
		before, err := tree(table)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var stdout, stderr bytes.Buffer
		if got := run(ctx, args, &stdout, &stderr); got != exitFailed {
			t.Errorf("%q: exit code %d, want %d", args, got, exitFailed)
		}
		if !strings.HasPrefix(stderr.String(), "tidemark: interrupted; ") {
			t.Errorf("%q: got %q", args, stderr.String())
		}
		after, err := tree(table)
		if err != nil {
			t.Fatal(err)
		}
		for path := range after {
			if before[path] != after[path] {
				t.Errorf("%q: changed %s", args, path)
			}
		}
	}
}

// full is a device without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be written is no success.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	table := testkit.Table(t, "cow_basic")
	for _, args := range [][]string{{"version"}, {"index", "create", table, "--column", "embedding", "--plan"}} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, full{}, &stderr); code == exitOK {
			t.Errorf("%q: exit code 0", args)
		} else if code != exitOK && !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: %s", args, &stderr)
		}
	}
}
