package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cited is what a comment can name, what its text looks like, and where that is explained, entries by their number.
var cited = []struct {
	what, page string
	comment    *regexp.Regexp
	entry      *regexp.Regexp
}{
	{"decision", "docs/decisions.md", regexp.MustCompile(`\b[Dd]ecision (\d+)\b`), regexp.MustCompile(`(?m)^\| (\d+) \|`)},
	{"section of the design", "docs/decisions.md", regexp.MustCompile(`\b[Dd]esign,? section (\d+)\b`), regexp.MustCompile(`(?m)^## Section (\d+):`)},
	{"rule", "docs/rfc-109.md", regexp.MustCompile(`\bR(\d+)\b`), regexp.MustCompile(`(?m)^\| R(\d+) \|`)},
	{"section of RFC-109", "docs/rfc-109.md", regexp.MustCompile(`\bRFC-109 section (\d+(?:\.\d+)*)`), regexp.MustCompile(`(?m)^## Section (\d+(?:\.\d+)*):`)},
}

// nowhere cites a text that the repository does not have.
var nowhere = regexp.MustCompile(`\b[Ss]pec(?:ification)?,? (?:section |page |§ ?)?\d+(?:\.\d+)*`)

// protocolRule is R1 or R2 of a commit's recovery, which docs/format/commit.md explains. RFC-109's rules of these numbers are not cited.
var protocolRule = regexp.MustCompile(`(?m)^\*\*R(\d+)\*\*:`)

// Every decision, section and rule that a Go comment names has its entry in docs/decisions.md or docs/rfc-109.md, and every entry is named by
// a comment. No comment cites "spec" and a number.
func TestWhatIsCitedIsThere(t *testing.T) {
	t.Parallel()
	root := Root()
	files, err := Tracked(root)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, ".go") {
			if comments[name], err = commentsOf(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	pages := map[string]string{}
	for _, page := range []string{"docs/decisions.md", "docs/rfc-109.md", "docs/format/commit.md"} {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		pages[page] = string(b)
	}
	report(t, checkCited(comments, pages))
}

// checkCited returns what the comments, by file, name and the pages do not explain, and the other way round.
func checkCited(comments, pages map[string]string) []string {
	var bad []string
	for _, c := range cited {
		named, known := map[string]bool{}, map[string]bool{}
		for _, m := range c.entry.FindAllStringSubmatch(pages[c.page], -1) {
			known[m[1]] = true
		}
		elsewhere := map[string]bool{}
		if c.what == "rule" {
			for _, m := range protocolRule.FindAllStringSubmatch(pages["docs/format/commit.md"], -1) {
				elsewhere[m[1]] = true
			}
		}
		for name, text := range comments {
			for _, m := range c.comment.FindAllStringSubmatch(text, -1) {
				if named[m[1]] = true; !known[m[1]] && !elsewhere[m[1]] {
					bad = append(bad, fmt.Sprintf("%s: %s %s has no entry in %s: write it there, or say it in the comment", name, c.what, m[1], c.page))
				}
			}
		}
		for n := range known {
			if !named[n] {
				bad = append(bad, fmt.Sprintf("%s: no comment names %s %s: take its entry out", c.page, c.what, n))
			}
		}
	}
	for name, text := range comments {
		for _, m := range nowhere.FindAllString(text, -1) {
			bad = append(bad, fmt.Sprintf("%s: %q cites nothing in the repository: name the page of docs that says it", name, m))
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// commentsOf returns the comments of a Go file, one to a line.
func commentsOf(path string) (string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", fmt.Errorf("read comments: %w", err)
	}
	var out []string
	for _, g := range f.Comments {
		out = append(out, strings.Join(strings.Fields(g.Text()), " "))
	}
	return strings.Join(out, "\n"), nil
}

func TestCitedCheck(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"docs/decisions.md":     "| 1 | a |\n| 2 | b |\n\n## Section 4: c\n",
		"docs/rfc-109.md":       "| R9 | a |\n\n## Section 5.1: b\n",
		"docs/format/commit.md": "**R1**: back\n",
	}
	fine := "as (design, decision 1) and decision 2 say (design, section 4), see R9, R1, RFC-109 section 5.1"
	if got := checkCited(map[string]string{"x.go": fine}, pages); len(got) != 0 {
		t.Errorf("all explained: got %q", got)
	}
	for text, want := range map[string]int{
		fine + "; decision 3":                1,
		fine + " (spec 7.3)":                 1,
		fine + "; Spec section 6":            1,
		fine + "; R2":                        1,
		fine + "; design section 5":          1,
		fine + "; RFC-109 section 5":         1,
		strings.Replace(fine, "R9, ", "", 1): 1,
		strings.Replace(fine, " 2 ", " ", 1): 1,
		"nothing":                            5,
	} {
		if got := checkCited(map[string]string{"x.go": text}, pages); len(got) != want {
			t.Errorf("%s: got %q, want %d findings", text, got, want)
		}
	}
}
