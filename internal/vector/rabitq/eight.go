package rabitq

import (
	"math"

	"tidemark/internal/vector/simd"
)

// eight is scratch.encode for eight vectors at a time: every sum of a code is made in a lane of its own, in the order of the plain loop, so that
// the bytes are the same. Only for the assembly.
type eight struct {
	bits, d           int
	choice            choice
	r, abs, rotated   []float32    // eight rows each: residuals, their magnitudes, rotated vectors
	products          []float32    // of the residual with the whole code
	centroids         [8][]float32 // rotated
	a                 []float64    // as in scratch
	zero, half, ones  []float32    // rows
	n2, rv2, add, ip1 [8]float64
	ipEx              [8]float64
}

func (e *Encoder) newEight() *eight {
	d := e.rotation.dim
	room := make([]float32, 35*d)
	next := func(rows int) (out []float32) {
		out, room = room[:rows*d:rows*d], room[rows*d:]
		return out
	}
	x := &eight{bits: e.bits, d: d, choice: e.choice, r: next(8), abs: next(8), rotated: next(8), products: next(8), zero: next(1), half: next(1), ones: next(1), a: make([]float64, d)}
	for i := range x.ones {
		x.half[i], x.ones[i] = 0.5, 1
	}
	for l := range x.centroids {
		x.centroids[l] = x.zero
	}
	return x
}

// row is row l of a part of the scratch.
func (x *eight) row(part []float32, l int) []float32 { return part[l*x.d : (l+1)*x.d] }

func (x *eight) encode(codes []Code, vectors, rotated []float32, centroid func(i int) []float32) {
	d := x.d
	same := func(part []float32) func(l int) []float32 {
		return func(l int) []float32 { return x.row(part, l) }
	}
	always := func(row []float32) func(int) []float32 { return func(int) []float32 { return row } }
	itself, whole, half, ones := same(x.r), same(x.rotated), always(x.half), always(x.ones)
	from := func(l int) []float32 { return x.centroids[l] }
	for first := 0; first < len(codes); first += 8 {
		some := codes[first:min(first+8, len(codes))] // rows beyond are left over from before, and not looked at
		copy(x.rotated, rotated[first*d:(first+len(some))*d])
		for l := range some {
			rc := centroid(first + l)
			if rc == nil {
				rc = x.zero
			}
			x.centroids[l] = rc
			simd.Residual(x.row(x.r, l), x.row(x.abs, l), some[l].Sign, x.row(x.rotated, l), rc)
		}
		simd.DotsWith(x.n2[:], x.r, d, itself)
		simd.DotsWith(x.rv2[:], x.rotated, d, whole)
		simd.DotsWith(x.add[:], x.r, d, from)
		simd.DotsWith(x.ip1[:], x.abs, d, half)
		var done [8]bool
		for l := range some {
			rn := float32(math.Sqrt(x.n2[l]))
			if done[l] = some[l].degenerate(rn, vectors[(first+l)*d:(first+l+1)*d]); !done[l] && x.bits > 1 {
				x.levels(some[l].Levels, l, rn)
			}
		}
		x.ipEx = x.ip1
		if x.bits > 1 {
			simd.DotsWith(x.ipEx[:], x.products, d, ones)
		}
		for l := range some {
			if !done[l] {
				some[l].F = sums{n2: x.n2[l], rv2: x.rv2[l], ip1: x.ip1[l], ipEx: x.ipEx[l], add: x.add[l]}.factors(x.bits, d)
			}
		}
	}
}

// levels is choice.levels for row l.
func (x *eight) levels(levels []byte, l int, rn float32) {
	abs, factor := x.row(x.abs, l), 1.0
	if largest := simd.Portions(x.a, abs, rn); largest > 1e-12 {
		factor = x.choice.best(x.a, largest)
	}
	simd.Quantize(levels, x.row(x.products, l), x.a, x.row(x.r, l), abs, factor, x.choice.top)
}
