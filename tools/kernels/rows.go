package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pairs sums over eight pairs of float32 rows at once, in float64. The terms of four components are made along the rows,
// then turned, so that each lane of the accumulator belongs to one pair and adds its terms in ascending order.
func pairs(name string, squares bool) {
	TEXT(name, NOSPLIT, "func(sums *[8]float64, x *float32, stride int, y *[8]*float32, n int)")
	what := "dot products"
	if squares {
		what = "squared distances"
	}
	Doc(fmt.Sprintf("%s adds up the %s of the eight rows at x, stride bytes apart, with the rows y over the first n components; n is a multiple of 4, at least 4.", name, what))
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	stride := Load(Param("stride"), GP64())
	ys := Load(Param("y"), GP64())
	n := Load(Param("n"), GP64())
	var y [8]Register
	for i := range y {
		y[i] = GP64()
		MOVQ(Mem{Base: ys, Disp: 8 * i}, y[i])
	}
	x4 := GP64()
	LEAQ(Mem{Base: x, Index: stride, Scale: 4}, x4)
	stride3 := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	j := GP64()
	XORQ(j, j)
	acc := [2]VecVirtual{YMM(), YMM()}
	for _, a := range acc {
		VXORPD(a, a, a)
	}
	Label(name + "Loop")
	for half, base := range []Register{x, x4} {
		at := []Mem{{Base: base}, {Base: base, Index: stride, Scale: 1}, {Base: base, Index: stride, Scale: 2}, {Base: base, Index: stride3, Scale: 1}}
		var t [4]VecVirtual
		for r := range 4 {
			t[r] = YMM()
			u := YMM()
			VCVTPS2PD(at[r], t[r])
			VCVTPS2PD(Mem{Base: y[4*half+r], Index: j, Scale: 4}, u)
			if squares {
				VSUBPD(u, t[r], t[r])
				VMULPD(t[r], t[r], t[r])
			} else {
				VMULPD(u, t[r], t[r])
			}
		}
		for _, v := range turned(t) {
			VADDPD(v, acc[half], acc[half])
		}
	}
	ADDQ(Imm(16), x)
	ADDQ(Imm(16), x4)
	ADDQ(Imm(4), j)
	CMPQ(j, n)
	JLT(LabelRef(name + "Loop"))
	sums := Load(Param("sums"), GP64())
	VMOVUPD(acc[0], Mem{Base: sums})
	VMOVUPD(acc[1], Mem{Base: sums, Disp: 32})
	VZEROUPPER()
	RET()
}

// quad turns four rows into fours of components.
func quad() {
	TEXT("quadAVX2", NOSPLIT, "func(out *float64, x *float32, stride, n int)")
	Doc("quadAVX2 widens four rows at x, stride bytes apart: component j of row i becomes out[4·j+i]; n is a multiple of 4, at least 4.")
	Pragma("noescape")
	out := Load(Param("out"), GP64())
	x := Load(Param("x"), GP64())
	stride := Load(Param("stride"), GP64())
	n := Load(Param("n"), GP64())
	stride3 := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	Label("quadLoop")
	var t [4]VecVirtual
	for r, at := range []Mem{{Base: x}, {Base: x, Index: stride, Scale: 1}, {Base: x, Index: stride, Scale: 2}, {Base: x, Index: stride3, Scale: 1}} {
		t[r] = YMM()
		VCVTPS2PD(at, t[r])
	}
	for c, v := range turned(t) {
		VMOVUPD(v, Mem{Base: out, Disp: 32 * c})
	}
	ADDQ(Imm(16), x)
	ADDQ(U32(128), out)
	SUBQ(Imm(4), n)
	JNZ(LabelRef("quadLoop"))
	VZEROUPPER()
	RET()
}

// turned makes columns of four rows of four.
func turned(t [4]VecVirtual) [4]VecVirtual {
	lo01, hi01, lo23, hi23 := YMM(), YMM(), YMM(), YMM()
	VUNPCKLPD(t[1], t[0], lo01)
	VUNPCKHPD(t[1], t[0], hi01)
	VUNPCKLPD(t[3], t[2], lo23)
	VUNPCKHPD(t[3], t[2], hi23)
	var out [4]VecVirtual
	for c, pair := range [][2]VecVirtual{{lo01, lo23}, {hi01, hi23}, {lo01, lo23}, {hi01, hi23}} {
		out[c] = YMM()
		VPERM2F128(Imm(uint64([]int{0x20, 0x31}[c/2])), pair[1], pair[0], out[c])
	}
	return out
}

// accumulate adds a row of float32 to sums.
func accumulate() {
	TEXT("accumulateAVX2", NOSPLIT, "func(sums *float64, x *float32, eights int)")
	Doc("accumulateAVX2 adds 8·eights components to as many sums, eights ≥ 1.")
	Pragma("noescape")
	sums, x, n := Load(Param("sums"), GP64()), Load(Param("x"), GP64()), Load(Param("eights"), GP64())
	Label("accumulateLoop")
	for i := range 2 {
		v := YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		VADDPD(Mem{Base: sums, Disp: 32 * i}, v, v)
		VMOVUPD(v, Mem{Base: sums, Disp: 32 * i})
	}
	ADDQ(Imm(32), x)
	ADDQ(Imm(64), sums)
	DECQ(n)
	JNZ(LabelRef("accumulateLoop"))
	VZEROUPPER()
	RET()
}

// scores is the tile of one row: four chains for each column, so that additions need not wait for one another.
func scores() {
	TEXT("scoresAVX2", NOSPLIT, "func(out, x, panels, norms, scales *float32, d, count int)")
	Doc("scoresAVX2 sets out[16·p+l] to (norms[16·p+l] − ⟨x, column⟩)·scales[16·p+l] for count ≥ 1 panels of sixteen columns, panel[16·j+l], over d ≥ 1 components, with fused multiply-add.")
	Pragma("noescape")
	out, x, panel := Load(Param("out"), GP64()), Load(Param("x"), GP64()), Load(Param("panels"), GP64())
	norms, scales := Load(Param("norms"), GP64()), Load(Param("scales"), GP64())
	left := Load(Param("count"), GP64())
	at, j := GP64(), GP64()
	var acc [4][2]VecVirtual
	for i := range acc {
		acc[i] = [2]VecVirtual{YMM(), YMM()}
	}
	term := func(chain int) {
		v := YMM()
		VBROADCASTSS(Mem{Base: at, Disp: 4 * chain}, v)
		for h := range 2 {
			VFNMADD231PS(Mem{Base: panel, Disp: 64*chain + 32*h}, v, acc[chain][h])
		}
	}
	Label("scoresPanel")
	for i := range acc {
		for h, a := range acc[i] {
			if i == 0 {
				VMOVUPS(Mem{Base: norms, Disp: 32 * h}, a)
			} else {
				VXORPS(a, a, a)
			}
		}
	}
	MOVQ(x, at)
	Load(Param("d"), j)
	SUBQ(Imm(4), j)
	JLT(LabelRef("scoresTail"))
	Label("scoresLoop")
	for i := range acc {
		term(i)
	}
	ADDQ(Imm(16), at)
	ADDQ(U32(256), panel)
	SUBQ(Imm(4), j)
	JGE(LabelRef("scoresLoop"))
	Label("scoresTail")
	ADDQ(Imm(4), j)
	JZ(LabelRef("scoresEnd"))
	Label("scoresOne")
	term(0)
	ADDQ(Imm(4), at)
	ADDQ(Imm(64), panel)
	DECQ(j)
	JNZ(LabelRef("scoresOne"))
	Label("scoresEnd")
	for h := range 2 {
		VADDPS(acc[1][h], acc[0][h], acc[0][h])
		VADDPS(acc[3][h], acc[2][h], acc[2][h])
		VADDPS(acc[2][h], acc[0][h], acc[0][h])
		VMULPS(Mem{Base: scales, Disp: 32 * h}, acc[0][h], acc[0][h])
		VMOVUPS(acc[0][h], Mem{Base: out, Disp: 32 * h})
	}
	ADDQ(Imm(64), norms)
	ADDQ(Imm(64), scales)
	ADDQ(Imm(64), out)
	DECQ(left)
	JNZ(LabelRef("scoresPanel"))
	VZEROUPPER()
	RET()
}
