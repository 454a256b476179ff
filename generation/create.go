package generation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/ivf"
	"tidemark/timeline"
)

// Result says what a bootstrap built.
type Result struct {
	Index       string           // its name
	Generation  uint32           // number of the one that was built
	Baseline    timeline.Instant // newest data write of the snapshot
	Frontier    mdt.Frontier     // zero if there is none yet
	HeldBy      string           // requested time of the instant that holds the frontier; "" if none
	Rows        int64            // postings
	Unindexable Unindexable      // rows without a posting, by why
	Duplicates  Duplicates       // record keys that occur more than once
	Clusters    int
	Blocks      int               // posting blocks
	Deltas      int               // rows that live in logs
	FileGroups  int               // physical ones, of the index
	Options     map[string]string // those of the index, by name
	Warnings    []string          // sentences for the operator
	Built       string            // id of the commit with all records
	Activated   string            // id of the commit that made it visible
}

// Create builds an index at one snapshot and activates it (docs/format/commit.md): read, train, assign, encode without the
// lease; one commit with every record and state BUILDING; all of them read back and compared; one commit that flips
// manifest and pointer to ACTIVE. A refusal writes nothing. An attempt that was interrupted stays invisible; running
// Create again takes a new number and retires its files. The caller must not hold the lease.
//
// Kinds: mdt.ErrHandedOver (another engine has a partition of that name), storage.ErrRefused (name taken, nothing to index, duplicate keys, memory, options), storage.ErrUnsupported
// (column), *UnreadableError (a slice is gone), storage.ErrStale (another writer got between: run it again).
func Create(ctx context.Context, t *table.Table, c Committer, req CreateRequest) (*Result, error) {
	if req.Place.Store == nil {
		req.Place = mdt.Inside(t.Store)
	}
	if err := req.Place.CheckWritable(t.Props); err != nil {
		return nil, err
	}
	p, err := NewPlan(ctx, t, req)
	if err != nil {
		return nil, err
	}
	if err := p.Refuse(); err != nil {
		return nil, err
	}
	if err := mdt.CheckOurs(ctx, req.Place, t.Props, mdt.PartitionDir(p.Index)); err != nil {
		return nil, err
	}
	number, err := nextNumber(ctx, c, req.Place, p)
	if err != nil {
		return nil, err
	}
	b := &bootstrap{t: t, c: c, req: req, plan: p, number: number}
	b.result = &Result{Index: p.Index, Generation: number, Baseline: p.Baseline, Warnings: p.Warnings}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	if err := b.write(ctx); err != nil {
		return nil, err
	}
	return b.result, nil
}

// nextNumber refuses a name that is taken and returns the number of the new generation: one above the highest ever
// used. It writes nothing.
func nextNumber(ctx context.Context, c Committer, place mdt.Place, p *Plan) (uint32, error) {
	st, err := c.Reload(ctx)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return 0, fmt.Errorf("read state: %w", err)
	}
	if err == nil {
		if err := errors.Join(mdt.NotPaused(place, st), checkFree(st, p.Index)); err != nil {
			return 0, err
		}
		if x := st.Indexes[p.Index]; x != nil {
			return x.LastGeneration() + 1, nil
		}
	}
	last, err := leftGeneration(ctx, place, p.Index)
	return last + 1, err
}

// checkFree refuses the name of an index that is in use. An attempt that was interrupted does not hold its name.
func checkFree(st *mdt.State, index string) error {
	x := st.Indexes[index]
	if x == nil || x.Dropped {
		return nil
	}
	g, active := x.Active()
	if !active {
		return nil
	}
	return &storage.Error{Op: "create index", Path: index, Hint: "drop it first, or choose another name",
		Err: fmt.Errorf("it is there, generation %d: %w: %w", g.Number, storage.ErrExists, storage.ErrRefused)}
}

// leftGeneration returns the highest generation number in files of ours that a lost state left behind, 0 if there are
// none: numbers are not used again (docs/format/state.md). A file that cannot be read says nothing and is swept later.
func leftGeneration(ctx context.Context, place mdt.Place, index string) (uint32, error) {
	infos, err := place.Store.List(ctx, place.File(mdt.PartitionDir(index)))
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list what is left of index %s: %w", index, err)
	}
	last := uint32(0)
	for _, info := range infos {
		rel := mdt.PartitionDir(index) + "/" + path.Base(info.Path)
		id, base, own := mdt.OwnName(path.Base(info.Path))
		if !own {
			continue
		}
		b, _, err := place.Store.ReadFile(ctx, info.Path)
		if err != nil {
			return 0, fmt.Errorf("read what is left of index %s: %w", index, err)
		}
		sum := sha256.Sum256(b)
		n := mdt.Group(rel)
		file := mdt.DataFile{Path: rel, Index: index, Group: n, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), ID: id, Base: base}
		view, err := mdt.OpenFiles(ctx, place, []mdt.DataFile{file}, n+1)
		if err != nil {
			continue
		}
		_ = view.ScanEntries(ctx, delta.ManifestPrefix(), func(e mdt.Entry) error {
			if k, err := delta.ParseKey(e.Key); err == nil {
				last = max(last, k.Generation)
			}
			return nil
		})
	}
	return last, ctx.Err()
}

// bootstrap is one attempt.
type bootstrap struct {
	t      *table.Table
	c      Committer
	req    CreateRequest
	plan   *Plan
	number uint32
	result *Result

	gen       *Generation
	postings  *postings
	centroids []*delta.Centroids
	static    []delta.KV  // postings of all clusters, by file group and key
	copies    *mdt.Copies // record keys that live more than once
	seen      map[string]mdt.Seen
	archive   mdt.SeenArchive
}

// build does everything that needs no commit.
func (b *bootstrap) build(ctx context.Context) error {
	o := b.plan.Options
	if err := b.witness(ctx); err != nil {
		return err
	}
	r := newReader(b.t, b.plan.snapshot.cut, b.plan.Vector, o.Metric, b.plan.Rows)
	for i, s := range b.plan.slices {
		if err := r.slice(ctx, s); err != nil {
			return gone(ctx, b.t, err)
		}
		b.req.progress("read", int64(i+1), int64(len(b.plan.slices)))
	}
	b.copies = r.known()
	c, err := r.finish(o.OnDuplicateKey)
	if err != nil {
		return err
	}
	b.result.Rows, b.result.Unindexable, b.result.Duplicates = int64(len(c.rows)), r.unindexable, r.duplicates
	centroids, err := b.train(ctx, c)
	if err != nil {
		return err
	}
	g := trained(o, b.number, c.dim, centroids)
	if err := o.clamp(g.K); err != nil {
		return err
	}
	b.gen, g.Options, g.Vector = g, o, b.plan.Vector
	g.Manifest = newManifest(o, b.number, b.plan.Column, c.dim)
	clusters, radii, err := g.assign(ctx, c, b.req.Workers, func(done, total int64) { b.req.progress("assign", done, total) })
	if err != nil {
		return err
	}
	g.Radii = radii
	b.postings, err = g.encode(ctx, c, clusters, b.req.Workers, func(done, total int64) { b.req.progress("encode", done, total) })
	if err != nil {
		return err
	}
	g.Segments, g.Counters = b.postings.segments, b.postings.counters
	if g.Groups = o.FileGroups; g.Groups == 0 {
		g.Groups = fileGroups(b.postings.bytes)
	}
	var checksum string
	if b.centroids, checksum, err = centroidChunks(g.Centroids, radii, g.Dim); err != nil {
		return err
	}
	m := g.Manifest
	m.NumClusters, m.FileGroupCount, m.ShardCount = int32(g.K), int32(g.Groups), int32(slices.Max(g.Segments))
	m.CentroidChunkCount, m.CentroidChecksum = int32(len(b.centroids)), &checksum
	m.BootstrapInstant, m.VerifiedFrontier = &b.plan.Baseline.Completed, &b.plan.Frontier
	for _, kvs := range b.postings.records {
		b.static = append(b.static, kvs...)
	}
	b.result.Clusters, b.result.Blocks, b.result.Deltas, b.result.FileGroups = g.K, b.postings.blocks, b.postings.deltas, g.Groups
	b.result.Options, b.result.HeldBy = o.Map(), b.plan.HeldBy
	b.result.Frontier = mdt.Frontier{Requested: b.plan.snapshot.frontier.Requested, Completed: b.plan.Frontier, Open: b.plan.snapshot.frontier.Open}
	return b.check()
}

// check puts what is to be written to the checks of Load, before anything is written.
func (b *bootstrap) check() error {
	m, x := b.gen.Manifest, b.index(nil)
	x.FileGroups = b.gen.Groups
	err := checkManifest(m, b.number)
	if err == nil {
		err = agrees(m, x)
	}
	if err == nil {
		_, _, err = readCentroids(m, b.centroids)
	}
	for cl := 0; err == nil && cl < b.gen.K; cl++ {
		err = b.gen.checkStats(uint32(cl), b.gen.Counters[cl].Stats(b.gen.Segments[cl], 0))
	}
	if err != nil {
		return &storage.Error{Op: "create index", Path: b.plan.Index, Hint: "nothing was written; report this with the options that were given",
			Err: fmt.Errorf("generation %d could not be loaded: %w: %w", b.number, err, storage.ErrRefused)}
	}
	return nil
}

// train returns the centroids: copied, or trained on the sample (RFC-109 section 5.1), which is spread evenly over
// the corpus.
func (b *bootstrap) train(ctx context.Context, c *corpus) ([]float32, error) {
	o := b.plan.Options
	if from := b.req.CentroidsFrom; from != nil {
		return slices.Clone(from.Centroids), nil
	}
	n := int64(len(c.rows))
	sample, size := c.vectors, ivf.SampleSize(n, int64(o.NumClusters))
	if size < n {
		sample = make([]float32, 0, size*int64(c.dim))
		for i := range size {
			// i·n/size without overflow: both are below 2^32.
			sample = append(sample, c.vector(int(i*n/size))...)
		}
	}
	cfg := ivf.TrainConfig{K: o.NumClusters, MaxIter: o.MaxIter, Seed: o.Seed, Metric: o.Metric, Workers: workersOr(b.req.Workers),
		Hierarchical: o.Training == TrainingHierarchical}
	centroids, _, err := ivf.Train(ctx, sample, int(size), c.dim, cfg, func(iter int) { b.req.progress("train", int64(iter), int64(o.MaxIter)) })
	if err != nil {
		return nil, fmt.Errorf("train clusters: %w", err)
	}
	return centroids, nil
}

// records returns everything the building commit writes, one entry a physical file group, empty ones too.
func (b *bootstrap) records(id string) ([]FileRecords, error) {
	ts, err := timestamp(id)
	if err != nil {
		return nil, err
	}
	g := b.gen
	files := make([]FileRecords, g.Groups)
	for i := range files {
		files[i] = FileRecords{Index: b.plan.Index, Group: i, Base: true}
	}
	add := func(key []byte, value []byte) {
		n := delta.FileGroup(key, g.Groups)
		files[n].Records = append(files[n].Records, delta.KV{Key: key, Value: value, Group: n})
	}
	rec := func(key []byte, r delta.Record) { add(key, delta.EncodeRecord(nil, r)) }
	m := *g.Manifest
	m.CreatedTs = ts
	rec(delta.PointerKey(), &delta.ActiveManifest{IndexVersion: delta.IndexVersion})
	rec(delta.ManifestKey(g.Number), &m)
	rec(delta.QuantizerKey(g.Number, 0), &delta.Quantizer{QuantizerType: delta.QuantizerType, RandomSeed: g.Options.Seed})
	for i, c := range b.centroids {
		rec(delta.CentroidsKey(g.Number, uint16(i)), c)
	}
	for cl, counters := range g.Counters {
		rec(delta.StatsKey(g.Number, uint32(cl)), counters.Stats(g.Segments[cl], ts))
	}
	for _, kv := range b.static {
		add(kv.Key, kv.Value)
	}
	for i := range files {
		slices.SortFunc(files[i].Records, func(x, y delta.KV) int { return bytes.Compare(x.Key, y.Key) })
	}
	return files, nil
}

// timestamp is what records carry for a time: the digits of the commit's id as a number (docs/format/records.md).
func timestamp(id string) (int64, error) {
	ts, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read commit id %q: %w", id, err)
	}
	return ts, nil
}
