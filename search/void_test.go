package search

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
)

// packAll adds n rows of one vector, v0000000 and so on, in blocks of its cluster.
func (w *world) packAll(t *testing.T, n int, v []float32) {
	t.Helper()
	w.packIn(t, w.cluster(v), n, v)
}

func (w *world) packIn(t *testing.T, c, n int, v []float32) {
	t.Helper()
	code := w.g.Encode(v, c)
	rows := make([]delta.Posting, n)
	for i := range rows {
		key := fmt.Sprintf("v%07d", i)
		rows[i] = delta.Posting{RecordKey: key, Locator: delta.Locator{Partition: "p0", FileID: "f", BaseInstant: "1", Position: int64(100_000 + i)}, Code: code}
		w.put(key, "p0", v)
	}
	kvs, err := delta.PackSegment(w.g.Shape(), 1, uint32(c), 1, 1000, rows)
	if err != nil {
		t.Fatal(err)
	}
	w.kvs = append(w.kvs, kvs...)
	slices.SortFunc(w.kvs, func(a, b delta.KV) int { return bytes.Compare(a.Key, b.Key) })
}

// Where there are more rows without an estimate than are measured, the nearest may be among the others, and the answer says so once.
func TestMoreRowsWithoutAnEstimateThanAreMeasured(t *testing.T) {
	t.Parallel()
	for _, n := range []int{maxRerank, maxRerank + 1} {
		w := newWorld(t, 300, 2, kernel.Dot)
		q := w.vector("k0040")
		w.packAll(t, n, long(q, 2e38))
		last := fmt.Sprintf("v%07d", n-1)
		w.put(last, "p0", long(q, 3e38)) // nearer than all, and the one that is dropped
		want := ""
		if n > maxRerank {
			want = "10001 rows have no estimate, only 10000 of them were measured"
		}
		for _, rerank := range []bool{true, false} {
			e := w.engine(t, q, 10, w.g.K)
			e.rerank = rerank
			a := e.must(t)
			if !rerank {
				if err := e.measure(t.Context(), []*ask{e.ask}); err != nil {
					t.Fatal(err)
				}
			}
			if a.Complete != (want == "") || a.Reason != want || len(a.Results) < 10 {
				t.Errorf("%d rows, rerank %t: complete %t, %q, %d results", n, rerank, a.Complete, a.Reason, len(a.Results))
			}
			if rerank && (a.Results[0].Key == last) != a.Complete {
				t.Errorf("%d rows: %s is the first, complete %t", n, a.Results[0].Key, a.Complete)
			}
		}
	}
}

// A batch has no more candidates without an estimate than memory is meant for, but none of its queries less than of the others.
func TestRowsWithoutAnEstimateInABatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, limit, want int }{{1, 40, maxRerank}, {50, 40, maxRerank}, {5000, 40, 100}, {12_500, 40, 40}, {250, 2000, 2000}, {1, 50_000, 50_000}} {
		if got := voids(c.n, c.limit); got != c.want || c.n*got > max(candidatesAtOnce, c.n*c.limit) {
			t.Errorf("%d queries of %d candidates: got %d, want %d", c.n, c.limit, got, c.want)
		}
	}
	w := newWorld(t, 50, 1, kernel.Dot)
	q := w.vector("k0040")
	w.packAll(t, 150, long(q, 2e38))
	e := w.engine(t, q, 1, 1)
	e.rerank = false
	asks := make([]*ask, candidatesAtOnce/100)
	for i := range asks {
		asks[i] = &ask{query: e.ask.query, rotated: e.ask.rotated, answer: &Answer{}}
	}
	if err := e.engine.run(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	for i, a := range asks {
		if n := a.answer.Stats.Candidates; n > 110 || a.answer.Complete || a.answer.Reason != "150 rows have no estimate, only 100 of them were measured" {
			t.Fatalf("query %d: %d candidates, %+v", i, n, a.answer)
		}
	}
}

// What has no finite score has no estimate, whether the heap is full or not.
func TestScoresThatAreNotFinite(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		for _, h := range []hit{{score: x, estimate: 1}, {score: 1, estimate: x}} {
			b, s := newBest(3), &scanner{}
			b.void = newBest(3)
			if s.add(b, h); len(s.hits) != 0 || len(b.void.worst) != 1 || b.void.worst[0].estimate != math.Inf(-1) {
				t.Errorf("score %v, estimate %v: %+v, %+v", h.score, h.estimate, s.hits, b.void.worst)
			}
		}
	}
}

// Rows that are missing when they are measured matter only where less than K remain, and the reason says what is wrong with them.
func TestRowsThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		k        int
		spoil    func(w *world)
		complete bool
		reason   string
	}{
		"gone, K remain":          {10, func(w *world) { delete(w.rows, "v0000001") }, true, ""},
		"gone, too few remain":    {53, func(w *world) { delete(w.rows, "v0000001") }, false, "the record index names 1 rows that their file groups do not hold"},
		"unusable, K remain":      {10, unusable, true, ""},
		"unusable, no others are": {53, unusable, true, ""},
	} {
		w := newWorld(t, 50, 2, kernel.Dot)
		q := w.vector("k0040")
		w.packAll(t, 3, long(q, 2e38))
		c.spoil(w)
		e := w.engine(t, q, c.k, w.g.K)
		e.rerank = false
		if err := e.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.measure(t.Context(), []*ask{e.ask}); err != nil {
			t.Fatal(err)
		}
		a := e.ask.answer
		if a.Complete != c.complete || a.Reason != c.reason || len(a.Results) < min(c.k, 52) {
			t.Errorf("%s: complete %t, %q, %d results", name, a.Complete, a.Reason, len(a.Results))
		}
	}

	// Of the postings that were not looked at, some may be of rows that belong in the place of those.
	w := newWorld(t, 50, 2, kernel.Dot)
	q := w.vector("k0040")
	c := w.g.Probes(q, 1)[0]
	w.packIn(t, c, 3, long(q, 2e38))
	for i := range 3 {
		w.spoil(fmt.Sprintf("v%07d", i))
	}
	for key := range w.where {
		if key[0] == 'k' && w.cluster(w.vector(key)) == c {
			delete(w.where, key)
		}
	}
	e := w.engine(t, q, 1, 1)
	e.rerank = false
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.measure(t.Context(), []*ask{e.ask}); err != nil {
		t.Fatal(err)
	}
	if a := e.ask.answer; a.Complete || !strings.HasPrefix(a.Reason, "3 rows have no vector any more") || e.ask.probes != 1 {
		t.Errorf("complete %t, %q, %+v", a.Complete, a.Reason, a)
	}
}

func unusable(w *world) { w.spoil("v0000001") }

// spoil makes the vector of a row one that cannot be compared.
func (w *world) spoil(key string) {
	v := slices.Repeat([]float32{float32(math.NaN())}, dim)
	w.put(key, w.where[key].Partition, v)
}

// The deadline is told once, whichever of the steps it came in.
func TestDeadlineIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 50, 2, kernel.Dot)
	q := w.vector("k0040")
	w.packAll(t, 3, long(q, 2e38))
	e := w.engine(t, q, 10, w.g.K)
	e.rerank = false
	other := &ask{query: e.ask.query, rotated: e.ask.rotated, answer: &Answer{}}
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	asks := []*ask{e.ask, other}
	e.ask.done = false
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if !e.cutShort(ctx, asks) {
		t.Fatal("not cut short")
	}
	if err := e.measure(ctx, asks); err != nil {
		t.Fatal(err)
	}
	for i, a := range asks {
		if strings.Count(a.answer.Reason, "deadline") != 1 || a.answer.Complete {
			t.Errorf("query %d: complete %t, %q", i, a.answer.Complete, a.answer.Reason)
		}
	}
}
