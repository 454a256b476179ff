package sink

import (
	"maps"
	"strings"
	"testing"

	"tidemark/internal/storage/fault"
)

// What a commit of one log file asks of the store, whatever the number of commits before it. docs/performance.md says what for.
func TestRequestsOfACommit(t *testing.T) {
	t.Parallel()
	st := fault.New(table(t, "cow_basic"), fault.Config{})
	s := acquired(t, st, config(newClock(), "one"))
	for _, b := range []Batch{bootstrap(idx), activate(idx)} {
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 7 {
		b := cover(n, 1)
		b.Seen = sight(t, s)
		before := len(st.Trace())
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		got, calls := map[string]int{}, st.Trace()[before:]
		for _, call := range calls {
			op, _, _ := strings.Cut(call, " ")
			got[op]++
		}
		if want := map[string]int{"replace": 3, "create": 2, "read": 2, "list": 4, "stat": 4}; n > 0 && !maps.Equal(got, want) {
			t.Errorf("commit %d: %v, want %v:\n%s", n, got, want, strings.Join(calls, "\n"))
		}
	}
}
