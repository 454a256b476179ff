package follow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// stopwatch is how long each commit took from its appearance, or from its hint, until its index showed it.
type stopwatch struct {
	follow.Silent
	mu      sync.Mutex
	began   map[string]time.Time // by table and requested time
	took    []time.Duration
	covered *sync.WaitGroup
}

func (s *stopwatch) begin(table, requested string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[table+" "+requested] = time.Now()
	s.covered.Add(1)
}

// Covered implements follow.Observer.
func (s *stopwatch) Covered(c indexer.CoveredInstant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.began[c.Table+" "+c.Requested]; ok {
		s.took = append(s.took, c.Steps.Visible.Sub(at))
		s.covered.Done()
	}
}

func newStopwatch() *stopwatch {
	return &stopwatch{began: map[string]time.Time{}, covered: &sync.WaitGroup{}}
}

// report gives the median, the 99th percentile and the worst.
func (s *stopwatch) report(b *testing.B) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	n := len(s.took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(s.took[n/2]), "p50-ms")
	b.ReportMetric(ms(s.took[min(n-1, n*99/100)]), "p99-ms")
	b.ReportMetric(ms(s.took[n-1]), "max-ms")
}

// lookAt has each table looked at, and waits for that.
func (f *following) lookAt(stores map[string]storage.Store) {
	var done sync.WaitGroup
	for url := range stores {
		done.Add(1)
		f.Hint(source.Hint{Table: url, Done: func(err error) {
			if err != nil {
				f.t.Error(err)
			}
			done.Done()
		}})
	}
	done.Wait()
}

// quiet is a table with an index, to which commits without rows are added.
type quiet struct {
	st    *mem.Store
	last  string
	empty []byte
}

func quietTable(b *testing.B) quiet {
	b.Helper()
	st := indexertest.Store(b, "mor_basic")
	indexertest.Create(b, mdt.Inside(st), generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "2"})
	tb, err := table.Open(b.Context(), st)
	if err != nil {
		b.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	last := writes[len(writes)-1]
	meta, err := tb.Commit(b.Context(), last)
	if err != nil {
		b.Fatal(err)
	}
	empty, err := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": map[string]string{"schema": meta.Extra["schema"]}})
	if err != nil {
		b.Fatal(err)
	}
	return quiet{st: st, last: last.Completed, empty: empty}
}

// commit adds the i-th commit and gives its requested time.
func (q quiet) commit(b *testing.B, i int) string {
	at, err := timeline.AddMillis(q.last, 1000*(i+1))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := q.st.Create(b.Context(), ".hoodie/timeline/"+at+"_"+at[:14]+"999.deltacommit", q.empty); err != nil {
		b.Fatal(err)
	}
	return at
}

// BenchmarkFollowCommits is how many commits that changed no row a follower covers: a hint for each (each), or 64 that wait at each table (backlog), in memory.
// An iteration is one commit, or 64, for each table.
func BenchmarkFollowCommits(b *testing.B) {
	for _, many := range []int{1, 50} {
		for name, batch := range map[string]int{"each": 1, "backlog": 64} {
			b.Run(fmt.Sprintf("%s/tables=%d", name, many), func(b *testing.B) {
				one, stores, tables := quietTable(b), map[string]storage.Store{}, map[string]quiet{}
				for i := range many {
					q, url := one, fmt.Sprintf("/t%d", i)
					q.st = one.st.Clone()
					tables[url], stores[url] = q, q.st
				}
				f := launch(b, follow.Config{Interval: time.Hour, Look: time.Hour}, stores)
				f.lookAt(stores)
				b.ResetTimer()
				before := indexertest.ProcessorTime(b)
				for n := range b.N {
					var done sync.WaitGroup
					for url, q := range tables {
						requested := ""
						for i := range batch {
							requested = q.commit(b, n*batch+i)
						}
						done.Add(1)
						f.Hint(source.Hint{Table: url, Instant: requested, Received: time.Now(), Done: func(err error) {
							if err != nil {
								b.Error(err)
							}
							done.Done()
						}})
					}
					done.Wait()
				}
				b.StopTimer()
				commits := float64(b.N * many * batch)
				b.ReportMetric(commits/b.Elapsed().Seconds(), "commits/s")
				b.ReportMetric(float64((indexertest.ProcessorTime(b)-before).Microseconds())/commits, "cpu-µs/commit")
				if err := f.stop(); err != nil {
					b.Error(err)
				}
				for url, st := range stores {
					if got := len(coveredOf(b, st)); got < b.N*batch {
						b.Errorf("%s: %d of %d commits are covered", url, got, b.N*batch)
					}
				}
			})
		}
	}
}

// upcoming is late, but that the index was made when nobody could know of the commits to come: it has not seen times that are later than theirs.
func upcoming(b *testing.B, name string) *lateTable {
	b.Helper()
	l := late(b, name)
	l.st = indexertest.Store(b, name)
	p := mdt.Inside(l.st)
	at := indexertest.EarliestInstant(b, p)
	for f := range l.held {
		if err := l.st.Delete(b.Context(), f); err != nil {
			b.Fatal(err)
		}
	}
	indexertest.Create(b, p, generation.CreateRequest{Column: "embedding", AsOf: at}, map[string]string{"vector.num_clusters": "3"})
	return l
}

// BenchmarkFollowLatency is how long recorded commits of 5 to 100 rows take until they are visible, on the local disk: from their callback (hinted), or from their
// completion where none comes (polled, every 2 s). An iteration is all 8 commits of a table, one after the other.
func BenchmarkFollowLatency(b *testing.B) {
	for name, interval := range map[string]time.Duration{"hinted": time.Hour, "polled": 2 * time.Second} {
		b.Run(name, func(b *testing.B) {
			watch := newStopwatch()
			for n := range b.N {
				l, dir, url := upcoming(b, "mor_basic"), b.TempDir(), fmt.Sprintf("/t%d", n)
				copyTo(b, l, dir)
				st, err := file.New(dir)
				if err != nil {
					b.Fatal(err)
				}
				stores := map[string]storage.Store{url: st}
				f := launch(b, follow.Config{Interval: interval, Look: time.Hour, Observer: watch}, stores)
				f.lookAt(stores)
				for len(l.due) > 0 {
					watch.begin(url, l.due[0].Requested)
					i := l.commitTo(b, st)
					if name == "hinted" {
						f.Hint(source.Hint{Table: url, Instant: i.Requested, Received: time.Now()})
					}
					watch.covered.Wait()
				}
				if err := f.stop(); err != nil {
					b.Error(err)
				}
			}
			watch.report(b)
		})
	}
}
