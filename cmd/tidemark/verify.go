package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/coverage"
)

func (a *app) verifyCommand() *cobra.Command {
	req := coverage.VerifyRequest{Sample: 1}
	c := &cobra.Command{
		Use:   "verify TABLE",
		Short: "Compare index and table by content",
		Long: `Reads the index and the rows of the table, both as of the same commits, and compares them: every live key has a
posting with the code of its own vector in its nearest cluster, and nothing else has one. It changes nothing and
can run beside a sync. The exit code is 4 if they differ, 3 if they agree without commits that the index leaves out, such as a
skipped one: the table itself has their rows.`,
		Example: "  tidemark verify /data/t\n  tidemark verify /data/t --sample 0.01 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !(req.Sample > 0 && req.Sample <= 1) {
				return usage(c, fmt.Errorf("--sample %v: a share above 0, at most 1", req.Sample))
			}
			return a.verify(c.Context(), args[0], req)
		},
	}
	indexFlag(c, &req.Index)
	c.Flags().Float64Var(&req.Sample, "sample", 1, "share of the record keys to compare, chosen by a hash of the key")
	c.Flags().StringVar(&req.At, "at", "", "compare at the snapshot of this instant, by requested or completion time")
	return c
}

// verify compares an index with its table and prints what was found.
func (a *app) verify(ctx context.Context, url string, req coverage.VerifyRequest) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	if err := needOneIndex(ctx, place, a.named(url), req.Index); err != nil {
		return err
	}
	p := newProgress(a.err)
	defer p.finish()
	req.Progress = func(rows int64) { p.report("rows compared", rows, 0) }
	r, err := coverage.Verify(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink}, req)
	p.finish()
	if err != nil {
		return err
	}
	if a.json {
		err = a.object(r)
	} else {
		a.showVerify(r)
	}
	switch {
	case err != nil:
		return err
	case r.Empty():
		a.warn("the sample of %v holds none of the keys, so nothing was compared; take a larger share", req.Sample)
		return exitWith(exitFailed)
	case r.Covered():
		return exitWith(exitNotFresh)
	case !r.OK:
		return exitWith(exitMismatch)
	}
	return nil
}

func (a *app) showVerify(r *coverage.VerifyReport) {
	a.say("%s", r.Sentence())
	g := newGrid(1)
	for _, c := range []struct {
		name string
		n    int64
		what string
	}{
		{"missing", r.Missing, "live keys without a posting"},
		{"extra", r.Extra, "postings without a live row"},
		{"stale", r.Stale, "postings of other vector bytes"},
		{"misrouted", r.Misrouted, "postings that are not in the nearest cluster"},
		{"wrong_code", r.WrongCode, "right bytes, other code"},
		{"wrong_locator", r.WrongLocator, "postings that say another place; searches look again"},
		{"hidden", r.Hidden, "dead postings of degraded file groups; searches drop them"},
		{"duplicate_keys", r.DuplicateKeys, "keys that the table holds more than once"},
		{"unindexable", r.Unindexable, "live rows whose vector cannot be indexed"},
		{"foreign_files", r.ForeignFiles, "files in the index's folder that are not ours"},
	} {
		g.add(c.name, count(c.n), strings.TrimSpace(c.what+sample(r.Examples[c.name])))
	}
	g.print(a, "  ")
	for _, g := range r.LeftOut {
		a.say("  left out: %s %s, %s", g.Action, g.Requested, oneLine(g.State()))
	}
	for _, d := range r.Damaged {
		a.say("  damaged: %s", oneLine(d))
	}
}

// maxSample bounds how much of a key people see, in characters.
const maxSample = 40

// sample names some of the keys or files of a class.
func sample(names []string) string {
	if len(names) == 0 {
		return ""
	}
	cut := make([]string, len(names))
	for i, n := range names {
		cut[i] = short(n, maxSample)
	}
	return fmt.Sprintf(", such as %q", cut)
}
