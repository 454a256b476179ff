package simd

// Name is the form in use, in one word: avx512, avx2 or portable.
func Name() string {
	switch {
	case wide:
		return "avx512"
	case fast:
		return "avx2"
	}
	return "portable"
}

// Fast reports whether the assembly is in use. What has no loop in Go beside it may be called only then: Tile, Low, Least, Norm and Scores,
// Residual, Portions, Quantize and Levels, Planes.
func Fast() bool { return fast }
