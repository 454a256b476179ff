package search

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// Whatever is scored first, and however much is held for that, the candidates are the best of all postings by score.
func TestOrderOfScoringChangesNothing(t *testing.T) {
	t.Parallel()
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		w := newWorld(t, 2500, 10, m)
		for i := range 200 { // deltas and rows that are gone
			w.update(w.key(9*i), w.vector(w.key(9*i+4)))
		}
		for _, held := range []int64{0, 1, 700} {
			for _, limit := range []int{1, 10, 300, 5000} {
				e := w.engine(t, w.vector(w.key(37*limit%2500)), 10, 7)
				e.seedRows = held
				a := e.ask
				a.limit, a.probes = limit, 7
				if err := e.collect(t.Context(), []*ask{a}); err != nil {
					t.Fatal(err)
				}
				want, all := w.ranked(t, a), a.answer.Stats
				if !slices.Equal(keysOf(a.found), keysOf(want[:min(limit, len(want))])) || a.all != (len(want) <= limit) {
					t.Errorf("%s, %d of %d candidates, %d rows held: others than the best", m, limit, len(want), held)
				}
				if limit <= 10 && held == 0 && all.Pruned == 0 {
					t.Errorf("%s, %d candidates: nothing was pruned: %+v", m, limit, all)
				}
			}
		}
	}
}

func keysOf(all []candidate) (keys []string) {
	for _, c := range all {
		keys = append(keys, c.key)
	}
	slices.Sort(keys)
	return keys
}

// ranked scores every posting of the probed clusters, and sorts them.
func (w *world) ranked(t *testing.T, a *ask) []candidate {
	t.Helper()
	b := newBest(math.MaxInt32)
	for _, id := range a.order[:a.probes] {
		c, err := readCluster(t.Context(), w, 1, w.g.Shape(), id)
		if err != nil {
			t.Fatal(err)
		}
		q := a.rotated.Cluster(w.g.Rotated[id*dim : (id+1)*dim])
		for _, block := range c.blocks {
			for i := range block.factors {
				dot, optimistic := q.Pass1(block.signRow(i), &block.factors[i])
				estimate := q.Pass2(dot, block.exPlanes(i), rabitq.RowBytes(dim), w.g.Bits, &block.factors[i])
				if !block.isGone(i) {
					b.offer([]hit{{score: max(estimate, optimistic), estimate: estimate, block: block, row: int32(i)}})
				}
			}
		}
	}
	slices.SortFunc(b.worst, func(x, y hit) int {
		if y.worse(&x) {
			return -1
		}
		return 1
	})
	var out []candidate
	for _, h := range b.worst {
		out = append(out, candidate{key: string(h.key())})
	}
	return out
}

func TestSpread(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, special := range [][]float64{nil, {math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64}, {5, 5, 5}} {
		var all []float64
		s := &spread{}
		for range 5 {
			part := slices.Clone(special)
			for range 300 {
				part = append(part, r.NormFloat64())
			}
			all = append(all, part...)
			s.add(part)
		}
		for _, n := range []int{1, 10, 700, 1499, len(all), len(all) + 1} {
			limit, below := s.nth(n), 0
			for _, x := range all {
				if !(x > limit) {
					below++
				}
			}
			if below < min(n, len(all)) {
				t.Errorf("%d of %d numbers do not exceed %v, want %d", below, len(all), limit, n)
			}
			if special == nil && n < 1000 && below > n+20 {
				t.Errorf("%d numbers do not exceed %v, want about %d", below, limit, n)
			}
		}
	}
	for _, same := range [][]float64{nil, {1}, {1, 1, 1, 1}} {
		s := &spread{}
		s.add(same)
		if got := s.nth(2); !math.IsInf(got, 1) {
			t.Errorf("%v: %v", same, got)
		}
	}
}

// A delta has the estimate of the same posting in a block, and is of the same row.
func TestDeltasHaveTheEstimatesOfBlocks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, dim := range []int{1, 7, 64, 100} {
		rot := rabitq.NewRotation(dim, 1)
		for bits := 1; bits <= 8; bits++ {
			shape := delta.BlockShape{Dim: dim, Bits: bits, VectorNorm: true}
			encoder, centre := rabitq.NewEncoder(rot, bits), make([]float32, dim)
			var rows []delta.Posting
			var d deltas
			var factors []rabitq.Factors
			for i := range 5 {
				v := make([]float32, dim)
				for j := range v {
					v[j] = float32(r.NormFloat64())
				}
				p := delta.Posting{RecordKey: string(rune('a' + i)), Locator: delta.Locator{Position: int64(i)}, Code: encoder.Encode(v, centre)}
				rows = append(rows, p)
				x := delta.NewPosting(p.RecordKey, p.Locator, p.Code)
				d.add(shape, p.RecordKey, x)
				factors = append(factors, x.Factors())
			}
			packed, err := delta.NewBlock(shape, rows)
			if err != nil {
				t.Fatal(err)
			}
			view, err := delta.NewBlockView(packed, shape)
			if err != nil {
				t.Fatal(err)
			}
			a, b := &block{view: view}, &block{deltas: d}
			for i := range rows {
				if !bytes.Equal(a.signRow(i), b.signRow(i)) || !bytes.Equal(a.exPlanes(i), b.exPlanes(i)) || view.Factors(i) != factors[i] ||
					!bytes.Equal(a.key(i), b.key(i)) || a.locator(i) != b.locator(i) {
					t.Errorf("%d dimensions, %d bits, row %d: a delta differs from a packed row", dim, bits, i)
				}
			}
		}
	}
}
