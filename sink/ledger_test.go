package sink

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
)

// evidenceOf lists all evidence of the index, of the state and its ledger, without ids.
func evidenceOf(t *testing.T, st storage.Store) string {
	t.Helper()
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	commits, err := mdt.Evidence(t.Context(), mdt.Inside(st), state, idx)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%d ledger files:", len(state.Ledger))
	for _, c := range commits {
		for _, i := range c.Covered {
			out += " " + i.Requested
		}
	}
	return out
}

// A process that is killed at any call of commits that move evidence loses none of it and leaves nothing behind.
func TestKillWhileEvidenceMoves(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	all := writes(t, table)
	due := all[len(all)-3:]
	c := newClock()
	table.SetClock(c.Now)
	cfg := func(owner string) Config {
		cfg := config(c, owner)
		cfg.Evidence = 1
		return cfg
	}
	start := table.Clone()
	if err := work(t.Context(), open(t, start, cfg("zero")), due[:2]); err != nil {
		t.Fatal(err)
	}
	ideal := start.Clone()
	if err := work(t.Context(), open(t, ideal, cfg("ideal")), due); err != nil {
		t.Fatal(err)
	}
	want, evidence := content(t, ideal), evidenceOf(t, ideal)
	if !strings.HasPrefix(evidence, "1 ledger files: "+due[0].Requested+" "+due[1].Requested+" "+due[2].Requested) {
		t.Fatal(evidence)
	}
	image := func(ctx context.Context, st *fault.Store) error { return work(ctx, open(t, st, cfg("first")), due) }
	forEachKill(t, start, true, image, func(t *testing.T, what string, left *mem.Store) {
		if err := work(t.Context(), open(t, left, cfg("second")), due); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := content(t, left); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
		if got := evidenceOf(t, left); got != evidence {
			t.Fatalf("%s: evidence %s, want %s", what, got, evidence)
		}
		checkTidy(t, table, left, what)
	})
}

// What a dropped index did goes with it, and its ledger files once no reader can need them.
func TestDropForgetsTheLedger(t *testing.T) {
	t.Parallel()
	st := table(t, "cow_basic")
	c := newClock()
	st.SetClock(c.Now)
	cfg := config(c, "one")
	cfg.Evidence = 1
	if err := work(t.Context(), open(t, st, cfg), writes(t, st)); err != nil {
		t.Fatal(err)
	}
	ledger := func() (out []string) {
		for _, p := range st.Paths() {
			if strings.Contains(p, "/ledger/") {
				out = append(out, p)
			}
		}
		return out
	}
	if len(ledger()) == 0 {
		t.Fatal("no ledger")
	}
	foreign := ".hoodie/.tidemark/ledger/notes.json"
	s := acquired(t, st, cfg)
	if err := s.Drop(t.Context(), idx); err != nil {
		t.Fatal(err)
	}
	n := len(ledger())
	if state := s.State(); len(state.Ledger) != 0 || len(state.Retired) < n {
		t.Errorf("%+v", state)
	}
	st.Put(foreign, []byte("x"), time.Time{})
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * time.Hour)
	if err := acquired(t, st, cfg).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := ledger(); len(left) != 1 || left[0] != foreign {
		t.Errorf("left behind: %v", left)
	}
}

// The sweep leaves ledger files that a later owner may have made, and files that are not ours.
func TestSweepOfTheLedger(t *testing.T) {
	t.Parallel()
	st := table(t, "cow_basic")
	c := newClock()
	cfg := config(c, "one")
	cfg.Evidence = 1
	if err := work(t.Context(), open(t, st, cfg), writes(t, st)); err != nil {
		t.Fatal(err)
	}
	before := evidenceOf(t, st)
	dir := ".hoodie/.tidemark/ledger/"
	for _, name := range []string{"1-1-aa.json", "1-99-aa.json", "notes.json"} {
		st.Put(dir+name, []byte("x"), time.Time{})
	}
	acquired(t, st, cfg)
	for name, want := range map[string]bool{"1-1-aa.json": false, "1-99-aa.json": true, "notes.json": true} {
		if _, err := st.Stat(t.Context(), dir+name); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
	if after := evidenceOf(t, st); after != before {
		t.Errorf("%s, before %s", after, before)
	}
}
