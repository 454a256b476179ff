package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
)

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, got, want string }{
		{"small count", count(7), "7"},
		{"three digits", count(170), "170"},
		{"thousands", count(4170), "4,170"},
		{"millions", count(int64(1234567)), "1,234,567"},
		{"negative", count(-1234), "-1,234"},
		{"bytes", size(999), "999 B"},
		{"kilobytes", size(1500), "1.5 kB"},
		{"terabytes", size(12_340_000_000_000), "12.3 TB"},
		{"more than the last unit", size(12_340_000_000_000_000), "12340.0 TB"},
		{"one", plural(1, "commit"), "1 commit"},
		{"none", plural(0, "commit"), "0 commits"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

func TestGridAligns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{out: &out}
	g := newGrid(1)
	g.add("word", "n", "")
	g.add("×", 4170, "x")
	g.print(a, "  ")
	want := "  word     n\n  ×     4170  x\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	located := fmt.Errorf("sync /data/t: %w", &storage.Error{Op: "read", Path: "f", Hint: "look at it", Err: storage.ErrCorrupt})
	for _, tc := range []struct {
		name     string
		err      error
		wantText string
		wantJSON []string
		wantCode int
	}{
		{"located", located, "tidemark: sync /data/t: read f: corrupt; look at it\n", []string{`"kind":"corrupt"`, `"hint":"look at it"`}, exitFailed},
		{"joined", errors.Join(errors.New("one"), errors.New("two")), "tidemark: one; two\n", []string{`"error":"one; two"`, `"kind":"failed"`}, exitFailed},
		{"facts", &hinted{err: errors.New("gone"), facts: map[string]any{"earliest_readable": "1"}}, "tidemark: gone\n", []string{`"earliest_readable":"1"`}, exitFailed},
		{"said twice", fmt.Errorf("read f: %w", &storage.Error{Op: "read", Path: "f", Err: storage.ErrNotFound}), "tidemark: read f: not found\n", []string{`"error":"read f: not found"`}, exitFailed},
		{"code", &exitError{code: exitNotFresh, err: errors.New("stale")}, "tidemark: stale\n", nil, exitNotFresh},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			(&app{out: &out, err: &errs}).reportError(tc.err)
			if errs.String() != tc.wantText || out.Len() != 0 {
				t.Errorf("for people: got %q and %q, want %q", errs.String(), out.String(), tc.wantText)
			}
			errs.Reset()
			(&app{out: &out, err: &errs, json: true}).reportError(tc.err)
			for _, want := range tc.wantJSON {
				if !strings.Contains(out.String(), want) {
					t.Errorf("for programs: got %s, want %s in it", out.String(), want)
				}
			}
			if strings.Count(out.String(), "\n") != 1 || errs.Len() != 0 {
				t.Errorf("for programs: got %q and %q, want one line on standard output", out.String(), errs.String())
			}
			if got := exitCode(tc.err); got != tc.wantCode {
				t.Errorf("exit code: got %d, want %d", got, tc.wantCode)
			}
		})
	}
}

func TestProgressInPlainLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out)
	p.now = func() time.Time { return now }
	p.report("read", 0, 100)
	now = now.Add(time.Second)
	p.report("read", 10, 100) // too soon for another line
	now = now.Add(4 * time.Second)
	p.report("read", 50, 100)
	now = now.Add(5 * time.Second)
	p.report("write", 1, 0)
	p.finish()
	p.finish()
	want := "read: 50 of 100, 10/s, about 5s left\nread: 50 of 100, 5/s, done\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
