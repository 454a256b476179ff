//go:build !amd64 || purego

package simd

const fast, wide = false, false

// The assembly of other builds; fast keeps them from being called.

func squaresAVX2(*[8]float64, *float32, int, *[8]*float32, int)   { panic("simd: no assembly") }
func dotsAVX2(*[8]float64, *float32, int, *[8]*float32, int)      { panic("simd: no assembly") }
func matrix4AVX2(_ *float32, _ int, _, _, _ *float64, _, _ int)   { panic("simd: no assembly") }
func matrix8AVX512(_ *float32, _ int, _, _, _ *float64, _, _ int) { panic("simd: no assembly") }
func widenAVX2(*float64, *float32, int, int)                      { panic("simd: no assembly") }
func quadAVX2(*float64, *float32, int, int)                       { panic("simd: no assembly") }
func leastAVX2(*[48]float32, *[6]float32)                         { panic("simd: no assembly") }
func matrix1AVX2(*[32]float32, *float32, int, *float64, int)      { panic("simd: no assembly") }
func tileAVX2(_ *float32, _ int, _, _, _ *float32, _, _ int, _ *float32, _ *[48]float32) {
	panic("simd: no assembly")
}
func tileAVX512(_ *float32, _ int, _, _, _ *float32, _, _ int, _ *float32, _ *[96]float32) {
	panic("simd: no assembly")
}
func lowAVX2(_ *float32, _, _ int, _ *float32, _ *uint64) int { panic("simd: no assembly") }
func normAVX2(*float32, int) float32                          { panic("simd: no assembly") }
func scoresAVX2(_, _, _, _, _ *float32, _, _ int)             { panic("simd: no assembly") }
func nibblesAVX2(*uint16, *byte, *byte, int, int, int)        { panic("simd: no assembly") }
func interleaveAVX2(_, _ *byte, _, _ int)                     { panic("simd: no assembly") }
func planesAVX2(*[4]float64, *[4]*byte, *float64, int)        { panic("simd: no assembly") }
func planesAVX512(*[2][4]float64, *[8]*byte, *float64, int)   { panic("simd: no assembly") }
func touchAVX2(*byte, int, *int32, int)                       { panic("simd: no assembly") }
func touchPairsAVX2(*[2]float32, *int32, int)                 { panic("simd: no assembly") }
func belowAVX2(*uint64, *float64, float64, int)               { panic("simd: no assembly") }
func boundsSquaresAVX2(_ *float64, _ *uint16, _, _, _ *float32, _ *[6]float64, _ int) {
	panic("simd: no assembly")
}
func boundsDotsAVX2(_ *float64, _ *uint16, _, _, _ *float32, _ *[6]float64, _ int) {
	panic("simd: no assembly")
}
func boundsCosinesAVX2(_ *float64, _ *uint16, _, _, _, _ *float32, _ int, _ *[6]float64, _ int) {
	panic("simd: no assembly")
}
func entriesAVX2(*byte, *float64, *float64, int, float64)           { panic("simd: no assembly") }
func byteTableAVX2(*[256]float64, *[8]float32)                      { panic("simd: no assembly") }
func projectAVX2(_, _ *float64, _ int)                              { panic("simd: no assembly") }
func levelsAVX2(_, _, _ *[64]float64, _ *float64, _ int, _ float64) { panic("simd: no assembly") }
func residualAVX2(_, _ *float32, _ *byte, _, _ *float32, _ int)     { panic("simd: no assembly") }
func portionsAVX2(*float64, *float32, float32, int) float32         { panic("simd: no assembly") }
func quantizeAVX2(_ *byte, _ *float32, _ *float64, _, _ *float32, _, _ float64, _ int) {
	panic("simd: no assembly")
}
func accumulateAVX2(*float64, *float32, int) { panic("simd: no assembly") }
