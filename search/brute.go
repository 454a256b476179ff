package search

import (
	"context"
	"hash/maphash"
	"slices"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
)

// bruteForce is the exact scan of a snapshot: the oracle of every other mode, and the answer where there is no record
// index or the index may not be used. It reads each row once for all queries.
type bruteForce struct {
	// scan reads every row of the snapshot, in the same order each time.
	scan    func(ctx context.Context, c table.Columns, fn found) error
	within  map[string]bool // partitions that the answer is limited to, where the scan reads more; nil: all that it reads
	asks    []*ask
	column  avrox.Vector
	columns []string
	k       int

	read int // rows
}

// run sets the k nearest rows of each query. A record key that the table holds more than once counts as the row written last
// (design, decision 17); finding that out takes two more scans, which only such a table pays.
func (b *bruteForce) run(ctx context.Context) error {
	hashes := &hashes{seed: maphash.MakeSeed()}
	results, err := b.nearest(ctx, func(_ int, row table.Row) bool {
		hashes.add(row.Key)
		return true
	})
	if err != nil {
		return err
	}
	if doubled := hashes.doubled(); len(doubled) > 0 {
		losers, err := b.losers(ctx, func(key string) bool { return doubled[maphash.String(hashes.seed, key)] })
		if err != nil {
			return err
		}
		if len(losers) > 0 {
			if results, err = b.nearest(ctx, func(n int, _ table.Row) bool { return !losers[n] }); err != nil {
				return err
			}
		}
	}
	for i, a := range b.asks {
		a.answer.Complete, a.answer.Stats.RowsRead = true, b.read
		a.answer.Results = append(a.answer.Results, results[i].rows...)
	}
	return nil
}

// nearestRows gathers rows until there are many more than k, then all but the best k are dropped.
type nearestRows struct {
	rows    []Result
	k       int
	bounded bool
	worst   float64
}

func (n *nearestRows) add(r Result) {
	if n.rows = append(n.rows, r); len(n.rows) >= 2*n.k+64 {
		n.shrink()
	}
}

func (n *nearestRows) shrink() {
	sortResults(n.rows)
	if len(n.rows) > n.k {
		clear(n.rows[n.k:])
		n.rows = n.rows[:n.k]
	}
	if len(n.rows) == n.k {
		n.bounded, n.worst = true, n.rows[n.k-1].Distance
	}
}

// nearest scans once and ranks the rows that keep lets through; n counts the rows of the scan.
func (b *bruteForce) nearest(ctx context.Context, keep func(n int, row table.Row) bool) ([]nearestRows, error) {
	best := make([]nearestRows, len(b.asks))
	for i := range best {
		best[i].k = b.k
	}
	v := newStored(b.asks[0].query.metric, b.column)
	n := 0
	err := b.scan(ctx, table.Columns{Vectors: []string{b.column.Column}, Others: b.columns}, func(row table.Row, _ table.Written) error {
		n++
		b.read++
		if !keep(n-1, row) || b.within != nil && !b.within[row.Partition] || !v.set(row.Vectors[0]) {
			return nil
		}
		var others map[string]any
		for i, a := range b.asks {
			d := a.query.distance(v)
			if best[i].bounded && d > best[i].worst {
				continue
			}
			if others == nil {
				others = rowOf(b.columns, row.Others)
			}
			best[i].add(Result{Key: row.Key, Partition: row.Partition, Distance: d, Row: others})
		}
		return ctx.Err()
	})
	for i := range best {
		best[i].shrink()
	}
	return best, err
}

// losers returns the rows of the scan that are not the last written copy of their key.
func (b *bruteForce) losers(ctx context.Context, suspect func(key string) bool) (map[int]bool, error) {
	type copyOf struct {
		n  int
		at table.Written
	}
	last, losers, n := map[string]copyOf{}, map[int]bool{}, 0
	err := b.scan(ctx, table.Columns{}, func(row table.Row, at table.Written) error {
		n++
		if !suspect(row.Key) {
			return nil
		}
		c := copyOf{n - 1, at}
		old, seen := last[row.Key]
		switch {
		case !seen:
			last[row.Key] = c
		case at.Compare(old.at) <= 0:
			losers[c.n] = true
		default:
			losers[old.n] = true
			last[row.Key] = c
		}
		return nil
	})
	return losers, err
}

// hashes finds keys that occur twice in eight bytes a row.
type hashes struct {
	seed maphash.Seed
	all  []uint64
}

func (h *hashes) add(key string) { h.all = append(h.all, maphash.String(h.seed, key)) }

// doubled returns the hashes that occur more than once; two keys may share one by chance.
func (h *hashes) doubled() map[uint64]bool {
	slices.Sort(h.all)
	out := map[uint64]bool{}
	for i := 1; i < len(h.all); i++ {
		if h.all[i] == h.all[i-1] {
			out[h.all[i]] = true
		}
	}
	return out
}
