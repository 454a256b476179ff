package ivf

import (
	"context"
	"sync"
	"sync/atomic"
)

// rowSpan is how many rows a worker takes at a time, and how much work passes before a cancelled context is noticed.
const rowSpan = 256

// eachRow calls fn for every row from the workers. fn(i) writes only what belongs to row i.
func (t *trainer) eachRow(ctx context.Context, fn func(i int)) error {
	return t.ranges(ctx, t.n, rowSpan, func(from, to int) {
		for i := from; i < to; i++ {
			fn(i)
		}
	})
}

// ranges calls fn for ranges of span out of 0 to n−1 from the workers and waits for them.
func (t *trainer) ranges(ctx context.Context, n, span int, fn func(from, to int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(t.workers, (n+span-1)/span) {
		wg.Go(func() {
			for ctx.Err() == nil {
				from := int(next.Add(int64(span))) - span
				if from >= n {
					return
				}
				fn(from, min(n, from+span))
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
