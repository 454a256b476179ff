package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/indexer"
)

func (a *app) reconcileCommand() *cobra.Command {
	var opt indexer.ReconcileOptions
	c := &cobra.Command{
		Use:   "reconcile TABLE",
		Short: "Make the indexes equal to the table as it is now",
		Long: `Compares all postings with the newest snapshot, as verify does, and corrects what differs in one commit. It is the
way out after a restore, after a rollback of a commit that the index held, and where deleted rows could not be seen
because their files were gone. It covers every completed commit, too.

With --plan nothing is written, and the exit code is 4 if index and table differ. Otherwise the exit code is 0 once
they are equal, and 1 if something is left that only the operator can put right.`,
		Example: "  tidemark reconcile /data/t --plan\n  tidemark reconcile /data/t",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.reconcile(c.Context(), args[0], opt)
		},
	}
	c.Flags().StringVar(&opt.Index, "index", "", "only this index; all if left out")
	c.Flags().BoolVar(&opt.Plan, "plan", false, "say what would be corrected, write nothing")
	return c
}

// reconcile compares indexes with their table, corrects them, and prints what was found.
func (a *app) reconcile(ctx context.Context, url string, opt indexer.ReconcileOptions) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	if _, err := needIndex(ctx, place, a.named(url), opt.Index); err != nil {
		return err
	}
	if opt.Sink, err = a.sinkConfig(place); err != nil {
		return err
	}
	p := newProgress(a.err)
	defer p.finish()
	opt.Waiting = a.waiting
	opt.Progress = func(index string, rows int64) { p.report("rows of "+index+" compared", rows, 0) }
	all, err := indexer.Reconcile(ctx, place, opt)
	p.finish()
	if err != nil {
		return err
	}
	ok := true
	for _, r := range all {
		ok = ok && r.OK
		if err := a.showReconciled(r, opt.Plan); err != nil {
			return err
		}
	}
	if opt.Plan && !ok {
		return exitWith(exitMismatch)
	}
	if opt.Plan {
		if !a.json {
			a.say("nothing was written")
		}
		return nil
	}
	states, err := a.status(ctx, url, opt.Index)
	if err != nil {
		return err
	}
	for _, s := range states {
		if !a.json {
			a.say("%s", s.Sentence())
		}
	}
	for _, r := range all {
		if len(r.Damaged) > 0 {
			return exitWith(exitFailed)
		}
	}
	return stuck(states)
}

func (a *app) showReconciled(r indexer.Reconciled, plan bool) error {
	if a.json {
		return a.object(r)
	}
	a.showVerify(&r.VerifyReport)
	var did []string
	if n := len(r.Undone); n > 0 {
		did = append(did, fmt.Sprintf("forgets %s that the table has undone", plural(n, "commit")))
	}
	if r.Covered > 0 {
		did = append(did, "covers "+plural(r.Covered, "commit")+" more")
	}
	switch {
	case plan:
		did = append(did, "would correct "+plural(r.Corrections, "key"))
	case r.Commit == "":
		did = append(did, "nothing to correct")
	default:
		did = append(did, fmt.Sprintf("corrected %s in metadata commit %s", plural(r.Written, "key"), r.Commit))
	}
	a.say("index %s: %s", r.Index, strings.Join(did, ", "))
	return nil
}
