package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/delta"
	"tidemark/internal/hudi/table"
	"tidemark/internal/vector/kernel"
)

// churn changes, removes and moves rows at random, as sync and as writers that the index does not know of yet would.
func (w *world) churn(r *rand.Rand, n int) {
	for range n {
		key := fmt.Sprintf("k%04d", r.IntN(len(w.rows)))
		if _, there := w.rows[key]; !there {
			continue
		}
		switch r.IntN(4) {
		case 0:
			delete(w.rows, key)
			delete(w.where, key)
		case 1:
			w.put(key, fmt.Sprintf("p%d", r.IntN(2)), w.vector(key))
		default:
			v := slices.Clone(w.vector(key))
			v[r.IntN(dim)] += float32(r.NormFloat64())
			w.update(key, v)
		}
	}
}

// The answers of a batch are those of its queries asked one by one, whatever goroutines do when; each cluster is read once a round.
func TestBatchEqualsSingleQueries(t *testing.T) {
	t.Parallel()
	for seed, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		r := rand.New(rand.NewPCG(7, uint64(seed)))
		w := newWorld(t, 1200, 14, m)
		w.churn(r, 150)
		for _, c := range []struct {
			k, nprobes int
			rerank     bool
			partition  string
		}{{1, 1, true, ""}, {10, 4, true, ""}, {10, 3, false, ""}, {30, 2, true, "p1"}, {700, 14, true, ""}} {
			var mu sync.Mutex
			reads := map[int]int{}
			make := func(q []float32) *one {
				e := w.engine(t, q, c.k, c.nprobes)
				e.rerank = c.rerank
				if c.partition != "" {
					e.partitions = map[string]bool{c.partition: true}
				}
				return e
			}
			var asks []*ask
			var want []*Answer
			for range 25 {
				q := w.vector(w.any(r))
				e := make(q)
				if err := e.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				want = append(want, e.ask.answer)
				asks = append(asks, w.ask(t, q))
			}
			e := make(w.vector(w.any(r))).engine
			inner := e.clusters
			e.clusters = func(ctx context.Context, id int) (*cluster, error) {
				mu.Lock()
				reads[id]++
				mu.Unlock()
				return inner(ctx, id)
			}
			if err := e.run(t.Context(), asks); err != nil {
				t.Fatal(err)
			}
			rounds := 0
			for i, a := range asks {
				rounds = max(rounds, a.answer.Stats.Rounds)
				want[i].Stats.Pruned, a.answer.Stats.Pruned = 0, 0 // depends on the order of work
				if d := cmp.Diff(want[i], a.answer); d != "" {
					t.Errorf("%s, %+v, query %d (-alone +in the batch):\n%s", m, c, i, d)
				}
			}
			for id, n := range reads {
				if n > rounds {
					t.Errorf("%s, %+v: cluster %d was read %d times in %d rounds", m, c, id, n, rounds)
				}
			}
		}
	}
}

// any returns the key of a row.
func (w *world) any(r *rand.Rand) string {
	for {
		if key := fmt.Sprintf("k%04d", r.IntN(2000)); w.rows[key].Vectors != nil {
			return key
		}
	}
}

// What the heap keeps does not depend on the order in which postings come, nor on how many are pruned on the way.
func TestBestHitsInAnyOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, limit := 1+r.IntN(60), 1+r.IntN(20)
		hits := make([]hit, n)
		for i := range hits {
			estimate := float64(r.IntN(8)) // many ties
			hits[i] = hit{estimate: estimate, score: estimate + float64(r.IntN(2)*r.IntN(5)),
				block: &block{deltas: deltas{keys: [][]byte{fmt.Appendf(nil, "k%02d", r.IntN(40))},
					locators: []delta.Locator{{FileID: fmt.Sprint(r.IntN(3)), Position: int64(i)}}}}}
		}
		var want []candidate
		for range 5 {
			b := newBest(limit)
			r.Shuffle(n, func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
			for i := range hits {
				if hits[i].score <= b.most() { // else pruned
					b.offer(hits[i : i+1])
				}
			}
			got, all := b.take(nil)
			if all != (n <= limit) || len(got) > limit {
				t.Fatalf("%d of %d hits, limit %d: all %v", len(got), n, limit, all)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %v\nwant %v", got, want)
			}
		}
	}
}

// due is a context whose deadline comes when a test says so.
type due struct {
	context.Context
	done chan struct{}
	once sync.Once
}

func newDue(ctx context.Context) *due { return &due{Context: ctx, done: make(chan struct{})} }
func (d *due) come()                  { d.once.Do(func() { close(d.done) }) }
func (d *due) Done() <-chan struct{}  { return d.done }
func (d *due) Value(key any) any      { return d.Context.Value(key) }
func (d *due) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// late lets the deadline come with the rows of a partition.
type late struct {
	*world
	at  string
	due *due
}

func (l late) fetch(ctx context.Context, g table.Group, wanted []candidate, fn func(table.Row) error) ([]string, error) {
	if g.Partition == l.at {
		l.due.come()
		return nil, l.due.Err()
	}
	return l.world.fetch(ctx, g, wanted, fn)
}

func (l late) locate(ctx context.Context, keys []string) (map[string]table.Group, error) {
	if l.at == "locate" {
		l.due.come()
		return nil, l.due.Err()
	}
	return l.world.locate(ctx, keys)
}

// When the deadline comes, what was found is shown with its own distances, as an answer that is not complete; nothing is an error.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 600, 8, kernel.L2)
	q := w.vector("k0001")
	for _, at := range []string{"p1", "locate"} {
		d := newDue(t.Context())
		e := w.engine(t, q, 10, 8)
		e.live, e.rows = late{w, at, d}, late{w, at, d}
		asks := []*ask{e.ask, w.ask(t, w.vector("k0004"))}
		err := e.engine.run(d, asks)
		if at == "locate" {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without a row: got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range asks {
			if a.answer.Complete || !strings.Contains(a.answer.Reason, "deadline") || len(a.answer.Results) == 0 {
				t.Errorf("got %d rows, complete %v, %q", len(a.answer.Results), a.answer.Complete, a.answer.Reason)
			}
		}
		got := e.ask.answer.Results
		for _, r := range got {
			if r.Partition != "p0" || r.Distance != w.distance(r.Key, q) {
				t.Errorf("got %+v", r)
			}
		}
		same(t, got[:5], w.brute(q, 5, "p0"))
	}
}

// Postings without rows: the table was emptied, and the index does not know it yet.
func TestTableWithoutRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200, 4, kernel.L2)
	q := w.vector("k0001")
	clear(w.rows)
	clear(w.where)
	a := w.engine(t, q, 10, 1).must(t)
	if len(a.Results) != 0 || !a.Complete || a.Stats.Dead != 200 {
		t.Errorf("got %+v", a)
	}
}
