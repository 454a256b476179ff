package generation

import (
	"bytes"
	"context"
	"fmt"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// Posting is one live posting of a generation.
type Posting struct {
	Key     string // record key
	Cluster int
	Segment int
	Locator delta.Locator
	// Binary is the code in the delta form: sign code, then packed levels (docs/format/posting-delta.md). Owned by the callee.
	Binary  []byte
	Factors rabitq.Factors
	// Packed says that the posting stands in a block; else it is a delta.
	Packed bool
}

// Postings hands every live posting of the generation to fn, by cluster and segment: packed rows that no delta or
// tombstone of the same cluster, segment and record key supersedes, then deltas. It reads all postings. A record key
// that occurs in two places is handed over twice; whether a row still lives is not judged here. An error of fn ends
// it and is returned as it is.
func (g *Generation) Postings(ctx context.Context, view *mdt.View, fn func(Posting) error) error {
	var seg []byte // prefix of the segment at hand
	var packed []Posting
	superseded := map[string]bool{}
	var deltas []Posting
	flush := func() error {
		for _, p := range packed {
			if superseded[p.Key] {
				continue
			}
			if err := fn(p); err != nil {
				return err
			}
		}
		for _, p := range deltas {
			if err := fn(p); err != nil {
				return err
			}
		}
		packed, deltas = packed[:0], deltas[:0]
		clear(superseded)
		return nil
	}
	err := view.ScanEntries(ctx, delta.PostingsPrefix(g.Number), func(e mdt.Entry) error {
		k, err := delta.ParseKey(e.Key)
		if err != nil {
			return fmt.Errorf("read postings of generation %d: %w", g.Number, err)
		}
		if prefix := delta.SegmentPrefix(k.Generation, k.Cluster, k.Segment); !bytes.Equal(prefix, seg) {
			if err := flush(); err != nil {
				return err
			}
			seg = prefix
		}
		if int(k.Cluster) >= g.K {
			return fmt.Errorf("posting in cluster %d of %d: %w", k.Cluster, g.K, storage.ErrCorrupt)
		}
		rec, err := delta.Decode(e.Schema, bytes.Clone(e.Value))
		if err != nil {
			return fmt.Errorf("read posting %x: %w", e.Key, err)
		}
		at := Posting{Cluster: int(k.Cluster), Segment: int(k.Segment)}
		switch r := rec.(type) {
		case *delta.PostingBlock:
			v, err := delta.NewBlockView(r, g.Shape())
			if err != nil {
				return fmt.Errorf("read posting block %x: %w", e.Key, err)
			}
			for i := range v.Len() {
				row := v.Posting(i)
				p := at
				p.Key, p.Locator, p.Packed = row.RecordKey, row.Locator, true
				p.Binary, p.Factors = rabitq.DeltaBinary(nil, row.Code), row.Code.F
				packed = append(packed, p)
			}
		case *delta.PostingDelta:
			if err := r.Check(g.Dim, g.Bits); err != nil {
				return fmt.Errorf("read posting delta %x: %w", e.Key, err)
			}
			superseded[k.RecordKey] = true
			p := at
			p.Key, p.Locator = k.RecordKey, r.Locator()
			p.Binary, p.Factors = r.BinaryCode, r.Factors()
			deltas = append(deltas, p)
		case *delta.Tombstone:
			superseded[k.RecordKey] = true
		default:
			return fmt.Errorf("record %T under a posting key %x: %w", rec, e.Key, storage.ErrCorrupt)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}
