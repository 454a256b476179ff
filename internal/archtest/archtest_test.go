package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func rules(t *testing.T) *Rules {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(Root(), "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRules(string(doc))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func report(t *testing.T, bad []string) {
	t.Helper()
	for _, b := range bad {
		t.Error(b)
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	r := rules(t)
	pkgs, err := Packages(Root())
	if err != nil {
		t.Fatal(err)
	}
	report(t, r.CheckImports(pkgs))
	for _, p := range pkgs {
		if p.Path == "cmd/tidemark" {
			report(t, r.CheckBinary(p))
		}
	}
}

func TestExportedNamesAreExplained(t *testing.T) {
	t.Parallel()
	pkgs, err := Packages(Root())
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, p := range pkgs {
		dirs = append(dirs, p.Path)
	}
	bad, err := CheckComments(Root(), dirs)
	if err != nil {
		t.Fatal(err)
	}
	report(t, bad)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	root := Root()
	files, err := Tracked(root)
	if err != nil {
		t.Fatal(err)
	}
	var tops []string
	for _, f := range files {
		if top, _, found := strings.Cut(f, "/"); found && !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(b) { // binary
			continue
		}
		text := string(b)
		report(t, CheckPaths(name, text))
		if strings.HasSuffix(name, ".go") {
			report(t, CheckIdioms(name, text))
		}
		if strings.HasSuffix(name, ".md") {
			report(t, CheckLinks(root, name, text))
		}
		if name == "README.md" || strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md") {
			report(t, CheckPlaces(root, name, text, tops))
		}
	}
}

const testDoc = `
<!-- archtest:packages -->

| layer | package | also | never | kind |
| ---: | --- | --- | --- | --- |
| 1 | ` + "`top`" + ` | | ` + "`secret`" + ` | |
| 2 | ` + "`pure`, `peer`" + ` | ` + "`peer`" + ` | | pure |
| 3 | ` + "`secret`" + ` | | | |
| 4 | ` + "`kit`" + ` | | | test |

<!-- archtest:engines -->

| module | only in | why |
| --- | --- | --- |
| ` + "`example.org/avro`" + ` | ` + "`secret`" + ` | |
| ` + "`example.org/check`" + ` | tests | |
| ` + "`example.org/sync`" + ` | any package | |
`

func TestRules(t *testing.T) {
	t.Parallel()
	r, err := ParseRules(testDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, from, imp string
		wantOK          bool
	}{
		{"down", "top", "tidemark/pure", true},
		{"up", "pure", "tidemark/top", false},
		{"same layer", "peer", "tidemark/pure", false},
		{"same layer, listed", "pure", "tidemark/peer", true},
		{"never", "top", "tidemark/secret", false},
		{"clock in a pure one", "pure", "time", false},
		{"file in a pure one", "pure", "os", false},
		{"network below net", "pure", "net/http", false},
		{"arithmetic in a pure one", "pure", "math/bits", true},
		{"clock elsewhere", "top", "time", true},
		{"test package", "top", "tidemark/kit", false},
		{"no row", "top", "tidemark/unknown", false},
		{"engine by its owner", "secret", "example.org/avro/v2", true},
		{"engine by another", "top", "example.org/avro/v2", false},
		{"test module", "top", "example.org/check", false},
		{"test module in a test package", "kit", "example.org/check", true},
		{"free module", "top", "example.org/sync/errgroup", true},
		{"unknown module", "top", "example.org/other", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := r.wrong(r.Packages[tc.from], tc.imp); (got == "") != tc.wantOK {
				t.Errorf("%s imports %s: got %q, want allowed %v", tc.from, tc.imp, got, tc.wantOK)
			}
		})
	}
	if got := r.CheckBinary(Package{Deps: []string{"fmt", "tidemark/kit", "example.org/check/x"}}); len(got) != 2 {
		t.Errorf("binary: got %q, want two findings", got)
	}
	if got := r.CheckImports(nil); len(got) != 5 {
		t.Errorf("no packages: got %q, want one finding a row", got)
	}
}

func TestSourceChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src := "package x\n\nfunc Bare() {}\n\n// Said is said.\nfunc Said() {}\n\ntype hidden int\n\nfunc (hidden) Fine() {}\n\nconst Loose = 1\n"
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := CheckComments(dir, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 { // Bare, Loose, the package
		t.Errorf("comments: got %q, want three findings", got)
	}
	if got := CheckIdioms("x.go", "// TO"+"DO later\nerrors.New(\"failed"+" to x\")"); len(got) != 2 {
		t.Errorf("idioms: got %q, want two findings", got)
	}
	if got := CheckPaths("x.md", "see ../sha"+"red/x\nand /wo"+"rk/main\nand ./work/x"); len(got) != 2 {
		t.Errorf("paths: got %q, want two findings", got)
	}
	text := "[a](x.go) [b](gone.md) [c](https://example.org/x) ```\n[d](gone2.md)\n```"
	if got := CheckLinks(dir, "x.md", text); len(got) != 1 {
		t.Errorf("links: got %q, want one finding", got)
	}
	if got := CheckPlaces(dir, "x.md", "`sub/gone.go`, `other/gone.go`, `sub/*`", []string{"sub"}); len(got) != 1 {
		t.Errorf("places: got %q, want one finding", got)
	}
}
