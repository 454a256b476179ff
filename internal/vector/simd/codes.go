package simd

import "math"

// Residual sets r = v − c, abs = |r|, and bit i mod 8 of signs[i/8] where r[i] > 0. All have len(v) places, signs one for each eight, begun or whole. It
// may be called only if Fast, as the other functions of this file; the literal code is in package rabitq.
func Residual(r, abs []float32, signs []byte, v, c []float32) {
	n := len(v)
	r, abs, c, signs = r[:n], abs[:n], c[:n], signs[:(n+7)/8]
	if n >= 8 {
		residualAVX2(&r[0], &abs[0], &signs[0], &v[0], &c[0], n/8)
	}
	for i := n &^ 7; i < n; i++ {
		x := v[i] - c[i]
		r[i], abs[i] = x, float32(math.Abs(float64(x)))
		if x > 0 {
			signs[i/8] |= 1 << (i % 8)
		}
	}
}

// Portions sets a = abs ÷ length, rounded to float32, and returns the greatest. No component is below 0 or NaN.
func Portions(a []float64, abs []float32, length float32) float64 {
	n, most := len(abs), float32(0)
	a = a[:n]
	if n >= 8 {
		most = portionsAVX2(&a[0], &abs[0], length, n/8)
	}
	for i := n &^ 7; i < n; i++ {
		x := abs[i] / length
		a[i] = float64(x)
		most = max(most, x)
	}
	return float64(most)
}

// Quantize sets l = min(top, ⌊factor·a + 1e−5⌋), products = abs·(l + ½), rounded to float32, and levels to l, or to top − l where r < 0.
// top is 2ⁿ − 1, at most 127.
func Quantize(levels []byte, products []float32, a []float64, r, abs []float32, factor, top float64) {
	n := len(a)
	levels, products, r, abs = levels[:n], products[:n], r[:n], abs[:n]
	if n >= 8 {
		quantizeAVX2(&levels[0], &products[0], &a[0], &r[0], &abs[0], factor, top, n/8)
	}
	for i := n &^ 7; i < n; i++ {
		l := min(top, math.Floor(float64(factor*a[i])+1e-5))
		products[i] = float32(abs[i] * (float32(l) + 0.5))
		levels[i] = byte(l)
		if r[i] < 0 {
			levels[i] = byte(top - l)
		}
	}
}
