package mdt

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

func evidenceOf(commit int, index string, instants ...string) Commit {
	c := Commit{ID: fmt.Sprint(commit), Completion: fmt.Sprint(commit + 1), Kind: "sync", VisibleAt: time.Unix(int64(commit), 0).UTC()}
	for _, i := range instants {
		c.Covered = append(c.Covered, CoveredInstant{Index: index, Requested: i, Completed: i + "5", Action: "commit", Mode: "full",
			Counts: map[string]int64{"insert": 1}, Reasons: map[string]int64{"null": 2}, Digest: "ab", Frontier: i + "5"})
	}
	return c
}

func TestLedgerSaysWhatItHolds(t *testing.T) {
	t.Parallel()
	p := Inside(mem.New("t"))
	commits := []Commit{evidenceOf(100, "a", "12", "10"), evidenceOf(102, "b", "14")}
	commits[0].Files = []DataFile{{Path: "x"}}
	l, b, err := NewLedger(commits, 3)
	if err != nil {
		t.Fatal(err)
	}
	if l.First != "105" || l.Last != "145" || l.Instants != 3 || l.Commit != "102" || strings.Join(l.Indexes, " ") != "a b" || l.Size != int64(len(b)) {
		t.Errorf("%+v", l)
	}
	if epoch, ok := LedgerEpoch(l.Path); !ok || epoch != 3 {
		t.Errorf("epoch %d, %v of %s", epoch, ok, l.Path)
	}
	for _, name := range []string{"", "ledger/", "ledger/1-2.json", "ledger/1-x-2.json", "x/1-2-3.json", "ledger/1-99999999999999999999-3.json"} {
		if _, ok := LedgerEpoch(name); ok {
			t.Errorf("%q is taken for a ledger file", name)
		}
	}
	if _, err := ReadLedger(t.Context(), p, l); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), l.Path) {
		t.Errorf("a missing one: %v", err)
	}
	put := func(b []byte) { p.Store.(*mem.Store).Put(p.LedgerPath(l.Path), b, time.Time{}) }
	put(b)
	got, err := ReadLedger(t.Context(), p, l)
	commits[0].Files = nil
	if d := cmp.Diff(commits, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for i := range b {
		damaged := append([]byte{}, b...)
		damaged[i] ^= 1 << (i % 8)
		put(damaged)
		if _, err := ReadLedger(t.Context(), p, l); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), l.Path) || storage.Hint(err) == "" {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	put(b[:len(b)-1])
	if _, err := ReadLedger(t.Context(), p, l); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("cut: %v", err)
	}
	other := []byte(`{"format": 2, "commits": []}`)
	newer, _, _ := NewLedger(commits, 3)
	newer.Path, newer.Size, newer.SHA256 = l.Path, int64(len(other)), fmt.Sprintf("%x", sha256.Sum256(other))
	put(other)
	if _, err := ReadLedger(t.Context(), p, newer); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("another format: %v", err)
	}
}

func TestEvidenceThatNoLongerCounts(t *testing.T) {
	t.Parallel()
	p := Inside(mem.New("t"))
	st := NewState()
	for n, commits := range [][]Commit{{evidenceOf(100, "a", "10", "12"), evidenceOf(101, "b", "10")}, {evidenceOf(104, "a", "20", "22")}} {
		l, b, err := NewLedger(commits, int64(n))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Store.Create(t.Context(), p.LedgerPath(l.Path), b); err != nil {
			t.Fatal(err)
		}
		st.Ledger = append(st.Ledger, l)
	}
	st.Commits = []Commit{evidenceOf(106, "a", "30"), {ID: "107"}}
	list := func(index string) string {
		commits, err := Evidence(t.Context(), p, st, index)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range commits {
			for _, i := range c.Covered {
				if i.Index == index {
					out = append(out, i.Requested)
				}
			}
		}
		return strings.Join(out, " ")
	}
	if got := list("a"); got != "10 12 20 22 30" || st.Evidence() != 1 {
		t.Errorf("%s, %d in the state", got, st.Evidence())
	}
	st.ForgetEvidence("a", []string{"22", "30"})
	st.ForgetEvidence("a", []string{"22"})
	if got := list("a"); got != "10 12 20" || len(st.Ledger[0].Undone) != 0 || len(st.Ledger[1].Undone["a"]) != 1 {
		t.Errorf("%s, %+v", got, st.Ledger)
	}
	st.ForgetEvidence("a", nil)
	if got := list("a"); got != "" || list("b") != "10" || len(st.Ledger) != 1 {
		t.Errorf("%s, %+v", got, st.Ledger)
	}
	st.ForgetEvidence("b", nil)
	if len(st.Ledger) != 0 {
		t.Errorf("%+v", st.Ledger)
	}
}

// A copy shares nothing that can be changed with the state that it is of.
func TestCloneIsDeep(t *testing.T) {
	t.Parallel()
	st := fullState()
	want, err := EncodeState(st)
	if err != nil {
		t.Fatal(err)
	}
	c := st.Clone()
	if d := cmp.Diff(st, c); d != "" {
		t.Error(d)
	}
	c.ForgetEvidence("v_idx", []string{"0", "3"})
	c.Indexes["v_idx"].Covered["3"], c.Indexes["v_idx"].Generations[0].State = "x", "x"
	c.Indexes["v_idx"].Baseline.Instants["x"], c.Indexes["v_idx"].Options["a"], c.Indexes["v_idx"].Building[0].Path = "x", "x", "x"
	c.Base[0].Path, c.Commits[0].Files[0].Path, c.Restores["5"], c.Degraded[0].Index = "x", "x", "x", "x"
	c.Ledger[0].Indexes[0], c.Ledger[0].Undone["v_idx"][0], c.Retired[0].Path, c.Burned[0] = "x", "x", "x", "x"
	c.Quarantine["x"], c.Skipped["x"] = Quarantine{}, Skip{}
	c.Intent.Commit[0], c.Intent.Files[0].Path, c.Intent.After.Revision, c.Intent.State = 9, "x", 9, "x"
	if got, err := EncodeState(st); err != nil || string(got) != string(want) {
		t.Errorf("the state changed with its copy: %s", cmp.Diff(string(want), string(got)))
	}
}
