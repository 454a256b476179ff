package indexer

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"

	"tidemark/delta"
	"tidemark/delta/batch"
	"tidemark/diffing"
	"tidemark/generation"
	"tidemark/indexer/copies"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/sink"
	"tidemark/timeline"
)

// Bounds of one batch (design decision 23).
const (
	maxBatchInstants = 64
	maxBatchBytes    = 64 << 20
)

// covered is one instant of a batch with what was found in it.
type covered struct {
	instant timeline.Instant
	meta    *timeline.CommitMetadata
	results []diffing.Result // one per index of the cohort, in its order
	unit    bool             // compared with later instants: its counts stand on the last one
	unread  map[string]int64 // what of it could not be read: see unread
	groups  []GroupStep      // when its file groups were read; those of a unit stand on the last one
}

// gather compares due instants one by one in completion order until a bound is reached. A unit of instants is
// never split. It returns what could be compared and the failure that stopped it, if any; t has the changes of the former. w watches for
// copies of keys.
func (l *look) gather(ctx context.Context, c cohort, indexes []opened, src source, w *copies.Watch, t *taken, limit int, observe func(done int)) ([]covered, error) {
	targets := make([]diffing.Target, len(c.indexes))
	byIndex := map[string]*known{}
	for i, x := range c.indexes {
		v, err := l.table.Vector(x.Column)
		if err != nil {
			return nil, err
		}
		targets[i] = diffing.Target{Index: x.Name, Vector: v, Metric: indexes[i].gen.Metric}
		byIndex[x.Name] = &known{opened: indexes[i], batch: t.batches[i]}
	}
	in := map[string]bool{}
	var out []covered
	for at := 0; at < len(c.due) && len(out) < limit; {
		req := diffing.Request{
			Incorporated: func(i timeline.Instant) bool { return in[i.Requested] || c.has(i) },
			Completion:   l.table.Completion,
			Targets:      targets,
			Known: func(ctx context.Context, index string) (map[string]diffing.Posting, error) {
				return byIndex[index].postings(ctx)
			},
			Hidden: func(index string) bool { return l.hidden(index, out) },
		}
		var groups []GroupStep
		req.Began = l.groupSteps(&groups)
		results, err := l.compareUnit(ctx, src, c.due[at:], &req, w, t)
		if err != nil {
			return out, &InstantError{Requested: c.due[at].Requested, Err: err}
		}
		if err := w.Done(ctx, results); err != nil {
			t.Reset()
			return out, err
		}
		missed, err := missed(ctx, src, req)
		if err != nil {
			t.Reset()
			return out, err
		}
		for i, instant := range req.Instants {
			cov := covered{instant: instant, meta: req.Metas[i], unit: i < len(req.Instants)-1, unread: missed[i]}
			if !cov.unit {
				cov.results, cov.groups = results, l.ended(groups)
			}
			in[instant.Requested] = true
			out = append(out, cov)
		}
		at += len(req.Instants)
		observe(len(out))
		if t.size() >= maxBatchBytes {
			break
		}
	}
	return out, nil
}

// InstantError says which commit could not be compared. Its text and kinds are those of the error that it wraps.
type InstantError struct {
	// Requested is the commit's requested time.
	Requested string
	Err       error
}

// Error implements error.
func (e *InstantError) Error() string { return e.Err.Error() }

// Unwrap gives what stopped the comparison.
func (e *InstantError) Unwrap() error { return e.Err }

// source is the table as diffing reads it.
type source struct {
	table *table.Table
	files *table.Files
}

func (s source) Slice(g table.Group, in func(timeline.Instant) bool) (table.Slice, bool, error) {
	return s.files.Slice(g, table.Cut{In: in})
}

func (s source) Rows(ctx context.Context, sl table.Slice, c table.Columns, twin diffing.Rows) (diffing.Rows, error) {
	other, _ := twin.(*table.Rows)
	r, err := s.table.Rows(ctx, sl, c, other)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s source) ReadAppended(ctx context.Context, before, after table.Slice, c table.Columns, fn func(bool, table.Row) error) error {
	return s.table.ReadAppended(ctx, before, after, c, fn)
}

func (s source) ReadKeys(ctx context.Context, sl table.Slice, c table.Columns, keys map[string]bool, fn func(table.Row) error) error {
	return s.table.ReadKeys(ctx, sl, c, keys, fn)
}

// opened is an active index with its generation.
type opened struct {
	index *mdt.Index
	view  *mdt.View
	gen   *generation.Generation
}

func openIndex(ctx context.Context, place mdt.Place, st *mdt.State, x *mdt.Index) (opened, error) {
	view, err := mdt.OpenView(ctx, place, st, x.Name)
	if err != nil {
		return opened{}, fmt.Errorf("open index %s: %w", x.Name, err)
	}
	gen, err := generation.Load(ctx, view, x)
	if err != nil {
		return opened{}, fmt.Errorf("load index %s: %w", x.Name, err)
	}
	return opened{index: x, view: view, gen: gen}, nil
}

// known reads an index's postings when a comparison first asks for them. They are held for the batch, about 200 bytes and the record
// key each: only where a preceding slice is or was gone.
type known struct {
	opened
	batch *batch.Batch
	read  map[string]diffing.Posting
}

// postings returns the index's postings by record key as they are after the instants gathered so far.
func (o *known) postings(ctx context.Context) (map[string]diffing.Posting, error) {
	if o.read == nil {
		o.read = map[string]diffing.Posting{}
		err := o.gen.Postings(ctx, o.view, func(p generation.Posting) error {
			o.read[p.Key] = diffing.Posting{Cluster: p.Cluster, Locator: p.Locator}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	now := maps.Clone(o.read)
	return now, apply(ctx, o.batch, now)
}

// write makes one metadata-table commit of what was gathered. known are the copies of keys afterwards.
func (l *look) write(ctx context.Context, sk Committer, c cohort, indexes []opened, t *taken, done []covered, known *mdt.Copies) (string, error) {
	parts := make([]part, len(c.indexes))
	for i, o := range indexes {
		p, err := l.part(ctx, c.courses[i], o, t.batches[i], done)
		if err != nil {
			return "", err
		}
		parts[i] = p
	}
	build := func(id, _ string) ([]sink.FileRecords, error) {
		var out []sink.FileRecords
		for _, p := range parts {
			files, err := p.files(id)
			if err != nil {
				return nil, err
			}
			out = append(out, files...)
		}
		sk.memo.steps.Encoded = sk.memo.clock()
		return out, nil
	}
	archive := l.reach(ctx)
	steps := sk.memo.steps
	apply := func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
		commit := mdt.Commit{ID: id, Completion: completion, Kind: "sync", LookedAt: steps.Looked, DiffedAt: steps.Compared, Files: files}
		for i, p := range parts {
			x := st.Indexes[p.o.index.Name]
			if x == nil {
				return fmt.Errorf("apply batch: index %s is no longer there: %w", p.o.index.Name, storage.ErrStale)
			}
			if x.Covered == nil {
				x.Covered = map[string]string{}
			}
			for _, d := range done {
				x.Covered[d.instant.Requested] = d.instant.Completed
				r := d.record(i, x.Name, p.frontier.Completed)
				r.NoticedAt = sk.memo.noticedAt(r.Requested)
				commit.Covered = append(commit.Covered, r)
				for _, r := range d.results {
					if r.Index == x.Name {
						degrade(st, x.Name, d.instant.Requested, r.Degraded)
					}
				}
			}
			x.Frontier = mdt.Frontier{Requested: p.frontier.Requested, Completed: p.frontier.Completed, Open: p.frontier.Open}
			if len(done) > 0 {
				x.Copies = known
			}
			if why := l.doubt(done); why != "" {
				x.Reconcile = why
			}
			l.prune(x)
		}
		st.Archive = st.Archive.Further(archive)
		st.Commits = append(st.Commits, commit)
		for _, p := range parts {
			st.Witness(p.o.index.Name, l.Writes)
		}
		return nil
	}
	id, err := sk.commit(ctx, sink.Batch{Kind: "sync", Build: build, Apply: apply, Seen: &l.seen})
	if err == nil {
		st := sk.State()
		for i, x := range c.indexes {
			if now := st.Indexes[x.Name]; now != nil {
				l.judged.arrive(now, c.courses[i])
			}
		}
	}
	return id, err
}

// record is what the state keeps of a covered instant, for the index at place i of its cohort.
func (d covered) record(i int, index, frontier string) mdt.CoveredInstant {
	r := mdt.CoveredInstant{
		Index: index, Requested: d.instant.Requested, Completed: d.instant.Completed, Action: string(d.instant.Action),
		Operation: d.meta.Operation, Mode: string(diffing.Merged), Counts: diffing.Counts{}.Map(),
		Digest: hex.EncodeToString(d.meta.Digest[:]), Frontier: frontier,
	}
	reasons := maps.Clone(d.unread)
	if !d.unit {
		r.Mode, r.Counts = string(d.results[i].Mode), d.results[i].Counts.Map()
		if reasons == nil {
			reasons = map[string]int64{}
		}
		maps.Copy(reasons, d.results[i].Reasons)
		if n := len(d.results[i].Degraded); n > 0 {
			reasons[beforeGone] = int64(n)
		}
	}
	r.Reasons = reasons
	return r
}

// hidden says whether an index has degraded groups, by its state or by what was gathered so far.
func (l *look) hidden(index string, done []covered) bool {
	for _, d := range l.state.Degraded {
		if d.Index == index {
			return true
		}
	}
	for _, d := range done {
		for _, r := range d.results {
			if r.Index == index && len(r.Degraded) > 0 {
				return true
			}
		}
	}
	return false
}

func degrade(st *mdt.State, index, since string, groups []table.Group) {
next:
	for _, g := range groups {
		for _, d := range st.Degraded {
			if d.Index == index && d.Partition == g.Partition && d.FileID == g.FileID {
				continue next
			}
		}
		st.Degraded = append(st.Degraded, mdt.DegradedGroup{Index: index, Partition: g.Partition, FileID: g.FileID, Since: since})
	}
}

// prune forgets covered and baseline instants that the archiver has taken.
func (l *look) prune(x *mdt.Index) {
	for _, requested := range l.Forget(claimOf(x)) {
		delete(x.Covered, requested)
		delete(x.Baseline.Instants, requested)
	}
}

// part is one index's share of a batch, complete but for the commit's time.
type part struct {
	o        opened
	batch    *batch.Batch // finished
	markers  []markers.Group
	frontier markers.Frontier
}

// part makes it, and takes the course of the index to where the batch leads.
func (l *look) part(ctx context.Context, course *markers.Course, o opened, b *batch.Batch, done []covered) (part, error) {
	var instants []timeline.Instant
	for _, d := range done {
		instants = append(instants, d.instant)
	}
	if err := b.Finish(ctx); err != nil {
		return part{}, fmt.Errorf("build postings of index %s: %w", o.index.Name, err)
	}
	l.judged.leave(o.index.Name)
	course.Cover(instants)
	twins := course.Twins(instants)
	maps.Copy(twins, o.index.Covered) // the archiver may have taken one
	return part{o: o, batch: b, markers: markers.Groups(instants, twins), frontier: course.Frontier()}, nil
}

// files returns the records of the part by physical file group, ascending by key.
func (p part) files(id string) ([]sink.FileRecords, error) {
	at, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("commit time %q: %w", id, err)
	}
	g := p.o.gen
	records := p.batch.Stats(func(c int) delta.Counters { return g.Counters[c] }, at)
	put := func(key []byte, r delta.Record) {
		records = append(records, delta.KV{Key: key, Value: delta.EncodeRecord(nil, r), Group: delta.FileGroup(key, g.Groups)})
	}
	for _, m := range p.markers {
		put(delta.MarkerKey(g.Number, m.Completed), &delta.SourceInstantMarker{DataInstant: m.Text()})
	}
	manifest := *g.Manifest
	manifest.VerifiedFrontier = &p.frontier.Completed
	put(delta.ManifestKey(g.Number), &manifest)
	return fileRecords(p.o.index.Name, p.batch, records), nil
}
