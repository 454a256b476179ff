package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// maxK bounds the answer, which is held in memory.
const maxK = 1_000_000

// check refuses a request that no table could answer. Every error is ErrUsage.
func (r Request) check() error {
	switch {
	case r.K < 1 || r.K > maxK:
		return fmt.Errorf("k is %d, want 1 to %d: %w", r.K, maxK, ErrUsage)
	case r.Key != "" && r.Vector != nil:
		return fmt.Errorf("both a key and a vector are given: %w", ErrUsage)
	case r.Key == "" && r.Vector == nil:
		return fmt.Errorf("neither a key nor a vector is given: %w", ErrUsage)
	case r.NProbes < 0:
		return fmt.Errorf("nprobes is %d, want at least 1: %w", r.NProbes, ErrUsage)
	}
	if m := r.Mode; m != "" && m != ExactRerank && m != Approximate && m != BruteForce {
		return fmt.Errorf("mode %q is not one of %s, %s, %s: %w", m, ExactRerank, Approximate, BruteForce, ErrUsage)
	}
	if p := r.Policy; p != "" && p != Fail && p != Warn && p != Fallback {
		return fmt.Errorf("policy %q is not one of %s, %s, %s: %w", p, Fail, Warn, Fallback, ErrUsage)
	}
	return nil
}

// pick returns the index that is meant.
func pick(st *mdt.State, name string) (*mdt.Index, error) {
	var names []string
	for _, n := range slices.Sorted(maps.Keys(st.Indexes)) {
		if !st.Indexes[n].Dropped {
			names = append(names, n)
		}
	}
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	switch {
	case slices.Contains(names, name):
		return st.Indexes[name], nil
	case len(names) == 0:
		return nil, &storage.Error{Op: "find index", Path: name, Hint: "create one: tidemark index create", Err: storage.ErrNotFound}
	case name == "":
		return nil, fmt.Errorf("the table has indexes %s, say which with --index: %w", strings.Join(names, ", "), ErrUsage)
	}
	return nil, &storage.Error{Op: "find index", Path: name, Hint: "the table has " + strings.Join(names, ", "), Err: storage.ErrNotFound}
}

// situation is what the choice of the mode depends on.
type situation struct {
	fresh       Freshness
	active      bool   // the index has an active generation
	mismatch    string // why the generation is not one of the column as it is now; "" if it is
	recordIndex bool
}

// decide chooses what is really done, and says why if that is not what was asked for. Staleness comes first: where the
// policy is FAIL, an index that does not cover the snapshot refuses even a query that another reason would have sent to
// the table itself. A search by brute force never asks the index.
func decide(mode Mode, policy Policy, s situation) (Mode, string, error) {
	if mode == BruteForce {
		return mode, "", nil
	}
	unusable := func(why, hint string, kind error) (Mode, string, error) {
		if policy == Fallback {
			return BruteForce, why, nil
		}
		return "", "", &storage.Error{Op: "search index", Err: fmt.Errorf("%s: %w", why, kind), Hint: hint}
	}
	switch {
	case !s.active:
		return unusable("the index has no active generation", "finish it: tidemark index create", storage.ErrNotFound)
	case s.mismatch != "":
		return unusable(s.mismatch, "drop the index and create it again, or search with --mode brute_force", storage.ErrRefused)
	case !s.fresh.Fresh && policy == Fail:
		why := "the index does not cover the newest snapshot"
		if s.fresh.Reason != "" {
			why += " (" + s.fresh.Reason + ")"
		}
		return "", "", &storage.Error{Op: "search index", Err: fmt.Errorf("%s: %w", why, storage.ErrStale),
			Hint: "run tidemark sync, or search with --policy WARN or --policy FALLBACK"}
	case !s.fresh.Fresh && policy == Fallback:
		return BruteForce, "the index does not cover the newest snapshot", nil
	case !s.recordIndex && mode == Approximate:
		return "", "", &storage.Error{Op: "search index", Err: fmt.Errorf("the table has no record index, so an approximate answer could hold deleted rows: %w", storage.ErrRefused),
			Hint: "let the table's writer set hoodie.metadata.global.record.level.index.enable=true, or search with --mode exact_rerank"}
	case !s.recordIndex:
		return BruteForce, "the table has no record index", nil
	}
	return mode, "", nil
}
