package indexer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// readUndoings reads every restore and rollback that is about to be taken as dealt with: one that cannot be read may have undone
// anything. Then nothing is reconciled.
func (r *reconciliation) readUndoings(ctx context.Context) error {
	for _, i := range r.Unhandled(r.state.Restores) {
		if _, err := coverage.Undone(ctx, r.table.Store, r.table.Props, i); err != nil {
			return err
		}
	}
	return nil
}

// doubted returns the requested times of active commits that an index calls incorporated and that are not to be relied on: their file
// was changed since, nobody took them in, or they completed after the snapshot that the index was built from. They are covered anew.
func (r *reconciliation) doubted(ctx context.Context, x *mdt.Index, bootstrap *string) ([]string, error) {
	digests := map[string]string{}
	for requested, s := range x.Seen {
		digests[requested+s.Completed] = s.Digest
	}
	kept, err := mdt.Evidence(ctx, r.place, r.state, x.Name)
	if err != nil && !errors.Is(err, storage.ErrCorrupt) { // damaged evidence is told by markers, prove and verify
		return nil, err
	}
	for _, c := range kept {
		for _, i := range c.Covered {
			if i.Index == x.Name {
				digests[i.Requested+i.Completed] = i.Digest
			}
		}
	}
	var out []string
	set, untaken := SetOf(x), r.state.Untaken(x)
	for _, w := range r.table.Timeline.Writes() {
		if !set.Has(w) {
			continue
		}
		late := x.Baseline.Instants[w.Requested] == w.Completed && bootstrap != nil && w.Completed > *bootstrap
		if late || doubtOf(x, w, untaken) != "" {
			out = append(out, w.Requested)
			continue
		}
		was := digests[w.Requested+w.Completed]
		if was == "" {
			continue
		}
		m, err := r.table.Commit(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("read instant %s: %w", w.Requested, err)
		}
		if hex.EncodeToString(m.Digest[:]) != was {
			out = append(out, w.Requested)
		}
	}
	return out, nil
}

// without returns a claim that does not name some commits.
func without(c markers.Claim, requested []string) markers.Claim {
	drop := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(at, _ string) bool { return slices.Contains(requested, at) })
		return m
	}
	return markers.Claim{Set: markers.Set{Baseline: drop(c.Set.Baseline), Before: c.Set.Before, Covered: drop(c.Set.Covered)}, Frontier: c.Frontier}
}

// archiveNow is how far the archive reaches, for the state to go by from now on: what was lost of it is not missed again. A damaged one
// stays what it is.
func (r *reconciliation) archiveNow(ctx context.Context) (mdt.SeenArchive, error) {
	a := r.table.Archive()
	err := a.Check(ctx, r.table.Timeline, timeline.Reach{})
	if errors.Is(err, storage.ErrCorrupt) {
		return r.state.Archive, nil
	}
	if err != nil {
		return mdt.SeenArchive{}, err
	}
	return mdt.ReachOf(ctx, a, r.table.Timeline), nil
}

// shrunk says whether the archive reaches less far than the state says.
func (r *reconciliation) shrunk() bool {
	was := r.state.Archive
	return r.reaches.Version < was.Version || r.reaches.Upto < was.Upto
}
