package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// CheckComments returns the exported names below root, tests left out, that have no comment, and the packages
// without one.
func CheckComments(root string, dirs []string) ([]string, error) {
	var bad []string
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		explained := false
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			explained = explained || f.Doc != nil
			for _, ident := range unexplained(f) {
				pos := fset.Position(ident.Pos())
				bad = append(bad, fmt.Sprintf("%s/%s:%d: exported %s has no comment", dir, filepath.Base(name), pos.Line, ident.Name))
			}
		}
		if !explained {
			bad = append(bad, fmt.Sprintf("%s: no package comment; write doc.go: owns, refuses, may import, invariant", dir))
		}
	}
	return bad, nil
}

// unexplained returns the exported names of a file without comment. In a group one comment above it explains all.
func unexplained(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
				out = append(out, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
						out = append(out, s.Name)
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if d.Doc == nil && s.Doc == nil && s.Comment == nil && n.IsExported() {
							out = append(out, n)
						}
					}
				}
			}
		}
	}
	return out
}

// exportedReceiver reports whether a function can be seen from outside: it has no receiver, or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// idiom is a thing that no source file may hold, and what to write in its place.
type idiom struct {
	name  string
	find  *regexp.Regexp
	tests bool // whether test files are held to it, too
	use   string
}

// The patterns are put together from pieces so that this file does not hold them.
var idioms = []idiom{
	{"unfinished work", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), true, "finish it, or file it where work is planned"},
	{"sleeping in a test", regexp.MustCompile(`\btime\.Sl` + `eep\(`), true, "use a testing/synctest bubble or wait for an event"},
	{"error text with 'failed to'", regexp.MustCompile(`(Errorf|errors\.New)\("[^"]*failed` + ` to`), true, "write 'verb noun: %w'"},
	{"global logger", regexp.MustCompile(`(?m)^\s*"lo` + `g"$`), false, "use log/slog"},
	{"math/rand", regexp.MustCompile(`(?m)^\s*"math/ran` + `d"$`), true, "use math/rand/v2 with an explicit seed"},
	{"reflect.DeepEqual", regexp.MustCompile(`reflect\.Deep` + `Equal\(`), true, "use go-cmp's Diff or slices.Equal"},
}

// CheckIdioms returns the places in text, a Go source file, that hold a banned idiom.
func CheckIdioms(name, text string) []string {
	var bad []string
	for _, i := range idioms {
		if strings.HasSuffix(name, "_test.go") && !i.tests {
			continue
		}
		if i.name == "sleeping in a test" && strings.Contains(text, `"testing/synctest"`) { // sleep is how a bubble's clock is moved
			continue
		}
		for _, at := range i.find.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			bad = append(bad, fmt.Sprintf("%s:%d: %s: %s", name, line, i.name, i.use))
		}
	}
	return bad
}

// machinePath finds paths that exist on one machine only, and folders beside the repository.
var machinePath = regexp.MustCompile(`\.\./sha` + `red|(^|[\s"'(=:` + "`" + `])/(wo` + `rk|ho` + `me|ro` + `ot|Us` + `ers)/\w`)

// CheckPaths returns the lines of text that name a path of one machine.
func CheckPaths(name, text string) []string {
	var bad []string
	for n, line := range strings.Split(text, "\n") {
		if machinePath.MatchString(line) {
			bad = append(bad, fmt.Sprintf("%s:%d: names a path outside the repository: %s", name, n+1, strings.TrimSpace(line)))
		}
	}
	return bad
}

var (
	link      = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	codeBlock = regexp.MustCompile("(?s)```.*?```")
)

// CheckLinks returns the relative links of a Markdown document that point at nothing. name is relative to root.
func CheckLinks(root, name, text string) []string {
	var bad []string
	for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		target := m[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), filepath.FromSlash(target))); err != nil {
			bad = append(bad, fmt.Sprintf("%s: link to %s: nothing is there", name, target))
		}
	}
	return bad
}

// CheckPlaces returns the words in back quotes of a document that look like a file or folder of the repository,
// by starting with the name of one of tops and a slash, and are not there.
func CheckPlaces(root, name, text string, tops []string) []string {
	var bad []string
	for _, word := range ticked(codeBlock.ReplaceAllString(text, "")) {
		first, rest, found := strings.Cut(word, "/")
		if !found || rest == "" || strings.ContainsAny(word, " *{<…") || strings.Contains(first, ".") {
			continue
		}
		for _, top := range tops {
			if first != top {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(word))); err != nil {
				bad = append(bad, fmt.Sprintf("%s: names %s: nothing is there", name, word))
			}
		}
	}
	return bad
}
