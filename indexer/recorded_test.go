package indexer_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// instant is a recorded write, and the index of the first step that has it.
type instant struct {
	requested, completed, action string
	step                         int
}

// recorded returns the steps of a table without what was undone later, and the writes of them in completion order.
func recorded(t *testing.T, steps []testkit.Step) ([]testkit.Step, []instant) {
	gone := map[string]bool{} // by a restore; what an archive took is gone from the active timeline only
	for _, s := range steps {
		for _, g := range s.Gone {
			var i struct{ Requested string }
			if err := json.Unmarshal(g, &i); err != nil {
				t.Fatal(err)
			}
			gone[i.Requested] = gone[i.Requested] || restores(s)
		}
	}
	var kept []testkit.Step
	var order []instant
	for _, s := range steps {
		undone := 0
		for _, i := range s.Instants {
			if gone[i.Requested] {
				undone++
			} else if write(i.Action) && !slices.ContainsFunc(order, func(o instant) bool { return o.requested == i.Requested }) {
				order = append(order, instant{i.Requested, i.Completion, i.Action, len(kept)})
			}
		}
		if undone == 0 {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(order, func(a, b instant) int { return strings.Compare(a.completed, b.completed) })
	return kept, order
}

func restores(s testkit.Step) bool {
	for _, i := range s.Instants {
		if i.Action == "restore" {
			return true
		}
	}
	return false
}

// rest compares what recorded rows say of the other classes when one instant lies between them: exactly for the moves of a commit that
// rewrites whole files, else within bounds, since rows tell neither where in its file one lies nor which file groups a service rewrote.
func rest(t *testing.T, when string, i instant, cow bool, got map[string]int64, before, after testkit.Step, good func(testkit.Row) bool, column string) {
	t.Helper()
	type group struct{ partition, file string }
	of := func(r testkit.Row) group {
		if r.FileID == nil {
			return group{partition: r.Partition}
		}
		return group{r.Partition, *r.FileID}
	}
	old, kept := map[string]testkit.Row{}, map[string]bool{}
	for _, r := range before.Rows {
		if _, twice := old[r.Key]; twice {
			return // of which copy a posting is, rows do not tell
		}
		old[r.Key] = r
	}
	written := map[group]bool{} // by the instant
	told := cow && i.action == "commit"
	for _, r := range after.Rows {
		kept[r.Key] = true
		told = told && r.FileID != nil && r.CommitTime != nil
		if told && *r.CommitTime == i.requested {
			written[of(r)] = true
			if o, there := old[r.Key]; there {
				written[of(o)] = true // without the row, if it moved
			}
		}
	}
	for _, r := range before.Rows {
		if !kept[r.Key] {
			written[of(r)] = true
		}
	}
	var moves, movesMost, bad, badMost int64
	for _, r := range after.Rows {
		o, there := old[r.Key]
		changed := !there || !bytes.Equal(o.Vector(column), r.Vector(column)) || (o.Vector(column) == nil) != (r.Vector(column) == nil)
		switch {
		case !good(r):
			badMost++
			if changed {
				bad++
			}
		case !changed:
			movesMost++
			if of(o) != of(r) || told && written[of(r)] {
				moves++
			}
		}
	}
	if told {
		movesMost = moves
	}
	if n := got["locator_refresh"]; n < moves || n > movesMost {
		t.Errorf("%s: %d moves, the rows say %d to %d", when, n, moves, movesMost)
	}
	if n := got["unindexable"]; n < bad || n > badMost {
		t.Errorf("%s: %d unindexable rows, the rows say %d to %d", when, n, bad, badMost)
	}
}
