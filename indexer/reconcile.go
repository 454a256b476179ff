package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/sink"
	"tidemark/timeline"
)

// ReconcileOptions says what a Reconcile compares.
type ReconcileOptions struct {
	// Index names one index. Defaults to all active ones: a restore concerns them all.
	Index string
	// Plan compares and writes nothing: no lease, no state, no file.
	Plan bool
	// Examples bounds the sample keys given per class. Defaults to 5.
	Examples int
	// Progress is told the index and how many of its rows have been compared. Defaults to nothing.
	Progress func(index string, rows int64)
	only     []string // some indexes
	// Waiting and Sink are as in SyncOptions.
	Waiting func(reason string)
	Sink    sink.Config
}

// Reconciled is what a Reconcile found in one index and did to it.
type Reconciled struct {
	coverage.VerifyReport
	// Corrections are the record keys whose postings are not those of the table as it is now.
	Corrections int64 `json:"corrections"`
	// Written are those that were corrected: all of them, or none of a plan.
	Written int64 `json:"written"`
	// Covered are the commits that the index did not cover and does now.
	Covered int `json:"covered_now"`
	// Undone are covered commits that the table has undone; the index claims them no longer.
	Undone []string `json:"undone"`
	// Commit is the metadata-table commit that was made, "" if none was needed.
	Commit string `json:"commit"`
}

// Reconcile makes indexes equal to the newest snapshot of their table, whatever they held (design, decision 14): it compares all
// postings, writes what differs, covers every completed data write, forgets what the table has undone, and records restores
// and rollbacks as dealt with: all in one metadata-table commit. Where nothing is to be done it makes none. Kinds as Sync.
func Reconcile(ctx context.Context, place mdt.Place, opt ReconcileOptions) ([]Reconciled, error) {
	if _, err := takeLook(ctx, place, nil); err != nil {
		return nil, err
	}
	if opt.Plan {
		st, _, err := mdt.ReadState(ctx, place)
		if err != nil {
			return nil, err
		}
		r, err := newReconciliation(ctx, place, st, opt)
		if err != nil {
			return nil, err
		}
		return r.results, r.close()
	}
	sk, err := OpenCommitter(ctx, place, CommitterOptions{Waiting: opt.Waiting, Sink: opt.Sink})
	if err != nil {
		return nil, err
	}
	if err := sk.Acquire(ctx); err != nil {
		return nil, err
	}
	out, err := reconcile(ctx, place, sk, opt)
	return out, errors.Join(err, sk.Release(context.WithoutCancel(ctx)))
}

// reconcile is Reconcile with the lease held. It begins anew when the table moves under it.
func reconcile(ctx context.Context, place mdt.Place, sk Committer, opt ReconcileOptions) ([]Reconciled, error) {
	for redo := 0; ; redo++ {
		st := sk.State()
		if err := mdt.NotPaused(place, st); err != nil {
			return nil, err
		}
		r, err := newReconciliation(ctx, place, st, opt)
		if err == nil {
			err = errors.Join(r.commit(ctx, sk), r.close())
		}
		if err == nil {
			sk.memo.fold.line = foldLine(r.Look)
			_, err = fold(ctx, sk)
			return r.results, err
		}
		if err = moved(err); !errors.Is(err, errRedo) || redo == staleRedos {
			return nil, settled(err)
		}
		if err := sleep(ctx, staleWait); err != nil {
			return nil, err
		}
	}
}

// reconciliation is one comparison of indexes with the table as one look shows it.
type reconciliation struct {
	*look
	place   mdt.Place
	opt     ReconcileOptions
	metas   map[string]*timeline.CommitMetadata // of completed data writes that an index does not cover
	indexes []*rebased
	taken   []*taken // one for each index
	results []Reconciled
	reaches mdt.SeenArchive
}

// close gives up what the records of the indexes take.
func (r *reconciliation) close() error {
	var errs []error
	for _, t := range r.taken {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// rebased is one index with what becomes of it.
type rebased struct {
	part
	claim   markers.Claim // afterwards
	undone  []string
	doubted []string // see doubted
	covered []covered
	copies  *mdt.Copies // record keys that live more than once
}

func newReconciliation(ctx context.Context, place mdt.Place, st *mdt.State, opt ReconcileOptions) (*reconciliation, error) {
	l, err := takeLook(ctx, place, st)
	if err != nil {
		return nil, err
	}
	r := &reconciliation{look: l, place: place, opt: opt, metas: map[string]*timeline.CommitMetadata{}}
	if err := r.notStray(ctx); err != nil {
		return nil, err
	}
	if err := r.readUndoings(ctx); err != nil {
		return nil, err
	}
	if r.reaches, err = r.archiveNow(ctx); err != nil {
		return nil, err
	}
	names, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := r.compare(ctx, st.Indexes[name]); err != nil {
			return nil, errors.Join(fmt.Errorf("reconcile index %s: %w", name, err), r.close())
		}
	}
	return r, nil
}

// names returns the indexes that are meant. One alone is refused where another one holds what the table has undone: restores and
// rollbacks are dealt with for the table as a whole.
func (r *reconciliation) names(ctx context.Context) ([]string, error) {
	var active []string
	for _, name := range slices.Sorted(maps.Keys(r.state.Indexes)) {
		if x := r.state.Indexes[name]; !x.Dropped {
			if _, ok := x.Active(); ok {
				active = append(active, name)
			}
		}
	}
	switch {
	case len(active) == 0:
		return nil, noActive(r.place)
	case len(r.opt.only) > 0:
		return r.opt.only, nil
	case r.opt.Index == "":
		return active, nil
	case !slices.Contains(active, r.opt.Index):
		return nil, &storage.Error{Op: "find index", Path: r.opt.Index, Err: storage.ErrNotFound, Hint: "see what there is: tidemark index list"}
	}
	for _, name := range active {
		claim := claimOf(r.state.Indexes[name])
		if err := r.archive(ctx, claim); err != nil {
			return nil, err
		}
		if name != r.opt.Index && len(r.Undone(claim)) > 0 {
			return nil, &storage.Error{Op: "reconcile index", Path: r.opt.Index, Hint: "leave --index out: all indexes are reconciled then",
				Err: fmt.Errorf("index %s holds commits that the table has undone, too: %w", name, storage.ErrRefused)}
		}
	}
	return []string{r.opt.Index}, nil
}

func noActive(place mdt.Place) error {
	return &storage.Error{Op: "follow table", Path: place.Store.URL(), Hint: "create one first: tidemark index create",
		Err: fmt.Errorf("no active index: %w", storage.ErrNotFound)}
}

// compare finds what must change in one index.
func (r *reconciliation) compare(ctx context.Context, x *mdt.Index) error {
	if err := r.checkColumn(x); err != nil {
		return err
	}
	claim := claimOf(x)
	if err := r.archive(ctx, claim); err != nil {
		return err
	}
	b := &rebased{undone: r.Undone(claim)}
	var err error
	if b.o, err = openIndex(ctx, r.place, r.state, x); err != nil {
		return err
	}
	if b.doubted, err = r.doubted(ctx, x, b.o.gen.Manifest.BootstrapInstant); err != nil {
		return err
	}
	claim = without(claim, b.doubted)
	if why, err := coverage.Astray(ctx, r.table.Archive(), r.table.Timeline, x); err != nil {
		return err
	} else if why != "" {
		claim.Frontier = markers.Frontier{} // found anew by Rebase
	}
	b.claim = r.Rebase(claim)
	due := claim.Set.Due(r.Writes)
	if err := r.read(ctx, due); err != nil {
		return err
	}
	instant := ""
	if len(r.Writes) > 0 {
		instant = r.Writes[len(r.Writes)-1].Requested
	}
	report, changes, copies, err := coverage.Corrections(ctx, coverage.Deps{Place: r.place}, coverage.CorrectionsRequest{
		State: r.state, Table: r.table, Index: x.Name, View: b.o.view, Generation: b.o.gen, Instant: instant, Examples: r.opt.Examples,
		Progress: func(rows int64) {
			if r.opt.Progress != nil {
				r.opt.Progress(x.Name, rows)
			}
		}})
	if err != nil {
		return err
	}
	b.copies = copies
	counts := diffing.Counts{}
	for _, c := range changes {
		counts[c.Class]++
	}
	counts[delta.Unindexable] = report.Unindexable
	missed, err := r.missed(ctx, x.Column, due)
	if err != nil {
		return err
	}
	for n, i := range due {
		b.covered = append(b.covered, covered{instant: i, meta: r.metas[i.Requested], unit: n < len(due)-1, unread: missed[n],
			results: []diffing.Result{{Index: x.Name, Mode: diffing.Merged, Counts: counts, Reasons: report.Reasons}}})
	}
	b.markers = markers.Groups(due, b.claim.Set.Covered)
	b.frontier = b.claim.Frontier
	t := Memory{}.take([]opened{b.o}, r.opt.Plan)
	r.taken = append(r.taken, t)
	b.batch = t.batches[0]
	for _, c := range changes {
		if err := b.batch.AddChange(ctx, c); err != nil {
			return err
		}
	}
	if err := b.batch.Finish(ctx); err != nil {
		return err
	}
	r.indexes = append(r.indexes, b)
	r.results = append(r.results, Reconciled{VerifyReport: *report, Corrections: int64(len(changes)), Covered: len(due), Undone: append([]string{}, b.undone...)})
	return nil
}

// missed says what of due commits can no longer be read, of which only the snapshot at their end was compared.
func (r *reconciliation) missed(ctx context.Context, column string, due []timeline.Instant) ([]map[string]int64, error) {
	if len(due) == 0 {
		return nil, nil
	}
	files, err := r.table.Files(ctx)
	if err != nil {
		return nil, err
	}
	metas := make([]*timeline.CommitMetadata, len(due))
	for n, i := range due {
		metas[n] = r.metas[i.Requested]
	}
	after := func(n int) table.Cut { return table.Cut{Upto: due[n].Completed} }
	return unread(ctx, source{table: r.table, files: files}, metas, table.Columns{Vectors: []string{column}}, after, table.Cut{})
}

// read reads the metadata of commits that get a marker. One that cannot be read proves nothing, so nothing is reconciled then.
func (r *reconciliation) read(ctx context.Context, due []timeline.Instant) error {
	for _, i := range due {
		if r.metas[i.Requested] != nil {
			continue
		}
		m, err := timeline.ReadCommit(ctx, r.table.Store, table.HoodieDir, r.table.Props, i)
		if err != nil {
			return fmt.Errorf("read instant %s: %w", i.Requested, err)
		}
		r.metas[i.Requested] = m
	}
	return nil
}

// needed says whether there is anything to write.
func (r *reconciliation) needed() bool {
	if len(r.Unhandled(r.state.Restores)) > 0 || r.shrunk() {
		return true
	}
	for n, b := range r.indexes {
		x := b.o.index
		degraded := slices.ContainsFunc(r.state.Degraded, func(d mdt.DegradedGroup) bool { return d.Index == x.Name })
		f := r.results[n]
		if f.Corrections > 0 || f.Covered > 0 || len(f.Undone) > 0 || degraded || x.Reconcile != "" || r.Behind(claimOf(x)) ||
			x.Copies != nil && x.Copies.More || b.frontier.Completed != x.Frontier.Completed {
			return true
		}
	}
	return false
}

// commit writes the corrections, the covered sets and what was dealt with as one commit.
func (r *reconciliation) commit(ctx context.Context, sk Committer) error {
	if !r.needed() {
		return nil
	}
	build := func(id, _ string) ([]sink.FileRecords, error) {
		var out []sink.FileRecords
		for _, b := range r.indexes {
			files, err := b.files(id)
			if err != nil {
				return nil, err
			}
			out = append(out, files...)
		}
		return out, nil
	}
	id, err := sk.commit(ctx, sink.Batch{Kind: "reconcile", Build: build, Apply: r.apply})
	if err != nil {
		return err
	}
	for i, b := range r.indexes {
		r.results[i].Commit, r.results[i].Written = id, r.results[i].Corrections
		sk.memo.tell(r.look, id, b.o.index.Name, 0, b.covered)
	}
	return nil
}

// apply changes the state as the commit becomes visible.
func (r *reconciliation) apply(st *mdt.State, id, completion string, files []mdt.DataFile) error {
	commit := mdt.Commit{ID: id, Completion: completion, Kind: "reconcile", Files: files}
	for _, b := range r.indexes {
		name := b.o.index.Name
		x := st.Indexes[name]
		if x == nil {
			return fmt.Errorf("apply reconcile: index %s is no longer there: %w", name, storage.ErrStale)
		}
		x.Baseline = mdt.Baseline{Instants: b.claim.Set.Baseline, Before: b.claim.Set.Before}
		x.Covered = b.claim.Set.Covered
		x.Frontier = mdt.Frontier{Requested: b.frontier.Requested, Completed: b.frontier.Completed, Open: b.frontier.Open}
		x.Reconcile, x.Copies = "", b.copies
		r.prune(x)
		maps.DeleteFunc(x.Seen, func(at string, _ mdt.Seen) bool { return slices.Contains(b.doubted, at) })
		if len(b.doubted) > 0 { // what was known of them is of other files
			st.ForgetEvidence(name, b.doubted)
		}
		for _, d := range b.covered {
			commit.Covered = append(commit.Covered, d.record(0, name, b.frontier.Completed))
		}
		// What was undone is covered no longer: no list may name it.
		if len(b.undone) > 0 {
			st.ForgetEvidence(name, b.undone)
		}
		st.Degraded = slices.DeleteFunc(st.Degraded, func(d mdt.DegradedGroup) bool { return d.Index == name })
	}
	// Which files the metadata table's other readers still accept after a restore cannot be told: all are written anew.
	st.Refold = true
	if st.Restores == nil {
		st.Restores = map[string]string{}
	}
	for _, i := range r.Undoings {
		st.Restores[i.Requested] = i.Completed
	}
	st.Archive = r.reaches
	st.Commits = append(st.Commits, commit)
	for _, b := range r.indexes {
		st.Witness(b.o.index.Name, r.Writes)
	}
	return nil
}
