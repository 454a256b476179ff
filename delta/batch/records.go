package batch

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/internal/spill"
	"tidemark/internal/storage"
)

// Finish makes the posting deltas and tombstones of the net changes. No change can be added afterwards.
func (b *Batch) Finish(ctx context.Context) error {
	if b.records != nil {
		return fmt.Errorf("finish batch: it is finished: %w", storage.ErrRefused)
	}
	b.unit = len(b.waiting) // nothing is taken back any more: all can be merged before it is worked out
	if err := b.flush(ctx); err != nil {
		return err
	}
	b.waiting = nil
	if err := b.nets.Release(); err != nil {
		return err
	}
	b.records = spill.NewSorter(b.cfg.TempDir, b.part)
	var at []byte
	err := b.Net(ctx, func(key []byte, n *delta.Net) error {
		return b.cfg.Builder.Records(string(key), n, func(r delta.KV, cluster int, add delta.Counters) error {
			b.touched[cluster] = b.touched[cluster].Plus(add)
			b.groups[r.Group] = true
			b.count.Deltas += add.Delta
			b.count.Tombstones += add.Tombstone
			at = append(binary.BigEndian.AppendUint16(at[:0], uint16(r.Group)), r.Key...)
			return b.records.Add(at, r.Value)
		})
	})
	if err != nil {
		return err
	}
	if err := b.nets.Close(); err != nil {
		return err
	}
	return b.records.Release()
}

// Count says how many records there are, after Finish.
func (b *Batch) Count() Count { return b.count }

// Stats returns the new absolute counters of the touched clusters as records, after Finish. current gives the totals before the batch;
// updatedTs is the digits of the writing commit's id.
func (b *Batch) Stats(current func(cluster int) delta.Counters, updatedTs int64) []delta.KV {
	var out []delta.KV
	for _, c := range slices.Sorted(maps.Keys(b.touched)) {
		out = append(out, b.cfg.Builder.Stats(c, current(c).Plus(b.touched[c]), updatedTs))
	}
	return out
}

// File is the records of one physical file group.
type File struct {
	Group int
	// Records hands on the records ascending by key; a record is valid until the next one.
	Records iter.Seq2[delta.KV, error]
}

// Files returns the records, after Finish, with more of the caller's among them, by file group. The records of all files must be walked
// once, in this order; for another walk call Files again.
func (b *Batch) Files(more []delta.KV) []File {
	groups := maps.Clone(b.groups)
	byGroup := map[int][]delta.KV{}
	for _, r := range more {
		groups[r.Group] = true
		byGroup[r.Group] = append(byGroup[r.Group], r)
	}
	w := &walk{b: b, in: b.records.Cursor()}
	var out []File
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		delta.SortKV(byGroup[g])
		out = append(out, File{Group: g, Records: func(yield func(delta.KV, error) bool) { w.group(g, byGroup[g], yield) }})
	}
	return out
}

// walk goes through the sorted records once.
type walk struct {
	b    *Batch
	in   *spill.Cursor
	head *delta.KV // the next record; nil before the first, behind the last
	end  bool
}

func (w *walk) next() error {
	e, ok, err := w.in.Next()
	if err != nil {
		return err
	}
	if !ok {
		w.head, w.end = nil, true
		return nil
	}
	w.head = &delta.KV{Group: int(binary.BigEndian.Uint16(e.Key)), Key: e.Key[2:], Value: e.Value}
	return nil
}

// group hands on the records of one file group with more among them.
func (w *walk) group(g int, more []delta.KV, yield func(delta.KV, error) bool) {
	if w.head == nil && !w.end {
		if err := w.next(); err != nil {
			yield(delta.KV{}, err)
			return
		}
	}
	for w.head != nil && w.head.Group <= g || len(more) > 0 {
		if w.head != nil && w.head.Group < g {
			yield(delta.KV{}, fmt.Errorf("walk records: file group %d is walked before %d: %w", g, w.head.Group, storage.ErrRefused))
			return
		}
		if len(more) > 0 && (w.head == nil || w.head.Group > g || bytes.Compare(more[0].Key, w.head.Key) < 0) {
			if !yield(more[0], nil) {
				return
			}
			more = more[1:]
			continue
		}
		if !yield(*w.head, nil) {
			return
		}
		if err := w.next(); err != nil {
			yield(delta.KV{}, err)
			return
		}
	}
}
