package indexertest

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/rabitq"
	"tidemark/sink"
)

var tables sync.Map // fixture name → *mem.Store

// Store returns a private copy of a fixture table in memory.
func Store(t testing.TB, name string) *mem.Store {
	t.Helper()
	if st, ok := tables.Load(name); ok {
		return st.(*mem.Store).Clone()
	}
	st, err := mem.FromDir(name, testkit.Table(t, name))
	if err != nil {
		t.Fatal(err)
	}
	tables.Store(name, st)
	return st.Clone()
}

// Create builds an index as of an instant ("" = latest) and returns its result.
func Create(t testing.TB, p mdt.Place, req generation.CreateRequest, options map[string]string) *generation.Result {
	t.Helper()
	tb, err := table.Open(t.Context(), p.Store)
	if err != nil {
		t.Fatal(err)
	}
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: sink.Config{Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	if req.Options, err = generation.ParseOptions(options); err != nil {
		t.Fatal(err)
	}
	req.Place = p
	r, err := generation.Create(t.Context(), tb, c, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// EarliestInstant is the first commit, by requested time, from which on every snapshot of a table can be read.
func EarliestInstant(t testing.TB, p mdt.Place) string {
	t.Helper()
	tb, err := table.Open(t.Context(), p.Store)
	if err != nil {
		t.Fatal(err)
	}
	at, err := tb.EarliestReadable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Opened is an index with its generation and the view that it is read by.
func Opened(t testing.TB, p mdt.Place, index string) (*generation.Generation, *mdt.View) {
	t.Helper()
	st, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	view, err := mdt.OpenView(t.Context(), p, st, index)
	if err != nil {
		t.Fatal(err)
	}
	g, err := generation.Load(t.Context(), view, st.Indexes[index])
	if err != nil {
		t.Fatal(err)
	}
	return g, view
}

// Posting is a live posting without the place where it is stored.
type Posting struct {
	Cluster int
	Locator delta.Locator
	Binary  string
	Factors rabitq.Factors
}

// Postings are the live postings of an index by record key.
func Postings(t testing.TB, p mdt.Place, index string) map[string]Posting {
	t.Helper()
	g, view := Opened(t, p, index)
	out := map[string]Posting{}
	err := g.Postings(t.Context(), view, func(x generation.Posting) error {
		if _, twice := out[x.Key]; twice {
			return fmt.Errorf("key %q has two live postings", x.Key)
		}
		f := x.Factors
		f.VectorNorm = 0 // blocks leave it out where the metric does not need it
		out[x.Key] = Posting{Cluster: x.Cluster, Locator: x.Locator, Binary: string(x.Binary), Factors: f}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Markers are the markers of a table's indexes.
func Markers(t testing.TB, p mdt.Place) []coverage.Marker {
	t.Helper()
	list, err := coverage.Markers(t.Context(), coverage.Deps{Place: p}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Counts are what markers count, by the requested time of their commit.
func Counts(t testing.TB, p mdt.Place) map[string]map[string]int64 {
	t.Helper()
	out := map[string]map[string]int64{}
	for _, m := range Markers(t, p) {
		out[m.Requested] = m.Counts
	}
	return out
}

// Outcome is what must be the same of an index with and without a kill: everything but ids and times.
type Outcome struct {
	Postings map[string]Posting
	Covered  map[string]string
	Frontier mdt.Frontier
	Counts   map[string]map[string]int64
}

// OutcomeOf is the outcome of the index embedding_idx.
func OutcomeOf(t testing.TB, p mdt.Place) Outcome {
	t.Helper()
	st, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	x := st.Indexes["embedding_idx"]
	return Outcome{Postings: Postings(t, p, "embedding_idx"), Covered: x.Covered, Frontier: x.Frontier, Counts: Counts(t, p)}
}

// Dead is a sink of a process that takes every owner of a lease on its host for dead.
func Dead() sink.Config {
	return sink.Config{Host: "host", PID: 1, Alive: func(int) bool { return false }}
}

// Afterwards is later than every instant of the recorded tables: a bubble's clock begins in the year 2000.
var Afterwards = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// InBubble runs a test in the year of the tables.
func InBubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(Afterwards))
		fn(t)
	})
}

// ProcessorTime is what the process has used so far.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
