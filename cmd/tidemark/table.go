package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/lock"
	lockopen "tidemark/internal/lock/open"
	"tidemark/internal/storage"
	"tidemark/internal/storage/open"
	"tidemark/internal/storage/retry"
	"tidemark/sink"
	"tidemark/timeline"
)

// openPlace opens the table that a path or URL names, and the place where its indexes lie: inside it, or beside it with --sink.
func (a *app) openPlace(ctx context.Context, url string) (mdt.Place, error) {
	return openAt(ctx, url, a.sink, open.Options{Retry: retry.Config{Observe: repeated}})
}

// openAt opens a table and the place of its indexes: at sink, or inside the table if that is "".
func openAt(ctx context.Context, url, sink string, o open.Options) (mdt.Place, error) {
	if sink != "" {
		st, base, err := open.Beside(ctx, url, sink, o)
		if err != nil {
			return mdt.Place{}, err
		}
		return mdt.Beside(st, base), nil
	}
	st, err := open.With(ctx, url, o)
	if err != nil {
		return mdt.Place{}, err
	}
	return mdt.Inside(st), nil
}

// sinkConfig configures the sink of a command that commits: the lock that --lock names.
func (a *app) sinkConfig(place mdt.Place) (sink.Config, error) {
	l, err := lockOf(a.lock, place)
	return sink.Config{Lock: l, LockTrouble: func(err error) { a.warn("%v; other writers wait until it is over", err) }}, err
}

// lockOf makes the lock of a table that a text names. Beside a table there is nothing to lock.
func lockOf(text string, place mdt.Place) (lock.Locker, error) {
	if text != "" && text != "none" && place.IsBeside() {
		return nil, &storage.Error{Op: "open lock", Path: text, Hint: "leave --lock out: no writer of the table commits to that place",
			Err: fmt.Errorf("with --sink the table is only read, its lock, too: %w", storage.ErrRefused)}
	}
	return lockopen.Parse(text, place.Store)
}

// named is a table, and the place of its indexes if it is not the table, as a command line names them.
func (a *app) named(url string) string {
	return mdt.Named(url, a.sink)
}

// noticed is the wait for a store that people would wonder about.
const noticed = time.Second

// repeated tells people why nothing moves.
func repeated(err error, wait time.Duration) {
	if wait >= noticed {
		fmt.Fprintf(os.Stderr, "tidemark: %v; trying again in %v\n", err, wait.Round(time.Second))
	}
}

// readState reads the state of a table's indexes; that of a table without any is empty, or
// storage.ErrUnsupported where the table can have none. A path that is no table is storage.ErrNotFound.
func readState(ctx context.Context, place mdt.Place) (*mdt.State, error) {
	props, err := timeline.LoadProperties(ctx, place.Store, table.HoodieDir)
	if err != nil {
		return nil, err
	}
	st, _, err := mdt.ReadState(ctx, place)
	if errors.Is(err, storage.ErrNotFound) {
		return mdt.NewState(), place.CheckWritable(props)
	}
	return st, err
}

// needIndex refuses what needs an index of a table that has none, or not the named one. A path that is no table is
// storage.ErrNotFound, too.
func needIndex(ctx context.Context, place mdt.Place, url, name string) ([]string, error) {
	st, err := readState(ctx, place)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range st.Indexes {
		if !x.Dropped {
			names = append(names, x.Name)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil, &hinted{err: fmt.Errorf("no index on %s: %w", url, storage.ErrNotFound),
			hint: fmt.Sprintf("create one: tidemark index create %s --column COLUMN", url)}
	case name != "" && !slices.Contains(names, name):
		return nil, noIndex(name)
	}
	return names, nil
}

// needOneIndex is needIndex for commands that mean one index: name may be left out where there is only one.
func needOneIndex(ctx context.Context, place mdt.Place, url, name string) error {
	names, err := needIndex(ctx, place, url, name)
	if err != nil || name != "" || len(names) == 1 {
		return err
	}
	return &exitError{code: exitUsage, err: &hinted{hint: "say which with --index NAME",
		err: fmt.Errorf("the table has %d indexes: %s", len(names), strings.Join(names, ", "))}}
}

// noIndex says that a table has no index of that name.
func noIndex(name string) error {
	return &storage.Error{Op: "find index", Path: name, Err: storage.ErrNotFound, Hint: "see 'tidemark index list'"}
}

// indexFlag adds --index to a command.
func indexFlag(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "index", "", "name of the index; may be left out when the table has one")
}

// waiting tells people why nothing happens for a while.
func (a *app) waiting(reason string) { a.warn("waiting: %s", reason) }
