package search_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/search"
	"tidemark/sink"
)

// An index that is dropped in the middle of a query, or dropped and built anew with another metric, its old files gone: the answer by one of
// the two indexes, or a clear error; whatever file was just being read.
func TestDropAndRebuildUnderAReader(t *testing.T) {
	t.Parallel()
	origin := basic(t)
	q := search.Request{Key: "k0001", K: 6}
	other := indexed(t, "mor_basic", "embedding", "", "vector.num_clusters", "4", "vector.metric", "l2")
	before, after := mustSearch(t, origin, q), mustSearch(t, other, q)
	for _, rebuild := range []bool{false, true} {
		for _, mode := range []search.Mode{search.ExactRerank, search.Approximate} {
			ended := map[string]int{}
			for n := 1; ; n++ {
				st, reads := origin.Clone(), 0
				var mu sync.Mutex
				c := &counted{Store: st}
				c.before = func(path string) error {
					if mu.Lock(); strings.Contains(path, "vector_index_") {
						if reads++; reads == n {
							dropIndex(t, st, rebuild)
						}
					}
					mu.Unlock()
					return nil
				}
				r := q
				r.Mode = mode
				a, err := search.Search(t.Context(), deps(c, fresh), r)
				if reads < n {
					break
				}
				switch {
				case err != nil && !rebuild:
					ended["refused"]++
					if !errors.Is(err, storage.ErrNotFound) || a != nil || !strings.Contains(storage.Hint(err), "index create") {
						t.Errorf("%s, read %d: got %+v, %v, hint %q", mode, n, a, err, storage.Hint(err))
					}
				case err != nil:
					t.Errorf("%s, read %d: %v", mode, n, err)
				case mode == search.ExactRerank && a.Results[1].Distance == before.Results[1].Distance:
					ended["before"]++
					same(t, fmt.Sprint("read ", n), a.Results, before.Results)
				case mode == search.ExactRerank:
					ended["after"]++
					same(t, fmt.Sprint("read ", n), a.Results, after.Results)
				case !a.Complete || len(a.Results) != 6:
					t.Errorf("%s, read %d: %+v", mode, n, a)
				}
			}
			if mode == search.ExactRerank && len(ended) == 0 || rebuild && mode == search.ExactRerank && ended["after"] == 0 {
				t.Errorf("rebuild %v, %s: ended %v", rebuild, mode, ended)
			}
		}
	}
}

// dropIndex drops the index, with its files at once, and makes one of four clusters by L2 where that is asked for.
func dropIndex(t testing.TB, st *mem.Store, rebuild bool) {
	t.Helper()
	s, err := sink.Open(t.Context(), mdt.Inside(st), sink.Config{Schema: delta.SchemaJSON, Now: later, Owner: "test", Renew: time.Hour, Host: "host", PID: 1, Alive: func(int) bool { return false }})
	if err != nil {
		t.Error(err)
		return
	}
	if err := generation.Drop(t.Context(), committer{s}, "embedding_idx"); err != nil {
		t.Error(err)
	}
	for _, path := range st.Paths() {
		if strings.Contains(path, "vector_index_") {
			if err := st.Delete(t.Context(), path); err != nil {
				t.Error(err)
			}
		}
	}
	if !rebuild {
		return
	}
	o, err := generation.ParseOptions(map[string]string{"vector.num_clusters": "4", "vector.metric": "l2"})
	if err != nil {
		t.Error(err)
	}
	tab, err := table.Open(t.Context(), st)
	if err == nil {
		_, err = generation.Create(t.Context(), tab, committer{s}, generation.CreateRequest{Column: "embedding", Options: o})
	}
	if err != nil {
		t.Error(err)
	}
}
