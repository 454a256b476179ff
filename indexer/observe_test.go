package indexer_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
)

// recorder keeps what it is told.
type recorder struct {
	mu      sync.Mutex
	covered []indexer.CoveredInstant
}

func (r *recorder) Covered(c indexer.CoveredInstant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.covered = append(r.covered, c)
}

func (r *recorder) Folded(string, time.Duration) {}

// The observer is told the same of each commit as its marker says, once, with the bytes that it took.
func TestObserverIsToldWhatMarkersSay(t *testing.T) {
	t.Parallel()
	plain := place(t, "mor_compaction_clean")
	create(t, plain, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, plain)}, map[string]string{"vector.num_clusters": "4"})
	p := mdt.Inside(indexer.Meter(plain.Store, 4))
	seen := &recorder{}
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{Observer: seen, Table: "orders", MaxInstants: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.covered) != r.Processed || r.Processed == 0 {
		t.Fatalf("told of %d commits, %d were covered", len(seen.covered), r.Processed)
	}
	told := map[string]map[string]int64{}
	read, written := int64(0), int64(0)
	for _, c := range seen.covered {
		told[c.Requested] = c.Counts
		s := c.Steps
		if c.Table != "orders" || c.Commit == "" || s.Looked.IsZero() || s.Compared.Before(s.Looked) || s.Visible.Before(s.Compared.Truncate(time.Second)) {
			t.Errorf("told %+v", c)
		}
		for _, kind := range indexer.Kinds {
			read, written = read+c.Read[kind], written+c.Written[kind]
		}
		if len(told) == 1 && (c.Read["timeline"] == 0 || c.Read["base"]+c.Read["log"] == 0 || c.Written["index"] == 0 || c.Written["state"] == 0) {
			t.Errorf("bytes of the batch: read %v, written %v", c.Read, c.Written)
		}
	}
	want := counts(t, p)
	for requested := range want {
		if told[requested] == nil {
			delete(want, requested)
		}
	}
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("(-markers +told)\n%s", d)
	}
}
