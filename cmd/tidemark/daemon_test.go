package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tidemark/internal/config"
)

// A table is followed once, however its path is written, and always by its whole path: writers' callbacks name it so.
func TestPathsOfTables(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, err := range []error{os.MkdirAll("n/words", 0o755), os.MkdirAll("n2", 0o755), os.Symlink(filepath.Join(dir, "n", "words"), "link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := filepath.Join(dir, "n", "words")
	load := func(file string, tables ...string) (*config.Loaded, error) {
		var s settingsFlags
		c := &cobra.Command{}
		s.add(c)
		s.file = file
		return s.load(c, "", tables)
	}
	for _, one := range []string{"n/words", "./n/../n/words/", whole, "n2/../n/words"} {
		l, err := load("", one)
		if err != nil || l.Tables[0].Path != whole {
			t.Errorf("%s: %+v, %v", one, l, err)
		}
	}
	for _, twice := range []string{whole, "n2/../n/words", "link", "file://" + whole, "./n/words"} {
		if _, err := load("", "n/words", twice); err == nil || !strings.Contains(err.Error(), "is that of tables[0], too") {
			t.Errorf("%s: %v", twice, err)
		}
		text := "tables: [n/words, " + twice + "]\n"
		if err := os.WriteFile("c.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := load("c.yaml"); err == nil || !strings.Contains(err.Error(), "is that of tables[0], too") {
			t.Errorf("%s in a file: %v", twice, err)
		}
	}
	if l, err := load("", "s3://b/t"); err != nil || l.Tables[0].Path != "s3://b/t" {
		t.Errorf("a URL: %+v, %v", l, err)
	}
}
