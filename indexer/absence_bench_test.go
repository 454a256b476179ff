package indexer_test

import (
	"fmt"
	"testing"
	"time"

	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
)

// BenchmarkLongAbsence is a catch-up over archived commits that changed no files: what a commit costs must not grow with their number.
func BenchmarkLongAbsence(b *testing.B) {
	for _, n := range []int{1000, 2000, 4000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var took time.Duration
			var size int64
			for range b.N {
				b.StopTimer()
				p := mdt.Inside(absence(b, n))
				b.StartTimer()
				start := processorTime(b)
				if r, err := indexer.Sync(b.Context(), p, indexer.SyncOptions{}); err != nil || r.Processed != n+1 {
					b.Fatalf("%d processed, %v", r.Processed, err)
				}
				took += processorTime(b) - start
				info, err := p.Store.Stat(b.Context(), p.StatePath())
				if err != nil {
					b.Fatal(err)
				}
				size = info.Size
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N*n), "cpu-µs/commit")
			b.ReportMetric(float64(size)/1024, "state-KiB")
		})
	}
}
