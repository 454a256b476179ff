package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tidemark/fixtures"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/testkit"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// programDir is the folder of the built program; "" until it is built.
var programDir string

// program builds the program as `make build` does and returns its path. The scripts and documents run that one: under the
// race detector, which the tests of the rooms are for, the same commands take ten times as long.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidemark-test-")
	if err != nil {
		return "", err
	}
	programDir = dir
	file := filepath.Join(dir, "tidemark")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", file, "./cmd/tidemark")
	build.Dir, build.Env = testkit.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, out)
	}
	return file, nil
})

// TestScripts runs the command-line scripts in testdata. Beside testscript's own commands they have:
//
//	table NAME [DIR]     unpack the fixture table NAME; its base path is DIR, or NAME
//	made WHAT DIR        make up a table: nothing (no commit), none (a commit without rows), unindexable (NULL, NaN and zero vectors), or rows (two)
//	emptied DIR [null]   delete the rows of a table that was made up, or take their vectors away, by one more commit
//	remember DIR         note every file below DIR and its content
//	[!] unchanged DIR    compare with what was noted
//	flip FILE OFFSET     change every bit of one byte; a negative offset counts from the end; FILE may be a pattern
//	cut FILE N           leave the first N bytes; a negative N takes -N bytes away from the end
//	claim TABLE R C      write into the state that every index's baseline holds the instant requested at R, completed at C
//	unfinished TABLE I   write into the state that index I was left when its creation was killed, its files there and not active
//	json PATH PATTERN    some line of standard output is a JSON object whose value at PATH (a/b/0) matches PATTERN
//	exits CODE CMD...    run the program and compare its exit code
//	oneline stderr       the output is one line and begins with "tidemark: "
func TestScripts(t *testing.T) {
	t.Parallel()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOLDEN", testkit.Path("golden/mdt-files"))
			env.Setenv("PATH", filepath.Dir(file)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"table":      cmdTable,
			"made":       func(ts *testscript.TestScript, _ bool, args []string) { cmdMade(t, ts, args) },
			"emptied":    func(ts *testscript.TestScript, _ bool, args []string) { cmdEmptied(ts, args) },
			"remember":   cmdRemember,
			"unchanged":  cmdUnchanged,
			"flip":       cmdFlip,
			"cut":        cmdCut,
			"claim":      cmdClaim,
			"unfinished": cmdUnfinished,
			"json":       cmdJSON,
			"exits":      cmdExits,
			"oneline":    cmdOneLine,
		},
	})
}

func cmdTable(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(testkit.Path("tables/" + args[0] + ".tar.gz"))
	ts.Check(err)
	defer f.Close()
	dir := ts.MkAbs(".unpack")
	ts.Check(fixtures.Unpack(f, dir))
	ts.Check(os.Rename(filepath.Join(dir, args[0]), ts.MkAbs(args[len(args)-1])))
}

// tree returns the content hash of every file and folder below dir.
func tree(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			out[path] = "folder"
			return nil
		}
		b, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	return out, err
}

// remembered is where remember keeps a tree between commands of one script.
func remembered(ts *testscript.TestScript, dir string) string {
	return ts.MkAbs(".remembered-" + strings.NewReplacer("/", "_", "\\", "_").Replace(dir))
}

func cmdRemember(ts *testscript.TestScript, _ bool, args []string) {
	got, err := tree(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := json.Marshal(got)
	ts.Check(err)
	ts.Check(os.WriteFile(remembered(ts, args[0]), b, 0o644))
}

func cmdUnchanged(ts *testscript.TestScript, neg bool, args []string) {
	var want map[string]string
	b, err := os.ReadFile(remembered(ts, args[0]))
	ts.Check(err)
	ts.Check(json.Unmarshal(b, &want))
	got, err := tree(ts.MkAbs(args[0]))
	ts.Check(err)
	var changed []string
	for path, hash := range got {
		if want[path] != hash {
			changed = append(changed, path)
		}
	}
	for path := range want {
		if _, there := got[path]; !there {
			changed = append(changed, path+" (gone)")
		}
	}
	slices.Sort(changed)
	if neg != (len(changed) > 0) {
		ts.Fatalf("changed files: %q", changed)
	}
}

// edit applies change to the one file that a pattern names.
func edit(ts *testscript.TestScript, pattern string, change func([]byte) []byte) {
	names, err := filepath.Glob(ts.MkAbs(pattern))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("%s names no file", pattern)
	}
	b, err := os.ReadFile(names[0])
	ts.Check(err)
	ts.Check(os.WriteFile(names[0], change(b), 0o644))
}

// offset reads a place in n bytes; a negative one counts from the end.
func offset(ts *testscript.TestScript, s string, n int) int {
	at, err := strconv.Atoi(s)
	ts.Check(err)
	if at < 0 {
		at += n
	}
	if at < 0 || at > n {
		ts.Fatalf("offset %s of %d bytes", s, n)
	}
	return at
}

func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	edit(ts, args[0], func(b []byte) []byte {
		b[offset(ts, args[1], len(b))] ^= 0xff
		return b
	})
}

func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	edit(ts, args[0], func(b []byte) []byte { return b[:offset(ts, args[1], len(b))] })
}

func cmdClaim(ts *testscript.TestScript, _ bool, args []string) {
	edit(ts, filepath.Join(args[0], ".hoodie", ".tidemark", "state.json"), func(b []byte) []byte {
		st, err := mdt.DecodeState(b)
		ts.Check(err)
		for _, x := range st.Indexes {
			x.Baseline.Instants[args[1]] = args[2]
		}
		b, err = mdt.EncodeState(st)
		ts.Check(err)
		return b
	})
}

func cmdUnfinished(ts *testscript.TestScript, _ bool, args []string) {
	edit(ts, filepath.Join(args[0], ".hoodie", ".tidemark", "state.json"), func(b []byte) []byte {
		st, err := mdt.DecodeState(b)
		ts.Check(err)
		of := func(f mdt.DataFile) bool { return f.Index == args[1] }
		x := st.Indexes[args[1]]
		for i := range x.Generations {
			x.Generations[i].State, x.Generations[i].Activated = mdt.GenBuilding, ""
		}
		for _, f := range st.Base {
			if of(f) {
				x.Building = append(x.Building, f)
			}
		}
		st.Base = slices.DeleteFunc(st.Base, of)
		for i := range st.Commits {
			st.Commits[i].Files = slices.DeleteFunc(st.Commits[i].Files, of)
		}
		b, err = mdt.EncodeState(st)
		ts.Check(err)
		return b
	})
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH PATTERN")
	}
	want := regexp.MustCompile(args[1])
	found := false
	for _, line := range strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n") {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("not JSON: %q", line)
		}
		if text, ok := lookup(v, strings.Split(args[0], "/")); ok && want.MatchString(text) {
			found = true
		}
	}
	if found == neg {
		ts.Fatalf("%s: match of %q: %v", args[0], args[1], found)
	}
}

// lookup follows member names and positions into a decoded JSON value and returns what is there as JSON, strings
// without their quotes.
func lookup(v any, path []string) (string, bool) {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			inner, ok := x[p]
			if !ok {
				return "", false
			}
			v = inner
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(x) {
				return "", false
			}
			v = x[i]
		default:
			return "", false
		}
	}
	if s, ok := v.(string); ok {
		return s, true
	}
	b, err := json.Marshal(v)
	return string(b), err == nil
}

func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func cmdOneLine(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	if !strings.HasPrefix(text, "tidemark: ") || strings.Count(text, "\n") != 1 {
		ts.Fatalf("not one line of the program: %q", text)
	}
}
