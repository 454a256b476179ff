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
			for i := range block.factors.Len() {
				f := block.factors.At(i)
				dot, optimistic := q.Pass1(block.signRow(i), &f)
				estimate := q.Pass2(dot, block.exPlanes(i), rabitq.RowBytes(dim), w.g.Bits, &f)
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

// signRow and exPlanes are the rows of a posting.
func (b *block) signRow(i int) []byte {
	w := b.planes.RowBytes
	return b.planes.Signs[i*w : (i+1)*w]
}

func (b *block) exPlanes(i int) []byte {
	size := (b.planes.Bits - 1) * b.planes.RowBytes
	return b.planes.Rest[i*size : (i+1)*size]
}

func TestNth(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	s := &scanner{}
	for _, special := range [][]float64{nil, {math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64}, {5, 5, 5}} {
		var parts [][]float64
		var sorted []float64
		for range 5 {
			part := slices.Clone(special)
			for range 300 {
				part = append(part, r.NormFloat64())
			}
			parts = append(parts, part)
			for _, x := range part {
				if !math.IsNaN(x) {
					sorted = append(sorted, x)
				}
			}
		}
		slices.Sort(sorted)
		for _, n := range []int{1, 2, 10, 700, 1499, len(sorted), len(sorted) + 1} {
			want := math.Inf(1)
			if n <= len(sorted) {
				want = sorted[n-1]
			}
			if got := s.nth(parts, n); got != want {
				t.Errorf("number %d of %d: got %v, want %v", n, len(sorted), got, want)
			}
		}
	}
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, math.Inf(1)}, {[]float64{1}, math.Inf(1)}, {[]float64{1, 1, 1, 1}, 1}} {
		if got := s.nth([][]float64{c.of, nil}, 2); got != c.want {
			t.Errorf("%v: got %v, want %v", c.of, got, c.want)
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
			a, b := &block{view: view, planes: planes(shape, view.SignRows(), view.ExRows())}, &block{deltas: d, planes: planes(shape, d.signs, d.rest)}
			for i := range rows {
				if !bytes.Equal(a.signRow(i), b.signRow(i)) || !bytes.Equal(a.exPlanes(i), b.exPlanes(i)) || view.Factors(i) != factors[i] ||
					!bytes.Equal(a.key(i), b.key(i)) || a.locator(i) != b.locator(i) {
					t.Errorf("%d dimensions, %d bits, row %d: a delta differs from a packed row", dim, bits, i)
				}
			}
		}
	}
}
