package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// FuzzBounds holds bounds of any number of rows, and what they are compared with, against one at a time.
func FuzzBounds(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		r := rand.New(rand.NewPCG(seed, 12))
		n := int(dim) % 200
		draw := func() []float32 {
			x := draw(r, n, int(kind))
			for i := range x {
				if r.IntN(8) == 0 {
					x[i] = []float32{0, 1e-9, 9e-10, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(7)]
				}
			}
			return x
		}
		rows := BoundRows{Rescale: draw(), Err: draw(), Add: draw(), Norm: draw()}
		number := func() float64 { // of 40, one each is large, 0, infinite or none: nearly all results are numbers
			switch x := r.NormFloat64(); r.IntN(40) {
			case 0:
				return x * 1e6
			case 1:
				return 0
			case 2:
				return math.Inf(1)
			case 3:
				return math.NaN()
			default:
				return x
			}
		}
		terms := BoundTerms{Most: number(), Step: number(), WNorm: number(), Base: number(), Length: number(), Least: 1e-9}
		sums := make([]uint16, n+1)[1:]
		for i := range sums {
			sums[i] = uint16(r.Uint32())
		}
		check := func(name string, bounds func(out []float64), want func(i int, rip float64) float64) {
			out := make([]float64, n+1)[1:]
			bounds(out)
			for i, got := range out {
				rip := float64(float64(rows.Rescale[i])*(terms.Most+float64(terms.Step*float64(sums[i])))) + float64(float64(rows.Err[i])*terms.WNorm)
				literal := math.Inf(-1)
				if rows.Rescale[i] >= 0 {
					literal = want(i, rip)
				}
				if !same64(got, literal) {
					t.Fatalf("%s, row %d of %d: got %v, want %v", name, i, n, got, literal)
				}
			}
			limit := number()
			if n > 0 && r.IntN(3) > 0 {
				limit = out[r.IntN(n)]
			}
			set := []uint64{1 << 63, 1, 2, 3, 4}
			Below(set, out, limit)
			for i := range 64 * ((n + 63) / 64) {
				if got, want := set[i/64]>>(i%64)&1 == 1, i < n && !(out[min(i, n-1)] > limit); got != want {
					t.Fatalf("%s, row %d of %d: bit %t, want %t", name, i, n, got, want)
				}
			}
		}
		check("squares", func(out []float64) { SquaresBounds(out, sums, rows, &terms) }, func(i int, rip float64) float64 {
			n := float64(rows.Norm[i])
			return terms.Base + float64(n*n) - float64(2*rip)
		})
		check("dots", func(out []float64) { DotsBounds(out, sums, rows, &terms) }, func(i int, rip float64) float64 {
			return -(terms.Base + float64(rows.Add[i]) + rip)
		})
		check("cosines", func(out []float64) { CosinesBounds(out, sums, rows, &terms) }, func(i int, rip float64) float64 {
			if n := float64(rows.Norm[i]); !(n < terms.Least) {
				return 1 - (terms.Base+float64(rows.Add[i])+rip)/float64(terms.Length*n)
			}
			return 1
		})
		rows.Norm = nil
		check("cosines without norms", func(out []float64) { CosinesBounds(out, sums, rows, &terms) }, func(i int, rip float64) float64 {
			return 1 - (terms.Base+float64(rows.Add[i])+rip)/terms.Length
		})
	})
}

// FuzzScores holds float32 scores of one row against float64, within the error that they may have.
func FuzzScores(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		d, n := sized(dim, count)
		if !fast || kind%5 > 1 { // others overflow
			return
		}
		r := rand.New(rand.NewPCG(seed, 13))
		n = (n + TileColumns - 1) / TileColumns * TileColumns
		x, panels, norms, scales, got := draw(r, d, int(kind)), draw(r, n*d, int(kind)), draw(r, n, int(kind)), draw(r, n, 0), make([]float32, n+1)[1:]
		Scores(got, x, panels, norms, scales)
		for c, score := range got {
			sum, all := float64(norms[c]), math.Abs(float64(norms[c]))
			for j, a := range x {
				p := float64(a) * float64(panels[(c/TileColumns*d+j)*TileColumns+c%TileColumns])
				sum, all = sum-p, all+math.Abs(p)
			}
			want, most := sum*float64(scales[c]), all*math.Abs(float64(scales[c]))*float64(d+2)*0x1p-24
			if !(math.Abs(float64(score)-want) <= most*1.001) {
				t.Fatalf("D=%d, column %d of %d: got %v, want %v within %v", d, c, n, score, want, most)
			}
		}
	})
}
