package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// levels scores the 64 factors of the grid, one lane each, sixteen at a time. Squares of half-integers and their sums are
// exact, so the fused step there changes nothing.
func levels() {
	TEXT("levelsAVX2", NOSPLIT, "func(num, den, grid *[64]float64, a *float64, n int, top float64)")
	Doc("levelsAVX2 adds up, for each factor f of the grid, num = Σ (l+½)·a and den = Σ (l+½)², l = min(top, ⌊f·a + 1e−5⌋), over n ≥ 1 components, ascending.")
	Pragma("noescape")
	num := Load(Param("num"), GP64())
	den := Load(Param("den"), GP64())
	grid := Load(Param("grid"), GP64())
	a := Load(Param("a"), GP64())
	n := Load(Param("n"), GP64())
	constant := func(x float64) VecVirtual {
		r, v := GP64(), YMM()
		MOVQ(U64(math.Float64bits(x)), r)
		VMOVQ(r, v.AsX())
		VBROADCASTSD(v.AsX(), v)
		return v
	}
	small, half, top := constant(1e-5), constant(0.5), YMM()
	m, err := Param("top").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSD(m.Addr, top)
	group, p, j := GP64(), GP64(), GP64()
	MOVQ(U32(4), group)
	Label("levelsGroup")
	var nums, dens [4]VecVirtual
	for i := range nums {
		nums[i], dens[i] = YMM(), YMM()
		VXORPD(nums[i], nums[i], nums[i])
		VXORPD(dens[i], dens[i], dens[i])
	}
	MOVQ(a, p)
	MOVQ(n, j)
	Label("levelsLoop")
	x := YMM()
	VBROADCASTSD(Mem{Base: p}, x)
	for i := range nums {
		l, q := YMM(), YMM()
		VMULPD(Mem{Base: grid, Disp: 32 * i}, x, l)
		VADDPD(small, l, l)
		VMINPD(top, l, l)
		VROUNDPD(Imm(9), l, l)
		VADDPD(half, l, l)
		VMULPD(x, l, q)
		VADDPD(q, nums[i], nums[i])
		VFMADD231PD(l, l, dens[i])
	}
	ADDQ(Imm(8), p)
	DECQ(j)
	JNZ(LabelRef("levelsLoop"))
	for i := range nums {
		VMOVUPD(nums[i], Mem{Base: num, Disp: 32 * i})
		VMOVUPD(dens[i], Mem{Base: den, Disp: 32 * i})
	}
	ADDQ(U32(128), num)
	ADDQ(U32(128), den)
	ADDQ(U32(128), grid)
	DECQ(group)
	JNZ(LabelRef("levelsGroup"))
	VZEROUPPER()
	RET()
}
