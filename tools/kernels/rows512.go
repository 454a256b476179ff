package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// planes512 is planes for eight rows: a bit that is not set leaves its lane as it is.
func planes512() {
	TEXT("planesAVX512", NOSPLIT, "func(sums *[2][4]float64, rows *[8]*byte, w *float64, bytes int)")
	Doc("planesAVX512 does for eight rows what planesAVX2 does for four.")
	Pragma("noescape")
	sums := Load(Param("sums"), GP64())
	rows := Load(Param("rows"), GP64())
	w := Load(Param("w"), GP64())
	left := Load(Param("bytes"), GP64())
	var row [8]GPVirtual
	for i := range row {
		row[i] = GP64()
		MOVQ(Mem{Base: rows, Disp: 8 * i}, row[i])
	}
	one := GP64()
	var bit [8]VecVirtual
	for i := range bit {
		bit[i] = ZMM()
		MOVQ(U32(1<<i), one)
		VPBROADCASTQ(one, bit[i])
	}
	total, bits, at, count := ZMM(), ZMM(), GP64(), one
	VPXORQ(total, total, total)
	XORQ(at, at)
	Label("planes512Word")
	var pair [4]VecVirtual
	for i := range pair {
		pair[i] = XMM()
		VMOVQ(Mem{Base: row[2*i], Index: at, Scale: 1}, pair[i])
		VMOVHPS(Mem{Base: row[2*i+1], Index: at, Scale: 1}, pair[i], pair[i])
	}
	VINSERTI128(Imm(1), pair[1], pair[0].AsY(), bits.AsY())
	VINSERTI128(Imm(1), pair[3], pair[2].AsY(), pair[2].AsY())
	VINSERTI64X4(Imm(1), pair[2].AsY(), bits, bits)
	ADDQ(Imm(8), at)
	MOVQ(U32(8), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	SUBQ(count, left)
	Label("planes512Byte")
	sum := ZMM()
	for i := range 8 {
		set := K()
		VPTESTMQ(bit[i], bits, set)
		if i == 0 {
			VPXORQ(sum, sum, sum)
		}
		VADDPD_BCST(Mem{Base: w, Disp: 8 * i}, sum, set, sum)
	}
	VADDPD(sum, total, total)
	VPSRLQ(Imm(8), bits, bits)
	ADDQ(Imm(64), w)
	DECQ(count)
	JNZ(LabelRef("planes512Byte"))
	CMPQ(left, Imm(0))
	JNE(LabelRef("planes512Word"))
	VMOVUPD(total, Mem{Base: sums})
	VZEROUPPER()
	RET()
}
