package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// In these functions each sum has a lane. Both factors were float32, so that their product is exact in float64, and a fused step rounds as
// an addition of the product does: once.

// matrix4 is four vectors by eight rows.
func matrix4() {
	TEXT("matrix4AVX2", NOSPLIT, "func(out *float32, stride int, sums, panel, v *float64, n, count int)")
	Doc("matrix4AVX2 multiplies eight rows, panel[8·j+l], by count ≥ 1 times four vectors, v[4·j+i], over n ≥ 1 components; the next four follow. Eight results of each vector go to out, stride bytes apart.",
		"If sums is not nil, they go on from sums[8·i+l] and are left there, too.")
	matrixOf("matrix4", 4, YMM, func(m Mem, panel [2]VecVirtual, acc []VecVirtual) {
		x := YMM()
		VBROADCASTSD(m, x)
		VFMADD231PD(x, panel[0], acc[0])
		VFMADD231PD(x, panel[1], acc[1])
	}, func(a VecVirtual) Register {
		VCVTPD2PSY(a, a.AsX())
		return a.AsX()
	})
}

// matrix8 is eight vectors by eight rows.
func matrix8() {
	TEXT("matrix8AVX512", NOSPLIT, "func(out *float32, stride int, sums, panel, v *float64, n, count int)")
	Doc("matrix8AVX512 does for count ≥ 1 times eight vectors what matrix4AVX2 does for four, with the same bits.")
	matrixOf("matrix8", 8, ZMM, func(m Mem, panel [2]VecVirtual, acc []VecVirtual) {
		VFMADD231PD_BCST(m, panel[0], acc[0])
	}, func(a VecVirtual) Register {
		VCVTPD2PS(a, a.AsY())
		return a.AsY()
	})
}

// matrixOf is that many vectors by eight rows. product adds what one component of a vector gives, which is in memory, and narrow makes float32 of sums.
func matrixOf(name string, vectors int, register func() VecVirtual, product func(m Mem, panel [2]VecVirtual, acc []VecVirtual), narrow func(a VecVirtual) Register) {
	Pragma("noescape")
	per, size := 8/vectors, 8*vectors // registers of a vector, bytes of a register
	out := Load(Param("out"), GP64())
	stride := Load(Param("stride"), GP64())
	sums := Load(Param("sums"), GP64())
	v := []Register{Load(Param("v"), GP64()), GP64()}[:vectors/4]
	count := Load(Param("count"), GP64())
	panel, n := GP64(), GP64()
	acc := make([]VecVirtual, 8)
	for i := range acc {
		acc[i] = register()
	}
	Label(name + "Vectors")
	Load(Param("panel"), panel)
	Load(Param("n"), n)
	if vectors == 8 {
		MOVQ(n, v[1])
		SHLQ(Imm(5), v[1])
		ADDQ(v[0], v[1])
	}
	TESTQ(sums, sums)
	JZ(LabelRef(name + "Zero"))
	for i, a := range acc {
		VMOVUPD(Mem{Base: sums, Disp: size * i}, a)
	}
	JMP(LabelRef(name + "Start"))
	Label(name + "Zero")
	for _, a := range acc {
		VXORPD(a.AsY(), a.AsY(), a.AsY())
	}
	Label(name + "Start")
	one := func(j int) {
		var row [2]VecVirtual
		for p := range per {
			row[p] = register()
			VMOVUPD(Mem{Base: panel, Disp: 64*j + size*p}, row[p])
		}
		for i := range vectors {
			product(Mem{Base: v[i/4], Disp: 32*j + 8*(i%4)}, row, acc[per*i:])
		}
	}
	byFours(name, n, one, func(count int) {
		ADDQ(U32(uint32(64*count)), panel)
		for _, p := range v {
			ADDQ(U32(uint32(32*count)), p)
		}
	})
	TESTQ(sums, sums)
	JZ(LabelRef(name + "Out"))
	for i, a := range acc {
		VMOVUPD(a, Mem{Base: sums, Disp: size * i})
	}
	ADDQ(U32(uint32(8*size)), sums)
	Label(name + "Out")
	if vectors == 8 {
		MOVQ(v[1], v[0])
	}
	for i, a := range acc {
		VMOVUPS(narrow(a), Mem{Base: out, Disp: 32 / per * (i % per)})
		if i%per == per-1 {
			ADDQ(stride, out)
		}
	}
	DECQ(count)
	JNZ(LabelRef(name + "Vectors"))
	VZEROUPPER()
	RET()
}

// byFours does one n ≥ 1 times, four at a time while it can.
func byFours(name string, n Register, one func(j int), advance func(count int)) {
	SUBQ(Imm(4), n)
	JLT(LabelRef(name + "Tail"))
	Label(name + "Loop")
	for j := range 4 {
		one(j)
	}
	advance(4)
	SUBQ(Imm(4), n)
	JGE(LabelRef(name + "Loop"))
	Label(name + "Tail")
	ADDQ(Imm(4), n)
	JZ(LabelRef(name + "End"))
	Label(name + "One")
	one(0)
	advance(1)
	DECQ(n)
	JNZ(LabelRef(name + "One"))
	Label(name + "End")
}

// widen makes float64 of float32.
func widen() {
	TEXT("widenAVX2", NOSPLIT, "func(out *float64, x *float32, eights, ahead int)")
	Doc("widenAVX2 widens 8·eights components, eights ≥ 1, and asks for those that lie ahead bytes after them.")
	Pragma("noescape")
	out, x, n := Load(Param("out"), GP64()), Load(Param("x"), GP64()), Load(Param("eights"), GP64())
	ahead := Load(Param("ahead"), GP64())
	Label("widenLoop")
	PREFETCHT1(Mem{Base: x, Index: ahead, Scale: 1})
	for i := range 2 {
		v := YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		VMOVUPD(v, Mem{Base: out, Disp: 32 * i})
	}
	ADDQ(Imm(32), x)
	ADDQ(U32(64), out)
	DECQ(n)
	JNZ(LabelRef("widenLoop"))
	VZEROUPPER()
	RET()
}

// matrix1 is one vector by 32 rows, four panels that lie step bytes apart.
func matrix1() {
	TEXT("matrix1AVX2", NOSPLIT, "func(out *[32]float32, panels *float32, step int, v *float64, n int)")
	Doc("matrix1AVX2 multiplies 32 rows, four panels of panel[8·j+l] that begin step bytes apart, by the vector v over n ≥ 1 components.")
	Pragma("noescape")
	panel := Load(Param("panels"), GP64())
	step := Load(Param("step"), GP64())
	v := Load(Param("v"), GP64())
	n := Load(Param("n"), GP64())
	step3 := GP64()
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	var acc [8]VecVirtual
	for i := range acc {
		acc[i] = YMM()
		VXORPD(acc[i], acc[i], acc[i])
	}
	at := []Mem{{Base: panel}, {Base: panel, Index: step, Scale: 1}, {Base: panel, Index: step, Scale: 2}, {Base: panel, Index: step3, Scale: 1}}
	byFours("matrix1", n, func(j int) {
		x := YMM()
		VBROADCASTSD(Mem{Base: v, Disp: 8 * j}, x)
		for i, a := range acc {
			m, p := at[i/2], YMM()
			m.Disp = 32*j + 16*(i%2)
			VCVTPS2PD(m, p)
			VFMADD231PD(p, x, a)
		}
	}, func(count int) {
		ADDQ(U32(uint32(32*count)), panel)
		ADDQ(U32(uint32(8*count)), v)
	})
	out := Load(Param("out"), GP64())
	for i, a := range acc {
		VCVTPD2PSY(a, a.AsX())
		VMOVUPS(a.AsX(), Mem{Base: out, Disp: 16 * i})
	}
	VZEROUPPER()
	RET()
}
