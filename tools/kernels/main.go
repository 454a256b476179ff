// Command kernels writes the assembly of internal/vector/simd. Run it by make generate.
//
// Rules that every function here keeps: only unaligned loads, no read beyond what its comment names, no fused
// multiply-add except in tile and scores, whose results are only a hint.
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
