// Package simd owns the inner loops of the vector engine in two forms: portable Go, and assembly that is generated for
// amd64 with AVX2 and FMA, three loops with AVX-512 too (tools/kernels). Which one runs is decided once, when the program starts:
// by the CPU, by the build tag purego, and by the environment, where TIDEMARK_KERNELS=portable, or avx2, asks for a simpler
// form than the CPU allows.
//
// It refuses to own what the numbers mean. It may import nothing of the project, and golang.org/x/sys/cpu to look at the
// CPU.
//
// Invariant: both forms give the same bits for every finite input, and numbers that are not finite in the same places.
// Only the scores of Tile and the sum of Norm may differ; they are hints whose error is bounded.
package simd
