package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/internal/storage"
)

// synced is what a sync did and where an index stands after it, for programs.
type synced struct {
	Table       string          `json:"table"`
	Index       *string         `json:"index"`
	Processed   int             `json:"processed"`
	Commits     []string        `json:"commits"`
	Frontier    *coverage.Times `json:"frontier"`
	Fresh       bool            `json:"fresh"`
	State       coverage.State  `json:"state"`
	Reason      string          `json:"reason"`
	LagInstants *int            `json:"lag_instants"`
	// Reconciled is how many keys were corrected where a catch-up over files that were gone ended with a reconcile; null without one.
	Reconciled *int64 `json:"reconciled"`
}

func (a *app) syncCommand() *cobra.Command {
	var bound int
	var plan bool
	c := &cobra.Command{
		Use:   "sync TABLE",
		Short: "Catch up with the table and exit",
		Long: `Covers every commit that the table's indexes do not cover, in completion order, and exits when nothing more
can be processed now. It can be stopped at any time; the next run goes on. After a long absence it goes through the
archived timeline. Where files of a commit were cleaned away meanwhile, the commit is covered together with later ones,
and the sync ends with a comparison with the whole table: see reconcile.`,
		Example: "  tidemark sync /data/t\n  tidemark sync /data/t --plan",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if bound < 0 {
				return usage(c, fmt.Errorf("--max-instants %d: must not be negative", bound))
			}
			if plan {
				return a.syncPlan(c.Context(), args[0], bound)
			}
			return a.sync(c.Context(), args[0], bound)
		},
	}
	c.Flags().IntVar(&bound, "max-instants", 0, "stop after so many commits; 0 for all")
	c.Flags().BoolVar(&plan, "plan", false, "say which commits would be processed, write nothing")
	return c
}

// follow covers what is due, at most bound commits (0: all), with progress on standard error.
func (a *app) follow(ctx context.Context, url string, bound int) (*indexer.SyncResult, error) {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return nil, err
	}
	cfg, err := a.sinkConfig(place)
	if err != nil {
		return nil, err
	}
	if _, err := needIndex(ctx, place, a.named(url), ""); err != nil {
		if errors.Is(err, storage.ErrNotFound) { // the last index may have been dropped
			if left := indexer.Sweep(ctx, place, indexer.CommitterOptions{Sink: cfg, Waiting: a.waiting}); left != nil {
				a.warn("files of dropped indexes are not deleted: %v", left)
			}
		}
		return nil, err
	}
	p := newProgress(a.err)
	defer p.finish()
	return indexer.Sync(ctx, place, indexer.SyncOptions{MaxInstants: bound, Waiting: a.waiting, Sink: cfg,
		Progress: func(done, due int) { p.report("commits", int64(done), int64(due)) },
		Compared: func(index string, rows int64) { p.report("rows of "+index+" compared", rows, 0) }})
}

// sync follows the table and prints what was covered and where the indexes stand.
func (a *app) sync(ctx context.Context, url string, bound int) error {
	r, err := a.follow(ctx, url, bound)
	if err != nil {
		if r != nil && r.Processed > 0 {
			return &hinted{err: err, facts: map[string]any{"processed": r.Processed, "commits": r.Commits},
				hint: fmt.Sprintf("%s covered before that stay covered. %s", plural(r.Processed, "commit"), hintOf(err))}
		}
		return err
	}
	all, err := a.status(ctx, url, "")
	if err != nil {
		return err
	}
	if a.json {
		for _, s := range all {
			commits := append([]string{}, r.Commits...)
			if err := a.object(synced{s.Table, s.Index, r.Processed, commits, s.Frontier, s.Fresh, s.State, s.Reason, s.LagInstants, corrected(r, s)}); err != nil {
				return err
			}
		}
		return stuck(all)
	}
	if r.Processed > 0 {
		done, err := a.markersOf(ctx, url, r.Commits)
		if err != nil {
			return err
		}
		if err := a.showMarkers(done); err != nil {
			return err
		}
	}
	a.say("covered %s in %s", plural(r.Processed, "data commit"), plural(len(r.Commits), "metadata commit"))
	if n := len(r.Folds); n > 0 {
		a.say("folded log files of the index into base files by %s", plural(n, "metadata commit"))
	}
	if n := r.Copies.Scanned; n > 0 {
		a.say("read the keys of %s to see whether new keys were there already: %s", plural(n, "file group"), r.Copies.Reason)
	}
	for _, c := range r.Reconciled {
		a.say("index %s compared with the whole table: corrected %s", c.Index, plural(c.Written, "key"))
	}
	for _, s := range all {
		a.say("%s", s.Sentence())
	}
	return stuck(all)
}

// corrected returns how many keys of an index a reconcile at the end of a sync corrected; nil if there was none.
func corrected(r *indexer.SyncResult, s coverage.IndexStatus) *int64 {
	for _, c := range r.Reconciled {
		if s.Index != nil && c.Index == *s.Index {
			return &c.Written
		}
	}
	return nil
}

// stuck ends a sync with exit code 1 if an index is in a state that no sync can get it out of.
func stuck(all []coverage.IndexStatus) error {
	for _, s := range all {
		if leftover(s, all) {
			continue
		}
		switch s.State {
		case coverage.StateUnsupported, coverage.StateAbsent, coverage.StateHandedOver, coverage.StateFailClosed,
			coverage.StateBlocked, coverage.StateStalled:
			return exitWith(exitFailed)
		}
	}
	return nil
}

// markersOf returns the covered commits whose markers are in some of our commits.
func (a *app) markersOf(ctx context.Context, url string, commits []string) ([]coverage.Marker, error) {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return nil, err
	}
	return coverage.MarkersOf(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink}, commits)
}

// due is one commit that a sync would cover, for programs.
type due struct {
	Index     string           `json:"index"`
	Requested string           `json:"requested"`
	Completed string           `json:"completed"`
	Action    string           `json:"action"`
	Operation string           `json:"operation"`
	Mode      string           `json:"mode"`
	Counts    map[string]int64 `json:"counts"`
}

// syncPlan prints what a sync would find, without a write.
func (a *app) syncPlan(ctx context.Context, url string, bound int) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	if _, err := needIndex(ctx, place, a.named(url), ""); err != nil {
		return err
	}
	p := newProgress(a.err)
	list, err := indexer.Plan(ctx, place, indexer.SyncOptions{MaxInstants: bound,
		Progress: func(done, due int) { p.report("commits", int64(done), int64(due)) }})
	p.finish()
	if err := a.showPlanned(list, err, "to process"); err != nil || a.json {
		return err
	}
	if slices.ContainsFunc(list, func(d indexer.Planned) bool { return d.Mode == "merged" }) {
		a.say("files of some commits are gone: the sync would end with a comparison with the whole table, as reconcile makes it")
	}
	return nil
}

// showPlanned prints what was found in commits without a write, and the error that stopped it, if any.
func (a *app) showPlanned(list []indexer.Planned, err error, what string) error {
	if err != nil && len(list) == 0 {
		return err
	}
	if a.json {
		for _, d := range list {
			if err := a.object(due{d.Index, d.Instant.Requested, d.Instant.Completed, string(d.Instant.Action), d.Operation, d.Mode, d.Counts}); err != nil {
				return err
			}
		}
		return err
	}
	rows := make([]coverage.Marker, len(list))
	for i, d := range list {
		rows[i] = coverage.Marker{Index: d.Index, Requested: d.Instant.Requested, Completed: d.Instant.Completed,
			Action: string(d.Instant.Action), Operation: d.Operation, Mode: d.Mode, Counts: d.Counts}
	}
	if len(rows) > 0 {
		if err := a.showMarkers(rows); err != nil {
			return err
		}
	}
	a.say("%s %s; nothing was written", plural(len(list), "commit"), what)
	return err
}
