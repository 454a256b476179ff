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

// Fast reports whether the assembly is in use. Tile, Low and Norm may be called only then.
func Fast() bool { return fast }
