package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tile512 is tile with twelve rows and, where there are two panels left, two at once.
func tile512() {
	TEXT("tileAVX512", NOSPLIT, "func(x *float32, stride int, panels, norms, scales *float32, d, count int, out *float32, mins *[96]float32)")
	Doc("tileAVX512 does for twelve rows what tileAVX2 does for six, with the same bits.")
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	stride := Load(Param("stride"), GP64())
	panel := Load(Param("panels"), GP64())
	norms := Load(Param("norms"), GP64())
	scales := Load(Param("scales"), GP64())
	out := Load(Param("out"), GP64())
	step := GP64() // bytes of a row of out
	Load(Param("count"), step)
	SHLQ(Imm(6), step)
	left := Load(Param("count"), GP64())
	var acc [12][2]VecVirtual
	for i := range acc {
		acc[i] = [2]VecVirtual{ZMM(), ZMM()}
	}
	b0, b1, bx := ZMM(), ZMM(), [2]VecVirtual{ZMM(), ZMM()}
	var row [4]Register
	for i := range row {
		row[i] = GP64()
	}
	second, j := GP64(), GP64()
	mins := GP64()

	panels := func(name string, count int) {
		Label(name)
		MOVQ(x, row[0])
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, j)
		for i := 1; i < 4; i++ {
			LEAQ(Mem{Base: row[i-1], Index: j, Scale: 1}, row[i])
		}
		Load(Param("d"), j)
		if count == 2 {
			MOVQ(j, second)
			SHLQ(Imm(6), second)
			ADDQ(panel, second)
		}
		for i := range acc {
			for p := range count {
				VMOVUPS(Mem{Base: norms, Disp: 64 * p}, acc[i][p])
			}
		}
		one := func(u int) {
			VMOVUPS(Mem{Base: panel, Disp: 64 * u}, b0)
			if count == 2 {
				VMOVUPS(Mem{Base: second, Disp: 64 * u}, b1)
			}
			for i := range acc {
				m := Mem{Base: row[i/3], Disp: 4 * u}
				if i%3 > 0 {
					m.Index, m.Scale = stride, uint8(i%3)
				}
				VBROADCASTSS(m, bx[i%2])
				VFNMADD231PS(b0, bx[i%2], acc[i][0])
				if count == 2 {
					VFNMADD231PS(b1, bx[i%2], acc[i][1])
				}
			}
		}
		advance := func(u int) {
			for i := range row {
				ADDQ(Imm(uint64(4*u)), row[i])
			}
			ADDQ(U32(uint32(64*u)), panel)
			if count == 2 {
				ADDQ(U32(uint32(64*u)), second)
			}
		}
		SUBQ(Imm(2), j)
		JLT(LabelRef(name + "Tail"))
		Label(name + "Loop")
		one(0)
		one(1)
		advance(2)
		SUBQ(Imm(2), j)
		JGE(LabelRef(name + "Loop"))
		Label(name + "Tail")
		ADDQ(Imm(2), j)
		JZ(LabelRef(name + "End"))
		one(0)
		advance(1)
		Label(name + "End")
		if count == 2 {
			MOVQ(second, panel)
		}
		VMOVUPS(Mem{Base: scales}, b0)
		if count == 2 {
			VMOVUPS(Mem{Base: scales, Disp: 64}, b1)
		}
		MOVQ(out, row[0])
		Load(Param("mins"), mins)
		for i := range acc {
			VMULPS(b0, acc[i][0], acc[i][0])
			VMOVUPS(acc[i][0], Mem{Base: row[0]})
			if count == 2 {
				VMULPS(b1, acc[i][1], acc[i][1])
				VMOVUPS(acc[i][1], Mem{Base: row[0], Disp: 64})
				VMINPS(acc[i][1], acc[i][0], acc[i][0])
			}
			if i < 11 {
				ADDQ(step, row[0])
			}
			VEXTRACTF64X4(Imm(1), acc[i][0], acc[i][1].AsY())
			VMINPS(acc[i][1].AsY(), acc[i][0].AsY(), acc[i][0].AsY())
			VMINPS(Mem{Base: mins, Disp: 32 * i}, acc[i][0].AsY(), acc[i][0].AsY())
			VMOVUPS(acc[i][0].AsY(), Mem{Base: mins, Disp: 32 * i})
		}
		ADDQ(U32(uint32(64*count)), out)
		ADDQ(U32(uint32(64*count)), norms)
		ADDQ(U32(uint32(64*count)), scales)
		SUBQ(Imm(uint64(count)), left)
	}
	CMPQ(left, Imm(2))
	JLT(LabelRef("tile512Odd"))
	panels("tile512Two", 2)
	CMPQ(left, Imm(2))
	JGE(LabelRef("tile512Two"))
	Label("tile512Odd")
	TESTQ(left, left)
	JZ(LabelRef("tile512Done"))
	panels("tile512Single", 1)
	Label("tile512Done")
	VZEROUPPER()
	RET()
}
