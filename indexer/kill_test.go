package indexer_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
)

// orphans are files of the index's directory and of the ledger that the state does not name.
func orphans(t *testing.T, st *mem.Store) []string {
	t.Helper()
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, f := range state.Live("") {
		named[".hoodie/metadata/"+f.Path] = true
	}
	var out []string
	for _, l := range state.Ledger {
		named[mdt.Inside(st).LedgerPath(l.Path)] = true
	}
	for _, r := range state.Retired {
		named[".hoodie/metadata/"+r.Path], named[mdt.Inside(st).LedgerPath(r.Path)] = true, true
	}
	for _, f := range st.Paths() {
		if (strings.Contains(f, "/vector_index_") || strings.Contains(f, "/ledger/")) && !named[f] {
			out = append(out, f)
		}
	}
	return out
}

// foreign are all files but ours, with their version: nobody else's file may change.
func foreign(t *testing.T, st *mem.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range st.Paths() {
		if strings.HasPrefix(f, ".hoodie/.tidemark/") || strings.Contains(f, "/vector_index_") {
			continue
		}
		_, info, err := st.ReadFile(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		out[f] = info.Tag
	}
	return out
}

// A sync that is killed at any storage call, before or after its effect, ends like one that was not, once another
// one has run.
func TestKilledSync(t *testing.T) {
	t.Parallel()
	t.Run("one commit", func(t *testing.T) {
		t.Parallel()
		killSync(t, "local_zone", 0, dead())
	})
	t.Run("evidence moves to the ledger", func(t *testing.T) {
		t.Parallel()
		cfg := dead()
		cfg.Evidence = 1
		killSync(t, "cow_basic", 2, cfg)
	})
}

// killSync kills a sync of a table after some syncs of one instant each.
func killSync(t *testing.T, name string, syncs int, cfg sink.Config) {
	start := store(t, name)
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))},
		map[string]string{"vector.num_clusters": "3"})
	for range syncs {
		if _, err := indexer.Sync(t.Context(), mdt.Inside(start), indexer.SyncOptions{MaxInstants: 1, Sink: cfg}); err != nil {
			t.Fatal(err)
		}
	}
	before := foreign(t, start)

	whole := start.Clone()
	count := fault.New(whole, fault.Config{})
	if _, err := indexer.Sync(t.Context(), mdt.Inside(count), indexer.SyncOptions{Sink: cfg}); err != nil {
		t.Fatal(err)
	}
	want := outcomeOf(t, mdt.Inside(whole))
	n := count.Calls()
	if n < 50 {
		t.Fatalf("a sync of %d calls: the test shows nothing", n)
	}
	kills := 0
	for call := 1; call <= n; call++ {
		if testkit.Thinned(call, 16) {
			continue
		}
		for _, after := range []bool{false, true} {
			kills++
			st := start.Clone()
			broken := fault.New(st, fault.Config{StopAt: call, StopAfter: after})
			if _, err := indexer.Sync(t.Context(), mdt.Inside(broken), indexer.SyncOptions{Sink: cfg}); err == nil && call < n {
				t.Fatalf("call %d of %d: killed, yet no error", call, n)
			}
			if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: cfg}); err != nil {
				t.Fatalf("call %d, after effect %v (%s): sync afterwards: %v", call, after, last(broken.Trace()), err)
			}
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
				t.Fatalf("call %d, after effect %v (%s): (-whole +killed)\n%s", call, after, last(broken.Trace()), d)
			}
			if o := orphans(t, st); len(o) > 0 {
				t.Fatalf("call %d, after effect %v: orphans %v", call, after, o)
			}
			now := foreign(t, st)
			for f, tag := range before {
				if now[f] != tag {
					t.Fatalf("call %d: foreign file %s changed", call, f)
				}
			}
			for f := range now {
				if _, ok := before[f]; !ok && path.Ext(f) != ".deltacommit" {
					t.Fatalf("call %d: new file %s outside our folders", call, f)
				}
			}
		}
	}
	t.Logf("a sync of %d calls: %d kills", n, kills)
}

// broad answers several calls at once, as a store behind a network does.
type broad struct{ storage.Store }

func (broad) Broad() bool { return true }

// TestKilledSyncAtOnce is TestKilledSync where the calls of a step are made at once, over a history of commits: which call is the n-th depends on
// chance, and whatever is left is taken up as after a kill in order. In the fast set every fifth call, before or after its effect.
func TestKilledSyncAtOnce(t *testing.T) {
	t.Parallel()
	start := store(t, "cow_basic")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))},
		map[string]string{"vector.num_clusters": "3"})
	opt := indexer.SyncOptions{Sink: dead(), MaxInstants: 1, FoldEvery: 2}
	opt.Sink.Evidence = 1
	commits, folds := 0, 0
	follow := func(st storage.Store) error { // in commits of ours, and a fold between them
		for {
			r, err := indexer.Sync(t.Context(), mdt.Inside(broad{st}), opt)
			if err != nil {
				return err
			}
			if commits, folds = commits+len(r.Commits), folds+len(r.Folds); r.Processed == 0 {
				return nil
			}
		}
	}
	before, whole := foreign(t, start), start.Clone()
	if err := follow(whole); err != nil || commits < 3 || folds == 0 {
		t.Fatalf("%d commits, %d folds, %v", commits, folds, err)
	}
	what := fmt.Sprintf("a history in %d commits and %d folds", commits, folds)
	want := outcomeOf(t, mdt.Inside(whole))
	kills, long := 0, os.Getenv("TIDEMARK_TEST_LONG") != ""
	for call, ended := 1, false; !ended; call++ {
		if testkit.Thinned(call, 80) || !long && call%5 != 0 {
			continue
		}
		for _, after := range []bool{false, true} {
			if !long && after == (call%2 == 0) {
				continue
			}
			st := start.Clone()
			broken := fault.New(st, fault.Config{StopAt: call, StopAfter: after})
			err := follow(broken)
			if ended = broken.Calls() < call; ended {
				break
			}
			kills++
			what := fmt.Sprintf("call %d, after effect %v", call, after)
			if err != nil && !errors.Is(err, fault.ErrKilled) {
				t.Fatalf("%s: %v", what, err)
			}
			if err := follow(st); err != nil {
				t.Fatalf("%s: sync afterwards: %v", what, err)
			}
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
				t.Fatalf("%s: (-whole +killed)\n%s", what, d)
			}
			if o := orphans(t, st); len(o) > 0 {
				t.Fatalf("%s: orphans %v", what, o)
			}
			now := foreign(t, st)
			for f, tag := range before {
				if now[f] != tag {
					t.Fatalf("%s: foreign file %s changed", what, f)
				}
			}
		}
	}
	t.Logf("%s, calls at once: %d kills", what, kills)
}

func last(trace []string) string {
	if len(trace) == 0 {
		return ""
	}
	return trace[len(trace)-1]
}
