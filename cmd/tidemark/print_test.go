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
	want := "read: 50 of 100, 10/s, about 5 s left\nread: 50 of 100, 5/s, done\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// What comes from a table must not act on a terminal: escapes are shown, and long cells are cut.
func TestTextIsVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ключ 鍵":           "plain ключ 鍵",
		"\x1b[31mred\x1b[0m":     `\x1b[31mred\x1b[0m`,
		"a\tb\nc\x00\x7f":        `a\tb\nc\x00\x7f`,
		"C1 \u009b and bad \xff": `C1 \u009b and bad \xff`,
		"turned \u202e round":    `turned \u202e round`,
		"":                       "",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	var out bytes.Buffer
	a := &app{out: &out, err: &out}
	g := newGrid()
	g.add("key\x1b]0;title\a", strings.Repeat("k", 5000), strings.Repeat("ü", 5000))
	g.print(a, "")
	a.warn("%s", "\x1b[2J")
	a.reportError(errors.New("key \x1b[1m is bad"))
	text := out.String()
	if strings.ContainsAny(text, "\x1b\a") || len(text) > 1000 || !strings.Contains(text, "k…  ü") || !strings.Contains(text, `\x1b[2J`) {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	out.Reset()
	if err := a.object(map[string]string{"key": strings.Repeat("k", 5000) + "\x1b"}); err != nil || !strings.Contains(out.String(), strings.Repeat("k", 5000)+`\u001b`) {
		t.Errorf("JSON is not exact: %v", err)
	}
}

// The end of long work is estimated when enough of it is done, and never absurd.
func TestProgressEstimate(t *testing.T) {
	t.Parallel()
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		elapsed     time.Duration
		done, total int64
		want        string
	}{
		{time.Millisecond, 1, 10_000, ""},
		{2 * time.Second, 1000, 10_000, ""},
		{10 * time.Second, 2, 50, ""},
		{10 * time.Second, 100, 10_000, ""},
		{10 * time.Second, 1000, 10_000, "about 2 min left"},
		{10 * time.Second, 5000, 10_000, "about 10 s left"},
		{time.Minute, 300, 10_000, "about 32 min left"},
		{time.Minute, 10, 10, ""},
		{time.Minute, 10, 0, ""},
		{time.Hour, 300, 10_000, "about 32 h left"},
	} {
		p := &progress{now: time.Now, began: begin, done: tc.done, total: tc.total}
		if got := p.left(begin.Add(tc.elapsed)); got != tc.want {
			t.Errorf("%d of %d after %s: %q, want %q", tc.done, tc.total, tc.elapsed, got, tc.want)
		}
	}
}
