package indexer_test

import (
	"slices"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
)

// folds counts the folds it is told of, beside what recorder keeps.
type folds struct {
	recorder
	n int
}

func (f *folds) Folded(string, time.Duration) { f.n++ }

// The steps of a commit ascend, name its file groups, are kept, and are what trace tells; folds are told, too.
func TestStepsAreToldAndKept(t *testing.T) {
	t.Parallel()
	p := place(t, "mor_compaction_clean")
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "4"})
	seen := &folds{}
	made := 0
	for {
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{Observer: seen, MaxInstants: 1, FoldEvery: 2})
		if err != nil {
			t.Fatal(err)
		}
		made += len(r.Folds)
		if r.Processed == 0 {
			break
		}
	}
	if seen.n != made || made == 0 {
		t.Errorf("told of %d folds, %d were made", seen.n, made)
	}
	groups := 0
	for _, c := range seen.covered {
		s := c.Steps
		at := []time.Time{s.Looked}
		for _, g := range s.Groups {
			at = append(at, g.From, g.To)
		}
		at = append(at, s.Compared, s.Encoded, s.Staged, s.Visible)
		if !slices.IsSortedFunc(at, func(a, b time.Time) int { return a.Round(0).Compare(b.Round(0)) }) || s.Looked.IsZero() || s.Staged.IsZero() {
			t.Errorf("%s: steps do not ascend: %v", c.Requested, at)
		}
		groups += len(s.Groups)
		all, err := coverage.Trace(t.Context(), coverage.Deps{Place: p}, c.Index, c.Requested)
		if err != nil {
			t.Fatal(err)
		}
		tr := all[0]
		if len(tr.Steps) != 5 || len(tr.Missing) != 0 || tr.MDTInstant != c.Commit {
			t.Fatalf("%s: trace %+v", c.Requested, tr)
		}
		for i, want := range []time.Time{c.CompletedAt, s.Looked, s.Compared, s.Staged, s.Visible} {
			if got := tr.Steps[i]; got.AtMS != want.UnixMilli() {
				t.Errorf("%s: %s at %d, told %d", c.Requested, got.Name, got.AtMS, want.UnixMilli())
			}
		}
	}
	if groups < len(seen.covered) {
		t.Errorf("%d file groups in %d commits", groups, len(seen.covered))
	}
	t.Logf("%d commits, %d file groups, %d folds", len(seen.covered), groups, made)
}
