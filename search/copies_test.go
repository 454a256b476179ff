package search_test

import (
	"testing"

	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
)

// A key that lives twice is one row in every mode and every partition, and the record index alone does not decide which.
func TestCopiesAreOneRow(t *testing.T) {
	t.Parallel()
	st := indexed(t, "keys_unicode", "embedding", "", "vector.num_clusters", "4", "tidemark.on_duplicate_key", "last_wins", "vector.metric", "cosine")
	rows := live(t, "keys_unicode", "embedding", kernel.Cosine, kernel.Float)
	const twice = "\U00010348"
	partitions := map[string][]testkit.Row{}
	var key *testkit.Row
	for i, r := range rows {
		partitions[r.Partition] = append(partitions[r.Partition], r)
		if r.Key == twice {
			key = &rows[i]
		}
	}
	if key == nil {
		t.Fatal("the table has no key twice")
	}
	q := floats(t, key.Vector("embedding"), kernel.Float)
	for partition, of := range partitions {
		wide := widened(t, of, "embedding", kernel.Float)
		for _, mode := range []search.Mode{search.ExactRerank, search.BruteForce} {
			a := mustSearch(t, st, search.Request{Vector: q, K: len(of) + 1, Mode: mode, Partitions: []string{partition}, NProbes: clusters(t, st)})
			same(t, string(mode)+" in "+partition, a.Results, nearest(t, of, wide, kernel.Cosine, q, len(of)))
			if mode == search.ExactRerank && partition == key.Partition && a.Stats.Copied == 0 {
				t.Errorf("no candidate was looked for elsewhere: %+v", a.Stats)
			}
		}
	}
	for _, mode := range []search.Mode{search.ExactRerank, search.Approximate, search.BruteForce} {
		a := mustSearch(t, st, search.Request{Key: twice, K: len(rows) + 1, Mode: mode})
		n := 0
		for _, r := range a.Results {
			if r.Key == twice {
				n++
			}
		}
		if n != 1 || len(a.Results) != len(rows) || a.Results[0].Key != twice {
			t.Errorf("%s: key %d times among %d rows of %d, first %q", mode, n, len(a.Results), len(rows), a.Results[0].Key)
		}
	}
}
