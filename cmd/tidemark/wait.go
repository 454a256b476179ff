package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tidemark/coverage"
)

func (a *app) waitCommand() *cobra.Command {
	var req coverage.WaitRequest
	c := &cobra.Command{
		Use:   "wait TABLE --covers INSTANT",
		Short: "Wait until a commit is covered",
		Long: `Returns when the index covers an instant, given by its requested or completion time. The exit code is 3 if
it does not within --timeout. Something else has to keep the index fresh meanwhile: tidemark sync.`,
		Example: "  tidemark wait /data/t --covers 20261130021438827 --timeout 2m",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if req.Covers == "" {
				return usage(c, errors.New("--covers is missing"))
			}
			if err := coverage.CheckInstant(req.Covers); err != nil {
				return usage(c, fmt.Errorf("--covers: %w", err))
			}
			if req.Timeout < 0 {
				return usage(c, fmt.Errorf("--timeout %s: must not be negative", req.Timeout))
			}
			place, err := a.openPlace(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := needOneIndex(c.Context(), place, a.named(args[0]), req.Index); err != nil {
				return err
			}
			if !a.json {
				req.Waiting = func(reason string) { a.warn("waiting for %s: %s", req.Covers, oneLine(reason)) }
			}
			r, err := coverage.Wait(c.Context(), coverage.Deps{Place: place, Table: args[0], Sink: a.sink}, req)
			if err != nil {
				return err
			}
			if err := a.showWait(req, r); err != nil {
				return err
			}
			if !r.Covered {
				return exitWith(exitNotFresh)
			}
			return nil
		},
	}
	indexFlag(c, &req.Index)
	c.Flags().StringVar(&req.Covers, "covers", "", "instant, by requested or completion time")
	c.Flags().DurationVar(&req.Timeout, "timeout", time.Minute, "how long to wait; 0 looks once")
	return c
}

func (a *app) showWait(req coverage.WaitRequest, r *coverage.WaitResult) error {
	if a.json {
		return a.object(r)
	}
	frontier := "none"
	if r.Frontier != nil {
		frontier = times(*r.Frontier)
	}
	if r.Covered {
		a.say("%s is covered; frontier %s", req.Covers, frontier)
		return nil
	}
	a.say("%s is not covered: %s; frontier %s", req.Covers, r.Reason, frontier)
	return nil
}
