package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Root returns the top folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Packages lists the packages of the module below root with the go command.
func Packages(root string) ([]Package, error) {
	out, err := run(root, "go", "list", "-e", "-json=ImportPath,Imports,Deps", "./...")
	if err != nil {
		return nil, err
	}
	var pkgs []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath    string
			Imports, Deps []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		pkgs = append(pkgs, Package{Path: strings.TrimPrefix(p.ImportPath, Module+"/"), Imports: p.Imports, Deps: p.Deps})
	}
}

// Tracked lists the files of the repository, relative to root and slash separated: those that git knows or would
// take, or, in a copy without git, all there are.
func Tracked(root string) ([]string, error) {
	out, err := run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err == nil {
		var files []string
		for _, f := range strings.Split(string(out), "\x00") {
			if f == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, f)); err == nil { // not one just removed
				files = append(files, f)
			}
		}
		return files, nil
	}
	var files []string
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	return files, err
}

// run returns what a command prints on its standard output.
func run(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w: %s", name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
