package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/coverage"
)

func (a *app) markersCommand() *cobra.Command {
	var index string
	var last int
	c := &cobra.Command{
		Use:   "markers TABLE",
		Short: "List what each covered commit was",
		Long: `Lists the covered commits in completion order: how many rows of each class, in what mode they were compared,
which commit of the metadata table holds the changes, and how long after the data commit they were visible.`,
		Example: "  tidemark markers /data/t --last 10",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if last < 0 {
				return usage(c, fmt.Errorf("--last %d: must not be negative", last))
			}
			all, err := a.markers(c.Context(), args[0], index, last)
			if err != nil {
				return err
			}
			return a.showMarkers(all)
		},
	}
	c.Flags().StringVar(&index, "index", "", "only this index; all if left out")
	c.Flags().IntVar(&last, "last", 0, "only the newest N")
	return c
}

func (a *app) markers(ctx context.Context, url, index string, last int) ([]coverage.Marker, error) {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := needIndex(ctx, place, a.named(url), index); err != nil {
		return nil, err
	}
	return coverage.Markers(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink}, index, last)
}

// showMarkers prints covered commits, one a line.
func (a *app) showMarkers(all []coverage.Marker) error {
	if a.json {
		for _, m := range all {
			if err := a.object(m); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		a.say("no commit was followed yet: the index holds its baseline only")
		return nil
	}
	several, reasons := false, false
	for _, m := range all {
		several, reasons = several || m.Index != all[0].Index, reasons || len(m.Reasons) > 0
	}
	g := newGrid(2, 3, 4, 5, 6, 7)
	head := []any{"commit", "operation", "insert", "update", "move", "delete", "same", "unindexable", "mode", "visible after"}
	if several {
		head = append(head, "index")
	}
	if reasons {
		head = append(head, "reasons")
	}
	g.add(head...)
	for _, m := range all {
		row := []any{m.Requested, operationOf(m)}
		for _, class := range []string{"insert", "vector_update", "locator_refresh", "delete", "unchanged", "unindexable"} {
			row = append(row, count(m.Counts[class]))
		}
		row = append(row, m.Mode, lagOf(m))
		if several {
			row = append(row, m.Index)
		}
		if reasons {
			row = append(row, reasonsOf(m))
		}
		g.add(row...)
	}
	g.print(a, "")
	return nil
}

// reasonsOf says why rows are unindexable and what of a commit could not be read, with counts.
func reasonsOf(m coverage.Marker) string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(m.Reasons)) {
		out = append(out, count(m.Reasons[reason])+" "+reason)
	}
	return strings.Join(out, ", ")
}

// operationOf names what a commit did: the writer's operation, else the action.
func operationOf(m coverage.Marker) string {
	if m.Operation != "" {
		return m.Operation
	}
	return m.Action
}

func lagOf(m coverage.Marker) string {
	if m.LagMS == nil {
		return "-"
	}
	return duration(time.Duration(*m.LagMS) * time.Millisecond)
}
