package generation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// commitAttempts bounds how often a commit is tried again because the state moved under it.
const commitAttempts = 5

// write makes the two commits of a bootstrap (docs/format/commit.md) under the lease. Nothing is written before this point. An attempt that
// failed is taken out of use again; one that was killed stays BUILDING, invisible, until the next one.
func (b *bootstrap) write(ctx context.Context) (err error) {
	if err := b.c.Acquire(ctx); err != nil {
		return err
	}
	reserved := false
	defer func() {
		if err != nil && reserved {
			if left := b.withdraw(context.WithoutCancel(ctx)); left != nil {
				err = fmt.Errorf("%w; and it is left half built: %w", err, left)
			}
		}
		// The lease is given back even when the caller has given up.
		err = errors.Join(err, b.c.Release(context.WithoutCancel(ctx)))
	}()
	const commits = 3
	if err := b.c.Update(ctx, b.reserve); err != nil {
		return fmt.Errorf("reserve generation %d: %w", b.number, err)
	}
	reserved = true
	b.req.progress("write", 1, commits)
	b.result.Built, err = b.commit(ctx, Batch{
		Kind: "bootstrap", Newest: b.plan.Baseline,
		Build: func(id, _ string) ([]FileRecords, error) { return b.records(id) },
		Apply: b.applyBuilding,
	})
	if err != nil {
		return err
	}
	b.req.progress("write", 2, commits)
	if err := b.validate(ctx); err != nil {
		return fmt.Errorf("read back generation %d: %w", b.number, err)
	}
	if err := b.lookAgain(ctx); err != nil {
		return err
	}
	b.result.Activated, err = b.commit(ctx, Batch{
		Kind: "activate", Newest: b.plan.Baseline,
		Build: func(id, _ string) ([]FileRecords, error) { return b.flip(id) },
		Apply: b.applyActive,
	})
	if err != nil {
		return err
	}
	b.req.progress("write", commits, commits)
	return nil
}

// commit makes a batch visible. When the state moved on meanwhile (another index was dropped) and still has the index as
// this bootstrap left it, the same batch is made again from the state as it is now.
func (b *bootstrap) commit(ctx context.Context, batch Batch) (string, error) {
	st := b.c.State()
	for attempt := 1; ; attempt++ {
		batch.Revision = st.Revision
		id, err := b.c.Commit(ctx, batch)
		if err == nil || !errors.Is(err, storage.ErrStale) || attempt == commitAttempts {
			return id, err
		}
		now, reloadErr := b.c.Reload(ctx)
		if reloadErr != nil {
			return "", fmt.Errorf("%w; and the state cannot be read again: %w", err, reloadErr)
		}
		if now.Revision == st.Revision || !same(now.Indexes[b.plan.Index], st.Indexes[b.plan.Index]) {
			return "", err
		}
		st = now
	}
}

// same compares what the state object would hold of two indexes.
func same(a, b *mdt.Index) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// withdraw takes the index out of use after a failure, so that the table does not show one that nobody is building. Its
// number stays used and its files are retired. It does nothing when the failed commit may yet become visible, or when the
// index is another attempt's by now.
func (b *bootstrap) withdraw(ctx context.Context) error {
	st, err := b.c.Reload(ctx)
	if err != nil || st.Intent != nil || !b.building(st) {
		return err
	}
	return b.c.Update(ctx, func(st *mdt.State) error {
		if !b.building(st) {
			return nil
		}
		x := st.Indexes[b.plan.Index]
		x.Generations[len(x.Generations)-1].State, x.Building, x.Dropped = mdt.GenDropped, nil, true
		if alone(st, b.plan.Index) {
			st.Restores = nil // as after a drop
		}
		return nil
	})
}

// building says whether the index of a state is this attempt's, not yet active.
func (b *bootstrap) building(st *mdt.State) bool {
	x := st.Indexes[b.plan.Index]
	if x == nil || x.Dropped || x.LastGeneration() != b.number {
		return false
	}
	return x.Generations[len(x.Generations)-1].State == mdt.GenBuilding
}

// reserve takes the number for good: whatever happens from here on, the next attempt takes a higher one.
func (b *bootstrap) reserve(st *mdt.State) error {
	if err := errors.Join(mdt.NotPaused(b.req.Place, st), checkFree(st, b.plan.Index)); err != nil {
		return err
	}
	x := st.Indexes[b.plan.Index]
	if x == nil {
		x = &mdt.Index{}
		st.Indexes[b.plan.Index] = x
	}
	if x.LastGeneration() >= b.number {
		return fmt.Errorf("generation %d was taken by another attempt meanwhile: %w", b.number, storage.ErrStale)
	}
	for i := range x.Generations {
		// What was never activated, or was dropped with the index, is over.
		x.Generations[i].State = mdt.GenDropped
	}
	*x = *b.index(x.Generations)
	return nil
}

// index is the index as the state holds it once the number is reserved, after the generations before.
func (b *bootstrap) index(before []mdt.GenState) *mdt.Index {
	v := b.plan.Vector
	return &mdt.Index{
		Name: b.plan.Index, Column: b.plan.Column, Element: v.Element, Dim: v.Dim, Options: b.result.Options,
		Dir:         mdt.PartitionDir(b.plan.Index),
		Generations: append(before, mdt.GenState{Number: b.number, State: mdt.GenBuilding}),
	}
}

func (b *bootstrap) applyBuilding(st *mdt.State, id, _ string, files []mdt.DataFile) error {
	x := st.Indexes[b.plan.Index]
	if x == nil || x.LastGeneration() != b.number {
		return fmt.Errorf("generation %d is not reserved: %w", b.number, storage.ErrStale)
	}
	x.Generations[len(x.Generations)-1].Built = id
	x.FileGroups, x.Building, x.Baseline, x.Copies = b.gen.Groups, files, b.plan.snapshot.baseline, b.copies
	x.Seen, st.Archive = b.seen, st.Archive.Further(b.archive)
	// Restores and rollbacks are in what was read. That says nothing about the other indexes of the table, and the set
	// is one for all: with others there, an open one stays open.
	if alone(st, b.plan.Index) {
		if st.Restores == nil {
			st.Restores = map[string]string{}
		}
		for requested, completed := range b.plan.snapshot.restores {
			st.Restores[requested] = completed
		}
	}
	return nil
}

// alone says whether no other index of the table is in use.
func alone(st *mdt.State, index string) bool {
	for name, x := range st.Indexes {
		if name != index && !x.Dropped {
			return false
		}
	}
	return true
}

// lookAgain computes the first frontier anew: since the snapshot was chosen, an instant may have come to light that was
// requested before it (design, decision 8). If the frontier's own instant was archived meanwhile, everything that could
// hold it is known to have completed, and it stays.
func (b *bootstrap) lookAgain(ctx context.Context) error {
	_, tl, err := timeline.Open(ctx, b.t.Store, table.HoodieDir)
	if err != nil {
		return fmt.Errorf("look at the timeline again: %w", err)
	}
	if had := b.result.Frontier.Requested; had != "" {
		if _, active := tl.CompletionOf(had); !active {
			return nil
		}
	}
	f := b.plan.snapshot.frontierOn(tl)
	b.result.Frontier = mdt.Frontier{Requested: f.Requested, Completed: f.Completed, Open: f.Open}
	b.result.HeldBy = ""
	if f.HeldBy != nil {
		b.result.HeldBy = f.HeldBy.Requested
	}
	return nil
}

// flip returns the records that make the generation the active one.
func (b *bootstrap) flip(id string) ([]FileRecords, error) {
	ts, err := timestamp(id)
	if err != nil {
		return nil, err
	}
	active := int32(b.number)
	m := *b.gen.Manifest
	m.State, m.CreatedTs, m.VerifiedFrontier = delta.StateActive, ts, &b.result.Frontier.Completed
	byGroup := map[int]*FileRecords{}
	for _, r := range []struct {
		key []byte
		rec delta.Record
	}{
		{delta.PointerKey(), &delta.ActiveManifest{IndexVersion: delta.IndexVersion, ActiveGeneration: &active}},
		{delta.ManifestKey(b.number), &m},
	} { // ascending by key
		n := delta.FileGroup(r.key, b.gen.Groups)
		if byGroup[n] == nil {
			byGroup[n] = &FileRecords{Index: b.plan.Index, Group: n}
		}
		byGroup[n].Records = append(byGroup[n].Records, delta.KV{Key: r.key, Value: delta.EncodeRecord(nil, r.rec), Group: n})
	}
	var files []FileRecords
	for n := range b.gen.Groups {
		if f := byGroup[n]; f != nil {
			files = append(files, *f)
		}
	}
	return files, nil
}

func (b *bootstrap) applyActive(st *mdt.State, id, completion string, files []mdt.DataFile) error {
	x := st.Indexes[b.plan.Index]
	if x == nil || x.LastGeneration() != b.number || len(x.Building) != b.gen.Groups {
		return fmt.Errorf("generation %d is not the one being built: %w", b.number, storage.ErrStale)
	}
	g := &x.Generations[len(x.Generations)-1]
	g.State, g.Activated = mdt.GenActive, id
	st.Base = append(st.Base, x.Building...)
	x.Building = nil
	x.Frontier = b.result.Frontier
	st.Commits = append(st.Commits, mdt.Commit{ID: id, Completion: completion, Kind: "activate", Files: slices.Clone(files)})
	return nil
}
