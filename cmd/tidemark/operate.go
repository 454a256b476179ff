package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/internal/hudi/mdt"
)

// decided is what an operator's decision left, for programs.
type decided struct {
	Table string `json:"table"`
	*indexer.Decisions
	State coverage.State `json:"state"`
}

// decisionCommand is a command that changes what the state object says operators have decided.
func (a *app) decisionCommand(c *cobra.Command, said *string, decide func(ctx context.Context, place mdt.Place, args []string) (*indexer.Decisions, error)) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			if err := coverage.CheckInstant(args[1]); err != nil {
				return usage(c, err)
			}
		}
		place, err := a.openPlace(c.Context(), args[0])
		if err != nil {
			return err
		}
		if _, err := needIndex(c.Context(), place, a.named(args[0]), ""); err != nil {
			return err
		}
		d, err := decide(c.Context(), place, args)
		if err != nil {
			return err
		}
		all, err := a.status(c.Context(), args[0], "")
		if err != nil {
			return err
		}
		state, _ := follow.Worst(all)
		if a.json {
			return a.object(decided{args[0], d, state})
		}
		a.say("%s", *said)
		for _, s := range all {
			a.say("%s", s.Sentence())
		}
		return nil
	}
	return c
}

func (a *app) pauseCommand() *cobra.Command {
	return a.decisionCommand(&cobra.Command{
		Use:   "pause TABLE",
		Short: "Stop writing to a table's indexes until resume",
		Long: `Nothing is written to the table's indexes until 'tidemark resume', by any process and over restarts. A batch that is
under way ends. Lag is counted and shown as ever. It needs no daemon: the decision is kept in the table's state object.`,
		Example: "  tidemark pause /data/t",
		Args:    cobra.ExactArgs(1),
	}, new("paused"), func(ctx context.Context, place mdt.Place, _ []string) (*indexer.Decisions, error) {
		return indexer.Pause(ctx, place)
	})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.decisionCommand(&cobra.Command{
		Use:     "resume TABLE",
		Short:   "End a pause",
		Long:    `Lifts a pause. A daemon that follows the table goes on within its interval.`,
		Example: "  tidemark resume /data/t",
		Args:    cobra.ExactArgs(1),
	}, new("resumed"), func(ctx context.Context, place mdt.Place, _ []string) (*indexer.Decisions, error) {
		return indexer.Resume(ctx, place)
	})
}

func (a *app) retryCommand() *cobra.Command {
	said := "due again"
	return a.decisionCommand(&cobra.Command{
		Use:   "retry TABLE [INSTANT]",
		Short: "Try again a commit that was set aside or skipped",
		Long: `Makes a commit due again that was set aside after repeated failures, or skipped; without INSTANT all of them. Remove the
cause first. INSTANT is a requested or completion time.`,
		Example: "  tidemark retry /data/t 20261130021438827",
		Args:    cobra.RangeArgs(1, 2),
	}, &said, func(ctx context.Context, place mdt.Place, args []string) (*indexer.Decisions, error) {
		instant := ""
		if len(args) > 1 {
			instant = args[1]
		}
		if st, err := readState(ctx, place); err == nil && len(st.Quarantine)+len(st.Skipped) == 0 {
			said = "nothing is set aside or skipped"
		}
		return indexer.Retry(ctx, place, instant)
	})
}

func (a *app) skipCommand() *cobra.Command {
	var reason string
	c := a.decisionCommand(&cobra.Command{
		Use:   "skip TABLE INSTANT --reason TEXT",
		Short: "Go past a commit that cannot be covered",
		Long: `Lets later commits be covered although this one is not, for a reason that is kept. The commit stays uncovered and the frontier
where it is, so the index is not fresh until 'tidemark retry', or a reconcile, has covered it. INSTANT is a requested or
completion time.`,
		Example: "  tidemark skip /data/t 20261130021438827 --reason 'its files are lost, ticket 4711'",
		Args:    cobra.ExactArgs(2),
	}, new("skipped"), func(ctx context.Context, place mdt.Place, args []string) (*indexer.Decisions, error) {
		return indexer.Skip(ctx, place, args[1], reason)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, for those who read it later")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if reason == "" {
			return usage(c, errors.New("--reason is missing"))
		}
		return run(c, args)
	}
	return c
}

func (a *app) configCommand() *cobra.Command {
	var settings settingsFlags
	c := &cobra.Command{
		Use:   "config [--config FILE]",
		Short: "Print the effective configuration of the daemon",
		Long: `Prints every setting as 'tidemark follow' would have it, and where its value comes from: the default, a line of the file,
a variable, or a flag. Secrets are masked. The exit code is 1 if something is wrong with any of them; all that is wrong is said.`,
		Example: "  tidemark config --config tidemark.yaml\n  tidemark config --http 127.0.0.1:7427 --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := settings.load(c, a.sink, nil)
			if err != nil {
				return err
			}
			for _, w := range l.Warnings {
				a.warn("%s", w)
			}
			g := newGrid()
			for _, e := range l.Effective() {
				if a.json {
					if err := a.object(e); err != nil {
						return err
					}
					continue
				}
				g.add(e.Key, e.Value, e.Origin)
			}
			if !a.json {
				g.print(a, "")
			}
			return nil
		},
	}
	settings.add(c)
	return c
}
