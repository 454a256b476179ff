package delta

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"tidemark/internal/storage"
)

// Batch is the part of a commit that follows from row changes, with everything that does not need the commit's
// time already encoded.
type Batch struct {
	// Records are the posting deltas and tombstones, ascending by file group and key.
	Records []KV
	// Deltas and Tombstones count them.
	Deltas, Tombstones int
	// Touched holds what the batch adds to the counters of each cluster, ascending by cluster.
	Touched []ClusterChange

	builder *Builder
}

// ClusterChange is what a batch adds to one cluster's counters.
type ClusterChange struct {
	Cluster int
	Add     Counters
}

type built struct {
	records []KV
	touched []ClusterChange
	err     error
}

// Build returns the records of net changes (see Reduce): at most one change for each key. For a row that is in the
// index afterwards it writes a posting delta; for one that left, or moved to another cluster, a tombstone at the old
// place. The result depends on the changes only, not on their order or on Workers. Two changes of one key, or an old
// row whose cluster cannot be known, are refused.
func (b *Builder) Build(ctx context.Context, changes []Change) (*Batch, error) {
	results := make([]built, len(changes))
	workers := runtime.GOMAXPROCS(0)
	workers = max(1, min(workers, len(changes)))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(changes) && ctx.Err() == nil; i += workers {
				results[i] = b.one(&changes[i])
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	batch := &Batch{builder: b}
	sums := map[int]Counters{}
	for _, r := range results {
		if r.err != nil {
			return nil, r.err
		}
		batch.Records = append(batch.Records, r.records...)
		for _, t := range r.touched {
			s := sums[t.Cluster]
			sums[t.Cluster] = Counters{Live: s.Live + t.Add.Live, Delta: s.Delta + t.Add.Delta, Tombstone: s.Tombstone + t.Add.Tombstone}
			batch.Deltas += int(t.Add.Delta)
			batch.Tombstones += int(t.Add.Tombstone)
		}
	}
	SortKV(batch.Records)
	for i := 1; i < len(batch.Records); i++ {
		if bytes.Equal(batch.Records[i-1].Key, batch.Records[i].Key) {
			k, _ := ParseKey(batch.Records[i].Key)
			return nil, fmt.Errorf("build postings: two changes of record key %q: %w", k.RecordKey, storage.ErrRefused)
		}
	}
	for c, add := range sums {
		batch.Touched = append(batch.Touched, ClusterChange{Cluster: c, Add: add})
	}
	slices.SortFunc(batch.Touched, func(a, b ClusterChange) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return batch, nil
}

// one applies the table of format section 6, with the corrections marked there: a tombstone only where the old key
// differs from the new one.
func (b *Builder) one(c *Change) (r built) {
	oldCluster, newCluster := -1, -1
	var err error
	if c.Old != nil {
		if oldCluster, err = b.clusterOf(c.Key, c.Old); err != nil {
			return built{err: err}
		}
	}
	if c.New != nil {
		if c.New.Vector == nil {
			return built{err: fmt.Errorf("build posting of %q: new row without a vector: %w", c.Key, storage.ErrRefused)}
		}
		if newCluster, err = b.clusterOf(c.Key, c.New); err != nil {
			return built{err: err}
		}
	}
	moved := oldCluster != newCluster
	if c.Old != nil && moved {
		t := &Tombstone{DeleteInstant: c.Instant, DeleteReason: ReasonManual}
		r.records = append(r.records, b.record(c.Key, oldCluster, EncodeRecord(nil, t)))
		r.touched = append(r.touched, ClusterChange{Cluster: oldCluster, Add: Counters{Live: -1, Tombstone: 1}})
	}
	if c.New != nil {
		add := Counters{Delta: 1}
		if moved {
			add.Live = 1
		}
		p := NewPosting(c.Key, c.New.Locator, b.Router.Encode(c.New.Vector, newCluster))
		r.records = append(r.records, b.record(c.Key, newCluster, EncodeRecord(nil, p)))
		r.touched = append(r.touched, ClusterChange{Cluster: newCluster, Add: add})
	}
	gone := []int{oldCluster, newCluster}
	for _, v := range c.Also {
		also, err := b.clusterOf(c.Key, v)
		if err != nil {
			return built{err: err}
		}
		if slices.Contains(gone, also) {
			continue
		}
		gone = append(gone, also)
		r.records = append(r.records, b.record(c.Key, also, EncodeRecord(nil, &Tombstone{DeleteInstant: c.Instant, DeleteReason: ReasonManual})))
		r.touched = append(r.touched, ClusterChange{Cluster: also, Add: Counters{Live: -1, Tombstone: 1}})
	}
	return r
}

// Stats returns the new absolute counters of the touched clusters as records, ascending by file group and key.
// current gives the totals before the batch; updatedTs is the digits of the writing commit's id.
func (b *Batch) Stats(current func(cluster int) Counters, updatedTs int64) []KV {
	var out []KV
	for _, t := range b.Touched {
		key := StatsKey(b.builder.Generation, uint32(t.Cluster))
		rec := current(t.Cluster).Plus(t.Add).Stats(b.builder.Segments[t.Cluster], updatedTs)
		out = append(out, KV{Key: key, Value: EncodeRecord(nil, rec), Group: FileGroup(key, b.builder.Groups)})
	}
	SortKV(out)
	return out
}

// Reduce returns the net effect of changes that are given in the order of their data instants: at most one change
// for each key, ascending by key. The first Old and the last New decide, so an insert that is deleted again
// leaves nothing. Changes of class Unchanged and Unindexable have no effect and are left out. The input is not
// changed; versions are shared with it.
func Reduce(changes []Change) []Change {
	at := make(map[string]int, len(changes))
	var out []Change
	for _, c := range changes {
		if c.Class == Unchanged || c.Class == Unindexable {
			continue
		}
		i, seen := at[c.Key]
		if !seen {
			at[c.Key] = len(out)
			out = append(out, c)
			continue
		}
		out[i].Also = append(slices.Clip(out[i].Also), c.Also...)
		out[i].New, out[i].Instant = c.New, c.Instant
	}
	out = slices.DeleteFunc(out, func(c Change) bool { return c.Old == nil && c.New == nil })
	kept := out[:0]
	for _, c := range out {
		if c.Class = classify(c.Old, c.New); c.Class != Unchanged {
			kept = append(kept, c)
		}
	}
	clear(out[len(kept):])
	slices.SortFunc(kept, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return kept
}

// classify compares two states of a row. Bytes that are not known are never equal (design, decision 15).
func classify(before, after *Version) Class {
	switch {
	case before == nil:
		return Insert
	case after == nil:
		return Delete
	case before.Raw == nil || after.Raw == nil || !bytes.Equal(before.Raw, after.Raw):
		return VectorUpdate
	case before.Locator != after.Locator:
		return LocatorRefresh
	}
	return Unchanged
}
