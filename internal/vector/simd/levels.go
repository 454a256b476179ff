package simd

// Levels scores the 64 factors of a grid for components a ≥ 0, at least one of them, which is l = min(top, ⌊f·a + 1e−5⌋)
// levels each: num is Σ (l+½)·a, ascending, every product rounded before it is added, and den is Σ (l+½)², which is exact.
// It may be called only if Fast; the literal loop of package rabitq is its portable form.
func Levels(num, den, grid *[64]float64, a []float64, top float64) {
	levelsAVX2(num, den, grid, &a[0], len(a), top)
}
