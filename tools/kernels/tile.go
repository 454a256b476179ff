package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tile is six rows by panels of sixteen columns, twelve accumulators that start at the columns' norms and lose the
// products, then are scaled. The least score of each row stays in eight lanes.
func tile() {
	TEXT("tileAVX2", NOSPLIT, "func(x *float32, stride int, panels, norms, scales *float32, d, count int, out *float32, mins *[48]float32)")
	Doc("tileAVX2 scores six rows at x, stride bytes apart, against count ≥ 1 panels of sixteen columns, panel[16·j+l], over d ≥ 1 components:",
		"out[16·count·i+16·p+l] is (norms[16·p+l] − ⟨x_i, column⟩)·scales[16·p+l] with fused multiply-add, and mins[8·i:8·i+8] is lowered to the least scores of row i.")
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	stride := Load(Param("stride"), GP64())
	panel := Load(Param("panels"), GP64())
	norms := Load(Param("norms"), GP64())
	scales := Load(Param("scales"), GP64())
	count := Load(Param("count"), GP64())
	out := Load(Param("out"), GP64())
	mins := Load(Param("mins"), GP64())
	step := GP64() // bytes of a row of out
	MOVQ(count, step)
	SHLQ(Imm(6), step)
	var acc [6][2]VecVirtual
	for i := range acc {
		acc[i] = [2]VecVirtual{YMM(), YMM()}
	}
	b0, b1, bx := YMM(), YMM(), [2]VecVirtual{YMM(), YMM()}
	row, row3, j := GP64(), GP64(), GP64()
	Label("tilePanel")
	MOVQ(x, row)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, row3)
	ADDQ(x, row3)
	Load(Param("d"), j)
	for i := range acc {
		VMOVUPS(Mem{Base: norms}, acc[i][0])
		VMOVUPS(Mem{Base: norms, Disp: 32}, acc[i][1])
	}
	one := func(disp int) {
		VMOVUPS(Mem{Base: panel, Disp: 16 * disp}, b0)
		VMOVUPS(Mem{Base: panel, Disp: 16*disp + 32}, b1)
		for i := range acc {
			m := Mem{Base: row, Disp: disp}
			if i >= 3 {
				m.Base = row3
			}
			if i%3 > 0 {
				m.Index, m.Scale = stride, uint8(i%3)
			}
			VBROADCASTSS(m, bx[i%2])
			VFNMADD231PS(b0, bx[i%2], acc[i][0])
			VFNMADD231PS(b1, bx[i%2], acc[i][1])
		}
	}
	SUBQ(Imm(4), j)
	JLT(LabelRef("tileTail"))
	Label("tileLoop")
	for u := range 4 {
		one(4 * u)
	}
	ADDQ(Imm(16), row)
	ADDQ(Imm(16), row3)
	ADDQ(U32(256), panel)
	SUBQ(Imm(4), j)
	JGE(LabelRef("tileLoop"))
	Label("tileTail")
	ADDQ(Imm(4), j)
	JZ(LabelRef("tileEnd"))
	Label("tileOne")
	one(0)
	ADDQ(Imm(4), row)
	ADDQ(Imm(4), row3)
	ADDQ(Imm(64), panel)
	DECQ(j)
	JNZ(LabelRef("tileOne"))
	Label("tileEnd")
	VMOVUPS(Mem{Base: scales}, b0)
	VMOVUPS(Mem{Base: scales, Disp: 32}, b1)
	MOVQ(out, row)
	for i := range acc {
		VMULPS(b0, acc[i][0], acc[i][0])
		VMULPS(b1, acc[i][1], acc[i][1])
		VMOVUPS(acc[i][0], Mem{Base: row})
		VMOVUPS(acc[i][1], Mem{Base: row, Disp: 32})
		if i < 5 {
			ADDQ(step, row)
		}
		VMINPS(acc[i][1], acc[i][0], acc[i][0])
		VMINPS(Mem{Base: mins, Disp: 32 * i}, acc[i][0], acc[i][0])
		VMOVUPS(acc[i][0], Mem{Base: mins, Disp: 32 * i})
	}
	ADDQ(Imm(64), out)
	ADDQ(Imm(64), norms)
	ADDQ(Imm(64), scales)
	DECQ(count)
	JNZ(LabelRef("tilePanel"))
	VZEROUPPER()
	RET()
}

// low looks for groups of sixteen scores that hold one that is low enough.
func low() {
	TEXT("lowAVX2", NOSPLIT, "func(scores *float32, groups, rows int, limits *float32, out *uint64) int")
	Doc("lowAVX2 writes a word for each group of sixteen scores, groups ≥ 1 of them in each of rows ≥ 1 rows, that has a score ≤ its row's limit: row<<48 | group<<16 | the lanes. It returns how many.")
	Pragma("noescape")
	scores := Load(Param("scores"), GP64())
	groups := Load(Param("groups"), GP64())
	rows := Load(Param("rows"), GP64())
	limits := Load(Param("limits"), GP64())
	out := Load(Param("out"), GP64())
	start, row, word := GP64(), GP64(), GP64()
	MOVQ(out, start)
	XORQ(row, row)
	step := GP64() // of a group in word
	MOVQ(U32(1<<16), step)
	limit := YMM()
	g, mask, up := GP64(), GP32(), GP32()
	Label("lowRow")
	VBROADCASTSS(Mem{Base: limits, Index: row, Scale: 4}, limit)
	MOVQ(row, word)
	SHLQ(Imm(48), word)
	MOVQ(groups, g)
	Label("lowGroup")
	a, b, both := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: scores}, a)
	VMOVUPS(Mem{Base: scores, Disp: 32}, b)
	VMINPS(b, a, both)
	VCMPPS(Imm(2), limit, both, both)
	VMOVMSKPS(both, mask)
	TESTL(mask, mask)
	JNZ(LabelRef("lowHit"))
	Label("lowNext")
	ADDQ(Imm(64), scores)
	ADDQ(step, word)
	DECQ(g)
	JNZ(LabelRef("lowGroup"))
	INCQ(row)
	CMPQ(row, rows)
	JLT(LabelRef("lowRow"))
	SUBQ(start, out)
	SHRQ(Imm(3), out)
	Store(out, ReturnIndex(0))
	VZEROUPPER()
	RET()
	Label("lowHit")
	VCMPPS(Imm(2), limit, a, a)
	VCMPPS(Imm(2), limit, b, b)
	VMOVMSKPS(a, mask)
	VMOVMSKPS(b, up)
	SHLL(Imm(8), up)
	ORL(up, mask)
	w := GP64()
	MOVL(mask, w.As32())
	ORQ(word, w)
	MOVQ(w, Mem{Base: out})
	ADDQ(Imm(8), out)
	JMP(LabelRef("lowNext"))
}

// norms is a sum of squares in 32 lanes of float32, good enough for an error bound.
func norms() {
	TEXT("normAVX2", NOSPLIT, "func(x *float32, n int) float32")
	Doc("normAVX2 is about Σ x² over n components, a multiple of 8, at least 8; the relative error is below (n/8 + 8)·2⁻²⁴. It is not finite if a component is not.")
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	n := Load(Param("n"), GP64())
	acc := [4]VecVirtual{YMM(), YMM(), YMM(), YMM()}
	for _, a := range acc {
		VXORPS(a, a, a)
	}
	Label("normWide")
	CMPQ(n, Imm(32))
	JLT(LabelRef("normNarrow"))
	for i, a := range acc {
		v := YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VFMADD231PS(v, v, a)
	}
	ADDQ(U32(128), x)
	SUBQ(Imm(32), n)
	JMP(LabelRef("normWide"))
	Label("normNarrow")
	TESTQ(n, n)
	JZ(LabelRef("normSum"))
	v := YMM()
	VMOVUPS(Mem{Base: x}, v)
	VFMADD231PS(v, v, acc[0])
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JMP(LabelRef("normNarrow"))
	Label("normSum")
	VADDPS(acc[1], acc[0], acc[0])
	VADDPS(acc[3], acc[2], acc[2])
	VADDPS(acc[2], acc[0], acc[0])
	t := XMM()
	VEXTRACTF128(Imm(1), acc[0], t)
	s := acc[0].AsX()
	VADDPS(t, s, s)
	VHADDPS(s, s, s)
	VHADDPS(s, s, s)
	Store(s, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// least takes the least of eight lanes, for each row of a tile.
func least() {
	TEXT("leastAVX2", NOSPLIT, "func(mins *[48]float32, out *[6]float32)")
	Doc("leastAVX2 sets out[i] to the least of mins[8·i:8·i+8]. None is NaN.")
	Pragma("noescape")
	mins := Load(Param("mins"), GP64())
	out := Load(Param("out"), GP64())
	for i := range 6 {
		v, t := XMM(), XMM()
		VMOVUPS(Mem{Base: mins, Disp: 32 * i}, v)
		VMINPS(Mem{Base: mins, Disp: 32*i + 16}, v, v)
		VPERMILPS(Imm(0x4e), v, t)
		VMINPS(t, v, v)
		VPERMILPS(Imm(0xb1), v, t)
		VMINPS(t, v, v)
		VMOVSS(v, Mem{Base: out, Disp: 4 * i})
	}
	RET()
}
