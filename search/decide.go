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

// wrong returns an ErrUsage that says what is wrong with the query, and how to ask.
func wrong(hint, format string, args ...any) error {
	return &storage.Error{Op: "search", Hint: hint, Err: fmt.Errorf(format+": %w", append(args, ErrUsage)...)}
}

// check refuses a request that no table could answer. Every error is ErrUsage.
func (r Request) check() error {
	last := ""
	switch {
	case r.K < 1 || r.K > maxK:
		return wrong("ask for fewer rows, or leave k out", "k is %d, want 1 to %d", r.K, maxK)
	case r.Key != "" && r.Vector != nil:
		return wrong("give one of them", "both a key and a vector are given")
	case r.Key == "" && r.Vector == nil:
		return wrong("give the key of a row, or a vector", "neither a key nor a vector is given")
	case r.NProbes < 0:
		return wrong("leave nprobes out to use the index's option", "nprobes is %d, want at least 1", r.NProbes)
	}
	if m := r.Mode; m != "" && m != ExactRerank && m != Approximate && m != BruteForce {
		return wrong(fmt.Sprintf("use %s, %s or %s", ExactRerank, Approximate, BruteForce), "there is no mode %q", m)
	}
	for i, name := range slices.Sorted(slices.Values(r.Columns)) {
		if i > 0 && name == last {
			return wrong("name each column once", "column %q is wanted twice", name)
		}
		last = name
	}
	if p := r.Policy; p != "" && p != Fail && p != Warn && p != Fallback {
		return wrong(fmt.Sprintf("use %s, %s or %s", Fail, Warn, Fallback), "there is no policy %q", p)
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
		return nil, wrong("say which with --index NAME", "the table has the indexes %s", strings.Join(names, ", "))
	}
	return nil, &storage.Error{Op: "find index", Path: name, Hint: "the table has " + strings.Join(names, ", "), Err: storage.ErrNotFound}
}

// situation is what the choice of the mode depends on.
type situation struct {
	fresh       Freshness
	active      bool        // the index has an active generation
	broken      *indexError // why the index, or the record index, cannot be read; nil if nothing is known against it
	remedy      string      // what to do about broken
	mismatch    string      // why the generation is not one of the column as it is now; "" if it is
	recordIndex bool
	uncoded     string // why codes cannot be compared with the query vector (see query); "" if they can
}

// exact is the way out that does not need the index.
const exact = "search with --policy FALLBACK or --mode brute_force"

// decide chooses what is really done, and says why if that is not what was asked for. An index that cannot be used comes
// first: under Fallback the table answers, else the query is refused, under Warn too, since without the index there is no
// answer to warn about. Then staleness: where the policy is Fail, an index that does not cover the snapshot refuses even a
// query that a missing record index would have sent to the table itself. A search by brute force never asks the index.
func decide(mode Mode, policy Policy, s situation) (Mode, string, error) {
	if mode == BruteForce {
		return mode, "", nil
	}
	unusable := func(why, hint string, kind error) (Mode, string, error) {
		if policy == Fallback {
			return BruteForce, why, nil
		}
		if kind != s.broken { // which says itself what is wrong
			kind = fmt.Errorf("%s: %w", why, kind)
		}
		return "", "", &storage.Error{Op: "search index", Hint: hint, Err: kind}
	}
	switch {
	case !s.active:
		return unusable("the index has no active generation", "finish it: tidemark index create; until then "+exact, storage.ErrNotFound)
	case s.broken != nil:
		return unusable(s.broken.Error(), s.remedy, s.broken)
	case s.mismatch != "":
		return unusable(s.mismatch, "drop the index and create it again; until then "+exact, storage.ErrRefused)
	case !s.fresh.Fresh && policy == Fail:
		return "", "", &storage.Error{Op: "search index", Err: fmt.Errorf("%s: %w", s.fresh.why(), storage.ErrStale),
			Hint: "'tidemark status' says what to do; or search with --policy WARN or --policy FALLBACK"}
	case !s.fresh.Fresh && policy == Fallback:
		return BruteForce, s.fresh.why(), nil
	case !s.recordIndex && mode == Approximate:
		return unusable("the table has no record index, so an approximate answer could hold deleted rows",
			"let the table's writer set hoodie.metadata.global.record.level.index.enable=true, or search with --mode exact_rerank", storage.ErrRefused)
	case !s.recordIndex:
		return BruteForce, "the table has no record index", nil
	case s.uncoded != "":
		return unusable(s.uncoded,
			"search with --mode brute_force, which compares with every row", ErrUsage)
	}
	return mode, "", nil
}

// why says that the index is not fresh, and the reason if there is one.
func (f Freshness) why() string {
	why := "the index does not cover the newest snapshot"
	if f.unknown {
		why = "it is not known whether the index covers the newest snapshot"
	}
	if f.Reason != "" {
		why += " (" + f.Reason + ")"
	}
	return why
}
