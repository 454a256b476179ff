package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	blanks   = regexp.MustCompile(`[ \t]+`)
	span     = regexp.MustCompile(`-?[0-9][0-9.,]* (ms|s|min|h|days)\b`)
	tempPath = regexp.MustCompile(`/[^ ]*/tidemark-demo[^ /]*`)
)

// shape takes out of a text what differs between two runs: durations, the demo's folder, the width of columns. Every
// other number is what the fixture table gives. Blank lines at the ends do not count.
func shape(lines []string) []string {
	var out []string
	for _, l := range lines {
		l = tempPath.ReplaceAllString(l, "DIR")
		l = span.ReplaceAllString(l, "# s")
		out = append(out, strings.TrimSpace(blanks.ReplaceAllString(l, " ")))
	}
	return strings.Split(strings.Trim(strings.Join(out, "\n"), "\n"), "\n")
}

// tryFolder is where the documents unpack the demo table; a test has a folder of its own for it.
const tryFolder = "/tmp/try"

// TestDocuments runs every command that a document shows, in order and in the repository's folder, and compares what
// it prints with what the document says. Targets of make have to be there; of those only the demo is run.
func TestDocuments(t *testing.T) {
	t.Parallel()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
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
		try := filepath.Join(dir, "try")
		for _, s := range consoleCommands(filepath.Base(doc), string(text)) {
			command := strings.ReplaceAll(s.command, tryFolder, try)
			switch name, rest, _ := strings.Cut(s.command, " "); name {
			case "make":
				if !bytes.Contains(makefile, []byte("\n"+rest+":")) {
					t.Errorf("%s: %q: no such target", s.doc, s.command)
				}
				if rest != "demo" {
					continue
				}
				command = "tidemark demo --dir " + filepath.Join(dir, "tidemark-demo")
			case "tidemark", "mkdir":
			case "export":
				if s.command != `export PATH="$PWD:$PATH"` {
					t.Errorf("%s: %q: only the PATH is set", s.doc, s.command)
				}
				continue
			default:
				t.Errorf("%s: %q: not a command of ours", s.doc, s.command)
				continue
			}
			var stdout, stderr bytes.Buffer
			shell := exec.CommandContext(t.Context(), "sh", "-c", command)
			shell.Dir, shell.Stdout, shell.Stderr = testkit.Root(), &stdout, &stderr
			shell.Env = append(os.Environ(), "PATH="+filepath.Dir(file)+string(filepath.ListSeparator)+os.Getenv("PATH"))
			if err := shell.Run(); err != nil && shell.ProcessState.ExitCode() != exitNotFresh {
				t.Errorf("%s: %q: %v: %s", s.doc, s.command, err, &stderr)
			}
			ran++
			printed := strings.ReplaceAll(stdout.String(), try, tryFolder)
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

// reference is docs/commands.md as the program would have it: a row for each command and for each flag that its help shows.
func reference() string {
	var a app
	root := a.root()
	cell := func(s string) string { return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|") }
	var commands, flags strings.Builder
	rows := func(command string, fs *pflag.FlagSet) {
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name, usage := pflag.UnquoteUsage(f)
			standard := ""
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "0s" {
				standard = "`" + f.DefValue + "`"
			}
			fmt.Fprintf(&flags, "| %s | `%s` | %s | %s |\n", command, strings.TrimSpace("--"+f.Name+" "+name), standard, cell(usage))
		})
	}
	rows("all", root.PersistentFlags())
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			if sub.HasSubCommands() {
				visit(sub)
				continue
			}
			fmt.Fprintf(&commands, "| `%s` | %s |\n", cell(strings.TrimSuffix(sub.UseLine(), " [flags]")), cell(sub.Short))
			rows("`"+strings.TrimPrefix(sub.CommandPath(), "tidemark ")+"`", sub.LocalNonPersistentFlags())
		}
	}
	visit(root)
	return "| command | does |\n| --- | --- |\n" + commands.String() + "\n| command | flag | default | meaning |\n| --- | --- | --- | --- |\n" + flags.String()
}

// TestReference: docs/commands.md has every command and every flag as the program has them, and nothing else.
func TestReference(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(b), "<!-- commands -->\n\n")
	if diff := cmp.Diff(reference(), tables); !found || diff != "" {
		t.Errorf("docs/commands.md (-program +docs):\n%s", diff)
	}
	if os.Getenv("TIDEMARK_TEST_REWRITE") != "" {
		head, _, _ := strings.Cut(string(b), "<!-- commands -->")
		if err := os.WriteFile(filepath.Join(testkit.Root(), "docs", "commands.md"), []byte(head+"<!-- commands -->\n\n"+reference()), 0o600); err != nil {
			t.Error(err)
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
