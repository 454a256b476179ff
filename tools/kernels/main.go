// Command kernels writes the assembly of internal/vector/simd. Run it by make generate.
//
// Rules that every function here keeps: only unaligned loads, no read beyond what its comment names, and no fused multiply-add that could change
// a result that the literal Go loop defines. There are two kinds of them. In matrix4, matrix8, matrix1 and levels it is exact: the products, of
// two float32 or squares of half-integers, fit float64, so that the one rounding of the fused step is that of the addition. The results of tile,
// tile512, scores and norms are hints with an error bound, and no answer has their bits.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	pairs("squaresAVX2", true)
	pairs("dotsAVX2", false)
	matrix4()
	matrix8()
	matrix1()
	widen()
	quad()
	tile()
	tile512()
	low()
	least()
	norms()
	scores()
	nibbles()
	interleave()
	bytes()
	planes()
	planes512()
	bounds("Squares")
	bounds("Dots")
	bounds("Cosines")
	below()
	touch()
	entries()
	levels()
	project()
	accumulate()
	residual()
	portions()
	quantize()
	Generate()
}
