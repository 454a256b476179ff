package archtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the Go module that is checked.
const Module = "tidemark"

// Rule is one row of the package table: what a package may import of this module.
type Rule struct {
	Package string   // path relative to the module
	Layer   int      // 1 is the top; a package may import packages of a larger number
	Also    []string // packages of its own layer that it may import
	Never   []string // packages or standard packages that it must not import although its layer would allow it
	Kind    string   // "", "pure" (no clock, network, logger, files) or "test" (never in the binary)
}

// Engine is one row of the engine table: a module from outside and the packages that may import it.
type Engine struct {
	Module string
	Only   []string // packages relative to the module; empty with Tests: tests only
	Any    bool     // every package may import it
	Tests  bool     // never in the binary
}

// Rules is what docs/ARCHITECTURE.md says.
type Rules struct {
	Packages map[string]Rule
	Engines  []Engine
}

// ParseRules reads the two tables of the document. A table is found by the comment in front of it.
func ParseRules(doc string) (*Rules, error) {
	packages, err := table(doc, "archtest:packages", 5)
	if err != nil {
		return nil, err
	}
	r := &Rules{Packages: map[string]Rule{}}
	for _, row := range packages {
		layer, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, fmt.Errorf("layer of %s: %w", row[1], err)
		}
		kind := row[4]
		if kind != "" && kind != "pure" && kind != "test" {
			return nil, fmt.Errorf("kind of %s: %q is not pure or test", row[1], kind)
		}
		names := ticked(row[1])
		if len(names) == 0 {
			return nil, fmt.Errorf("layer %d: no package in %q", layer, row[1])
		}
		for _, name := range names {
			if _, twice := r.Packages[name]; twice {
				return nil, fmt.Errorf("package %s has two rows", name)
			}
			r.Packages[name] = Rule{Package: name, Layer: layer, Also: ticked(row[2]), Never: ticked(row[3]), Kind: kind}
		}
	}
	engines, err := table(doc, "archtest:engines", 3)
	if err != nil {
		return nil, err
	}
	for _, row := range engines {
		for _, module := range ticked(row[0]) {
			r.Engines = append(r.Engines, Engine{
				Module: module, Only: ticked(row[1]),
				Any: row[1] == "any package", Tests: row[1] == "tests",
			})
		}
	}
	return r, nil
}

// table returns the body rows of the Markdown table after the comment "<!-- name -->".
func table(doc, name string, columns int) ([][]string, error) {
	_, rest, found := strings.Cut(doc, "<!-- "+name+" -->\n")
	if !found {
		return nil, fmt.Errorf("no table %q in the document", name)
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimLeft(rest, "\n"), "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i < 2 { // head and ruler
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != columns {
			return nil, fmt.Errorf("table %q: %d cells, want %d: %s", name, len(cells), columns, line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("table %q has no rows", name)
	}
	return rows, nil
}

// ticked returns the words of a cell that stand in back quotes.
func ticked(cell string) []string {
	var out []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	return out
}

// impure lists standard packages that a pure package must not import: a result must not depend on the moment,
// the machine or chance.
var impure = []string{"time", "net", "log", "os", "math/rand", "crypto/rand", "syscall"}

// Package is what the checks need to know of a package of this module.
type Package struct {
	Path    string   // relative to the module
	Imports []string // as written, tests left out
	Deps    []string // everything that it needs, directly or not
}

// CheckImports returns what is wrong with the imports of pkgs.
func (r *Rules) CheckImports(pkgs []Package) []string {
	var bad []string
	for _, p := range pkgs {
		rule, known := r.Packages[p.Path]
		if !known {
			bad = append(bad, fmt.Sprintf("%s: has no row in the package table of docs/ARCHITECTURE.md; add one", p.Path))
			continue
		}
		for _, imp := range p.Imports {
			if why := r.wrong(rule, imp); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", p.Path, imp, why))
			}
		}
	}
	for name := range r.Packages {
		if !slices.ContainsFunc(pkgs, func(p Package) bool { return p.Path == name }) {
			bad = append(bad, fmt.Sprintf("%s: is in the package table of docs/ARCHITECTURE.md and does not exist; take it out", name))
		}
	}
	slices.Sort(bad)
	return bad
}

// wrong says why rule.Package may not import imp; "" if it may.
func (r *Rules) wrong(rule Rule, imp string) string {
	name, ours := strings.CutPrefix(imp, Module+"/")
	if slices.Contains(rule.Never, name) {
		return "its row says never"
	}
	if ours {
		to, known := r.Packages[name]
		switch {
		case !known:
			return "no row in the package table"
		case to.Kind == "test" && rule.Kind != "test":
			return "it is for tests only"
		case to.Layer > rule.Layer || slices.Contains(rule.Also, name):
			return ""
		}
		return fmt.Sprintf("layer %d may import larger layers only, this is %d", rule.Layer, to.Layer)
	}
	if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
		if rule.Kind == "pure" && slices.ContainsFunc(impure, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") }) {
			return "the package is pure: no clock, network, logger, file or chance"
		}
		return ""
	}
	return r.foreign(rule, imp)
}

// foreign says why rule.Package may not import imp, a package from another module.
func (r *Rules) foreign(rule Rule, imp string) string {
	for _, e := range r.Engines {
		if imp != e.Module && !strings.HasPrefix(imp, e.Module+"/") {
			continue
		}
		if e.Any || slices.Contains(e.Only, rule.Package) || e.Tests && rule.Kind == "test" {
			return ""
		}
		if e.Tests {
			return "the module is for tests only"
		}
		return "the module is imported by " + strings.Join(e.Only, ", ") + " only"
	}
	return "the module has no row in the engine table of docs/ARCHITECTURE.md; say who owns it and why"
}

// CheckBinary returns the test-only packages and modules that p, the program, would carry.
func (r *Rules) CheckBinary(p Package) []string {
	var bad []string
	for _, dep := range p.Deps {
		if name, ours := strings.CutPrefix(dep, Module+"/"); ours {
			if r.Packages[name].Kind == "test" {
				bad = append(bad, fmt.Sprintf("%s is in the binary and is for tests only", name))
			}
			continue
		}
		for _, e := range r.Engines {
			if e.Tests && (dep == e.Module || strings.HasPrefix(dep, e.Module+"/")) {
				bad = append(bad, fmt.Sprintf("%s is in the binary and is for tests only", dep))
			}
		}
	}
	return bad
}
