package indexer_test

import (
	"runtime"
	"testing"

	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/fault"
	"tidemark/internal/testkit"
)

// What a catch-up takes for each commit does not grow with their number: requests, memory that is allocated, and instants that are judged.
// It runs alone, since what others allocate cannot be told from it.
func TestCatchUpIsLinear(t *testing.T) {
	testkit.Unraced(t)
	type work struct{ requests, bytes, judged float64 }
	of := func(n int) work {
		faulty := fault.New(absence(t, n), fault.Config{})
		p := mdt.Inside(faulty)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
		runtime.ReadMemStats(&after)
		if err != nil || r.Processed != n+1 {
			t.Fatalf("%d processed, %v", r.Processed, err)
		}
		each := float64(n)
		return work{float64(faulty.Calls()) / each, float64(after.TotalAlloc-before.TotalAlloc) / each, float64(indexer.Judged(r)) / each}
	}
	of(64) // what is made once
	few, many := of(640), of(2560)
	t.Logf("for each commit of 640: %.3g, of 2560: %.3g", few, many)
	for what, w := range map[string][2]float64{"requests": {few.requests, many.requests}, "bytes": {few.bytes, many.bytes}, "judged": {few.judged, many.judged}} {
		if w[1] > 1.1*w[0] {
			t.Errorf("%s for each commit: %.3g of 640 commits, %.3g of 2560", what, w[0], w[1])
		}
	}
	if many.judged > 4 {
		t.Errorf("%.3g judgements for each commit", many.judged)
	}
}
