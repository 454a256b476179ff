package coverage_test

import (
	"slices"
	"strings"
	"testing"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/fault"
)

// A reader whose state was read before a fold, or another commit of ours, replaced the files that it names does not take them for lost. Files
// that a newer state misses, too, or that were deleted without one, are.
func TestFilesReplacedUnderAReader(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		newer, there, dropped bool
		want                  coverage.State
	}{
		"replaced":                        {newer: true, there: true, want: coverage.StateFresh},
		"replaced by a file that is gone": {newer: true, want: coverage.StateAbsent},
		"deleted":                         {there: true, want: coverage.StateAbsent},
		"dropped meanwhile":               {newer: true, there: true, dropped: true, want: coverage.StateAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, 3)
			d := w.deps()
			done := false
			d.Place.Store = fault.New(w.store, fault.Config{Before: func(_ int, op, path string) error {
				if done || op != "list" || !strings.HasSuffix(path, "vector_index_embedding_idx") {
					return nil
				}
				done = true
				w.drop(metadata + "vector_index_embedding_idx/base.hfile")
				if tt.there {
					w.put(metadata+"vector_index_embedding_idx/folded.hfile", "xxxxx")
				}
				if tt.newer {
					next := w.state.Clone()
					next.Revision++
					next.Base = []mdt.DataFile{{Path: "vector_index_embedding_idx/folded.hfile", Index: "embedding_idx", Size: 5, Base: true}}
					next.Indexes["embedding_idx"].Dropped = tt.dropped
					b, err := mdt.EncodeState(next)
					if err != nil {
						t.Fatal(err)
					}
					w.put(".hoodie/.tidemark/state.json", string(b))
				}
				return nil
			}})
			all, err := coverage.Status(t.Context(), d)
			if err != nil || len(all) != 1 || all[0].State != tt.want || all[0].Fresh != (tt.want == coverage.StateFresh) {
				t.Errorf("%+v, %v", all, err)
			}
			if !slices.Contains(w.store.Paths(), ".hoodie/.tidemark/state.json") || !done {
				t.Error("nothing was replaced")
			}
		})
	}
}
