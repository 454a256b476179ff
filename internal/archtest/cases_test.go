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

// Every row of docs/cases.md names at least one test, every test that it names is there, and so is what it says of its part: a recorded table,
// if the test goes through all of them, or a text of its file.
func TestCasesNameTests(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join(Root(), "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, rows := map[string]*testFile{}, 0
	for n, line := range strings.Split(string(doc), "\n") {
		found := reference.FindAllStringSubmatch(line, -1)
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| case") && !strings.HasPrefix(line, "| ---") {
			if rows++; len(found) == 0 && !strings.Contains(line, "none: ") {
				t.Errorf("docs/cases.md:%d: a case without a test", n+1)
			}
		}
		for _, m := range found {
			f := files[m[1]]
			if f == nil {
				f = readTests(t, m[1])
				files[m[1]] = f
			}
			if !f.funcs[m[2]] {
				t.Errorf("docs/cases.md:%d: %s has no %s", n+1, m[1], m[2])
			}
			if m[3] == "" || f.texts[m[3]] {
				continue
			}
			if _, err := os.Stat(filepath.Join(Root(), "fixtures", "tables", m[3]+".tar.gz")); err != nil || m[2] != "TestOracle" {
				t.Errorf("docs/cases.md:%d: %s of %s is neither a text of it nor a recorded table", n+1, m[3], m[2])
			}
		}
	}
	if rows < 60 {
		t.Errorf("only %d cases", rows)
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
