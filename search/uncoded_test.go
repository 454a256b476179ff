package search

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"testing"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
)

// long is a vector that is too long for codes, in the direction of q or against it.
func long(q []float32, by float64) []float32 {
	v := make([]float32, len(q))
	for i, x := range q {
		v[i] = float32(math.Copysign(by, float64(x)*by))
	}
	return v
}

// pack adds a row in a block of its own.
func (w *world) pack(t *testing.T, key string, v []float32) {
	t.Helper()
	c, at := w.cluster(v), delta.Locator{Partition: "p0", FileID: "f", BaseInstant: "1", Position: 9999}
	kvs, err := delta.PackSegment(w.g.Shape(), 1, uint32(c), 1, 100, []delta.Posting{{RecordKey: key, Locator: at, Code: w.g.Encode(v, c)}})
	if err != nil {
		t.Fatal(err)
	}
	w.put(key, "p0", v)
	w.kvs = append(w.kvs, kvs...)
	slices.SortFunc(w.kvs, func(a, b delta.KV) int { return bytes.Compare(a.Key, b.Key) })
}

// Rows that are too long have codes that say nothing: their rows decide, and no answer has a distance that was made up.
func TestRowsWithoutAnEstimate(t *testing.T) {
	t.Parallel()
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		for _, by := range []float64{3e38} {
			w := newWorld(t, 1500, 4, m)
			q := w.vector("k0040")
			w.pack(t, "packed", long(q, by))
			w.update("k0007", long(q, by/2))
			w.update("k0009", long(q, -by))
			w.pack(t, "gone", long(q, by))
			delete(w.where, "gone")
			delete(w.rows, "gone")
			want := w.brute(q, 10, "")
			e := w.engine(t, q, 10, w.g.K)
			a := e.must(t)
			same(t, a.Results, want)
			if first := a.Results[0].Key; m == kernel.Dot && first != "packed" || !a.Complete || t.Failed() {
				t.Errorf("%s, %g: complete %v, %+v", m, by, a.Complete, a.Results)
			}

			for _, k := range []int{10, 1501} {
				e := w.engine(t, q, k, w.g.K)
				e.rerank = false
				if err := e.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := e.measure(t.Context(), []*ask{e.ask}); err != nil {
					t.Fatal(err)
				}
				all := e.ask.answer.Results
				all = all[:min(k, len(all))]
				met := 0
				for i, r := range all {
					if r.Key == "packed" || r.Key == "k0007" || r.Key == "k0009" {
						if want := w.distance(r.Key, q); r.Distance != want {
							t.Errorf("%s, %g, approximate: %s is at %v, want %v", m, by, r.Key, r.Distance, want)
						}
						met++
					}
					if i > 0 && all[i-1].Distance > r.Distance || math.IsInf(r.Distance, 0) || math.IsNaN(r.Distance) {
						t.Errorf("%s, %g, approximate: row %d is at %v", m, by, i, r.Distance)
					}
				}
				if len(all) != k || k > 1500 && met != 3 || m == kernel.Dot && all[0].Key != "packed" {
					t.Errorf("%s, %g, approximate: %d rows of %d, %d too long, first %v", m, by, len(all), k, met, all[0])
				}
			}
		}
	}
}

// However many there are, they take no candidate's place.
func TestRowsWithoutAnEstimateCrowdNothingOut(t *testing.T) {
	t.Parallel()
	for _, m := range []kernel.Metric{kernel.L2, kernel.Dot} {
		w := newWorld(t, 1500, 4, m)
		q := w.vector("k0040")
		for i := range 700 {
			w.update(w.key(2*i+1), long(q, -3e38))
		}
		want := w.brute(q, 10, "")
		same(t, w.engine(t, q, 10, w.g.K).must(t).Results, want)
		e := w.engine(t, q, 10, w.g.K)
		e.rerank = false
		if err := e.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.measure(t.Context(), []*ask{e.ask}); err != nil {
			t.Fatal(err)
		}
		for _, r := range e.ask.answer.Results[:10] {
			if w.vector(r.Key)[0] < -1e30 || w.vector(r.Key)[0] > 1e30 {
				t.Errorf("%s, approximate: %+v", m, r)
			}
		}
	}
}

// Factors that are no numbers, as other writers may store them, are of a row without an estimate.
func TestFactorsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		w := newWorld(t, 1500, 4, m)
		q := w.vector("k0040")
		best := slices.MinFunc(w.brute(q, 1, ""), func(a, b Result) int { return cmp.Compare(a.Distance, b.Distance) }).Key
		v := w.vector(best)
		c := w.cluster(v)
		code := w.g.Encode(v, c)
		nan := float32(math.NaN())
		code.F.FAdd1, code.F.FAddEx, code.F.FRescale1, code.F.FRescaleEx, code.F.ResidualNorm = nan, nan, nan, nan, nan
		at := delta.Locator{Partition: w.rows[best].Partition, FileID: "f", BaseInstant: "1", Position: -1}
		w.record(delta.PostingKey(1, uint32(c), 0, best), delta.NewPosting(best, at, code))
		same(t, w.engine(t, q, 10, w.g.K).must(t).Results, w.brute(q, 10, ""))
	}
}
