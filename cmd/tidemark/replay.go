package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/indexer"
)

func (a *app) replayCommand() *cobra.Command {
	var opt indexer.ReplayOptions
	var plan bool
	c := &cobra.Command{
		Use:   "replay TABLE --from I --to J --plan",
		Short: "Say what a catch-up over a range of commits would do",
		Long: `Compares the commits of a range as a catch-up would that stood right before it, active and archived ones in completion
order, and writes nothing. The lines are those of markers. Covering commits is what sync does.`,
		Example: "  tidemark replay /data/t --from 20261130021412142 --to 20261130021438827 --plan",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !plan {
				return usage(c, &hinted{err: errors.New("--plan is missing: replay writes nothing"), hint: "give --plan; to cover commits: tidemark sync " + a.named(args[0])})
			}
			for flag, at := range map[string]string{"--from": opt.From, "--to": opt.To} {
				if err := coverage.CheckInstant(at); at != "" && err != nil {
					return usage(c, fmt.Errorf("%s: %w", flag, err))
				}
			}
			return a.replay(c.Context(), args[0], opt)
		},
	}
	c.Flags().StringVar(&opt.Index, "index", "", "only this index; all if left out")
	c.Flags().StringVar(&opt.From, "from", "", "first commit, by requested or completion time; the first there is if left out")
	c.Flags().StringVar(&opt.To, "to", "", "last commit; the newest if left out")
	c.Flags().BoolVar(&plan, "plan", false, "say what would be done, write nothing (required)")
	return c
}

// replay compares a range of commits and prints what was found.
func (a *app) replay(ctx context.Context, url string, opt indexer.ReplayOptions) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	if _, err := needIndex(ctx, place, a.named(url), opt.Index); err != nil {
		return err
	}
	p := newProgress(a.err)
	defer p.finish()
	opt.Progress = func(done, due int) { p.report("commits", int64(done), int64(due)) }
	list, err := indexer.Replay(ctx, place, opt)
	p.finish()
	return a.showPlanned(list, err, "compared")
}
