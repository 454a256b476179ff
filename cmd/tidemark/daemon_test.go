package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tidemark/indexer/follow"
	"tidemark/internal/config"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/open"
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

// While a table is opened, which on a dead mount takes for ever, others can be: the lock is free. A table behind a network has one place, whoever
// asks first.
func TestPlacesOpenOutsideTheLock(t *testing.T) {
	t.Parallel()
	p := newPlaces(config.Storage{}, nil)
	var asks []string
	var opened []mdt.Place
	p.at = func(ctx context.Context, url, sink string, _ open.Options) (mdt.Place, error) {
		asks = append(asks, url)
		if !p.mu.TryLock() {
			t.Fatalf("the lock is held while %s is opened", url)
		}
		p.mu.Unlock()
		if len(asks)%2 == 1 { // another one asks for the same table, and has it before this is over
			place, err := p.open(ctx, follow.TableConfig{URL: url, Sink: sink})
			if err != nil {
				t.Fatal(err)
			}
			opened = append(opened, place)
		}
		return mdt.Inside(mem.New(url)), nil
	}
	for _, x := range []struct {
		url, sink string
		one       bool
	}{{"/local", "", false}, {"s3://b/t", "", true}, {"s3://b/t", "/local", false}} {
		asks, opened = nil, nil
		for range 2 {
			place, err := p.open(t.Context(), follow.TableConfig{URL: x.url, Sink: x.sink})
			if err != nil {
				t.Fatal(err)
			}
			opened = append(opened, place)
		}
		for _, place := range opened[1:] {
			if (place == opened[0]) != x.one {
				t.Errorf("%s: one place: %v, want %v", x.url, !x.one, x.one)
			}
		}
		if want := map[bool]int{true: 2, false: 4}[x.one]; len(asks) != want {
			t.Errorf("%s was opened %d times, want %d", x.url, len(asks), want)
		}
	}
}
