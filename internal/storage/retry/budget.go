package retry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// WithBudget returns a context whose calls together are repeated for no longer than d, on any Store: what one intent, such as a
// commit, may lose to stores in trouble. Time counts while at least one call that failed is being made again, from the start of
// the attempt that failed; calls side by side count once, and work between calls does not count. A call that fails when the budget is
// used up is not made again, and its error says so. It takes the place of a budget that ctx has already.
func WithBudget(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{limit: d, repeats: map[string]int{}})
}

type budgetKey struct{}

// budget is shared by all calls of a context. A nil one has no limit.
type budget struct {
	limit time.Duration

	mu      sync.Mutex // guards the fields below
	calls   int        // in trouble now
	failed  int        // all that were ever in trouble
	since   time.Time  // when the time of trouble that goes on began
	ended   time.Time  // when the last one ended
	used    time.Duration
	repeats map[string]int // attempts after the first, by operation
}

func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// enter says that a call is in trouble since a time.
func (b *budget) enter(since time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls == 0 {
		b.since = since
		if b.ended.After(since) { // until then others counted
			b.since = b.ended
		}
	}
	b.calls++
	b.failed++
}

// leave says that such a call is over.
func (b *budget) leave() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls--; b.calls == 0 {
		b.ended = time.Now()
		b.used += b.ended.Sub(b.since)
	}
}

// spend asks for a wait and one more attempt. If the budget does not reach, the text says what it was used for.
func (b *budget) spend(op string, wait time.Duration) (ok bool, used string) {
	if b == nil {
		return true, ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+time.Since(b.since)+wait <= b.limit {
		b.repeats[op]++
		return true, ""
	}
	var all []string
	sum := 0
	for op, n := range b.repeats {
		all = append(all, fmt.Sprintf("%s %d", op, n))
		sum += n
	}
	slices.Sort(all)
	used = fmt.Sprintf("the budget of %v for trouble with the store is used up: calls in trouble %d, attempts made again %d", b.limit, b.failed, sum)
	if sum > 0 {
		used += " (" + strings.Join(all, ", ") + ")"
	}
	return false, used
}
