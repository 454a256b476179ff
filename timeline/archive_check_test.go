package timeline_test

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// Whatever is missing, cut or turned back in the recorded archive's folder is seen without reading a level file.
func TestArchiveFolderIsCompared(t *testing.T) {
	t.Parallel()
	opened, p, tl := fixture(t, "archived")
	st := opened.(*mem.Store)
	reach, err := timeline.NewArchive(st, dotHoodie, p).Reach(t.Context())
	if err != nil || reach.Version < 2 || reach.Upto == "" {
		t.Fatalf("%+v, %v", reach, err)
	}
	var levels, manifests []string
	for _, f := range st.Paths() {
		switch name := path.Base(f); {
		case path.Dir(f)+"/" != history:
		case strings.HasSuffix(name, ".parquet"):
			levels = append(levels, f)
		case strings.HasPrefix(name, "manifest_"):
			manifests = append(manifests, f)
		}
	}
	content := func(st *mem.Store, f string) []byte {
		b, _, err := st.ReadFile(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	named := func() (f string) { // the newest level file that the manifest names
		b := content(st, history+"manifest_"+string(content(st, history+"_version_")))
		for _, l := range levels {
			if bytes.Contains(b, []byte(path.Base(l))) {
				f = l
			}
		}
		return f
	}()
	remove := func(t *testing.T, st *mem.Store, files ...string) {
		for _, f := range files {
			if err := st.Delete(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(name, text string) func(*testing.T, *mem.Store) {
		return func(_ *testing.T, st *mem.Store) { st.Put(history+name, []byte(text), time.Time{}) }
	}
	for name, damage := range map[string]func(*testing.T, *mem.Store){
		"a level file is gone":   func(t *testing.T, st *mem.Store) { remove(t, st, named) },
		"a level file is cut":    func(_ *testing.T, st *mem.Store) { st.Put(named, content(st, named)[:100], time.Time{}) },
		"a level file is empty":  func(_ *testing.T, st *mem.Store) { st.Put(named, nil, time.Time{}) },
		"a level file has grown": func(_ *testing.T, st *mem.Store) { st.Put(named, append(content(st, named), 0), time.Time{}) },
		"the manifests are gone": func(t *testing.T, st *mem.Store) { remove(t, st, manifests...) },
		"the newest manifest is gone": func(t *testing.T, st *mem.Store) {
			remove(t, st, history+"manifest_"+string(content(st, history+"_version_")))
		},
		"all is gone": func(t *testing.T, st *mem.Store) {
			remove(t, st, append(append([]string{history + "_version_"}, manifests...), levels...)...)
		},
		"the version is empty":  put("_version_", ""),
		"the version is zero":   put("_version_", "0"),
		"the version is none":   put("_version_", "abc"),
		"the version is ahead":  put("_version_", "999"),
		"the version is behind": put("_version_", "1"),
		"the manifest is cut":   put("manifest_"+string(content(st, history+"_version_")), `{"files":[`),
		"the manifest is empty": put("manifest_"+string(content(st, history+"_version_")), `{"files":[]}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := st.Clone()
			damage(t, st)
			err := timeline.NewArchive(st, dotHoodie, p).Check(t.Context(), tl, reach)
			if !errors.Is(err, storage.ErrCorrupt) || storage.Hint(err) == "" || !strings.Contains(err.Error(), "history") {
				t.Errorf("%v; %s", err, storage.Hint(err))
			}
		})
	}
	for name, healthy := range map[string]func(*testing.T, *mem.Store){
		"nothing":                           func(*testing.T, *mem.Store) {},
		"the version is gone":               func(t *testing.T, st *mem.Store) { remove(t, st, history+"_version_") }, // it is deleted and made anew
		"a file of no manifest":             put(at(1)+"_"+at(2)+"_0.parquet", "x"),
		"a manifest that was being written": put("manifest_999", `{"files":[`),
		"a manifest whose instants are active": func(_ *testing.T, st *mem.Store) {
			put("manifest_999", `{"files":[{"fileName":"`+at(1)+"_"+tl.Earliest()+`_0.parquet","fileLen":7}]}`)(t, st)
		},
	} {
		t.Run("sound: "+name, func(t *testing.T) {
			t.Parallel()
			st := st.Clone()
			healthy(t, st)
			if err := timeline.NewArchive(st, dotHoodie, p).Check(t.Context(), tl, reach); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("a version turned back to a manifest that is there", func(t *testing.T) {
		t.Parallel()
		st := mem.New("t")
		archive(t, st, 1, commitRows(1, 5))
		archive(t, st, 2, commitRows(1, 5), commitRows(6, 9))
		put("_version_", "1")(t, st)
		if err := newArchive(t, st).Check(t.Context(), tl, timeline.Reach{}); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "manifest 2") {
			t.Error(err)
		}
	})
	t.Run("nothing was archived", func(t *testing.T) {
		t.Parallel()
		st := mem.New("t")
		if err := newArchive(t, st).Check(t.Context(), tl, timeline.Reach{}); err != nil {
			t.Error(err)
		}
	})
}

// A changed byte of a level file is seen by reading it whole, unless it lies in the filter or inside a text.
func TestArchiveIsReadWhole(t *testing.T) {
	t.Parallel()
	opened, p, _ := fixture(t, "archived")
	st := opened.(*mem.Store)
	if n, err := timeline.NewArchive(st, dotHoodie, p).Verify(t.Context()); n != 72 || err != nil {
		t.Fatalf("%d rows, %v", n, err)
	}
	m := ""
	for _, f := range st.Paths() {
		if strings.HasPrefix(f, history) && strings.HasSuffix(f, ".parquet") {
			m = f
		}
	}
	b, _, err := st.ReadFile(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	const flips = 100
	seen := 0
	for i := range flips {
		st, b := st.Clone(), bytes.Clone(b)
		b[i*len(b)/flips] ^= 0xff
		st.Put(m, b, time.Time{})
		if _, err := timeline.NewArchive(st, dotHoodie, p).Verify(t.Context()); err != nil {
			if seen++; !strings.Contains(err.Error(), path.Base(m)) {
				t.Errorf("byte %d: %v", i*len(b)/flips, err)
			}
		}
	}
	if seen < flips/4 { // more than half of the file is a filter
		t.Errorf("%d of %d changed bytes were seen", seen, flips)
	}
}
