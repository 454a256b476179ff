package delta

import (
	"bytes"
	"cmp"
	"slices"

	"tidemark/internal/vector/rabitq"
)

// KV is one record of the index: its logical key, its stored value, and the physical file group it belongs to.
type KV struct {
	Key   []byte
	Value []byte
	Group int
}

// SortKV puts records in the order in which they are written: by file group, then by key.
func SortKV(records []KV) {
	slices.SortFunc(records, func(a, b KV) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), bytes.Compare(a.Key, b.Key))
	})
}

// Router knows the clusters of one generation. Both methods are safe for concurrent use and depend on their
// arguments only; generation.Generation is the implementation.
type Router interface {
	// Cluster returns the cluster of a narrowed vector.
	Cluster(v []float32) int
	// Encode returns the code of a narrowed vector in a cluster.
	Encode(v []float32, cluster int) rabitq.Code
}

// Builder turns row changes into records of one generation. It is safe for concurrent use.
type Builder struct {
	Generation uint32
	Router     Router
	Segments   []int // segment count per cluster, frozen with the generation
	Groups     int   // physical file groups
}

// Net works out everything of a change that needs its vectors. An old row whose cluster cannot be known and a new one without a
// vector are storage.ErrRefused.
func (b *Builder) Net(c *Change) (Net, error) {
	var n [1]Net
	err := b.Nets([]Change{*c}, n[:], &Room{})
	return n[0], err
}

// Records hands on what a key's net change writes, and what each record adds to the counters of its cluster: a posting delta for a row
// that is in the index afterwards, a tombstone at the old place of one that left or moved to another cluster. It follows the
// table of docs/format/posting-delta.md, What a change of a row writes: a tombstone only where the old key differs from the new one.
func (b *Builder) Records(key string, n *Net, fn func(r KV, cluster int, add Counters) error) error {
	gone := func(cluster int) error {
		t := &Tombstone{DeleteInstant: n.Instant, DeleteReason: ReasonManual}
		return fn(b.record(key, cluster, EncodeRecord(make([]byte, 0, 64), t)), cluster, Counters{Live: -1, Tombstone: 1})
	}
	moved := n.Old.Cluster != n.New.Cluster
	if n.Old.there() && moved {
		if err := gone(n.Old.Cluster); err != nil {
			return err
		}
	}
	if n.New.there() {
		add := Counters{Delta: 1}
		if moved {
			add.Live = 1
		}
		if err := fn(b.record(key, n.New.Cluster, n.Value), n.New.Cluster, add); err != nil {
			return err
		}
	}
	done := []int{n.Old.Cluster, n.New.Cluster}
	for _, also := range n.Also {
		if slices.Contains(done, also) {
			continue
		}
		done = append(done, also)
		if err := gone(also); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) record(key string, cluster int, value []byte) KV {
	k := PostingKey(b.Generation, uint32(cluster), uint16(SegmentOf(key, b.Segments[cluster])), key)
	return KV{Key: k, Value: value, Group: FileGroup(k, b.Groups)}
}

// Stats returns the record of a cluster's new counters. updatedTs is the digits of the writing commit's id.
func (b *Builder) Stats(cluster int, c Counters, updatedTs int64) KV {
	key := StatsKey(b.Generation, uint32(cluster))
	return KV{Key: key, Value: EncodeRecord(nil, c.Stats(b.Segments[cluster], updatedTs)), Group: FileGroup(key, b.Groups)}
}
