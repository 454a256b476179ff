package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/internal/storage"
)

func (a *app) proveCommand() *cobra.Command {
	var index, file string
	c := &cobra.Command{
		Use:   "prove TABLE",
		Short: "Print, or check, a certificate of what an index covers",
		Long: `Prints a certificate: the baseline, every covered commit with digests of its metadata and of its marker, writes
in flight, the frontier. With --check it compares such a certificate with what the table's storage says now, and with
nothing else. It is accepted if all that it states still holds, also when the index has gone on since. The exit code is
4 if it is refused, or if the evidence for a new one does not agree with itself.`,
		Example: "  tidemark prove /data/t > certificate.json\n  tidemark prove --check certificate.json /data/t",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("check") {
				return a.prove(c.Context(), args[0], index)
			}
			if index != "" {
				return usage(c, errors.New("--index with --check: the certificate names its index"))
			}
			return a.proveCheck(c.Context(), args[0], file)
		},
	}
	indexFlag(c, &index)
	c.Flags().StringVar(&file, "check", "", "certificate to check; - reads standard input")
	return c
}

// prove prints a certificate.
func (a *app) prove(ctx context.Context, url, index string) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	// A damaged state is a mismatch; that there is none is told by needOneIndex.
	if err := needOneIndex(ctx, place, a.named(url), index); err != nil && !errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	c, err := coverage.Prove(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink}, index)
	if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrStale) {
		return &exitError{code: exitMismatch, err: err}
	}
	if err != nil {
		return err
	}
	b, err := c.Encode(!a.json)
	if err == nil {
		_, err = a.out.Write(b)
	}
	return err
}

// maxCertificate bounds what is read as a certificate: a million commits fit.
const maxCertificate = 256 << 20

// proveCheck checks a certificate and prints what differs.
func (a *app) proveCheck(ctx context.Context, url, file string) error {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return &hinted{err: fmt.Errorf("read certificate: %w", err), hint: "make one: tidemark prove " + a.named(url)}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxCertificate))
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	r, err := coverage.CheckCertificate(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink}, b)
	if err != nil {
		return err
	}
	if a.json {
		err = a.object(r)
	} else {
		a.say("%s", r.Sentence())
		for _, p := range r.Problems {
			a.say("  %s", oneLine(p))
		}
	}
	if err == nil && !r.OK {
		return exitWith(exitMismatch)
	}
	return err
}
