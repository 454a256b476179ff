package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/internal/storage"
)

func (a *app) statusCommand() *cobra.Command {
	var index string
	c := &cobra.Command{
		Use:   "status TABLE",
		Short: "Say whether the indexes cover the table",
		Long: `Says whether each index covers the table's newest snapshot, how far it is behind, why, and what to do.
The exit code is 0 if and only if every index shown is fresh, else 3. An index whose creation was interrupted, or is under
way, has its line; beside others it does not count for the exit code.`,
		Example: "  tidemark status /data/t\n  tidemark status /data/t --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := a.status(c.Context(), args[0], index)
			if err != nil {
				return notKnown(err, args[0], index)
			}
			fresh := true
			for _, s := range all {
				fresh = fresh && (s.Fresh || leftover(s, all))
				if err := a.showStatus(s); err != nil {
					return err
				}
			}
			if !fresh {
				return exitWith(exitNotFresh)
			}
			return nil
		},
	}
	c.Flags().StringVar(&index, "index", "", "only this index; all if left out")
	return c
}

// leftover says whether an index was not finished while the table has others: those are served, and it is no index yet.
func leftover(s coverage.IndexStatus, all []coverage.IndexStatus) bool {
	return s.Building && slices.ContainsFunc(all, func(o coverage.IndexStatus) bool { return !o.Building })
}

// status judges the indexes of a table, or one of them.
func (a *app) status(ctx context.Context, url, index string) ([]coverage.IndexStatus, error) {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return nil, err
	}
	all, err := coverage.Status(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink})
	if err != nil || index == "" {
		return all, err
	}
	for _, s := range all {
		if s.Index != nil && *s.Index == index {
			return []coverage.IndexStatus{s}, nil
		}
	}
	return nil, noIndex(index)
}

// notKnown is the error of a table of which nothing can be said: its place, or that of its indexes, is gone or does not answer. For programs
// it has the fields of a status as well, so that who asks for those need not expect another object.
func notKnown(err error, table, index string) error {
	if errors.Is(err, context.Canceled) || exitCode(err) == exitUsage {
		return err
	}
	s := coverage.IndexStatus{Table: table, State: coverage.StateStalled, Reason: oneLine(err.Error()), Next: oneLine(hintOf(err)), Gaps: []coverage.Gap{}}
	if index != "" {
		s.Index = &index
	}
	if errors.Is(err, storage.ErrNotFound) {
		s.State = coverage.StateAbsent
		s.Next = cmp.Or(s.Next, "give the base path of a Hudi table: the folder that holds .hoodie")
	}
	facts := map[string]any{}
	b, bad := json.Marshal(s)
	if bad == nil {
		bad = json.Unmarshal(b, &facts)
	}
	if bad != nil {
		return errors.Join(err, bad)
	}
	return &hinted{err: err, hint: s.Next, facts: facts}
}

// showStatus prints the state of one index.
func (a *app) showStatus(s coverage.IndexStatus) error {
	if a.json {
		return a.object(s)
	}
	a.say("%s", s.Sentence())
	g := newGrid()
	if s.Index != nil {
		g.add("index", *s.Index+generationOf(s))
	}
	g.add("table", s.Table)
	if s.Details != "" {
		g.add("details", oneLine(s.Details))
	}
	if s.Frontier != nil {
		g.add("frontier", times(*s.Frontier))
	}
	if s.Latest != nil {
		g.add("latest", times(*s.Latest))
	}
	if s.HeldBy != nil {
		g.add("held by", *s.HeldBy)
	}
	if s.CoveredAhead != nil && *s.CoveredAhead > 0 {
		g.add("covered ahead", plural(*s.CoveredAhead, "commit"))
	}
	if s.Degraded > 0 {
		g.add("degraded", plural(s.Degraded, "file group"))
	}
	if s.DuplicateKeys > 0 {
		more := ""
		if s.MoreDuplicates {
			more = " and more"
		}
		g.add("duplicate keys", fmt.Sprintf("%d%s: the copy written last is the row", s.DuplicateKeys, more))
	}
	if n := s.Horizon.Cleaner; n != nil {
		g.add("cleaner", horizon("a slice that the first of them needs", *n, s.Horizon.CleanerAbout))
	}
	if n := s.Horizon.Archiver; n != nil {
		g.add("archiver", horizon("the first of them", *n, s.Horizon.ArchiverAbout))
	}
	g.print(a, "  ")
	a.showGaps(s.Gaps)
	return nil
}

// horizon says when a table service takes something.
func horizon(what string, commits int, about string) string {
	if commits == 0 {
		return "has taken " + what + ", or may at any time"
	}
	text := fmt.Sprintf("takes %s in %s at the earliest", what, plural(commits, "commit"))
	if about != "" {
		text += ", " + about
	}
	return text
}

// shownGaps bounds how many gaps people are shown.
const shownGaps = 10

func (a *app) showGaps(gaps []coverage.Gap) {
	if len(gaps) == 0 {
		return
	}
	g := newGrid()
	head := []any{"not covered", "completed", "action", "why"}
	writers := slices.ContainsFunc(gaps, func(g coverage.Gap) bool { return g.Writer != "" })
	if writers {
		head = append(head, "written by")
	}
	g.add(head...)
	for i, gap := range gaps {
		if i == shownGaps {
			break
		}
		completed := "-"
		if gap.Completed != nil {
			completed = *gap.Completed
		}
		row := []any{gap.Requested, completed, string(gap.Action), gap.Reason}
		if writers {
			row = append(row, gap.Writer)
		}
		g.add(row...)
	}
	g.print(a, "  ")
	if n := len(gaps) - shownGaps; n > 0 {
		a.say("  … and %s more; --json shows all", count(n))
	}
}

func generationOf(s coverage.IndexStatus) string {
	if s.Generation == nil {
		return ""
	}
	return fmt.Sprintf(", generation %d", *s.Generation)
}

// times prints an instant by both its times.
func times(t coverage.Times) string {
	if t.Completed == "" {
		return t.Requested
	}
	return fmt.Sprintf("%s, completed %s", t.Requested, t.Completed)
}
