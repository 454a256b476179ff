package indexer_test

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
)

// ledgerSync covers at most n commits, 32 of which keep their evidence in the state.
func ledgerSync(t *testing.T, p mdt.Place, n int) *indexer.SyncResult {
	t.Helper()
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: n, Sink: sink.Config{Evidence: 32}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// However many commits are covered, the state stays small; markers lists all of them, and a certificate of them is accepted. One from
// before their evidence moved: TestFoldChangesNoAnswer.
func TestStateStaysSmall(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	const n = 300
	st := absence(t, n)
	p := mdt.Inside(st)
	var sizes []int
	var made [][]byte
	var covered, commits []string
	for done := 1; done > 0; {
		r := ledgerSync(t, p, 20)
		done = r.Processed
		commits = append(commits, r.Commits...)
		b, _, err := st.ReadFile(t.Context(), p.StatePath())
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(b))
		if done < 20 { // until then the archive, which nothing witnesses, is not yet compared with the whole table
			_, b := certificate(t, p)
			made = append(made, b)
		}
	}
	t.Log("sizes of the state:", sizes)
	// Beside evidence, a commit is some 700 bytes: what readers need. A covered instant is 500.
	if grown := sizes[len(sizes)-1] - sizes[2]; grown > 1200*len(sizes) {
		t.Errorf("sizes of the state: %v", sizes)
	}
	all := markersOf(t, p)
	for _, m := range all {
		covered = append(covered, m.Completed)
		if m.LagMS == nil || m.Operation == "" || !slices.Contains(commits, m.MDTInstant) {
			t.Errorf("%+v", m)
		}
	}
	if len(all) != n+1 || !slices.IsSorted(covered) {
		t.Errorf("%d markers, %d commits", len(all), n+1)
	}
	for i, b := range made {
		if r := check(t, p, b); !r.OK {
			t.Errorf("certificate %d of %d: %q", i+1, len(made), r.Problems)
		}
	}
	if some, err := coverage.MarkersOf(t.Context(), coverage.Deps{Place: p}, commits[2:4]); err != nil || len(some) != 40 {
		t.Errorf("%d markers of two commits, %v", len(some), err)
	}
}

// What needs no evidence reads none of the ledger, and the newest markers only what holds them.
func TestLedgerIsReadLazily(t *testing.T) {
	t.Parallel()
	st := absence(t, 220)
	for ledgerSync(t, mdt.Inside(st), 20).Processed > 0 {
	}
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil || len(state.Ledger) < 2 {
		t.Fatalf("%d ledger files, %v", len(state.Ledger), err)
	}
	reads := func(ask func(p mdt.Place) error) int {
		t.Helper()
		layer := fault.New(st, fault.Config{})
		if err := ask(mdt.Inside(layer)); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, call := range layer.Trace() {
			if strings.Contains(call, "/ledger/") {
				n++
			}
		}
		return n
	}
	list := func(last int) func(p mdt.Place) error {
		return func(p mdt.Place) error {
			m, err := coverage.Markers(t.Context(), coverage.Deps{Place: p}, "", last)
			if err == nil && last > 0 && len(m) != last {
				t.Errorf("%d markers of %d", len(m), last)
			}
			return err
		}
	}
	newest := 0 // where the newest marker is: in the state, or in a ledger file if a fold has just emptied it
	if state.Evidence() == 0 {
		newest = 1
	}
	for _, c := range []struct {
		what string
		ask  func(p mdt.Place) error
		want int
	}{
		{"status", func(p mdt.Place) error { status(t, p); return nil }, 0},
		{"sync", func(p mdt.Place) error { ledgerSync(t, p, 1); return nil }, 0},
		{"the newest marker", list(1), newest},
		{"the newest markers beyond the state", list(state.Evidence() + 1), 1},
		{"all markers", list(0), len(state.Ledger)},
	} {
		if n := reads(c.ask); n != c.want {
			t.Errorf("%s: %d reads of the ledger, want %d", c.what, n, c.want)
		}
	}
}

// A damaged or missing ledger file is named by whatever reads evidence, and changes nothing of what is fresh.
func TestDamagedLedger(t *testing.T) {
	t.Parallel()
	st, p := oneByOne(t)
	_, cert := certificate(t, p)
	state, _, err := mdt.ReadState(t.Context(), p)
	if err != nil || len(state.Ledger) == 0 {
		t.Fatalf("%d ledger files, %v", len(state.Ledger), err)
	}
	file := p.LedgerPath(state.Ledger[0].Path)
	content, info, err := st.ReadFile(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(s *mem.Store){
		"flipped": func(s *mem.Store) {
			b := bytes.Clone(content)
			b[len(b)/2] ^= 4
			s.Put(file, b, info.ModTime)
		},
		"cut":     func(s *mem.Store) { s.Put(file, content[:len(content)-1], info.ModTime) },
		"missing": func(s *mem.Store) { _ = s.Delete(t.Context(), file) },
	} {
		s := st.Clone()
		damage(s)
		p := mdt.Inside(s)
		if now := status(t, p); !now.Fresh {
			t.Errorf("%s: %+v", name, now)
		}
		d := coverage.Deps{Place: p}
		_, markers := coverage.Markers(t.Context(), d, "", 0)
		_, prove := coverage.Prove(t.Context(), d, "")
		r, err := coverage.Verify(t.Context(), d, coverage.VerifyRequest{}) // goes on with the postings
		if err != nil || r.OK || r.Checked == 0 || len(r.Damaged) != 1 || !strings.Contains(r.Damaged[0], path.Base(file)) || !strings.Contains(r.Damaged[0], "; next: ") || r.Empty() {
			t.Errorf("%s: verify: %+v, %v", name, r, err)
		}
		done, err := indexer.Reconcile(t.Context(), p, indexer.ReconcileOptions{}) // it cannot be corrected, and is told
		if err != nil || len(done) != 1 || done[0].OK || len(done[0].Damaged) != 1 || !strings.Contains(done[0].Damaged[0], path.Base(file)) {
			t.Errorf("%s: reconcile: %+v, %v", name, done, err)
		}
		_, earlier := coverage.Verify(t.Context(), d, coverage.VerifyRequest{At: status(t, p).Latest.Requested})
		for what, err := range map[string]error{"markers": markers, "prove": prove, "verify at": earlier} {
			if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), path.Base(file)) || storage.Hint(err) == "" {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if r := check(t, p, cert); r.OK || !strings.Contains(strings.Join(r.Problems, " "), path.Base(file)) {
			t.Errorf("%s: check: %+v", name, r)
		}
		if _, err := coverage.Markers(t.Context(), d, "", 1); err != nil {
			t.Errorf("%s: the newest marker: %v", name, err)
		}
	}
}

// oneByOne is an index of cow_basic that followed each commit in one of its own, with all evidence but the newest in the ledger.
func oneByOne(t *testing.T) (*mem.Store, mdt.Place) {
	t.Helper()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
	for n := 1; n > 0; {
		r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 1, Sink: sink.Config{Evidence: 1}})
		if err != nil {
			t.Fatal(err)
		}
		n = r.Processed
	}
	return st, p
}

// An index is compared as of commits whose evidence is in the ledger.
func TestVerifyAtByTheLedger(t *testing.T) {
	t.Parallel()
	_, p := oneByOne(t)
	all := markersOf(t, p)
	if len(all) < 3 {
		t.Fatalf("%d markers", len(all))
	}
	for _, m := range all {
		r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{At: m.Requested})
		if err != nil || !r.OK || r.Snapshot != m.Requested {
			t.Errorf("at %s: %+v, %v", m.Requested, r, err)
		}
	}
}

// What a reconcile finds undone is no evidence any more, although the ledger is never written again.
func TestUndoneInTheLedger(t *testing.T) {
	t.Parallel()
	st, p := oneByOne(t)
	evidence := func() (out []string, files int) {
		state, _, err := mdt.ReadState(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		commits, err := mdt.Evidence(t.Context(), p, state, "embedding_idx")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commits {
			for _, i := range c.Covered {
				out = append(out, i.Requested)
			}
		}
		return out, len(state.Ledger)
	}
	before, files := evidence()
	gone := undo(t, st, 3)
	if !slices.Contains(before, gone[0]) || files == 0 {
		t.Fatalf("evidence of %v, undone %v", before, gone)
	}
	reconcile(t, p)
	after, now := evidence()
	for _, at := range gone {
		if slices.Contains(after, at) {
			t.Errorf("%s was undone and is still evidence", at)
		}
	}
	if now < files {
		t.Errorf("%d ledger files, %d before", now, files)
	}
	for _, m := range markersOf(t, p) {
		if slices.Contains(gone, m.Requested) {
			t.Errorf("marker of %s", m.Requested)
		}
	}
	certificate(t, p)
}
