package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
)

// Listed is one index of a table as `index list` shows it.
type Listed struct {
	Index      string // its name
	Column     string // the vector column
	Metric     kernel.Metric
	Bits       int    // per dimension of a code, 1 to 8
	Generation uint32 // active one, or the newest if none is
	State      string // ACTIVE, BUILDING or DROPPED
	// Broken says why its options cannot be used; Metric and Bits are then what can be read of them. "" if they can.
	Broken string
}

// List returns the indexes that the state knows, by name; dropped ones, too. One that is broken does not hide the others.
func List(st *mdt.State) []Listed {
	var out []Listed
	for _, x := range st.Indexes {
		l := Listed{Index: x.Name, Column: x.Column, Generation: x.LastGeneration(), State: mdt.GenBuilding}
		if o, err := ParseOptions(x.Options); err != nil {
			l.Broken = err.Error()
			l.Metric, _ = kernel.ParseMetric(x.Options[OptMetric])
			l.Bits, _ = strconv.Atoi(x.Options[OptBits])
		} else {
			l.Metric, l.Bits = o.Metric, o.Bits
		}
		if g, ok := x.Active(); ok {
			l.Generation, l.State = g.Number, mdt.GenActive
		}
		if x.Dropped {
			l.State = mdt.GenDropped
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Listed) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// Drop removes an index: it is no longer visible at once, its files are deleted after the longest query. Generation
// numbers stay used. storage.ErrNotFound if there is none of that name.
func Drop(ctx context.Context, c Committer, index string) error {
	st, err := c.Reload(ctx)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("read state: %w", err)
	}
	if err != nil || st.Indexes[index] == nil || st.Indexes[index].Dropped {
		return &storage.Error{Op: "drop index", Path: index, Hint: "see tidemark index list", Err: storage.ErrNotFound}
	}
	return c.Drop(ctx, index)
}
