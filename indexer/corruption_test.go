package indexer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/search"
	"tidemark/sink"
	"tidemark/timeline"
)

// flipped is a store in which one byte of one file is another one.
type flipped struct {
	storage.Store
	path string
	at   int64
	by   byte
}

func (s flipped) ReadFile(ctx context.Context, p string) ([]byte, storage.Info, error) {
	b, info, err := s.Store.ReadFile(ctx, p)
	if err == nil && p == s.path {
		b[s.at] ^= s.by
		info.Tag = "flipped"
	}
	return b, info, err
}

func (s flipped) ReadRange(ctx context.Context, p string, off, n int64) ([]byte, error) {
	b, err := s.Store.ReadRange(ctx, p, off, n)
	if err == nil && p == s.path && s.at >= off && s.at < off+n {
		b[s.at-off] ^= s.by
	}
	return b, err
}

// ours returns the files of ours that are in use, by kind.
func ours(t *testing.T, st *mem.Store) map[string][]string {
	t.Helper()
	p := mdt.Inside(st)
	state, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	retired := map[string]bool{}
	for _, r := range state.Retired { // nobody reads them any more
		retired[p.File(r.Path)], retired[p.LedgerPath(r.Path)] = true, true
	}
	out := map[string][]string{}
	for _, f := range st.Paths() {
		if retired[f] {
			continue
		}
		kind := ""
		switch {
		case f == p.StatePath():
			kind = "state"
		case strings.HasPrefix(f, p.LedgerPath(mdt.LedgerDir)+"/"):
			kind = "ledger"
		case strings.HasPrefix(f, p.File("vector_index_")) && strings.HasSuffix(f, ".hfile"):
			kind = "base"
		case strings.HasPrefix(f, p.File("vector_index_")):
			kind = "log"
		case strings.HasPrefix(f, p.TimelineDir()+"/"):
			id, completion, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(f, p.TimelineDir()+"/"), ".deltacommit"), "_")
			if next, err := timeline.AddMillis(id, 1); err != nil || next != completion {
				continue
			}
			kind = "commit"
		default:
			continue
		}
		out[kind] = append(out[kind], f)
	}
	return out
}

// answersOf asks a store's index in every way; a question that is refused has its error's text as its answer.
func answersOf(t *testing.T, st storage.Store, queries [][]float64) map[string]any {
	t.Helper()
	p := mdt.Inside(st)
	d := search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		j, err := coverage.Fresh(ctx, p, tab, st, index)
		return search.Freshness{Fresh: j.Fresh, Reason: j.Reason}, err
	}}
	out := map[string]any{}
	for i, q := range queries {
		a, err := search.Search(t.Context(), d, search.Request{K: 5, Vector: q, NProbes: 1, Mode: search.ExactRerank})
		if err != nil {
			out[fmt.Sprint(i)] = err
			continue
		}
		out[fmt.Sprint(i)] = a.Results
	}
	return out
}

// Single bytes of our files are flipped, spread over all kinds of files: a search answers as before, because what it read was not touched, or
// refuses; it never answers anything else. verify reports every one (design, decision 27).
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	flips := 250
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		flips = 10000
	}
	st := store(t, "mor_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "4"})
	for {
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 1, Sink: sink.Config{Evidence: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Processed == 0 {
			break
		}
	}
	kinds := ours(t, st)
	if len(kinds) != 5 {
		t.Fatalf("only %v", slices.Sorted(maps.Keys(kinds)))
	}
	queries := [][]float64{{1, 0, 0, 0, 0, 0, 0, 0}, {0, 0, -1, 0, 0.5, 0, 0, 0}}
	want := answersOf(t, st, queries)
	for i, a := range want {
		if _, refused := a.(error); refused {
			t.Fatalf("question %s: %v", i, a)
		}
	}
	names := slices.Sorted(maps.Keys(kinds))
	var mu sync.Mutex // guards what follows
	served, refused := map[string]int{}, map[string]int{}
	flip := func(t *testing.T, n int) {
		rng := rand.New(rand.NewPCG(27, uint64(n)))
		kind := names[n%len(names)]
		file := kinds[kind][rng.IntN(len(kinds[kind]))]
		whole, _, err := st.ReadFile(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		f := flipped{st, file, rng.Int64N(int64(len(whole))), byte(1 + rng.IntN(255))}
		what := fmt.Sprintf("flip %d, %s: byte %d by %02x", n, file, f.at, f.by)
		answers := answersOf(t, f, queries)
		mu.Lock()
		defer mu.Unlock()
		for i, got := range answers {
			if err, no := got.(error); no {
				refused[kind]++
				if errors.Is(err, context.Canceled) || storage.Hint(err) == "" && !errors.Is(err, storage.ErrCorrupt) {
					t.Errorf("%s: question %s is refused without saying why: %v", what, i, err)
				}
				continue
			}
			served[kind]++
			if d := cmp.Diff(want[i], got); d != "" {
				t.Errorf("%s: question %s has another answer:\n%s", what, i, d)
			}
		}
		mu.Unlock()
		report, err := coverage.Verify(t.Context(), coverage.Deps{Place: mdt.Inside(f)}, coverage.VerifyRequest{})
		mu.Lock()
		if err == nil && report.OK {
			t.Errorf("%s: verify found nothing: %q", what, around(whole, f.at))
		}
	}
	const lanes = 2
	t.Run("flips", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for n := lane; n < flips; n += lanes {
					flip(t, n)
				}
			})
		}
	})
	t.Logf("%d flips; questions served %v, refused %v", flips, served, refused)
}

// around shows where a byte is.
func around(b []byte, at int64) []byte {
	return bytes.Clone(b[max(0, at-12):min(int64(len(b)), at+12)])
}
