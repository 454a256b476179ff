package coverage

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Marker is what one covered commit was. Its JSON form is fixed (design, section 5).
type Marker struct {
	Index     string `json:"index"`
	Requested string `json:"requested"`
	Completed string `json:"completed"`
	// Action is that of the completed file, Operation the writer's operation type.
	Action    string `json:"action"`
	Operation string `json:"operation"`
	// Mode is full, current_only or merged.
	Mode   string           `json:"mode"`
	Counts map[string]int64 `json:"counts"`
	// Reasons says why rows are unindexable and what of the commit could not be read, as far as there is any: rows, or file groups, by
	// reason (docs/format/state.md).
	Reasons map[string]int64 `json:"reasons,omitempty"`
	// MDTInstant is the commit of the metadata table that holds its changes and its marker.
	MDTInstant string `json:"mdt_instant"`
	// LagMS is how long after the data commit its changes were visible; null where the table's zone is not known.
	LagMS *int64 `json:"lag_ms"`
}

// classes are the counts that every marker has.
var classes = []string{"insert", "vector_update", "locator_refresh", "delete", "unchanged", "unindexable"}

// Markers lists the covered commits whose evidence is kept and that were not undone, by completion time, the newest last
// ones if last > 0; of the ledger it reads only what these need. index "" means all indexes. A table without an index is
// storage.ErrNotFound, a ledger file that is not what the state says storage.ErrCorrupt.
func Markers(ctx context.Context, d Deps, index string, last int) ([]Marker, error) {
	return markersOf(ctx, d, index, last, nil)
}

// MarkersOf is Markers for the instants that some commits of the metadata table cover.
func MarkersOf(ctx context.Context, d Deps, commits []string) ([]Marker, error) {
	if len(commits) == 0 {
		return []Marker{}, nil
	}
	return markersOf(ctx, d, "", 0, commits)
}

func markersOf(ctx context.Context, d Deps, index string, last int, commits []string) ([]Marker, error) {
	st, _, err := mdt.ReadState(ctx, d.Place)
	if err != nil {
		return nil, err
	}
	if index != "" {
		if x := st.Indexes[index]; x == nil || x.Dropped {
			return nil, noIndex(index)
		}
	}
	l := &look{deps: d, state: st}
	// Without the timeline the markers are still true; only the lag cannot be told.
	if l.props, l.tl, err = timeline.Open(ctx, d.Place.Store, table.HoodieDir); err == nil {
		l.setOffset()
	} else if !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
		return nil, err
	}
	out := []Marker{}
	add := func(all []mdt.Commit) {
		for _, c := range all {
			if commits != nil && !slices.Contains(commits, c.ID) {
				continue
			}
			for _, i := range c.Covered {
				if x := st.Indexes[i.Index]; x != nil && !x.Dropped && (index == "" || i.Index == index) && !l.undone(i) {
					out = append(out, l.marker(c, i))
				}
			}
		}
		slices.SortStableFunc(out, func(a, b Marker) int {
			return cmp.Or(cmp.Compare(a.Completed, b.Completed), cmp.Compare(a.Requested, b.Requested), cmp.Compare(a.Index, b.Index))
		})
	}
	add(st.Commits)
	newest := slices.SortedStableFunc(slices.Values(st.Ledger), func(a, b mdt.Ledger) int { return cmp.Compare(b.Last, a.Last) })
	for _, file := range newest {
		if last > 0 && len(out) >= last && out[len(out)-last].Completed > file.Last {
			break
		}
		if index != "" && !slices.Contains(file.Indexes, index) || commits != nil && file.Commit < slices.Min(commits) {
			continue
		}
		all, err := mdt.ReadLedger(ctx, d.Place, file)
		if err != nil {
			return nil, err
		}
		add(all)
	}
	if last > 0 && len(out) > last {
		out = out[len(out)-last:]
	}
	return out, nil
}

// marker is what a commit of the metadata table says of one instant.
func (l *look) marker(c mdt.Commit, i mdt.CoveredInstant) Marker {
	m := Marker{Index: i.Index, Requested: i.Requested, Completed: i.Completed, Action: i.Action, Operation: i.Operation,
		Mode: i.Mode, Counts: map[string]int64{}, Reasons: i.Reasons, MDTInstant: c.ID}
	for _, class := range classes {
		m.Counts[class] = i.Counts[class]
	}
	if at, ok := l.moment(i.Completed); ok && !c.VisibleAt.IsZero() {
		ms := c.VisibleAt.Sub(at).Milliseconds()
		m.LagMS = &ms
	}
	return m
}

// undone says that a commit with a marker was rolled back or restored away, so that it is not covered (design, decision 10): it
// is not on the active timeline, although it is too new to be archived.
func (l *look) undone(i mdt.CoveredInstant) bool {
	if l.tl == nil || l.tl.Earliest() == "" || i.Requested < l.tl.Earliest() {
		return false
	}
	at, ok := l.tl.CompletionOf(i.Requested)
	return !ok || at != i.Completed
}
