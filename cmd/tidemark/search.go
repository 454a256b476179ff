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
	"time"

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
	timeout                                      time.Duration
}

func (a *app) searchCommand() *cobra.Command {
	var f searchFlags
	c := &cobra.Command{
		Use:   "search TABLE (--key K | --vector JSON | --vector-file F)",
		Short: "Find the nearest rows",
		Long: `Finds the rows nearest to a vector at the latest completed snapshot. --key takes that row's vector, and the
row itself is among the results. Distances: l2 squared Euclidean, cosine 1 - cos, dot product -dot; smaller is nearer.
A --vector-file of several vectors, one JSON array on a line, is a batch: all are answered at one snapshot, which costs
much less than one by one. --json then prints one answer on a line.
When the --timeout is over, the rows found so far are the answer: it says so, and "complete" is false. If there are
none yet, and always with brute_force, which has no answer before its end, the exit code is 1.
With the policy FAIL and an index that is not fresh, the exit code is 3 and there are no rows.`,
		Example: "  tidemark search /data/t --key ocean -k 5\n" +
			"  tidemark search /data/t --vector '[0.1, 0.7, -0.2]' --columns title,price --json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			req, batch, err := f.request(c)
			if err != nil {
				return usage(c, err)
			}
			ctx := c.Context()
			if c.Flags().Changed("timeout") {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, f.timeout)
				defer cancel()
			}
			err = a.search(ctx, args[0], req, batch)
			if errors.Is(err, search.ErrUsage) {
				return usage(c, err)
			}
			return err
		},
	}
	indexFlag(c, &f.index)
	c.Flags().StringVar(&f.key, "key", "", "record key of the row to take the vector of")
	c.Flags().StringVar(&f.vector, "vector", "", "query vector, a JSON array of numbers")
	c.Flags().StringVar(&f.vectorFile, "vector-file", "", "file with a query vector, a JSON array of numbers, or with one on each line")
	c.Flags().IntVarP(&f.k, "k", "k", 10, "rows wanted")
	c.Flags().StringVar(&f.mode, "mode", "", "exact_rerank, approximate or brute_force; the index's option if left out")
	c.Flags().IntVar(&f.nprobes, "nprobes", 0, "clusters to look at; the index's option if left out")
	c.Flags().StringVar(&f.policy, "policy", "", "when the index is not fresh: FAIL, WARN or FALLBACK; the index's option if left out")
	c.Flags().StringArrayVar(&f.partitions, "partition", nil, "only rows of this partition, any number of times")
	c.Flags().StringSliceVar(&f.columns, "columns", nil, "further columns to show, separated by commas")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long the search may take; as long as it needs if left out")
	return c
}

// request turns flags into a request, and the vectors of a batch; all that is wrong with them is reported together.
func (f *searchFlags) request(c *cobra.Command) (req search.Request, batch [][]float64, err error) {
	req = search.Request{Index: f.index, Key: f.key, K: f.k, Mode: search.Mode(f.mode), NProbes: f.nprobes,
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
	if f.timeout < 0 {
		problems = append(problems, fmt.Errorf("--timeout %s: a time such as 500ms", f.timeout))
	}
	if !slices.Contains([]search.Mode{"", search.ExactRerank, search.Approximate, search.BruteForce}, req.Mode) {
		problems = append(problems, fmt.Errorf("--mode %q: exact_rerank, approximate or brute_force", f.mode))
	}
	if !slices.Contains([]search.Policy{"", search.Fail, search.Warn, search.Fallback}, req.Policy) {
		problems = append(problems, fmt.Errorf("--policy %q: FAIL, WARN or FALLBACK", f.policy))
	}
	if len(problems) > 0 {
		return req, nil, errors.Join(problems...)
	}
	var text io.Reader = strings.NewReader(f.vector)
	from := "--vector"
	switch {
	case f.vectorFile != "":
		file, err := os.Open(f.vectorFile)
		if err != nil {
			return req, nil, fmt.Errorf("--vector-file: %w", err)
		}
		defer file.Close()
		text, from = file, f.vectorFile
	case f.vector == "":
		return req, nil, nil
	}
	vectors, err := parseVectors(text, maxVectorFile)
	switch {
	case err != nil:
		return req, nil, fmt.Errorf("%s: %w", from, err)
	case len(vectors) == 1:
		req.Vector = vectors[0]
		return req, nil, nil
	case f.vectorFile == "":
		return req, nil, errors.New("--vector: more than one vector; put them into a file, one on each line, for --vector-file")
	}
	return req, vectors, nil
}

// search answers a query, or a batch, and prints the answers.
func (a *app) search(ctx context.Context, url string, req search.Request, batch [][]float64) error {
	place, err := a.openPlace(ctx, url)
	if err == nil {
		err = needOneIndex(ctx, place, a.named(url), req.Index)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &hinted{err: fmt.Errorf("search: the deadline came before the table was opened: %w", err), hint: "give the query more time: --timeout 30s"}
	}
	if err != nil {
		return err
	}
	reader := search.NewReader(a.searchDeps(place, url))
	if batch != nil {
		all, err := reader.Batch(ctx, req, batch)
		return a.answered(ctx, place, url, req, all, err)
	}
	answer, err := reader.Search(ctx, req)
	return a.answered(ctx, place, url, req, []*search.Answer{answer}, err)
}

// answered prints the answers of a batch, or the only one.
func (a *app) answered(ctx context.Context, place mdt.Place, url string, req search.Request, all []*search.Answer, err error) error {
	var answer *search.Answer
	if len(all) > 0 {
		answer = all[0]
	}
	switch {
	case errors.Is(err, storage.ErrStale):
		return &exitError{code: exitNotFresh, err: &hinted{err: err, facts: factsOf(answer),
			hint: coverage.ToBeFresh(ctx, coverage.Deps{Place: place, Table: url, Sink: a.sink}, req.Index) + "; or ask with --policy WARN or FALLBACK"}}
	case err != nil:
		return err
	}
	for i, answer := range all {
		switch {
		case a.json:
			if err := a.object(answer); err != nil {
				return err
			}
		case len(all) > 1:
			a.showAnswer(req, fmt.Sprintf("vector %d", i+1), answer)
		case req.Key != "":
			a.showAnswer(req, strconv.Quote(req.Key), answer)
		default:
			a.showAnswer(req, "the given vector", answer)
		}
	}
	return nil
}

// searchDeps connects a search with the judgement of coverage.
func (a *app) searchDeps(place mdt.Place, url string) search.Deps {
	return search.Deps{Place: place, Table: url, Sink: a.sink, Freshness: func(ctx context.Context, t *table.Table, st *mdt.State, index string) (search.Freshness, error) {
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

func (a *app) showAnswer(req search.Request, what string, answer *search.Answer) {
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

// maxVectorFile bounds the bytes of a --vector-file: one that does not end is not read to its end.
const maxVectorFile = 256 << 20

// parseVectors reads JSON arrays of numbers, one after the other. null is no number: JSON would take it for 0. Text of more than limit
// bytes is refused, also where these end between two vectors.
func parseVectors(text io.Reader, limit int64) ([][]float64, error) {
	var out [][]float64
	bounded := &io.LimitedReader{R: text, N: limit + 1}
	dec := json.NewDecoder(bounded)
	for {
		var items []*float64
		err := dec.Decode(&items)
		switch {
		case err != nil && bounded.N <= 0:
			return nil, fmt.Errorf("more than %d MiB: search with fewer vectors at once", limit>>20)
		case errors.Is(err, io.EOF) && len(out) > 0:
			return out, nil
		case err == nil && items == nil:
			err = errors.New("null")
		}
		if err == nil && len(out) == search.MaxBatch {
			return nil, fmt.Errorf("more than %d vectors: search with fewer at once", search.MaxBatch)
		}
		v := make([]float64, len(items))
		for i, x := range items {
			if x == nil {
				err = fmt.Errorf("component %d is null, not a number", i)
				break
			}
			v[i] = *x
		}
		if err != nil && len(out) > 0 {
			return nil, fmt.Errorf("vector %d: not a JSON array of numbers: %w", len(out)+1, err)
		}
		if err != nil {
			return nil, fmt.Errorf("not a JSON array of numbers: %w", err)
		}
		out = append(out, v)
	}
}

// distance prints a distance. One that rounds to zero has no sign.
func distance(d float64) string {
	return strings.Replace(fmt.Sprintf("%.6f", d), "-0.000000", "0.000000", 1)
}
