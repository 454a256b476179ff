package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/fixtures"
	"tidemark/internal/testkit"
)

// shown is one command in a document and the output that the document shows below it.
type shown struct {
	doc, command string
	output       []string
}

// consoleCommands returns the commands of a document's console blocks: lines that begin with "$ ".
func consoleCommands(doc, text string) []shown {
	var out []shown
	inside := false
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			out = append(out, shown{doc: doc, command: strings.TrimPrefix(line, "$ ")})
		case len(out) > 0:
			out[len(out)-1].output = append(out[len(out)-1].output, line)
		}
	}
	return out
}

var (
	number   = regexp.MustCompile(`[0-9][0-9.,]*`)
	blanks   = regexp.MustCompile(`[ \t]+`)
	span     = regexp.MustCompile(`# (ms|s|min|h|days)\b`)
	tempPath = regexp.MustCompile(`/[^ ]*/tidemark-demo[^ /]*`)
)

// shape takes out of a text what differs between two runs: numbers, folders, the width of columns. Blank lines at
// the ends do not count.
func shape(lines []string) []string {
	var out []string
	for _, l := range lines {
		l = tempPath.ReplaceAllString(l, "DIR")
		l = number.ReplaceAllString(l, "#")
		l = span.ReplaceAllString(l, "# s")
		out = append(out, strings.TrimSpace(blanks.ReplaceAllString(l, " ")))
	}
	return strings.Split(strings.Trim(strings.Join(out, "\n"), "\n"), "\n")
}

// TestDocuments runs every command that a document shows, in order, and compares the shape of what it prints with
// what the document says. /data/words in a document is the demo table.
func TestDocuments(t *testing.T) {
	t.Parallel()
	docs := []string{filepath.Join(testkit.Root(), "README.md")}
	more, err := filepath.Glob(filepath.Join(testkit.Root(), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(testkit.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, doc := range append(docs, more...) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := fixtures.Unpack(bytes.NewReader(fixtures.DemoTable), dir); err != nil {
			t.Fatal(err)
		}
		table := filepath.Join(dir, fixtures.DemoName)
		for _, s := range consoleCommands(filepath.Base(doc), string(text)) {
			args := strings.Fields(s.command)
			if args[0] == "make" {
				for _, target := range args[1:] {
					if !bytes.Contains(makefile, []byte("\n"+target+":")) {
						t.Errorf("%s: %q: no such target", s.doc, s.command)
					}
				}
				if s.command != "make demo" {
					continue
				}
				args = []string{"tidemark", "demo", "--dir", filepath.Join(t.TempDir(), "tidemark-demo")}
			}
			if filepath.Base(args[0]) != "tidemark" {
				t.Errorf("%s: %q: not a command of ours", s.doc, s.command)
				continue
			}
			for i, a := range args {
				args[i] = strings.Trim(strings.ReplaceAll(a, "/data/words", table), "'")
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), args[1:], &stdout, &stderr)
			if !slices.Contains([]int{exitOK, exitNotFresh}, code) {
				t.Errorf("%s: %q: exit code %d: %s", s.doc, s.command, code, &stderr)
			}
			ran++
			if len(s.output) == 0 {
				continue
			}
			printed := strings.ReplaceAll(stdout.String(), table, "/data/words")
			if diff := cmp.Diff(shape(s.output), shape(strings.Split(printed, "\n"))); diff != "" {
				t.Errorf("%s: %q prints something else than shown (-shown +printed):\n%s", s.doc, s.command, diff)
			}
		}
	}
	if ran == 0 {
		t.Error("no document shows a command")
	}
}

// TestHelpHasExamples: every command explains itself and shows an example.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	var a app
	for _, c := range a.commands() {
		if c.HasSubCommands() {
			for _, sub := range c.Commands() {
				if sub.Example == "" || sub.Short == "" {
					t.Errorf("%s: no example or no description", sub.CommandPath())
				}
			}
			continue
		}
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s: no example or no description", c.Name())
		}
	}
}

// inline finds commands in the running text of a document; words in angle brackets are no command line of ours.
var inline = regexp.MustCompile("`(tidemark [^`<]+)`")

// TestCommandsInText: every command and flag that a document names in its text is one of ours.
func TestCommandsInText(t *testing.T) {
	t.Parallel()
	var docs []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/format/*.md"} {
		found, err := filepath.Glob(filepath.Join(testkit.Root(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, found...)
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inline.FindAllStringSubmatch(string(text), -1) {
			if why := unknownCommand(m[1]); why != "" {
				t.Errorf("%s: `%s`: %s", filepath.Base(doc), m[1], why)
			}
		}
	}
}

// unknownCommand says what of a command line is not ours; "" if all is. Alternatives (a|b|c) are tried one by one, words
// in capitals stand for something.
func unknownCommand(line string) string {
	words := strings.Fields(line)[1:]
	for i, w := range words {
		if !strings.Contains(w, "|") {
			continue
		}
		for _, one := range strings.Split(w, "|") {
			rest := append(append(slices.Clone(words[:i]), one), words[i+1:]...)
			if why := unknownCommand("tidemark " + strings.Join(rest, " ")); why != "" {
				return why
			}
		}
		return ""
	}
	if len(words) > 0 && words[0] == "COMMAND" {
		return ""
	}
	var a app
	c, args, err := a.root().Find(words)
	if err != nil || c.Name() == "tidemark" {
		return "no such command"
	}
	c.InitDefaultHelpFlag()
	for _, w := range args {
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return "no flag --" + name
		}
	}
	return ""
}
