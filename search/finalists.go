package search

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"tidemark/internal/hudi/table"
)

// wantedRow is what is known of a candidate of some queries.
type wantedRow struct {
	asks []*ask
	read bool
}

// wantedRows are the candidates to be read, by file group.
type wantedRows struct {
	groups map[table.Group]*wantedGroup
	last   *wantedGroup // that a row was added to
	of     table.Group
	alone  []*ask // the ask that a row was added for, for all that only this one wants
}

// wantedGroup is the candidates of one file group, each once.
type wantedGroup struct {
	candidates []candidate
	rows       []wantedRow
	at         map[string]int // by key
}

func (w *wantedRows) add(g table.Group, c candidate, a *ask) {
	if w.last == nil || w.of != g {
		if w.groups == nil {
			w.groups = map[table.Group]*wantedGroup{}
		}
		if w.groups[g] == nil {
			w.groups[g] = &wantedGroup{at: map[string]int{}}
		}
		w.last, w.of = w.groups[g], g
	}
	if i, ok := w.last.at[c.key]; ok {
		w.last.rows[i].asks = append(w.last.rows[i].asks, a)
		return
	}
	if len(w.alone) == 0 || w.alone[0] != a {
		w.alone = []*ask{a} // without room: who appends to it copies it
	}
	w.last.at[c.key] = len(w.last.rows)
	w.last.candidates, w.last.rows = append(w.last.candidates, c), append(w.last.rows, wantedRow{asks: w.alone})
}

func compareGroups(a, b table.Group) int {
	return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.FileID, b.FileID))
}

// fetch reads each wanted row once, several file groups at a time, and counts what is not there. group is called for each file
// group, with how many rows are wanted of it, by its own goroutine; row is called for its rows, whose vectors are valid during the call,
// and what group returns beside it is called when all of them were read, one at a time.
func (e *engine) fetch(ctx context.Context, wanted wantedRows, group func(n int) (row func(*wantedRow, table.Row), done func())) error {
	groups := slices.SortedFunc(maps.Keys(wanted.groups), compareGroups)
	var mu sync.Mutex // guards the answers
	return e.each(ctx, len(groups), func(ctx context.Context, i int) error {
		of := wanted.groups[groups[i]]
		row, done := group(len(of.rows))
		mismatched, err := e.rows.fetch(ctx, groups[i], of.candidates, func(r table.Row) error {
			w := &of.rows[of.at[r.Key]]
			w.read = true
			row(w, r)
			return nil
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, key := range mismatched {
			for _, a := range of.rows[of.at[key]].asks {
				a.answer.Stats.FetchKeyMismatch++
			}
		}
		for i := range of.rows {
			if !of.rows[i].read {
				for _, a := range of.rows[i].asks {
					a.answer.Stats.Unresolved++
				}
			}
		}
		done()
		return nil
	})
}

// rank fetches rows and adds them with their exact distances to the answers.
func (e *engine) rank(ctx context.Context, wanted wantedRows) error {
	type ranked struct {
		*wantedRow
		distances []float64 // one for each query; nil: the row cannot be in the index
		row       Result
		inLog     bool
	}
	return e.fetch(ctx, wanted, func(n int) (func(*wantedRow, table.Row), func()) {
		v := newStored(e.generation.Metric, e.column)
		all, distances := make([]ranked, 0, n), make([]float64, 0, n)
		return func(w *wantedRow, row table.Row) {
				x := ranked{wantedRow: w, inLog: row.Position < 0}
				if v.set(row.Vectors[0]) {
					x.row = Result{Key: row.Key, Partition: row.Partition, Row: rowOf(e.columns, row.Others)}
					from := len(distances)
					for _, a := range w.asks {
						distances = append(distances, a.query.distance(v))
					}
					x.distances = distances[from:]
				}
				all = append(all, x)
			}, func() {
				for i := range all {
					x := &all[i]
					for i, a := range x.asks {
						if x.inLog {
							a.answer.Stats.LogResidentFinalists++
						}
						if x.distances != nil {
							x.row.Distance = x.distances[i]
							a.answer.Results = append(a.answer.Results, x.row)
						}
					}
				}
			}
	})
}

// attach reads the columns asked for into approximate answers. A row that is not where the record index says is
// dropped, and the answer is not complete.
func (e *engine) attach(ctx context.Context, asks []*ask) error {
	wanted := wantedRows{}
	for _, a := range asks {
		for _, r := range a.answer.Results {
			c := a.places[r.Key]
			wanted.add(table.Group{Partition: c.locator.Partition, FileID: c.locator.FileID}, c, a)
		}
	}
	rows := map[string]map[string]any{}
	err := e.fetch(ctx, wanted, func(int) (func(*wantedRow, table.Row), func()) {
		of := map[string]map[string]any{}
		return func(w *wantedRow, row table.Row) { of[row.Key] = rowOf(e.columns, row.Others) }, func() { maps.Copy(rows, of) }
	})
	for _, a := range asks {
		all := len(a.answer.Results)
		a.answer.Results = slices.DeleteFunc(a.answer.Results, func(r Result) bool { return rows[r.Key] == nil })
		for i := range a.answer.Results {
			a.answer.Results[i].Row = rows[a.answer.Results[i].Key]
		}
		if missing := all - len(a.answer.Results); missing > 0 && err == nil {
			a.incomplete("the record index names %d rows that their file groups do not hold", missing)
		}
		a.done = len(a.answer.Results) == all
	}
	if err != nil && !e.cutShort(ctx, asks) {
		return err
	}
	return nil
}
