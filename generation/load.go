package generation

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
)

// Load reads the active generation of an index: pointer, manifest, quantizer, centroids, counters. The gates: index
// version 1, records written with exactly layout A, a manifest that agrees with itself and with the state, all centroid
// chunks there and their checksum right. What does not agree is storage.ErrCorrupt, a format of another version
// storage.ErrUnsupported, an index without an active generation storage.ErrNotFound. It sets view.Locate.
func Load(ctx context.Context, view *mdt.View, x *mdt.Index) (*Generation, error) {
	active, ok := x.Active()
	if !ok || x.Dropped {
		return nil, &storage.Error{Op: "load index", Path: x.Name, Hint: "create the index again: the last attempt was interrupted",
			Err: fmt.Errorf("no active generation: %w", storage.ErrNotFound)}
	}
	g, err := loadNumber(ctx, view, x, active.Number, delta.StateActive)
	if err != nil {
		return nil, &storage.Error{Op: "load index", Path: x.Name, Hint: storage.Hint(err), Err: err}
	}
	return g, nil
}

// loadNumber loads one generation and expects it in a state; the pointer must say the same.
func loadNumber(ctx context.Context, view *mdt.View, x *mdt.Index, number uint32, state string) (*Generation, error) {
	view.Locate = delta.FileGroup
	head, err := get(ctx, view, delta.PointerKey(), delta.ManifestKey(number), delta.QuantizerKey(number, 0))
	if err != nil {
		return nil, err
	}
	pointer, _ := head[0].(*delta.ActiveManifest)
	m, _ := head[1].(*delta.Manifest)
	q, _ := head[2].(*delta.Quantizer)
	if pointer == nil || m == nil || q == nil {
		return nil, fmt.Errorf("pointer, manifest or quantizer of generation %d holds another record: %w", number, storage.ErrCorrupt)
	}
	if pointer.IndexVersion != delta.IndexVersion {
		return nil, fmt.Errorf("index version %d, this program knows %d: %w", pointer.IndexVersion, delta.IndexVersion, storage.ErrUnsupported)
	}
	points := pointer.ActiveGeneration != nil && int64(*pointer.ActiveGeneration) == int64(number)
	if points != (state == delta.StateActive) || m.State != state {
		return nil, fmt.Errorf("generation %d is %s and the pointer agrees: %t; want %s: %w", number, m.State, points, state, storage.ErrCorrupt)
	}
	if err := checkManifest(m, number); err != nil {
		return nil, err
	}
	if err := agrees(m, x); err != nil {
		return nil, err
	}
	if q.QuantizerType != delta.QuantizerType || q.RotationBytes != nil {
		return nil, fmt.Errorf("quantizer %q, %d rotation bytes: %w", q.QuantizerType, len(q.RotationBytes), storage.ErrUnsupported)
	}
	chunks, err := centroidRecords(ctx, view, m, number)
	if err != nil {
		return nil, err
	}
	g := &Generation{Index: x, Number: number, Manifest: m, Bits: int(m.BitsTotal), Dim: int(m.Dim), K: int(m.NumClusters), Groups: int(m.FileGroupCount)}
	g.Vector = avrox.Vector{Column: x.Column, Dim: x.Dim, Element: x.Element}
	if g.Centroids, g.Radii, err = readCentroids(m, chunks); err != nil {
		return nil, err
	}
	if g.Metric, err = kernel.ParseMetric(m.Metric); err != nil {
		return nil, err
	}
	if g.Options, err = ParseOptions(x.Options); err != nil {
		return nil, err
	}
	if err := g.readStats(ctx, view); err != nil {
		return nil, err
	}
	g.prepare(q.RandomSeed, g.Options.Levels)
	return g, nil
}

// get returns the records of keys, all of which must be there and written with layout A.
func get(ctx context.Context, view *mdt.View, keys ...[]byte) ([]delta.Record, error) {
	found, err := view.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]delta.Record, len(keys))
	for i, k := range keys {
		e, ok := found[string(k)]
		if !ok {
			parsed, _ := delta.ParseKey(k)
			return nil, fmt.Errorf("%s record %x is missing: %w", parsed.Family, k, storage.ErrCorrupt)
		}
		if err := delta.CheckSchema(e.Schema.Text()); err != nil {
			return nil, err
		}
		if out[i], err = delta.Decode(e.Schema, e.Value); err != nil {
			return nil, fmt.Errorf("record %x: %w", k, err)
		}
	}
	return out, nil
}

// agrees checks the manifest against what the state says about the index.
func agrees(m *delta.Manifest, x *mdt.Index) error {
	o, err := ParseOptions(x.Options)
	if err != nil {
		return fmt.Errorf("options in the state: %w: %w", err, storage.ErrCorrupt)
	}
	if int(m.Dim) != x.Dim || m.VectorColumn != x.Column || int(m.FileGroupCount) != x.FileGroups ||
		m.Metric != o.Metric.Manifest() || int(m.BitsTotal) != o.Bits || m.AssumeNormalized != o.AssumeNormalized {
		return fmt.Errorf("manifest (column %s, %d dimensions, %s, %d bits, %d file groups) and state (%s, %d, %s, %d, %d) differ: %w",
			m.VectorColumn, m.Dim, m.Metric, m.BitsTotal, m.FileGroupCount, x.Column, x.Dim, o.Metric.Manifest(), o.Bits, x.FileGroups, storage.ErrCorrupt)
	}
	return nil
}

func centroidRecords(ctx context.Context, view *mdt.View, m *delta.Manifest, number uint32) ([]*delta.Centroids, error) {
	var keys [][]byte
	for i := range int(m.CentroidChunkCount) { // checked: at most 65536
		keys = append(keys, delta.CentroidsKey(number, uint16(i)))
	}
	records, err := get(ctx, view, keys...)
	if err != nil {
		return nil, err
	}
	chunks := make([]*delta.Centroids, len(records))
	for i, r := range records {
		var ok bool
		if chunks[i], ok = r.(*delta.Centroids); !ok {
			return nil, fmt.Errorf("centroid chunk %d holds another record: %w", i, storage.ErrCorrupt)
		}
	}
	return chunks, nil
}

// readStats fills in segments and counters. A cluster without a record has one segment and no counts: another writer
// leaves empty clusters out (docs/format/records.md).
func (g *Generation) readStats(ctx context.Context, view *mdt.View) error {
	g.Segments, g.Counters = make([]int, g.K), make([]delta.Counters, g.K)
	for i := range g.Segments {
		g.Segments[i] = 1
	}
	err := view.ScanEntries(ctx, delta.StatsPrefix(g.Number), func(e mdt.Entry) error {
		k, err := delta.ParseKey(e.Key)
		if err != nil {
			return err
		}
		r, err := delta.Decode(e.Schema, e.Value)
		if err != nil {
			return err
		}
		s, _ := r.(*delta.ClusterStats)
		if err := g.checkStats(k.Cluster, s); err != nil {
			return err
		}
		g.Segments[k.Cluster], g.Counters[k.Cluster] = int(s.ShardCount), delta.CountersOf(s)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read cluster counters: %w", err)
	}
	return nil
}

// checkStats refuses counters (nil: another record) that do not fit the manifest.
func (g *Generation) checkStats(cluster uint32, s *delta.ClusterStats) error {
	if s == nil || cluster > math.MaxInt32 || int(cluster) >= g.K || s.ShardCount < 1 || s.ShardCount > g.Manifest.ShardCount {
		return fmt.Errorf("counters of cluster %d do not fit %d clusters of up to %d segments: %w", cluster, g.K, g.Manifest.ShardCount, storage.ErrCorrupt)
	}
	return nil
}

// validate reads back every record of the generation that is being built and compares it, byte for byte, with what was
// to be written; then it loads the generation as a reader would and counts its postings (RFC-109 section 5.1).
func (b *bootstrap) validate(ctx context.Context) error {
	x := b.c.State().Indexes[b.plan.Index]
	view, err := mdt.OpenFiles(ctx, b.req.Place, x.Building, x.FileGroups)
	if err != nil {
		return err
	}
	if _, err := loadNumber(ctx, view, x, b.number, delta.StateBuilding); err != nil {
		return err
	}
	files, err := b.records(b.result.Built)
	if err != nil {
		return err
	}
	var want []delta.KV
	for _, f := range files {
		want = append(want, f.Records...)
	}
	slices.SortFunc(want, func(a, b delta.KV) int { return bytes.Compare(a.Key, b.Key) })
	done, rows := 0, int64(0)
	err = view.ScanEntries(ctx, nil, func(e mdt.Entry) error {
		if done >= len(want) || !bytes.Equal(e.Key, want[done].Key) || !bytes.Equal(e.Value, want[done].Value) {
			return fmt.Errorf("record %d, key %x, is not what was written: %w", done, e.Key, storage.ErrCorrupt)
		}
		n, err := b.gen.count(e)
		if err != nil {
			return err
		}
		rows += n
		done++
		b.req.progress("validate", int64(done), int64(len(want)))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if done != len(want) {
		return fmt.Errorf("%d of %d records are there: %w", done, len(want), storage.ErrCorrupt)
	}
	if rows != b.result.Rows {
		return fmt.Errorf("%d postings, want %d: %w", rows, b.result.Rows, storage.ErrCorrupt)
	}
	return nil
}

// count decodes a record and returns how many postings it holds.
func (g *Generation) count(e mdt.Entry) (int64, error) {
	rec, err := delta.Decode(e.Schema, e.Value)
	if err != nil {
		return 0, err
	}
	switch r := rec.(type) {
	case *delta.PostingBlock:
		v, err := delta.NewBlockView(r, g.shape())
		if err != nil {
			return 0, err
		}
		return int64(v.Len()), nil
	case *delta.PostingDelta:
		return 1, r.Check(g.Dim, g.Bits)
	}
	return 0, nil
}
