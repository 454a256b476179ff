//go:build !purego

package simd

import (
	"os"

	"golang.org/x/sys/cpu"
)

// fast and wide are set once and never change: the assembly for AVX2 and FMA, and above it the loops that have a form for AVX-512.
var (
	fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA && os.Getenv(variable) != "portable"
	wide = fast && cpu.X86.HasAVX512F && os.Getenv(variable) != "avx2"
)

// variable is the environment's way to ask for a simpler form than the CPU allows: portable or avx2.
const variable = "TIDEMARK_KERNELS"
