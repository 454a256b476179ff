package search

import (
	"context"
	"hash/maphash"
	"slices"

	"tidemark/internal/hudi/table"
)

// bruteForce is the exact scan of a snapshot: the oracle of every other mode, and the answer where there is no record
// index or the index may not be used.
type bruteForce struct {
	// scan reads every row of the snapshot, in the same order each time.
	scan    func(ctx context.Context, c table.Columns, fn found) error
	within  map[string]bool // partitions that the answer is limited to, where the scan reads more; nil: all that it reads
	query   *query
	column  string
	columns []string
	k       int
	stats   *Stats
}

// run returns the k nearest rows. A record key that the table holds more than once counts as the row written last
// (design, decision 17); finding that out takes two more scans, which only such a table pays.
func (b *bruteForce) run(ctx context.Context) ([]Result, error) {
	hashes := &hashes{seed: maphash.MakeSeed()}
	results, err := b.nearest(ctx, func(_ int, row table.Row) bool {
		hashes.add(row.Key)
		return true
	})
	if err != nil {
		return nil, err
	}
	doubled := hashes.doubled()
	if len(doubled) == 0 {
		return results, nil
	}
	losers, err := b.losers(ctx, func(key string) bool { return doubled[maphash.String(hashes.seed, key)] })
	if err != nil || len(losers) == 0 {
		return results, err
	}
	return b.nearest(ctx, func(n int, _ table.Row) bool { return !losers[n] })
}

// nearest scans once and ranks the rows that keep lets through; n counts the rows of the scan.
func (b *bruteForce) nearest(ctx context.Context, keep func(n int, row table.Row) bool) ([]Result, error) {
	var found []Result
	// Rows gather until there are many more than k, then all but the best k are dropped.
	room := 2*b.k + 1024
	bounded, worst := false, 0.0
	shrink := func() {
		sortResults(found)
		if len(found) > b.k {
			clear(found[b.k:])
			found = found[:b.k]
		}
		if len(found) == b.k {
			bounded, worst = true, found[b.k-1].Distance
		}
	}
	n := 0
	err := b.scan(ctx, table.Columns{Vectors: []string{b.column}, Others: b.columns}, func(row table.Row, _ table.Written) error {
		n++
		b.stats.RowsRead++
		if !keep(n-1, row) || b.within != nil && !b.within[row.Partition] {
			return nil
		}
		d, ok := b.query.distance(row.Vectors[0])
		if !ok || bounded && d > worst {
			return nil
		}
		found = append(found, Result{Key: row.Key, Partition: row.Partition, Distance: d, Row: rowOf(b.columns, row.Others)})
		if len(found) >= room {
			shrink()
		}
		return nil
	})
	shrink()
	return found, err
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
