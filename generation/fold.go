package generation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// Keeper says which of the newest records from logs a file group needs once they are folded into its base file: all but tombstones
// that hide nothing. A tombstone hides the packed row of its record key in its segment, and packed rows stay what they were at the
// bootstrap; one of a row that came later hides only deltas, which the fold has merged away. base are the records of the group's base file.
// Records must come ascending by key. In memory are 8 bytes for each packed row of one segment.
func Keeper(x *mdt.Index, base *mdt.View) func(ctx context.Context, e mdt.Entry) (bool, error) {
	k := &keeper{index: x, base: base}
	return k.keep
}

type keeper struct {
	index   *mdt.Index
	base    *mdt.View
	segment []byte   // prefix of the segment that packed is about
	packed  []uint64 // hashes of the record keys of its packed rows, ascending
}

func (k *keeper) keep(ctx context.Context, e mdt.Entry) (bool, error) {
	key, err := delta.ParseKey(e.Key)
	if err != nil {
		return false, fmt.Errorf("fold index %s: %w", k.index.Name, err)
	}
	if key.Family != delta.FamilyDelta {
		return true, nil
	}
	rec, err := delta.Decode(e.Schema, e.Value)
	if err != nil {
		return false, fmt.Errorf("fold index %s: record %x: %w", k.index.Name, e.Key, err)
	}
	if _, dead := rec.(*delta.Tombstone); !dead {
		return true, nil
	}
	if prefix := delta.SegmentPrefix(key.Generation, key.Cluster, key.Segment); !bytes.Equal(prefix, k.segment) {
		if err := k.read(ctx, prefix); err != nil {
			return false, fmt.Errorf("fold index %s: %w", k.index.Name, err)
		}
		k.segment = prefix
	}
	// Two keys of one hash keep a tombstone that could go.
	_, hides := slices.BinarySearch(k.packed, hashOf([]byte(key.RecordKey)))
	return hides, nil
}

// errDeltas ends a scan of a segment where its blocks end.
var errDeltas = errors.New("deltas begin")

// read reads the record keys of a segment's packed rows.
func (k *keeper) read(ctx context.Context, prefix []byte) error {
	k.packed = k.packed[:0]
	shape, err := shapeOf(k.index)
	if err != nil {
		return err
	}
	err = k.base.ScanEntries(ctx, prefix, func(e mdt.Entry) error {
		key, err := delta.ParseKey(e.Key)
		if err != nil {
			return err
		}
		if key.Family != delta.FamilyBlock {
			return errDeltas
		}
		rec, err := delta.Decode(e.Schema, e.Value)
		if err != nil {
			return err
		}
		block, ok := rec.(*delta.PostingBlock)
		if !ok {
			return fmt.Errorf("record %T under the key of a block, %x: %w", rec, e.Key, storage.ErrCorrupt)
		}
		v, err := delta.NewBlockView(block, shape)
		if err != nil {
			return fmt.Errorf("posting block %x: %w", e.Key, err)
		}
		for i := range v.Len() {
			k.packed = append(k.packed, hashOf(v.RecordKeyBytes(i)))
		}
		return nil
	})
	slices.Sort(k.packed)
	if errors.Is(err, errDeltas) {
		return nil
	}
	return err
}

// shapeOf is what all blocks of an index have in common.
func shapeOf(x *mdt.Index) (delta.BlockShape, error) {
	o, err := ParseOptions(x.Options)
	if err != nil {
		return delta.BlockShape{}, fmt.Errorf("options in the state: %w: %w", err, storage.ErrCorrupt)
	}
	return delta.BlockShape{Dim: x.Dim, Bits: o.Bits, VectorNorm: delta.NeedsNorm(o.Metric, o.AssumeNormalized)}, nil
}

func hashOf(key []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(key) // never fails
	return h.Sum64()
}
