package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// spread fills the lanes of a register with a parameter.
func spread(name string, double bool) VecVirtual {
	v := YMM()
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	if double {
		VBROADCASTSD(m.Addr, v)
	} else {
		VBROADCASTSS(m.Addr, v)
	}
	return v
}

// constant fills four lanes of float64, or eight of 32 bits.
func constant64(x float64) VecVirtual {
	r, v := GP64(), YMM()
	MOVQ(U64(math.Float64bits(x)), r)
	VMOVQ(r, v.AsX())
	VBROADCASTSD(v.AsX(), v)
	return v
}

func constant32(bits uint32) VecVirtual {
	r, v := GP32(), YMM()
	MOVL(U32(bits), r)
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
	return v
}

// residual takes a centroid from a vector.
func residual() {
	TEXT("residualAVX2", NOSPLIT, "func(r, abs *float32, signs *byte, v, c *float32, eights int)")
	Doc("residualAVX2 sets r to v − c, abs to |r| and bit i of signs to r[i] > 0, for 8·eights components, eights ≥ 1.")
	Pragma("noescape")
	r, abs, signs := Load(Param("r"), GP64()), Load(Param("abs"), GP64()), Load(Param("signs"), GP64())
	v, c, n := Load(Param("v"), GP64()), Load(Param("c"), GP64()), Load(Param("eights"), GP64())
	mask, zero, bits := constant32(0x7fffffff), YMM(), GP32()
	VXORPS(zero, zero, zero)
	Label("residualLoop")
	x, y := YMM(), YMM()
	VMOVUPS(Mem{Base: v}, x)
	VSUBPS(Mem{Base: c}, x, x)
	VMOVUPS(x, Mem{Base: r})
	VANDPS(mask, x, y)
	VMOVUPS(y, Mem{Base: abs})
	VCMPPS(Imm(0x1e), zero, x, x) // greater
	VMOVMSKPS(x, bits)
	MOVB(bits.As8(), Mem{Base: signs})
	for _, p := range []Register{r, abs, v, c} {
		ADDQ(Imm(32), p)
	}
	INCQ(signs)
	DECQ(n)
	JNZ(LabelRef("residualLoop"))
	VZEROUPPER()
	RET()
}

// portions divides by the length.
func portions() {
	TEXT("portionsAVX2", NOSPLIT, "func(a *float64, abs *float32, length float32, eights int) float32")
	Doc("portionsAVX2 sets a to abs ÷ length, rounded to float32, and returns the greatest, for 8·eights components ≥ 0, eights ≥ 1. None is NaN.")
	Pragma("noescape")
	a, abs := Load(Param("a"), GP64()), Load(Param("abs"), GP64())
	length, n := spread("length", false), Load(Param("eights"), GP64())
	most := YMM()
	VXORPS(most, most, most)
	Label("portionsLoop")
	x, lo, hi := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: abs}, x)
	VDIVPS(length, x, x)
	VMAXPS(x, most, most)
	VCVTPS2PD(x.AsX(), lo)
	VEXTRACTF128(Imm(1), x, x.AsX())
	VCVTPS2PD(x.AsX(), hi)
	VMOVUPD(lo, Mem{Base: a})
	VMOVUPD(hi, Mem{Base: a, Disp: 32})
	ADDQ(Imm(32), abs)
	ADDQ(Imm(64), a)
	DECQ(n)
	JNZ(LabelRef("portionsLoop"))
	t, s := XMM(), most.AsX()
	VEXTRACTF128(Imm(1), most, t)
	VMAXPS(t, s, s)
	VPERMILPS(Imm(0x4e), s, t)
	VMAXPS(t, s, s)
	VPERMILPS(Imm(0xb1), s, t)
	VMAXPS(t, s, s)
	Store(s, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// quantize picks the level of each component.
func quantize() {
	TEXT("quantizeAVX2", NOSPLIT, "func(levels *byte, products *float32, a *float64, r, abs *float32, factor, top float64, eights int)")
	Doc("quantizeAVX2 sets l = min(top, ⌊factor·a + 1e−5⌋) for 8·eights components, eights ≥ 1: products are abs·(l + ½), rounded to float32, and levels l, or top − l where r < 0.")
	Pragma("noescape")
	levels, products, a := Load(Param("levels"), GP64()), Load(Param("products"), GP64()), Load(Param("a"), GP64())
	r, abs, n := Load(Param("r"), GP64()), Load(Param("abs"), GP64()), Load(Param("eights"), GP64())
	factor, top, small, half, zero := spread("factor", true), spread("top", true), constant64(1e-5), constant32(math.Float32bits(0.5)), YMM()
	VXORPS(zero, zero, zero)
	ones := YMM()
	VCVTTPD2DQY(top, ones.AsX())
	VPBROADCASTD(ones.AsX(), ones)
	Label("quantizeLoop")
	l, h, below := YMM(), YMM(), YMM()
	for i, x := range []VecVirtual{l, h} {
		VMULPD(Mem{Base: a, Disp: 32 * i}, factor, x)
		VADDPD(small, x, x)
		VMINPD(top, x, x)
		VCVTTPD2DQY(x, x.AsX())
	}
	VINSERTI128(Imm(1), h.AsX(), l, l)
	VCVTDQ2PS(l, h)
	VADDPS(half, h, h)
	VMULPS(Mem{Base: abs}, h, h)
	VMOVUPS(h, Mem{Base: products})
	VMOVUPS(Mem{Base: r}, below)
	VCMPPS(Imm(0x11), zero, below, below) // less
	VPAND(ones, below, below)
	VPXOR(below, l, l)
	VEXTRACTI128(Imm(1), l, h.AsX())
	VPACKSSDW(h.AsX(), l.AsX(), l.AsX())
	VPACKUSWB(l.AsX(), l.AsX(), l.AsX())
	VMOVQ(l.AsX(), Mem{Base: levels})
	ADDQ(Imm(64), a)
	for _, p := range []Register{r, abs, products} {
		ADDQ(Imm(32), p)
	}
	ADDQ(Imm(8), levels)
	DECQ(n)
	JNZ(LabelRef("quantizeLoop"))
	VZEROUPPER()
	RET()
}
