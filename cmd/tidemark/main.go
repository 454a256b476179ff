package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tidemark/internal/hudi/mdt"
	lockopen "tidemark/internal/lock/open"
)

// Help shows commands in the order of use, not of the alphabet.
func init() { cobra.EnableCommandSorting = false }

func main() { os.Exit(start()) }

// start runs the program with the process's arguments and streams and returns the exit code. The first interrupt
// cancels the work, which leaves the table consistent; the second one ends the process at once.
func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop()
	}()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	// Read here and again by cobra, which stops at the first wrong flag and would then not know how to say so.
	out := &checked{w: stdout}
	a := &app{out: out, err: stderr, json: slices.Contains(args, "--json")}
	code := a.run(ctx, args)
	if out.err != nil { // an answer that got lost must not look like success
		a.warn("write output: %v; nothing is lost but what was to be printed", out.err)
		return max(code, exitFailed)
	}
	return code
}

// checked remembers the first error of a writer.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// run is run with the streams in place.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var silent *exitError
	if errors.As(err, &silent) && silent.err == nil {
		return silent.code
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = &hinted{err: errors.New("interrupted"), hint: "nothing is half done; run the same command again"}
	}
	a.reportError(err)
	return exitCode(err)
}

// app is one run of the program: where it prints and how.
type app struct {
	out, err io.Writer
	json     bool
	sink     string // where the indexes lie; "" = in the table
	lock     string // the lock that the table's writers share; "" = none
}

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Keep a vector index of an Apache Hudi table fresh from outside the JVM",
		Long: `Tidemark follows a Hudi table's commits, works out which vectors really changed, and writes
posting deltas together with one marker per commit into the table's metadata table.

Exit codes: 0 ok, 1 failed or refused, 2 usage, 3 not fresh or not covered, 4 mismatch found.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVar(&a.json, "json", a.json, "print for programs: one JSON object, or one a line")
	root.PersistentFlags().StringVar(&a.sink, "sink", "", "keep the indexes at this path or URL beside the table, which is then only read")
	root.PersistentFlags().StringVar(&a.lock, "lock", "", "lock shared with the table's writers, held while a commit is made: "+lockopen.Names)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, err) })
	root.AddCommand(a.commands()...)
	wrapArgs(root)
	for _, c := range root.Commands() {
		a.lastHint(c)
	}
	return root
}

// lastHint makes sure that an error about a table ends with a next step, where no room has named one.
func (a *app) lastHint(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.lastHint(sub)
	}
	inner := c.RunE
	if !strings.Contains(c.Use, " TABLE") || c.Name() == "status" {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := inner(c, args)
		var exit *exitError
		if err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		if hint := hintOf(err); hint != "" {
			if len(args) > 0 && mdt.Complete(hint, args[0], a.sink) != hint {
				return &hinted{err: err, hint: mdt.Complete(hint, args[0], a.sink)}
			}
			return err
		}
		if errors.As(err, &exit) {
			return err
		}
		return &hinted{err: err, hint: fmt.Sprintf("'tidemark status %s' says where the indexes stand", a.named(args[0]))}
	}
}

// checkEmpty refuses words that are there and empty: behind one is a variable that is not set, and to take it for a word that is not
// there would write elsewhere, or without a lock. --partition "" alone names something, the partition of a table without any.
func checkEmpty(c *cobra.Command, args []string) (err error) {
	if slices.Contains(args, "") {
		return &hinted{err: errors.New(`an argument is empty: ""`), hint: "is a variable in the command not set?"}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		empty := f.Value.Type() == "string" && f.Value.String() == "" || isList && f.Name != "partition" && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), ""))
		if empty && err == nil {
			err = &hinted{err: fmt.Errorf(`--%s "": its value is empty`, f.Name), hint: "leave the flag out if that is meant; or is a variable in the command not set?"}
		}
	})
	return err
}

// wrapArgs makes every complaint about arguments a usage error of its command, and unknown commands too.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if c.HasSubCommands() && len(args) > 0 {
			return usage(c, fmt.Errorf("unknown command %q", args[0]))
		}
		if err := checkEmpty(c, args); err != nil {
			return usage(c, err)
		}
		if check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return usage(c, err)
		}
		return nil
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}
