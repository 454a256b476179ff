package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// createFlags are the flags of index create that are not part of its request.
type createFlags struct {
	centroidsFrom string
	options       []string
	plan          bool
	ifAbsent      bool
}

func (a *app) indexCreateCommand() *cobra.Command {
	var f createFlags
	var req generation.CreateRequest
	c := &cobra.Command{
		Use:   "create TABLE --column C",
		Short: "Build an index of a vector column",
		Long: `Builds an index at the latest snapshot, or at the snapshot of what was completed by the completion of
--as-of. Nothing is visible before the index is whole and checked; after an interruption run it again.`,
		Example: "  tidemark index create /data/t --column embedding\n" +
			"  tidemark index create /data/t --column embedding --option vector.metric=cosine --option vector.num_clusters=256\n" +
			"  tidemark index create /data/t --column embedding --plan",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			req.Options, err = parseOptions(f.options)
			if req.Column == "" {
				err = errors.Join(errors.New("--column is missing"), err)
			}
			if err != nil {
				return usage(c, err)
			}
			return a.indexCreate(c.Context(), args[0], f, req)
		},
	}
	c.Flags().StringVar(&req.Column, "column", "", "VECTOR column to index (required)")
	c.Flags().StringVar(&req.Name, "name", "", "name of the index; the column's name and _idx if left out")
	c.Flags().StringArrayVar(&f.options, "option", nil, "option NAME=VALUE, any number of times")
	c.Flags().StringVar(&req.AsOf, "as-of", "", "instant, by requested or completion time, instead of the latest snapshot")
	c.Flags().StringVar(&f.centroidsFrom, "centroids-from", "", "take the clusters of this index instead of training")
	c.Flags().BoolVar(&f.plan, "plan", false, "say what would be read and how much memory it takes, write nothing")
	c.Flags().BoolVar(&f.ifAbsent, "if-absent", false, "succeed if the column has an index of that name already, whatever its options")
	return c
}

// indexCreate builds an index and prints what was built.
func (a *app) indexCreate(ctx context.Context, url string, f createFlags, req generation.CreateRequest) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	if f.ifAbsent {
		l, there, err := existing(ctx, place, req)
		if err != nil {
			return err
		}
		if there {
			return a.showExisting(l)
		}
	}
	t, err := table.Open(ctx, place.Store)
	if err != nil {
		return err
	}
	req.Place = place
	if f.centroidsFrom != "" {
		if req.CentroidsFrom, err = loadGeneration(ctx, place, f.centroidsFrom); err != nil {
			return err
		}
	}
	if f.plan {
		p, err := generation.NewPlan(ctx, t, req)
		if err != nil {
			return withEarliest(ctx, t, req, err)
		}
		return a.showPlan(p)
	}
	r, err := a.create(ctx, place, t, req)
	if err != nil {
		return withEarliest(ctx, t, req, err)
	}
	return a.showCreated(url, t, r)
}

// existing returns the finished index of the wanted name and column, if there is one.
func existing(ctx context.Context, place mdt.Place, req generation.CreateRequest) (listed, bool, error) {
	st, err := readState(ctx, place)
	if err != nil {
		return listed{}, false, err
	}
	for _, x := range generation.List(st) {
		if x.Index == req.IndexName() && x.Column == req.Column && x.State == mdt.GenActive {
			return listedOf(x), true, nil
		}
	}
	return listed{}, false, nil
}

// showExisting prints an index that was there before.
func (a *app) showExisting(l listed) error {
	if a.json {
		return a.object(l)
	}
	a.say("index %s, generation %d, is there: nothing done", l.Index, l.Generation)
	return nil
}

// create builds an index, with its progress on standard error.
func (a *app) create(ctx context.Context, place mdt.Place, t *table.Table, req generation.CreateRequest) (*generation.Result, error) {
	cfg, err := a.sinkConfig(place)
	if err != nil {
		return nil, err
	}
	cfg.Create = true
	c, err := indexer.OpenCommitter(ctx, place, indexer.CommitterOptions{Sink: cfg, Waiting: a.waiting})
	if err != nil {
		return nil, err
	}
	p := newProgress(a.err)
	defer p.finish()
	req.Progress = p.report
	return generation.Create(ctx, t, c, req)
}

// loadGeneration loads the active generation of an index.
func loadGeneration(ctx context.Context, place mdt.Place, index string) (*generation.Generation, error) {
	st, err := readState(ctx, place)
	if err != nil {
		return nil, err
	}
	x := st.Indexes[index]
	if x == nil || x.Dropped {
		return nil, noIndex(index)
	}
	view, err := mdt.OpenView(ctx, place, st, index)
	if err != nil {
		return nil, err
	}
	return generation.Load(ctx, view, x)
}

// withEarliest tells programs, and people, from which instant on the table can be read, if a slice of the wanted
// snapshot is gone or its instant was archived.
func withEarliest(ctx context.Context, t *table.Table, req generation.CreateRequest, err error) error {
	var u *generation.UnreadableError
	if !errors.As(err, &u) {
		return archivedInstant(ctx, t, req.AsOf, err)
	}
	if u.Earliest == "" {
		return err
	}
	return &hinted{err: err, facts: map[string]any{"earliest_readable": u.Earliest},
		hint: fmt.Sprintf("files of that snapshot are gone; the earliest that can be read: --as-of %s", u.Earliest)}
}

// archivedInstant explains a snapshot that was not found because its instant has been archived.
func archivedInstant(ctx context.Context, t *table.Table, at string, err error) error {
	if _, active := t.Timeline.Find(at); at == "" || active || !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	row, ok, findErr := coverage.FindArchived(ctx, t.Archive(), t.Timeline, at)
	if findErr != nil || !ok {
		return errors.Join(err, findErr)
	}
	earliest, findErr := t.EarliestReadable(ctx)
	if findErr != nil || earliest == "" {
		return errors.Join(err, findErr)
	}
	return &hinted{err: fmt.Errorf("choose snapshot: %s %s is archived: %w", row.Action, at, storage.ErrNotFound),
		facts: map[string]any{"earliest_readable": earliest},
		hint:  fmt.Sprintf("only snapshots of active instants can be read; the earliest: --as-of %s", earliest)}
}

// planned is what a bootstrap would read, for programs.
type planned struct {
	Index       string   `json:"index"`
	Column      string   `json:"column"`
	Baseline    string   `json:"baseline"`
	Instants    int      `json:"instants"`
	Files       int      `json:"files"`
	Rows        int64    `json:"rows"`
	Bytes       int64    `json:"bytes"`
	Memory      int64    `json:"memory"`
	MemoryLimit int64    `json:"memory_limit"`
	Refused     bool     `json:"refused"`
	Warnings    []string `json:"warnings,omitempty"`
}

func (a *app) showPlan(p *generation.Plan) error {
	v := planned{Index: p.Index, Column: p.Column, Baseline: p.Baseline.Requested, Instants: p.Instants, Files: p.Files, Rows: p.Rows,
		Bytes: p.Bytes, Memory: p.Memory, MemoryLimit: p.Limit, Refused: p.Refuse() != nil, Warnings: p.Warnings}
	if a.json {
		return a.object(v)
	}
	a.say("plan for index %s on column %s: nothing is written", v.Index, v.Column)
	g := newGrid()
	g.add("snapshot", v.Baseline)
	g.add("commits in it", count(v.Instants))
	g.add("files to read", fmt.Sprintf("%s, %s", count(v.Files), size(v.Bytes)))
	g.add("rows at most", count(v.Rows))
	g.add("memory", fmt.Sprintf("%s of %s allowed", size(v.Memory), size(v.MemoryLimit)))
	g.print(a, "  ")
	for _, w := range v.Warnings {
		a.say("  warning: %s", w)
	}
	if err := p.Refuse(); err != nil {
		a.say("  it would be refused: %s; %s", err, hintOf(err))
	}
	return nil
}

// created is a built index for programs.
type created struct {
	Index       string          `json:"index"`
	Generation  uint32          `json:"generation"`
	Baseline    string          `json:"baseline"` // requested time of the newest data write in it
	Frontier    *coverage.Times `json:"frontier"`
	Rows        int64           `json:"rows"`
	Unindexable int64           `json:"unindexable"`
	Duplicates  int64           `json:"duplicates"`
	Clusters    int             `json:"clusters"`
	Blocks      int             `json:"blocks"`
	Deltas      int             `json:"deltas"`
	Commits     []string        `json:"commits"`
	Warnings    []string        `json:"warnings,omitempty"`
}

func (a *app) showCreated(url string, t *table.Table, r *generation.Result) error {
	v := created{Index: r.Index, Generation: r.Generation, Baseline: r.Baseline.Requested, Rows: r.Rows, Unindexable: r.Unindexable.Count,
		Duplicates: r.Duplicates.Keys, Clusters: r.Clusters, Blocks: r.Blocks, Deltas: r.Deltas,
		Commits: []string{r.Built, r.Activated}, Warnings: r.Warnings}
	if r.Frontier.Completed != "" {
		v.Frontier = &coverage.Times{Requested: r.Frontier.Requested, Completed: r.Frontier.Completed}
	}
	if a.json {
		return a.object(v)
	}
	a.say("index %s, generation %d: %s in %s", v.Index, v.Generation, plural(v.Rows, "row"), plural(v.Clusters, "cluster"))
	g := newGrid()
	g.add("snapshot", v.Baseline)
	g.add("written", fmt.Sprintf("%s, %s", plural(v.Blocks, "posting block"), plural(v.Deltas, "posting delta")))
	if v.Unindexable > 0 {
		g.add("not indexable", count(v.Unindexable)+reasons(r.Unindexable))
	}
	if v.Duplicates > 0 {
		g.add("duplicate keys", fmt.Sprintf("%s, the copy written last counts: %q", count(v.Duplicates), r.Duplicates.Samples))
	}
	if r.HeldBy != "" {
		g.add("frontier held by", r.HeldBy)
	}
	g.print(a, "  ")
	for _, w := range v.Warnings {
		a.warn("warning: %s", w)
	}
	next := "status"
	if writes := t.Timeline.Writes(); len(writes) > 0 && r.Baseline.Completed != writes[len(writes)-1].Completed {
		next = "sync"
	}
	a.say("next: tidemark %s %s", next, a.named(url))
	return nil
}

// reasons says why rows cannot be indexed, with a key for each reason.
func reasons(u generation.Unindexable) string {
	text := ""
	for _, reason := range slices.Sorted(maps.Keys(u.Reasons)) {
		text += fmt.Sprintf(", %d %s", u.Reasons[reason], reason)
		if keys := u.Samples[reason]; len(keys) > 0 {
			text += fmt.Sprintf(" (such as %q)", keys[0])
		}
	}
	return text
}
