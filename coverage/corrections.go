package coverage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// CorrectionsRequest says what to compare for Corrections.
type CorrectionsRequest struct {
	// State was read before Table was opened.
	State *mdt.State
	Table *table.Table
	// Index is the name of an index with an active generation; View and Generation are that index opened at State.
	Index      string
	View       *mdt.View
	Generation *generation.Generation
	// Instant is the requested time that the corrections carry.
	Instant string
	// Examples and Progress are as in VerifyRequest.
	Examples int
	Progress func(rows int64)
}

// Corrections compares all postings of an index with the table's newest snapshot, whatever the index incorporates, and returns
// what Verify would report of it, the changes that make the postings equal to the rows, ascending by key (design, decision
// 14), and the record keys that live more than once. It changes nothing. Files of the snapshot that are gone are storage.ErrNotFound, unreadable ones storage.ErrCorrupt.
func Corrections(ctx context.Context, d Deps, r CorrectionsRequest) (*VerifyReport, []delta.Change, *mdt.Copies, error) {
	x := r.State.Indexes[r.Index]
	if x == nil || x.Dropped {
		return nil, nil, nil, noIndex(r.Index)
	}
	if r.Examples == 0 {
		r.Examples = defaultExamples
	}
	report := &VerifyReport{Index: x.Name, Generation: r.Generation.Number, Sample: 1, Examples: map[string][]string{}}
	if err := checkFiles(ctx, d.Place, r.State, x, r.Examples, report); err != nil {
		return nil, nil, nil, err
	}
	if writes := r.Table.Timeline.Writes(); len(writes) > 0 {
		report.Snapshot = writes[len(writes)-1].Requested
	}
	c := newComparison(r.Generation, r.Table.Timeline, VerifyRequest{Index: x.Name, Sample: 1, Examples: r.Examples, Progress: r.Progress})
	c.keep = true
	if err := r.Generation.Postings(ctx, r.View, c.posting); err != nil {
		return nil, nil, nil, fmt.Errorf("compare index %s: %w", x.Name, err)
	}
	if err := c.table(ctx, r.Table, x, table.Cut{}); err != nil {
		return nil, nil, nil, fmt.Errorf("compare index %s: %w", x.Name, err)
	}
	c.finish(report, degradedGroups(r.State, x.Name))
	// What cannot be corrected is told all the same: verify would say it.
	if _, err := mdt.Evidence(ctx, d.Place, r.State, x.Name); err != nil && !report.damaged(err) {
		return nil, nil, nil, fmt.Errorf("compare index %s: %w", x.Name, err)
	}
	if err := report.beside(ctx, d.Place, r.Table, r.State, x.Name); err != nil {
		return nil, nil, nil, fmt.Errorf("compare index %s: %w", x.Name, err)
	}
	report.OK = report.OK && len(report.Damaged) == 0
	return report, c.corrections(r.Instant), c.copies(), nil
}

// corrections returns what must change so that every key has exactly the posting of the row that counts.
func (c *comparison) corrections(instant string) []delta.Change {
	var out []delta.Change
	for _, key := range slices.Sorted(maps.Keys(c.keys)) {
		k := c.keys[key]
		if k.copies > 0 && !k.dead && k.row == nil {
			continue // right as it is
		}
		change := delta.Change{Key: key, New: k.row, Instant: instant}
		for _, p := range k.postings {
			v := &delta.Version{Locator: p.locator, Cluster: p.cluster, Routed: true}
			if change.Old == nil {
				change.Old = v
			} else {
				change.Also = append(change.Also, v)
			}
		}
		switch {
		case change.Old == nil && change.New == nil:
			continue
		case change.Old == nil:
			change.Class = delta.Insert
		case change.New == nil:
			change.Class = delta.Delete
		case len(k.postings) == 1 && k.postings[0].verdict == wrongLocator:
			change.Class = delta.LocatorRefresh
		default:
			change.Class = delta.VectorUpdate // another code, or one of several postings
		}
		out = append(out, change)
	}
	return out
}
