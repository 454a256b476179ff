package search

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/vector/kernel"
)

func storedRaw(v ...float32) []byte {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

// overRows scans rows from memory; scans counts how often.
func overRows(t *testing.T, rows []table.Row, k int, scans *int) ([]Result, *Stats) {
	t.Helper()
	column := avrox.Vector{Column: "v", Dim: 1, Element: avrox.ElementFloat}
	q, err := newQuery(kernel.L2, column, []float64{0})
	if err != nil {
		t.Fatal(err)
	}
	a := &ask{query: q, answer: &Answer{}}
	completion := func(requested string) string { return map[string]string{"1": "5", "2": "4", "3": "5"}[requested] }
	b := &bruteForce{asks: []*ask{a}, column: column, columns: []string{"n"}, k: k,
		scan: func(_ context.Context, _ table.Columns, fn found) error {
			*scans++
			for n, r := range rows {
				if err := fn(r, table.WrittenAt(completion, table.Group{Partition: r.Partition}, "", r.CommitTime, int64(n))); err != nil {
					return err
				}
			}
			return nil
		}}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a.answer.Results, &a.answer.Stats
}

func TestBruteForceRanksEveryRow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	rows := []table.Row{
		{Key: "null", Vectors: [][]byte{nil}, Others: []any{0}},
		{Key: "nan", Vectors: [][]byte{storedRaw(float32(math.NaN()))}, Others: []any{0}},
	}
	var want []Result
	for i := range 5000 { // more than the room for rows that wait to be sorted
		x := float32(r.IntN(800)) // many equal distances
		key := fmt.Sprintf("k%04d", i)
		rows = append(rows, table.Row{Key: key, Partition: "p", Vectors: [][]byte{storedRaw(x)}, Others: []any{i}})
		want = append(want, Result{Key: key, Partition: "p", Distance: float64(x) * float64(x)})
	}
	sortResults(want)
	for _, k := range []int{1, 10, 700, 6000} {
		scans := 0
		got, stats := overRows(t, rows, k, &scans)
		same(t, got, want[:min(k, len(want))])
		if scans != 1 || stats.RowsRead != 5002 {
			t.Errorf("k %d: %d scans of %d rows", k, scans, stats.RowsRead)
		}
		if n := got[0].Row["n"].(int); rows[n+2].Key != got[0].Key {
			t.Errorf("k %d: row %v of %s", k, n, got[0].Key)
		}
	}
}

func TestBruteForceTakesTheLastCopyOfAKey(t *testing.T) {
	t.Parallel()
	row := func(key, commit string, x float32) table.Row {
		return table.Row{Key: key, CommitTime: commit, Vectors: [][]byte{storedRaw(x)}}
	}
	for _, c := range []struct {
		name string
		rows []table.Row
		want []float64
	}{
		{"later completion", []table.Row{row("a", "1", 3), row("b", "1", 2), row("a", "2", 1)}, []float64{4, 9}},
		{"later request of one completion", []table.Row{row("a", "3", 3), row("a", "1", 1)}, []float64{9}},
		{"unknown completion is older", []table.Row{row("a", "0", 3), row("a", "2", 1)}, []float64{1}},
		{"same commit: the later row", []table.Row{row("a", "1", 3), row("a", "1", 1)}, []float64{1}},
		{"the last copy has no vector", []table.Row{row("a", "2", 3), {Key: "a", CommitTime: "1", Vectors: [][]byte{nil}}}, nil},
		{"three copies", []table.Row{row("a", "2", 3), row("a", "1", 1), row("a", "0", 2)}, []float64{1}},
	} {
		scans := 0
		got, _ := overRows(t, c.rows, 10, &scans)
		var distances []float64
		for _, r := range got {
			distances = append(distances, r.Distance)
		}
		if !slices.Equal(distances, c.want) || scans != 3 {
			t.Errorf("%s: got %v in %d scans, want %v", c.name, distances, scans, c.want)
		}
	}
}

func TestRowValuesFitJSON(t *testing.T) {
	t.Parallel()
	row := rowOf([]string{"a", "b", "c", "d", "e"}, []any{math.NaN(), math.Inf(1), float32(math.Inf(-1)), 1.5, "x"})
	want := map[string]any{"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 1.5, "e": "x"}
	for k, v := range want {
		if row[k] != v {
			t.Errorf("%s: got %v, want %v", k, row[k], v)
		}
	}
	if rowOf(nil, []any{1}) != nil {
		t.Error("no columns were asked for")
	}
}
