package timeline_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

const dotHoodie = ".hoodie"

// table is a new store with the timeline folders of a fixture table: no data files, which would only cost time.
func table(t testing.TB, name string) *mem.Store {
	t.Helper()
	unpacked.Lock()
	defer unpacked.Unlock()
	if unpacked.byName[name] == nil {
		unpacked.byName[name] = unpack(t, name)
	}
	return unpacked.byName[name].Clone()
}

var unpacked = struct {
	sync.Mutex // guards byName
	byName     map[string]*mem.Store
}{byName: map[string]*mem.Store{}}

func unpack(t testing.TB, name string) *mem.Store {
	t.Helper()
	f, err := os.Open(testkit.Path("tables/" + name + ".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	st := mem.New(name)
	st.SetClock(func() time.Time { return time.Unix(0, 0) }) // as in the tarballs
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return st
		}
		if err != nil {
			t.Fatal(err)
		}
		_, path, _ := strings.Cut(h.Name, "/")
		inMetadata := strings.HasPrefix(path, ".hoodie/metadata/") && !strings.HasPrefix(path, ".hoodie/metadata/.hoodie/")
		if h.Typeflag != tar.TypeReg || !strings.HasPrefix(path, ".hoodie/") || inMetadata {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Create(t.Context(), path, b); err != nil {
			t.Fatal(err)
		}
	}
}

func fixture(t testing.TB, name string) (storage.Store, *timeline.Properties, *timeline.Timeline) {
	t.Helper()
	st := table(t, name)
	p, tl, err := timeline.Open(t.Context(), st, dotHoodie)
	if err != nil {
		t.Fatal(err)
	}
	return st, p, tl
}

// goneInstant is one entry of an oracle's "gone" list.
type goneInstant struct {
	Requested string `json:"requested"`
	Action    string `json:"action"`
}

func requestedIn(t testing.TB, raw json.RawMessage) goneInstant {
	t.Helper()
	var g goneInstant
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// files is a store of small texts by path.
func files(t testing.TB, content map[string]string) *mem.Store {
	t.Helper()
	st := mem.New("test")
	for path, text := range content {
		if _, err := st.Create(t.Context(), path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

const v9 = "#comment\nhoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.checksum=498511606\n"
