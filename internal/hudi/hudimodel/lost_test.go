package hudimodel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/internal/hudi/hudimodel"
)

// A level file is missing from the archive before the index first sees that archive, and the metadata table, which followed nothing, cannot
// tell: the archive's own folder is consistent. The catch-up ends with a comparison with the whole table, so that its rows are right whatever was lost.
func TestArchiveThatLostAFileUnseen(t *testing.T) {
	t.Parallel()
	const archive = ".hoodie/timeline/history/"
	levels := func(w *hudimodel.World) (out []string) {
		for _, p := range w.Store.Paths() {
			if name, ok := strings.CutPrefix(p, archive); ok && strings.HasSuffix(name, ".parquet") {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	remove := func(t *testing.T, w *hudimodel.World, name string) {
		if err := w.Store.Delete(t.Context(), archive+name); err != nil {
			t.Fatal(err)
		}
	}
	unname := func(t *testing.T, w *hudimodel.World, name string) {
		b, _, err := w.Store.ReadFile(t.Context(), archive+"manifest_2")
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Files []struct {
				Name string `json:"fileName"`
				Len  int    `json:"fileLen"`
			} `json:"files"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		left, before := m.Files[:0], len(m.Files)
		for _, f := range m.Files {
			if f.Name != name {
				left = append(left, f)
			}
		}
		if len(left) != before-1 {
			t.Fatalf("%s is not named", name)
		}
		m.Files = left
		if b, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		w.Store.Put(archive+"manifest_2", b, time.Time{})
	}
	for name, lose := range map[string]func(t *testing.T, w *hudimodel.World){
		"nothing":                     func(*testing.T, *hudimodel.World) {},
		"the last file is not named":  func(t *testing.T, w *hudimodel.World) { unname(t, w, levels(w)[1]) },
		"the last file is gone":       func(t *testing.T, w *hudimodel.World) { l := levels(w)[1]; unname(t, w, l); remove(t, w, l) },
		"the first file is gone":      func(t *testing.T, w *hudimodel.World) { l := levels(w)[0]; unname(t, w, l); remove(t, w, l) },
		"the first file is not named": func(t *testing.T, w *hudimodel.World) { unname(t, w, levels(w)[0]) },
		"the version is an earlier one": func(t *testing.T, w *hudimodel.World) {
			remove(t, w, "manifest_2")
			w.Store.Put(archive+"_version_", []byte("1"), time.Time{})
		},
		"the folder is empty": func(t *testing.T, w *hudimodel.World) {
			for _, p := range w.Store.Paths() {
				if strings.HasPrefix(p, archive) {
					remove(t, w, strings.TrimPrefix(p, archive))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t, hudimodel.Config{})
			for i := range 12 {
				c := h.w.Begin("commit", "INSERT")
				c.Base("eu", fmt.Sprintf("h-%d", i), row(fmt.Sprintf("k%d", i), west))
				c.Complete()
				if i == 7 || i == 10 {
					if h.w.Archive(3) == 0 {
						t.Fatal("nothing was archived")
					}
				}
			}
			if len(levels(h.w)) != 2 {
				t.Fatalf("level files %v", levels(h.w))
			}
			lose(t, h.w)
			d := coverage.Deps{Place: h.place}
			r, err := indexer.Sync(t.Context(), h.place, indexer.SyncOptions{})
			if err == nil && len(r.Reconciled) != 1 {
				t.Errorf("%d indexes compared with the table", len(r.Reconciled))
			}
			s, statusErr := coverage.Status(t.Context(), d)
			v, verifyErr := coverage.Verify(t.Context(), d, coverage.VerifyRequest{})
			if statusErr != nil || verifyErr != nil {
				t.Fatal(statusErr, verifyErr)
			}
			t.Logf("sync: %v; %s %v", err, s[0].State, v.OK)
			if s[0].Fresh != (err == nil) || s[0].Fresh && !v.OK {
				t.Errorf("sync: %v; status: %+v; verify: %+v", err, s[0], v)
			}
			if _, err := coverage.Prove(t.Context(), d, ""); s[0].Fresh != (err == nil) {
				t.Errorf("prove: %v", err)
			}
			if name == "nothing" && err != nil {
				t.Error(err)
			}
		})
	}
}
