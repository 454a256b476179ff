package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/fixtures"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/search"
)

// What the demo does with the bundled table.
const (
	demoColumn  = "embedding"
	demoIndex   = demoColumn + "_idx"
	demoWord    = "ocean"
	demoResults = 10
)

var demoOptions = map[string]string{
	generation.OptMetric:      "cosine",
	generation.OptNumClusters: "64",
	generation.OptNProbes:     "16",
}

func (a *app) demoCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show all of it on a bundled table that Hudi wrote",
		Long: `Unpacks a table of English words with their embeddings, written by Apache Hudi 1.2.0, builds an index as of its
first commit, follows the other commits one by one, and searches. No network and no service is used.`,
		Example: "  tidemark demo\n  tidemark demo --dir /tmp/words",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.demo(c.Context(), dir) },
	}
	c.Flags().StringVar(&dir, "dir", "", "unpack into this folder, which must be empty or absent; a temporary one if left out")
	return c
}

// demoRun is one run of the demo.
type demoRun struct {
	*app
	url   string
	place mdt.Place
}

func (a *app) demo(ctx context.Context, dir string) error {
	began := time.Now()
	dir, err := demoFolder(dir)
	if err != nil {
		return err
	}
	if err := fixtures.Unpack(bytes.NewReader(fixtures.DemoTable), dir); err != nil {
		return fmt.Errorf("unpack demo table: %w", err)
	}
	d := demoRun{app: a, url: filepath.Join(dir, fixtures.DemoName)}
	if d.place, err = a.openPlace(ctx, d.url); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{d.build, d.followAll, d.search} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !a.json {
		a.say("")
		a.say("All of it took %s. The table stays where it is. On your own table:", duration(time.Since(began)))
		a.say("  tidemark index create /path/to/table --column embedding")
		a.say("  tidemark sync /path/to/table")
		a.say("  tidemark search /path/to/table --key some-record-key")
	}
	return nil
}

// demoFolder makes the folder that the table is unpacked into.
func demoFolder(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "tidemark-demo-")
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("use folder: %w", err)
	}
	if len(entries) > 0 {
		return "", &hinted{err: fmt.Errorf("use folder %s: it is not empty", dir), hint: "name an empty or new folder"}
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// heading prints the title of a step.
func (d demoRun) heading(n int, format string, args ...any) {
	if !d.json {
		d.say("")
		d.say("%d  %s", n, fmt.Sprintf(format, args...))
		d.say("")
	}
}

// build creates the index as of the table's first commit.
func (d demoRun) build(ctx context.Context) error {
	t, err := table.Open(ctx, d.place.Store)
	if err != nil {
		return err
	}
	writes := t.Timeline.Writes()
	if !d.json {
		d.say("A table of English words with %d-dimensional embeddings, written by Apache Hudi 1.2.0", demoDimension(t))
		d.say("%s", d.url)
		d.say("%s on its timeline", plural(len(writes), "commit"))
	}
	d.heading(1, "Build a cosine index as of the first commit, %s", writes[0].Requested)
	opts, err := generation.ParseOptions(demoOptions)
	if err != nil {
		return err
	}
	began := time.Now()
	r, err := d.create(ctx, d.place, t, generation.CreateRequest{Name: demoIndex, Column: demoColumn, Options: opts,
		AsOf: writes[0].Requested, Place: d.place})
	if err != nil {
		return err
	}
	if d.json {
		return d.object(map[string]any{"step": "index", "index": r.Index, "rows": r.Rows, "clusters": r.Clusters, "blocks": r.Blocks})
	}
	d.say("   %s in %s, %s, built and read back in %s", plural(r.Rows, "row"), plural(r.Clusters, "cluster"),
		plural(r.Blocks, "posting block"), duration(time.Since(began)))
	return nil
}

func demoDimension(t *table.Table) int {
	v, err := t.Vector(demoColumn)
	if err != nil {
		return 0
	}
	return v.Dim
}

// followed is one commit of the demo, for programs.
type followed struct {
	Step      string          `json:"step"`
	LagBefore *int            `json:"lag_before"`
	Marker    coverage.Marker `json:"marker"`
	LagAfter  *int            `json:"lag_after"`
	Fresh     bool            `json:"fresh"`
}

// followAll covers the commits behind the index one at a time and prints each with the lag around it.
func (d demoRun) followAll(ctx context.Context) error {
	d.heading(2, "Follow the other commits, one at a time")
	columns := []struct {
		name  string
		width int
	}{{"commit", 17}, {"lag before", 10}, {"insert", 6}, {"update", 6}, {"move", 5}, {"delete", 6}, {"same", 5}, {"lag after", 9}, {"took", 6}}
	line := func(cells ...string) {
		var b strings.Builder
		for i, c := range cells {
			fmt.Fprintf(&b, "  %*s", columns[i].width, c)
		}
		d.say(" %s", b.String())
	}
	if !d.json {
		var head []string
		for _, c := range columns {
			head = append(head, c.name)
		}
		line(head...)
	}
	for {
		before, err := d.lag(ctx)
		if err != nil || before.LagInstants == nil || *before.LagInstants == 0 {
			return err
		}
		began := time.Now()
		r, err := indexer.Sync(ctx, d.place, indexer.SyncOptions{MaxInstants: 1, Waiting: d.waiting})
		if err != nil {
			return err
		}
		if r.Processed == 0 {
			return fmt.Errorf("follow %s: nothing was processed with %s due", d.url, plural(*before.LagInstants, "commit"))
		}
		after, err := d.lag(ctx)
		if err != nil {
			return err
		}
		last, err := coverage.Markers(ctx, coverage.Deps{Place: d.place, Table: d.url}, demoIndex, 1)
		if err != nil || len(last) == 0 {
			return errors.Join(fmt.Errorf("list markers of %s", d.url), err)
		}
		m := last[0]
		if d.json {
			if err := d.object(followed{"commit", before.LagInstants, m, after.LagInstants, after.Fresh}); err != nil {
				return err
			}
			continue
		}
		n := func(class string) string { return count(m.Counts[class]) }
		line(m.Requested, count(*before.LagInstants), n("insert"), n("vector_update"), n("locator_refresh"), n("delete"), n("unchanged"),
			count(*after.LagInstants), duration(time.Since(began)))
	}
}

// lag is where the demo's index stands.
func (d demoRun) lag(ctx context.Context) (coverage.IndexStatus, error) {
	all, err := d.status(ctx, d.url, demoIndex)
	if err != nil {
		return coverage.IndexStatus{}, err
	}
	return all[0], nil
}

// search asks for the neighbours of one word by the index and by reading the whole table, and compares them.
func (d demoRun) search(ctx context.Context) error {
	d.heading(3, "Search for the neighbours of %q", demoWord)
	ask := func(mode search.Mode) (*search.Answer, error) {
		return search.Search(ctx, d.searchDeps(d.place, d.url), search.Request{Key: demoWord, K: demoResults + 1, Mode: mode})
	}
	found, err := ask(search.ExactRerank)
	if err != nil {
		return err
	}
	exact, err := ask(search.BruteForce)
	if err != nil {
		return err
	}
	got, want := neighbours(found), neighbours(exact)
	hits := 0
	for _, w := range want {
		for _, g := range got {
			if g.Key == w.Key {
				hits++
			}
		}
	}
	if d.json {
		return d.object(map[string]any{"step": "search", "key": demoWord, "index": got, "brute_force": want,
			"recall": float64(hits) / float64(max(1, len(want))), "clusters_probed": found.Stats.Clusters})
	}
	g := newGrid(0, 2, 4)
	g.add("", "by the index", "distance", "by brute force", "distance")
	for i := range max(len(got), len(want)) {
		row := []any{i + 1, "", "", "", ""}
		if i < len(got) {
			row[1], row[2] = got[i].Key, distance(got[i].Distance)
		}
		if i < len(want) {
			row[3], row[4] = want[i].Key, distance(want[i].Distance)
		}
		g.add(row...)
	}
	g.print(d.app, "   ")
	d.say("")
	d.say("   recall %d of %d; the index looked at %s postings in %d of %s clusters, brute force at all %s rows",
		hits, len(want), count(found.Stats.Scanned), found.Stats.Clusters, demoOptions[generation.OptNumClusters], count(exact.Stats.RowsRead))
	return nil
}

// neighbours are the results without the word itself.
func neighbours(answer *search.Answer) []search.Result {
	out := []search.Result{}
	for _, r := range answer.Results {
		if r.Key != demoWord && len(out) < demoResults {
			out = append(out, r)
		}
	}
	return out
}
