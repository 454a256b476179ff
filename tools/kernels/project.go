package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// project takes the component along one column out of sixteen others, each in a lane of its own.
func project() {
	TEXT("projectAVX2", NOSPLIT, "func(panel, q *float64, n int)")
	Doc("projectAVX2 subtracts s·q from each of sixteen columns, panel[16·i+l], s being the column's product with q over n ≥ 1 components, ascending.")
	Pragma("noescape")
	panel := Load(Param("panel"), GP64())
	q := Load(Param("q"), GP64())
	n := Load(Param("n"), GP64())
	p, r, i := GP64(), GP64(), GP64()
	var s [4]VecVirtual
	for l := range s {
		s[l] = YMM()
		VXORPD(s[l], s[l], s[l])
	}
	pass := func(name string, step func(x VecVirtual, l int)) {
		MOVQ(panel, p)
		MOVQ(q, r)
		MOVQ(n, i)
		Label(name)
		x := YMM()
		VBROADCASTSD(Mem{Base: r}, x)
		for l := range s {
			step(x, l)
		}
		ADDQ(U32(128), p)
		ADDQ(Imm(8), r)
		DECQ(i)
		JNZ(LabelRef(name))
	}
	pass("projectSum", func(x VecVirtual, l int) {
		t := YMM()
		VMULPD(Mem{Base: p, Disp: 32 * l}, x, t)
		VADDPD(t, s[l], s[l])
	})
	pass("projectOut", func(x VecVirtual, l int) {
		t, c := YMM(), YMM()
		VMULPD(s[l], x, t)
		VMOVUPD(Mem{Base: p, Disp: 32 * l}, c)
		VSUBPD(t, c, c)
		VMOVUPD(c, Mem{Base: p, Disp: 32 * l})
	})
	VZEROUPPER()
	RET()
}
