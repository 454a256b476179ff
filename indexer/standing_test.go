package indexer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/search"
)

// What makes status not fresh makes search, prove and wait not fresh, for the same reason: none trusts files that are not there,
// belong to another engine, or lie in a table that this build does not read.
func TestDamageIsSeenByEveryCommand(t *testing.T) {
	t.Parallel()
	begin := store(t, "mor_basic")
	create(t, mdt.Inside(begin), generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "2"})
	if _, err := indexer.Sync(t.Context(), mdt.Inside(begin), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	_, cert := certificate(t, mdt.Inside(begin))
	version := func(to string) func(t *testing.T, st *mem.Store) {
		return func(t *testing.T, st *mem.Store) {
			const file = ".hoodie/hoodie.properties"
			b, info, err := st.ReadFile(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(b), "hoodie.table.version=9", "hoodie.table.version="+to)
			st.Put(file, []byte(text), info.ModTime)
			st.Put(file+".backup", []byte(text), info.ModTime)
		}
	}
	remove := func(file string) func(t *testing.T, st *mem.Store) {
		return func(t *testing.T, st *mem.Store) {
			if err := st.Delete(t.Context(), file); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, st *mem.Store)
		want   coverage.State
	}{
		{"none", func(*testing.T, *mem.Store) {}, coverage.StateFresh},
		{"metafile of another engine", func(_ *testing.T, st *mem.Store) {
			st.Put(".hoodie/metadata/vector_index_embedding_idx/.hoodie_partition_metadata", nil, time.Time{})
		}, coverage.StateHandedOver},
		{"defined by another engine", func(_ *testing.T, st *mem.Store) {
			st.Put(".hoodie/.index_defs/index.json", []byte(`{"indexDefinitions":{"vector_index_embedding_idx":{}}}`), time.Time{})
		}, coverage.StateHandedOver},
		{"metadata table gone", remove(".hoodie/metadata/.hoodie/hoodie.properties"), coverage.StateAbsent},
		{"table version 10", version("10"), coverage.StateUnsupported},
		{"table version 6", version("6"), coverage.StateUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := begin.Clone()
			tt.damage(t, st)
			seenByAll(t, st, tt.want, cert)
		})
	}
}

// seenByAll checks that status says a state, and that search, prove, prove --check and wait say the same for the same reason. cert is of
// the table as it was.
func seenByAll(t *testing.T, st *mem.Store, want coverage.State, cert []byte) coverage.IndexStatus {
	t.Helper()
	p, ctx := mdt.Inside(st), t.Context()
	s := status(t, p)
	fresh := want == coverage.StateFresh
	if s.State != want || s.Fresh != fresh {
		t.Fatalf("status: %s, fresh %v (%s)", s.State, s.Fresh, s.Reason)
	}
	says := func(command, text string) {
		t.Helper()
		if !strings.Contains(text, s.Reason) {
			t.Errorf("%s says %q, status %q", command, text, s.Reason)
		}
	}

	c, err := coverage.Prove(ctx, coverage.Deps{Place: p}, "")
	switch {
	case fresh && (err != nil || !c.Fresh):
		t.Errorf("prove: %+v, %v", c, err)
	case !fresh && err == nil:
		t.Errorf("prove certifies, fresh %v", c.Fresh)
	case !fresh:
		says("prove", err.Error())
	}

	if r := check(t, p, cert); r.OK != fresh {
		t.Errorf("prove --check: %v", r.OK)
	} else {
		says("prove --check", strings.Join(r.Problems, "; "))
	}

	w, err := coverage.Wait(ctx, coverage.Deps{Place: p}, coverage.WaitRequest{Covers: s.Latest.Requested})
	if err != nil || w.Covered != fresh {
		t.Errorf("wait: %+v, %v", w, err)
	} else {
		says("wait", w.Reason)
	}

	a, err := search.Search(ctx, search.Deps{Place: p, Freshness: judged}, search.Request{K: 3, Vector: []float64{1, 0, 0, 0, 0, 0, 0, 0}, Policy: search.Fail})
	switch {
	case fresh || errors.Is(err, storage.ErrStale) && a != nil && !a.Fresh:
		if !fresh {
			says("search", err.Error())
		}
	case !errors.Is(err, storage.ErrUnsupported) && !errors.Is(err, storage.ErrCorrupt): // the table itself refuses
		t.Errorf("search: %+v, %v", a, err)
	}
	a, err = search.Search(ctx, search.Deps{Place: p, Freshness: judged}, search.Request{K: 3, Vector: []float64{1, 0, 0, 0, 0, 0, 0, 0}, Mode: search.BruteForce})
	if err == nil && a.Fresh != fresh || err != nil && fresh {
		t.Errorf("search by brute force: %+v, %v", a, err)
	}
	return s
}

// judged is how the command line connects search with coverage.
func judged(ctx context.Context, t *table.Table, st *mdt.State, index string) (search.Freshness, error) {
	v, err := coverage.Fresh(ctx, mdt.Inside(t.Store), t, st, index)
	return search.Freshness{Fresh: v.Fresh, Reason: v.Reason}, err
}
