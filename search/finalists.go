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

// wantedRow is a candidate of some queries.
type wantedRow struct {
	candidate
	asks []*ask
	read bool
}

// wantedRows are the candidates to be read, by file group and key.
type wantedRows map[table.Group]map[string]*wantedRow

func (w wantedRows) add(g table.Group, c candidate, a *ask) {
	if w[g] == nil {
		w[g] = map[string]*wantedRow{}
	}
	if old := w[g][c.key]; old != nil {
		old.asks = append(old.asks, a)
		return
	}
	w[g][c.key] = &wantedRow{candidate: c, asks: []*ask{a}}
}

func compareGroups(a, b table.Group) int {
	return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.FileID, b.FileID))
}

// fetch reads each wanted row once, several file groups at a time, and counts what is not there. group is called for each file
// group by its own goroutine; row is called for its rows, and what it returns is called when all of them were read, one at a time.
func (e *engine) fetch(ctx context.Context, wanted wantedRows, group func() (row func(*wantedRow, table.Row), done func())) error {
	groups := slices.SortedFunc(maps.Keys(wanted), compareGroups)
	var mu sync.Mutex // guards the answers
	return e.each(ctx, len(groups), func(ctx context.Context, i int) error {
		of := wanted[groups[i]]
		list := make([]candidate, 0, len(of))
		for _, key := range slices.Sorted(maps.Keys(of)) {
			list = append(list, of[key].candidate)
		}
		row, done := group()
		mismatched, err := e.rows.fetch(ctx, groups[i], list, func(r table.Row) error {
			w := of[r.Key]
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
			for _, a := range of[key].asks {
				a.answer.Stats.FetchKeyMismatch++
			}
		}
		for _, w := range of {
			if !w.read {
				for _, a := range w.asks {
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
	return e.fetch(ctx, wanted, func() (func(*wantedRow, table.Row), func()) {
		v := newStored(e.generation.Metric, e.column)
		var all []ranked
		return func(w *wantedRow, row table.Row) {
				x := ranked{wantedRow: w, inLog: row.Position < 0}
				if v.set(row.Vectors[0]) {
					x.row = Result{Key: row.Key, Partition: row.Partition, Row: rowOf(e.columns, row.Others)}
					x.distances = make([]float64, len(w.asks))
					for i, a := range w.asks {
						x.distances[i] = a.query.distance(v)
					}
				}
				all = append(all, x)
			}, func() {
				for _, x := range all {
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
	err := e.fetch(ctx, wanted, func() (func(*wantedRow, table.Row), func()) {
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
