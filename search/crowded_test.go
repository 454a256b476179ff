package search

import (
	"testing"

	"tidemark/internal/vector/kernel"
)

// Of an approximate answer only four times K candidates are looked up at first. Where most of the nearest postings are of rows that are gone,
// it goes on until it has K live rows, the best by estimate, or says why not: either no more live, or the bound of candidates came.
func TestApproximateAmongStalePostings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rows, stale, k, want int }{
		"enough are left":        {3000, 1200, 10, 10},
		"the last ones of all":   {3000, 2990, 10, 10},
		"too few are left":       {3000, 2996, 10, 4},
		"none is left":           {600, 600, 10, 0},
		"beyond the bound, none": {maxRerank + 1500, maxRerank + 1000, 10, 0},
		"at the bound, some":     {maxRerank + 1500, maxRerank - 4, 10, 4},
	} {
		w := newWorld(t, c.rows, 4, kernel.L2)
		q := w.vector("k0007")
		all := w.engine(t, q, c.rows, 4)
		all.rerank = false
		ranked := all.must(t).Results // by estimate, while all live
		if len(ranked) != c.rows {
			t.Fatalf("%s: %d rows of %d", name, len(ranked), c.rows)
		}
		for _, r := range ranked[:c.stale] {
			delete(w.rows, r.Key)
			delete(w.where, r.Key)
		}
		w.asked = 0
		e := w.engine(t, q, c.k, 4)
		e.rerank = false
		a := e.must(t)
		bounded := c.stale+c.k > maxRerank
		if bounded && c.want > 0 { // the heap's order is not quite that of estimates, see hit
			if n := len(a.Results); n == 0 || n >= c.k {
				t.Errorf("%s: %d rows", name, n)
			}
		} else {
			same(t, a.Results, ranked[c.stale:c.stale+c.want])
		}
		if a.Complete == bounded || bounded == (a.Reason == "") {
			t.Errorf("%s: complete %v, %q, %+v", name, a.Complete, a.Reason, a.Stats)
		}
		if a.Stats.Candidates != w.asked || a.Stats.Candidates > maxRerank || a.Stats.Dead > c.stale {
			t.Errorf("%s: looked up %d keys, %+v", name, w.asked, a.Stats)
		}
	}
}
