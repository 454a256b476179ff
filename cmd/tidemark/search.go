package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/search"
)

// searchFlags are the flags of search.
type searchFlags struct {
	index, key, vector, vectorFile, mode, policy string
	k, nprobes                                   int
	partitions, columns                          []string
}

func (a *app) searchCommand() *cobra.Command {
	var f searchFlags
	c := &cobra.Command{
		Use:   "search TABLE (--key K | --vector JSON | --vector-file F)",
		Short: "Find the nearest rows",
		Long: `Finds the rows nearest to a vector at the latest completed snapshot. --key takes that row's vector, and the
row itself is among the results. Distances: l2 squared Euclidean, cosine 1 - cos, dot product -dot; smaller is nearer.
With the policy FAIL and an index that is not fresh, the exit code is 3 and there are no rows.`,
		Example: "  tidemark search /data/t --key ocean -k 5\n" +
			"  tidemark search /data/t --vector '[0.1, 0.7, -0.2]' --columns title,price --json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			req, err := f.request(c)
			if err != nil {
				return usage(c, err)
			}
			err = a.search(c.Context(), args[0], req)
			if errors.Is(err, search.ErrUsage) {
				return usage(c, err)
			}
			return err
		},
	}
	indexFlag(c, &f.index)
	c.Flags().StringVar(&f.key, "key", "", "record key of the row to take the vector of")
	c.Flags().StringVar(&f.vector, "vector", "", "query vector, a JSON array of numbers")
	c.Flags().StringVar(&f.vectorFile, "vector-file", "", "file with the query vector, a JSON array of numbers")
	c.Flags().IntVarP(&f.k, "k", "k", 10, "rows wanted")
	c.Flags().StringVar(&f.mode, "mode", "", "exact_rerank, approximate or brute_force; the index's option if left out")
	c.Flags().IntVar(&f.nprobes, "nprobes", 0, "clusters to look at; the index's option if left out")
	c.Flags().StringVar(&f.policy, "policy", "", "when the index is not fresh: FAIL, WARN or FALLBACK; the index's option if left out")
	c.Flags().StringArrayVar(&f.partitions, "partition", nil, "only rows of this partition, any number of times")
	c.Flags().StringSliceVar(&f.columns, "columns", nil, "further columns to show, separated by commas")
	return c
}

// request turns flags into a request; all that is wrong with them is reported together.
func (f *searchFlags) request(c *cobra.Command) (search.Request, error) {
	req := search.Request{Index: f.index, Key: f.key, K: f.k, Mode: search.Mode(f.mode), NProbes: f.nprobes,
		Policy: search.Policy(strings.ToUpper(f.policy)), Partitions: f.partitions, Columns: f.columns}
	var problems []error
	given := 0
	for _, name := range []string{"key", "vector", "vector-file"} {
		if c.Flags().Changed(name) {
			given++
		}
	}
	if given != 1 {
		problems = append(problems, errors.New("give one of --key, --vector and --vector-file"))
	}
	if f.k < 1 {
		problems = append(problems, fmt.Errorf("-k %d: at least 1", f.k))
	}
	if f.nprobes < 0 || c.Flags().Changed("nprobes") && f.nprobes == 0 {
		problems = append(problems, fmt.Errorf("--nprobes %d: at least 1", f.nprobes))
	}
	if !slices.Contains([]search.Mode{"", search.ExactRerank, search.Approximate, search.BruteForce}, req.Mode) {
		problems = append(problems, fmt.Errorf("--mode %q: exact_rerank, approximate or brute_force", f.mode))
	}
	if !slices.Contains([]search.Policy{"", search.Fail, search.Warn, search.Fallback}, req.Policy) {
		problems = append(problems, fmt.Errorf("--policy %q: FAIL, WARN or FALLBACK", f.policy))
	}
	if len(problems) > 0 {
		return req, errors.Join(problems...)
	}
	text, from := []byte(f.vector), "--vector"
	if f.vectorFile != "" {
		var err error
		if text, err = readVectorFile(f.vectorFile); err != nil {
			return req, fmt.Errorf("--vector-file: %w", err)
		}
		from = f.vectorFile
	}
	if len(text) > 0 {
		if err := parseVector(text, &req.Vector); err != nil {
			return req, fmt.Errorf("%s: not a JSON array of numbers: %w", from, err)
		}
	}
	return req, nil
}

// search answers a query and prints the answer.
func (a *app) search(ctx context.Context, url string, req search.Request) error {
	place, err := a.openPlace(ctx, url)
	if err != nil {
		return err
	}
	if err := needOneIndex(ctx, place, a.named(url), req.Index); err != nil {
		return err
	}
	answer, err := search.Search(ctx, a.searchDeps(place, url), req)
	switch {
	case errors.Is(err, storage.ErrStale):
		return &exitError{code: exitNotFresh, err: &hinted{err: err, facts: factsOf(answer),
			hint: fmt.Sprintf("catch up first: tidemark sync %s; or ask with --policy WARN or FALLBACK", a.named(url))}}
	case err != nil:
		return err
	case a.json:
		return a.object(answer)
	}
	a.showAnswer(req, answer)
	return nil
}

// searchDeps connects a search with the judgement of coverage.
func (a *app) searchDeps(place mdt.Place, url string) search.Deps {
	return search.Deps{Place: place, Table: a.named(url), Freshness: func(ctx context.Context, t *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		v, err := coverage.Fresh(ctx, place, t, st, index)
		if err != nil {
			return search.Freshness{}, err
		}
		f := search.Freshness{Fresh: v.Fresh, Reason: v.Reason}
		if v.Known() {
			n := len(v.Due)
			f.LagInstants = &n
		}
		return f, nil
	}}
}

// factsOf gives programs what a refused answer says about the snapshot.
func factsOf(answer *search.Answer) map[string]any {
	if answer == nil {
		return nil
	}
	return map[string]any{"snapshot": answer.Snapshot, "generation": answer.Generation, "fresh": answer.Fresh,
		"lag_instants": answer.LagInstants, "complete": false, "results": []search.Result{}}
}

func (a *app) showAnswer(req search.Request, answer *search.Answer) {
	what := "the given vector"
	if req.Key != "" {
		what = strconv.Quote(req.Key)
	}
	a.say("%s nearest to %s at snapshot %s, %s", plural(len(answer.Results), "row"), what, answer.Snapshot, answer.Mode)
	g := newGrid(0, 1)
	head := []any{"", "distance", "key", "partition"}
	for _, c := range req.Columns {
		head = append(head, c)
	}
	g.add(head...)
	for i, r := range answer.Results {
		row := []any{i + 1, distance(r.Distance), r.Key, r.Partition}
		for _, c := range req.Columns {
			row = append(row, r.Row[c])
		}
		g.add(row...)
	}
	g.print(a, "  ")
	if s := answer.Stats; answer.Mode != search.BruteForce {
		a.say("%s probed, %s scanned, %s checked against the table", plural(s.Clusters, "cluster"), plural(s.Scanned, "posting"), plural(s.Candidates, "candidate"))
	}
	if answer.Reason != "" {
		a.say("note: %s", answer.Reason)
	}
}

// maxVectorFile bounds the bytes of a --vector-file: a query of 65,536 dimensions takes less.
const maxVectorFile = 4 << 20

// readVectorFile reads a query file. One that does not end is not read to its end.
func readVectorFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVectorFile+1))
	if err == nil && len(b) > maxVectorFile {
		err = fmt.Errorf("%s is longer than %d bytes: no query vector", name, maxVectorFile)
	}
	return b, err
}

// parseVector reads a JSON array of numbers. null is no number: JSON would take it for 0.
func parseVector(text []byte, v *[]float64) error {
	var items []*float64
	if err := json.Unmarshal(text, &items); err != nil {
		return err
	}
	*v = nil
	for i, x := range items {
		if x == nil {
			return fmt.Errorf("component %d is null, not a number", i)
		}
		*v = append(*v, *x)
	}
	return nil
}

// distance prints a distance. One that rounds to zero has no sign.
func distance(d float64) string {
	return strings.Replace(fmt.Sprintf("%.6f", d), "-0.000000", "0.000000", 1)
}
