package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/testkit"
)

// proposed finds a command with the table T in a text, up to the mark that ends it.
var proposed = regexp.MustCompile(`tidemark ((?:index )?[a-z]+) ([^;,()'"]*)`)

// Every command of ours that some text of the program names is, with the table in it, one that the program takes: with the table once, however
// often a text is completed, and whatever sentence it stands in.
func TestProposedCommands(t *testing.T) {
	t.Parallel()
	found := 0
	for _, text := range literals(t) {
		for _, around := range []string{"%s", "%s; or ask otherwise", "%s, or ask otherwise", "(%s)", "it is stalled: '%s' ends that", "%s."} {
			full := mdt.Complete(strings.Replace(around, "%s", text, 1), "T", "s3://b/i")
			if again := mdt.Complete(full, "T", "s3://b/i"); again != full {
				t.Errorf("completed twice: %q", again)
			}
			for _, m := range proposed.FindAllStringSubmatch(full, -1) {
				a := &app{out: io.Discard, err: io.Discard}
				c, rest, err := a.root().Find(append(strings.Fields(m[1]), strings.Fields(m[2])...))
				if err != nil || c.Name() == "tidemark" || !slices.Contains(strings.Fields(c.Use), "TABLE") || len(rest) == 0 || rest[0] != "T" {
					continue // prose
				}
				found++
				if len(rest) > 1 && rest[1] == "T" {
					t.Errorf("%q names the table twice", m[0])
				}
				for _, word := range rest {
					name, isFlag := strings.CutPrefix(word, "--")
					name, _, _ = strings.Cut(strings.TrimRight(name, ".:"), "=")
					if isFlag && name != "" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
						t.Errorf("%q: %s has no flag --%s", m[0], c.CommandPath(), name)
					}
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d commands found", found)
	}
}

// literals are the texts of the program that name one of its commands, without those that are examples.
func literals(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(testkit.Root(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "dist", "fixtures", "tools", "bench"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "tidemark ") {
				text, err := strconv.Unquote(lit.Value)
				if err == nil && !strings.Contains(text, "\n") && !strings.Contains(text, "/") && !strings.Contains(text, "%s") {
					out = append(out, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
