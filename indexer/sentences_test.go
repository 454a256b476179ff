package indexer_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
	"tidemark/timeline"
)

// sentence is the first line of status for a table, an hour after its newest instant.
func sentence(t *testing.T, st *mem.Store, name string) string {
	t.Helper()
	d := coverage.Deps{Place: mdt.Inside(st), Table: name, ZoneOffset: new(time.Duration)}
	_, tl, err := timeline.Open(t.Context(), st, table.HoodieDir)
	newest := ""
	if err == nil {
		for _, i := range tl.Instants() {
			newest = max(newest, i.Requested, i.Completed)
		}
	}
	now, err := timeline.InstantTime(newest, time.UTC)
	if err != nil {
		now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	}
	d.Now = func() time.Time { return now.Add(time.Hour) }
	all, err := coverage.Status(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return all[0].Sentence()
}

// varying is what of a sentence depends on the table: names in it, instants, numbers.
var varying = regexp.MustCompile(`--column [a-z0-9]+|[a-z0-9]+_idx|[0-9]+( (s|min|h|days))?|(delta|replace)?commits?\b`)

func shapeOf(sentence, name string) string {
	return varying.ReplaceAllString(strings.ReplaceAll(sentence, name, "TABLE"), "#")
}

// On every recorded table status answers in a sentence: without an index, with one built at the earliest readable snapshot, and
// after a sync. docs/operations.md shows each kind of sentence that there is, and each that it shows is what status says.
func TestSentences(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(testkit.Root(), "fixtures", "tables", "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "<!-- sentences -->\n```text\n")
	block, _, found := strings.Cut(block, "\n```\n")
	if !found {
		t.Fatal("docs/operations.md has no block of sentences")
	}
	said := map[string][]string{} // by table
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".tar.gz")
		st := store(t, name)
		p := mdt.Inside(st)
		said[name] = append(said[name], sentence(t, st, name))
		if !strings.Contains("\n"+block, "\n"+name+": ") && os.Getenv("TIDEMARK_TEST_LONG") == "" {
			continue
		}
		tb, err := table.Open(t.Context(), st)
		if err != nil || !tryCreate(t, p, tb) {
			continue
		}
		said[name] = append(said[name], sentence(t, st, name))
		if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err == nil {
			said[name] = append(said[name], sentence(t, st, name))
		}
	}
	shapes := map[string]bool{}
	for _, line := range strings.Split(block, "\n") {
		name, text, _ := strings.Cut(line, ": ")
		if !slices.Contains(said[name], text) {
			t.Errorf("docs/operations.md shows %q; status says %q", line, said[name])
		}
		shapes[shapeOf(text, name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		for _, text := range said[name] {
			if s := shapeOf(text, name); !shapes[s] {
				t.Errorf("docs/operations.md shows no sentence such as\n%s: %s", name, text)
				shapes[s] = true
			}
		}
	}
}

// tryCreate builds an index of a table's first vector column at the earliest readable snapshot; false where the table allows none.
func tryCreate(t *testing.T, p mdt.Place, tb *table.Table) bool {
	t.Helper()
	if tb.Props.CheckWritable() != nil {
		return false
	}
	if tb.Schema == nil || len(tb.Schema.Vectors()) == 0 {
		return false
	}
	at, err := tb.EarliestReadable(t.Context())
	if err != nil {
		return false
	}
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: sink.Config{Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	req := generation.CreateRequest{Place: p, Column: tb.Schema.Vectors()[0].Column, AsOf: at}
	if req.Options, err = generation.ParseOptions(map[string]string{"vector.num_clusters": "2"}); err != nil {
		t.Fatal(err)
	}
	if _, err = generation.Create(t.Context(), tb, c, req); err != nil {
		req.AsOf = "" // the column came later, say
		_, err = generation.Create(t.Context(), tb, c, req)
	}
	return err == nil
}
