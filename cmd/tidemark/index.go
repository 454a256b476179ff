package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
)

func (a *app) indexCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "index",
		Short: "Create, list and drop indexes",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.indexCreateCommand(), a.indexListCommand(), a.indexDropCommand())
	return c
}

// parseOptions reads NAME=VALUE pairs. All problems are reported together, those of the values included.
func parseOptions(pairs []string) (generation.Options, error) {
	given := map[string]string{}
	var problems []error
	for _, p := range pairs {
		name, value, found := strings.Cut(p, "=")
		if !found {
			problems = append(problems, fmt.Errorf("option %q: write NAME=VALUE", p))
			continue
		}
		if _, twice := given[name]; twice {
			problems = append(problems, fmt.Errorf("option %s: given twice", name))
		}
		given[name] = value
	}
	opts, err := generation.ParseOptions(given)
	return opts, errors.Join(append(problems, err)...)
}

// listed is one index for programs.
type listed struct {
	Index      string `json:"index"`
	Column     string `json:"column"`
	Metric     string `json:"metric"`
	Bits       int    `json:"bits"`
	Generation uint32 `json:"generation"`
	State      string `json:"state"`
}

func listedOf(x generation.Listed) listed {
	return listed{x.Index, x.Column, x.Metric.String(), x.Bits, x.Generation, x.State}
}

func (a *app) indexListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list TABLE",
		Short:   "List the indexes of a table",
		Example: "  tidemark index list /data/t",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			place, err := a.openPlace(c.Context(), args[0])
			if err != nil {
				return err
			}
			st, err := readState(c.Context(), place)
			if err != nil {
				return err
			}
			all := generation.List(st)
			g := newGrid(3, 4)
			g.add("index", "column", "metric", "bits", "generation", "state")
			for _, x := range all {
				l := listedOf(x)
				if a.json {
					if err := a.object(l); err != nil {
						return err
					}
					continue
				}
				g.add(l.Index, l.Column, l.Metric, l.Bits, l.Generation, l.State)
			}
			switch {
			case a.json:
			case len(all) == 0:
				a.say("no index; create one: tidemark index create %s --column C", a.named(args[0]))
			default:
				g.print(a, "")
			}
			return nil
		},
	}
}

func (a *app) indexDropCommand() *cobra.Command {
	var index, yes string
	c := &cobra.Command{
		Use:   "drop TABLE --index N --yes-drop N",
		Short: "Drop an index",
		Long: `Takes an index out of use at once; its files are deleted when no search can still need them. The table's own
files are not touched. The name is asked for twice on purpose.`,
		Example: "  tidemark index drop /data/t --index embedding_idx --yes-drop embedding_idx",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if index == "" || yes != index {
				return usage(c, fmt.Errorf("drop index %q: give its name twice: --index N --yes-drop N", index))
			}
			place, err := a.openPlace(c.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := readState(c.Context(), place); err != nil {
				return err
			}
			cfg, err := a.sinkConfig(place) // for a commit that a dead owner left half made
			if err != nil {
				return err
			}
			sk, err := indexer.OpenCommitter(c.Context(), place, indexer.CommitterOptions{Sink: cfg, Waiting: a.waiting})
			if err != nil {
				return err
			}
			if err := generation.Drop(c.Context(), sk, index); err != nil {
				return err
			}
			if a.json {
				return a.object(map[string]any{"index": index, "state": mdt.GenDropped})
			}
			if n, until := indexer.KeptUntil(sk.State(), index); n > 0 {
				a.say("dropped index %s; its %d files stay until %s for searches that began before, then the next sync, follow or index create deletes them",
					index, n, until.UTC().Format(time.RFC3339))
				return nil
			}
			a.say("dropped index %s", index)
			return nil
		},
	}
	c.Flags().StringVar(&index, "index", "", "name of the index")
	c.Flags().StringVar(&yes, "yes-drop", "", "the name again")
	return c
}
