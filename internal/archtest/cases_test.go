package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reference is a test as docs/cases.md names it: file, function, and the rest of a subtest's name.
var reference = regexp.MustCompile("`([a-z][a-zA-Z0-9_/]*_test\\.go): ((?:Test|Fuzz)[A-Za-z0-9_]*)(?:/([^`]+))?`")

// Every row of docs/cases.md, and of what can go wrong in docs/ARCHITECTURE.md, names at least one test, every test that it names is there, and
// so is what it says of its part: a recorded table, if the test goes through all of them, or a text of its file.
func TestCasesNameTests(t *testing.T) {
	t.Parallel()
	checkRows(t, "docs/cases.md", "", "| case", 60)
	checkRows(t, "docs/ARCHITECTURE.md", "## When things go wrong", "| what happens", 18)
}

// checkRows checks the rows of a document, or of one section of it. head begins the first line of each table.
func checkRows(t *testing.T, name, section, head string, least int) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(Root(), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	files, rows, in := map[string]*testFile{}, 0, section == ""
	for n, line := range strings.Split(string(doc), "\n") {
		if section != "" && strings.HasPrefix(line, "## ") {
			in = line == section
		}
		if !in {
			continue
		}
		found := reference.FindAllStringSubmatch(line, -1)
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, head) && !strings.HasPrefix(line, "| ---") {
			if rows++; len(found) == 0 && !strings.Contains(line, "none: ") {
				t.Errorf("%s:%d: a case without a test", name, n+1)
			}
		}
		for _, m := range found {
			f := files[m[1]]
			if f == nil {
				f = readTests(t, m[1])
				files[m[1]] = f
			}
			if !f.funcs[m[2]] {
				t.Errorf("%s:%d: %s has no %s", name, n+1, m[1], m[2])
			}
			if m[3] == "" || f.texts[m[3]] {
				continue
			}
			if _, err := os.Stat(filepath.Join(Root(), "fixtures", "tables", m[3]+".tar.gz")); err != nil || m[2] != "TestOracle" {
				t.Errorf("%s:%d: %s of %s is neither a text of it nor a recorded table", name, n+1, m[3], m[2])
			}
		}
	}
	if rows < least {
		t.Errorf("%s: only %d cases", name, rows)
	}
}

// testFile is what a test file declares and which texts it holds.
type testFile struct{ funcs, texts map[string]bool }

func readTests(t *testing.T, path string) *testFile {
	t.Helper()
	out := &testFile{funcs: map[string]bool{}, texts: map[string]bool{}}
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(Root(), filepath.FromSlash(path)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return out
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			out.funcs[x.Name.Name] = x.Recv == nil
		case *ast.BasicLit:
			if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
				out.texts[s] = true
			}
		}
		return true
	})
	return out
}
