package kernel

import (
	"math"

	"tidemark/internal/vector/simd"
)

// Scalar is a component type of exact distances.
type Scalar interface{ ~float32 | ~float64 }

// Distance64 is the exact distance that answers carry (design, section 5): squared Euclidean for L2, 1 − cos for
// Cosine, −dot for Dot; all in float64, components in ascending order. Two vectors of different length have distance
// NaN. The cosine distance to a zero vector is 1.
func Distance64[T Scalar](m Metric, a, b []T) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	switch m {
	case L2:
		sum := 0.0
		for i, x := range a {
			d := float64(x) - float64(b[i])
			sum += float64(d * d)
		}
		return sum
	case Dot:
		return -Dot64(a, b)
	}
	var dot, na, nb float64
	for i, x := range a {
		p, q := float64(x), float64(b[i])
		dot += float64(p * q)
		na += float64(p * p)
		nb += float64(q * q)
	}
	return cosineDistance(dot, math.Sqrt(na), math.Sqrt(nb))
}

// Distances64 sets dists[i] to Distance64 of row i and v: len(dists) rows of len(v) components, row-major. It takes less
// time than one call for each.
func Distances64(m Metric, dists []float64, rows, v []float32) {
	switch m {
	case L2:
		simd.SquaresTo(dists, rows, v)
		return
	case Dot:
		simd.DotsTo(dists, rows, v)
		for i, x := range dists {
			dists[i] = -x
		}
		return
	}
	d := len(v)
	norm := math.Sqrt(SquaredNorm64(v))
	norms := make([]float64, len(dists))
	simd.SquaresTo(norms, rows, make([]float32, d)) // the squares of differences from 0
	simd.DotsTo(dists, rows, v)
	for i, x := range dists {
		dists[i] = cosineDistance(x, math.Sqrt(norms[i]), norm)
	}
}

// Accumulate adds the components of x to sums, which has as many.
func Accumulate(sums []float64, x []float32) { simd.Accumulate(sums, x) }

// Dot64 is the dot product in float64, components in ascending order. a and b have the same length.
func Dot64[T Scalar](a, b []T) float64 {
	b = b[:len(a)]
	sum := 0.0
	for i, x := range a {
		sum += float64(float64(x) * float64(b[i]))
	}
	return sum
}

// SquaredNorm64 is Dot64(a, a).
func SquaredNorm64[T Scalar](a []T) float64 {
	sum := 0.0
	for _, x := range a {
		sum += float64(float64(x) * float64(x))
	}
	return sum
}

// cosineDistance divides by the product of the two roots, not by the root of the product: the last bits differ, and
// the stored routing depends on them.
func cosineDistance(dot, normA, normB float64) float64 {
	if normA == 0 || normB == 0 {
		return 1
	}
	return 1 - dot/float64(normA*normB)
}
