package search

import (
	"errors"
	"fmt"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

func TestRequestsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	good := Request{Key: "a", K: 10}
	for _, c := range []struct {
		name   string
		change func(*Request)
		ok     bool
	}{
		{"good", func(*Request) {}, true},
		{"a vector", func(r *Request) { r.Key, r.Vector = "", []float64{1} }, true},
		{"everything set", func(r *Request) { r.Mode, r.Policy, r.NProbes = Approximate, Warn, 3 }, true},
		{"no k", func(r *Request) { r.K = 0 }, false},
		{"negative k", func(r *Request) { r.K = -1 }, false},
		{"k beyond memory", func(r *Request) { r.K = 1 << 40 }, false},
		{"key and vector", func(r *Request) { r.Vector = []float64{1} }, false},
		{"neither", func(r *Request) { r.Key = "" }, false},
		{"negative nprobes", func(r *Request) { r.NProbes = -1 }, false},
		{"unknown mode", func(r *Request) { r.Mode = "magic" }, false},
		{"unknown policy", func(r *Request) { r.Policy = "SHRUG" }, false},
	} {
		r := good
		c.change(&r)
		err := r.check()
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, ErrUsage) || storage.Hint(err) == "") {
			t.Errorf("%s: got %v, hint %q", c.name, err, storage.Hint(err))
		}
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	index := func(names ...string) *mdt.State {
		st := mdt.NewState()
		for _, n := range names {
			st.Indexes[n] = &mdt.Index{Name: n}
		}
		return st
	}
	dropped := index("a", "b")
	dropped.Indexes["b"].Dropped = true
	for _, c := range []struct {
		name, ask, want string
		st              *mdt.State
		kind            error
	}{
		{"the only one", "", "a", index("a"), nil},
		{"by name", "b", "b", index("a", "b"), nil},
		{"the one that is left", "", "a", dropped, nil},
		{"none", "", "", index(), storage.ErrNotFound},
		{"two", "", "", index("a", "b"), ErrUsage},
		{"unknown", "x", "", index("a"), storage.ErrNotFound},
		{"dropped", "b", "", dropped, storage.ErrNotFound},
	} {
		got, err := pick(c.st, c.ask)
		if c.kind != nil && !errors.Is(err, c.kind) || c.kind == nil && (err != nil || got.Name != c.want) {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
		if err != nil && storage.Hint(err) == "" {
			t.Errorf("%s: no hint", c.name)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	fresh, stale := Freshness{Fresh: true}, Freshness{Reason: "catching up"}
	ready := situation{fresh: fresh, active: true, recordIndex: true}
	behind := situation{fresh: stale, active: true, recordIndex: true}
	damaged := situation{fresh: stale, active: true, recordIndex: true, remedy: "build it anew",
		broken: &indexError{err: fmt.Errorf("a file: %w", storage.ErrCorrupt)}}
	short := situation{fresh: fresh, active: true, recordIndex: true, uncoded: "too short"}
	for _, c := range []struct {
		name   string
		mode   Mode
		policy Policy
		s      situation
		want   Mode
		kind   error
	}{
		{"fresh", ExactRerank, Fail, ready, ExactRerank, nil},
		{"fresh, approximate", Approximate, Fail, ready, Approximate, nil},
		{"stale, FAIL", ExactRerank, Fail, behind, "", storage.ErrStale},
		{"stale, WARN", ExactRerank, Warn, behind, ExactRerank, nil},
		{"stale, WARN, approximate", Approximate, Warn, behind, Approximate, nil},
		{"stale, FALLBACK", Approximate, Fallback, behind, BruteForce, nil},
		{"stale, brute force", BruteForce, Fail, behind, BruteForce, nil},
		{"no record index", ExactRerank, Fail, situation{fresh: fresh, active: true}, BruteForce, nil},
		{"no record index, approximate", Approximate, Fail, situation{fresh: fresh, active: true}, "", storage.ErrRefused},
		{"no record index, approximate, WARN", Approximate, Warn, situation{fresh: fresh, active: true}, "", storage.ErrRefused},
		{"no record index, approximate, FALLBACK", Approximate, Fallback, situation{fresh: fresh, active: true}, BruteForce, nil},
		{"damaged", ExactRerank, Fail, damaged, "", storage.ErrCorrupt},
		{"damaged, WARN", ExactRerank, Warn, damaged, "", storage.ErrCorrupt},
		{"damaged, FALLBACK", Approximate, Fallback, damaged, BruteForce, nil},
		{"damaged, brute force", BruteForce, Fail, damaged, BruteForce, nil},
		{"short query", ExactRerank, Warn, short, "", ErrUsage},
		{"short query, FALLBACK", ExactRerank, Fallback, short, BruteForce, nil},
		{"short query, brute force", BruteForce, Fail, short, BruteForce, nil},
		{"no record index and stale", ExactRerank, Fail, situation{fresh: stale, active: true}, "", storage.ErrStale},
		{"no generation", ExactRerank, Warn, situation{fresh: fresh}, "", storage.ErrNotFound},
		{"no generation, FALLBACK", ExactRerank, Fallback, situation{}, BruteForce, nil},
		{"other column type", ExactRerank, Warn, situation{fresh: fresh, active: true, mismatch: "no"}, "", storage.ErrRefused},
		{"other column type, FALLBACK", ExactRerank, Fallback, situation{fresh: fresh, active: true, mismatch: "no"}, BruteForce, nil},
	} {
		got, why, err := decide(c.mode, c.policy, c.s)
		if got != c.want || !errors.Is(err, c.kind) {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
		if c.kind == nil && got != c.mode && why == "" {
			t.Errorf("%s: another mode without a reason", c.name)
		}
		if err != nil && storage.Hint(err) == "" {
			t.Errorf("%s: no hint", c.name)
		}
	}
}
