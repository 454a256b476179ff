package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/coverage"
)

func (a *app) traceCommand() *cobra.Command {
	var index string
	c := &cobra.Command{
		Use:   "trace TABLE INSTANT",
		Short: "Show where the time of one commit went",
		Long: `Shows when a commit was completed, noticed, compared, staged and visible in the index, from what is stored beside it: no collector is
needed. A step that was not stored is left out, with the reason. The exit code is 3 if the index does not cover the commit.`,
		Example: "  tidemark trace /data/t 20261130021438827",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := coverage.CheckInstant(args[1]); err != nil {
				return usage(c, err)
			}
			place, err := a.openPlace(c.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := needIndex(c.Context(), place, args[0], index); err != nil {
				return err
			}
			all, err := coverage.Trace(c.Context(), coverage.Deps{Place: place, Table: args[0]}, index, args[1])
			if err != nil {
				return err
			}
			return a.showTraces(all)
		},
	}
	c.Flags().StringVar(&index, "index", "", "only this index; all if left out")
	return c
}

func (a *app) showTraces(all []coverage.CommitTrace) error {
	covered := true
	for i, t := range all {
		covered = covered && t.Covered
		if a.json {
			if err := a.object(t); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			a.say("")
		}
		a.showTrace(t)
	}
	if !covered {
		return exitWith(exitNotFresh)
	}
	return nil
}

// barWidth is the width of a waterfall in characters.
const barWidth = 40

// showTrace draws a waterfall: a bar for the time from the step before.
func (a *app) showTrace(t coverage.CommitTrace) {
	by := ""
	if t.MDTInstant != "" {
		by = ", by commit " + t.MDTInstant + " of the metadata table"
	}
	state := "not covered"
	if t.Covered {
		state = "covered"
	}
	a.say("%s, completed %s, in %s: %s%s", t.Instant, t.Completed, t.Index, state, by)
	if n := len(t.Steps); n > 0 {
		first, last := t.Steps[0].AtMS, t.Steps[n-1].AtMS
		scale := func(at int64) int {
			if last <= first {
				return 0
			}
			return int(min(max(at-first, 0), last-first) * barWidth / (last - first))
		}
		before := first
		for _, s := range t.Steps {
			from, to := scale(before), scale(s.AtMS)
			bar := strings.Repeat(" ", from) + strings.Repeat("█", max(to-from, 0))
			name := s.Name
			if s.By != "" {
				name += " (" + s.By + ")"
			}
			a.say("  %-17s %s  +%-9s |%-*s|", name, time.UnixMilli(s.AtMS).UTC().Format("2006-01-02 15:04:05.000"),
				duration(time.Duration(max(s.AtMS-before, 0))*time.Millisecond), barWidth, bar)
			before = s.AtMS
		}
	}
	for i := 0; i < len(t.Missing); {
		names, reason := []string{t.Missing[i].Name}, t.Missing[i].Reason
		for i++; i < len(t.Missing) && t.Missing[i].Reason == reason; i++ {
			names = append(names, t.Missing[i].Name)
		}
		a.say("  %s: not stored: %s", strings.Join(names, ", "), reason)
	}
}
