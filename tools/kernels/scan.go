package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// nibbles looks up both halves of a byte of 32 codes at once. Words collect the entries of the even codes, with those of
// the odd ones above them, which a second accumulator takes out again.
func nibbles() {
	TEXT("nibblesAVX2", NOSPLIT, "func(sums *uint16, codes, tables *byte, width, gap, groups int)")
	Doc("nibblesAVX2 adds up the table entries of 32 codes at a time: byte b of code i of group g is codes[32·(width·g+b)+gap·g+i], its low half picks from tables[32·b:], its high half from tables[32·b+16:]; width ≥ 1, groups ≥ 1.")
	Pragma("noescape")
	sums := Load(Param("sums"), GP64())
	codes := Load(Param("codes"), GP64())
	tables := Load(Param("tables"), GP64())
	width := Load(Param("width"), GP64())
	gap := Load(Param("gap"), GP64())
	groups := Load(Param("groups"), GP64())
	mask := YMM()
	low := GP32()
	MOVL(U32(0x0f0f0f0f), low)
	VMOVD(low, mask.AsX())
	VPBROADCASTD(mask.AsX(), mask)
	t, b := GP64(), GP64()
	all := [2]VecVirtual{YMM(), YMM()}
	odd := [2]VecVirtual{YMM(), YMM()}
	Label("nibblesGroup")
	for i := range 2 {
		VPXOR(all[i], all[i], all[i])
		VPXOR(odd[i], odd[i], odd[i])
	}
	MOVQ(tables, t)
	MOVQ(width, b)
	Label("nibblesLoop")
	lo, hi := YMM(), YMM()
	VMOVDQU(Mem{Base: codes}, lo)
	VPSRLW(Imm(4), lo, hi)
	VPAND(mask, lo, lo)
	VPAND(mask, hi, hi)
	for i, v := range []VecVirtual{lo, hi} {
		table, up := YMM(), YMM()
		VBROADCASTI128(Mem{Base: t, Disp: 16 * i}, table)
		VPSHUFB(v, table, table)
		VPSRLW(Imm(8), table, up)
		VPADDW(table, all[i], all[i])
		VPADDW(up, odd[i], odd[i])
	}
	ADDQ(Imm(32), codes)
	ADDQ(Imm(32), t)
	DECQ(b)
	JNZ(LabelRef("nibblesLoop"))
	VPADDW(all[1], all[0], all[0])
	VPADDW(odd[1], odd[0], odd[0])
	up, first, second := YMM(), YMM(), YMM()
	VPSLLW(Imm(8), odd[0], up)
	VPSUBW(up, all[0], all[0])
	VPUNPCKLWD(odd[0], all[0], first)
	VPUNPCKHWD(odd[0], all[0], second)
	VMOVDQU(first.AsX(), Mem{Base: sums})
	VMOVDQU(second.AsX(), Mem{Base: sums, Disp: 16})
	VEXTRACTI128(Imm(1), first, Mem{Base: sums, Disp: 32})
	VEXTRACTI128(Imm(1), second, Mem{Base: sums, Disp: 48})
	ADDQ(Imm(64), sums)
	ADDQ(gap, codes)
	DECQ(groups)
	JNZ(LabelRef("nibblesGroup"))
	VZEROUPPER()
	RET()
}

// interleave turns sixteen rows of eight bytes at a time.
func interleave() {
	TEXT("interleaveAVX2", NOSPLIT, "func(out, rows *byte, stride, words int)")
	Doc("interleaveAVX2 turns 32 rows of 8·words bytes, stride bytes apart: byte b of row i becomes out[32·b+i]; words ≥ 1.")
	Pragma("noescape")
	out := Load(Param("out"), GP64())
	rows := Load(Param("rows"), GP64())
	stride := Load(Param("stride"), GP64())
	words := Load(Param("words"), GP64())
	p, q := GP64(), GP64()
	Label("interleaveLoop")
	MOVQ(rows, p)
	for half := range 2 {
		var t [16]VecVirtual // eight bytes of each row
		var a [8]VecVirtual
		// Pairs of rows i and i+8, so that three rounds of unpacking sort sixteen rows.
		for i := range 8 {
			t[i], a[i] = XMM(), XMM()
			VMOVQ(Mem{Base: p}, t[i])
			LEAQ(Mem{Base: p, Index: stride, Scale: 8}, q)
			VMOVQ(Mem{Base: q}, a[i])
			VPUNPCKLBW(a[i], t[i], t[i]) // r_i and r_i+8, byte by byte
			ADDQ(stride, p)
		}
		LEAQ(Mem{Base: p, Index: stride, Scale: 8}, p)
		// t[i] = bytes 0..7 of (i, i+8). Interleave i with i+4: then with i+2, then with i+1.
		cur := make([]VecVirtual, 8)
		copy(cur, t[:8])
		// A round turns registers (i, i+half) of words into their interleaving, low and high parts.
		next := make([]VecVirtual, 8)
		for i := range 4 { // (i,i+8) with (i+4,i+12): bytes 0..3 low, 4..7 high
			lo, hi := XMM(), XMM()
			VPUNPCKLBW(cur[i+4], cur[i], lo)
			VPUNPCKHBW(cur[i+4], cur[i], hi)
			next[i], next[i+4] = lo, hi
		}
		cur, next = next, make([]VecVirtual, 8)
		for part := range 2 {
			for i := range 2 {
				lo, hi := XMM(), XMM()
				VPUNPCKLBW(cur[4*part+i+2], cur[4*part+i], lo)
				VPUNPCKHBW(cur[4*part+i+2], cur[4*part+i], hi)
				next[4*part+i], next[4*part+i+2] = lo, hi
			}
		}
		cur = next
		for part := range 4 {
			lo, hi := XMM(), XMM()
			VPUNPCKLBW(cur[2*part+1], cur[2*part], lo)
			VPUNPCKHBW(cur[2*part+1], cur[2*part], hi)
			VMOVDQU(lo, Mem{Base: out, Disp: 32*2*part + 16*half})
			VMOVDQU(hi, Mem{Base: out, Disp: 32*(2*part+1) + 16*half})
		}
	}
	ADDQ(U32(256), out)
	ADDQ(Imm(8), rows)
	DECQ(words)
	JNZ(LabelRef("interleaveLoop"))
	VZEROUPPER()
	RET()
}

// bytes doubles a table of sums eight times, once for each bit.
func bytes() {
	TEXT("byteTableAVX2", NOSPLIT, "func(table *[256]float64, w *[8]float32)")
	Doc("byteTableAVX2 sums w over every combination of set bits, each in ascending order of the bits.")
	Pragma("noescape")
	table := Load(Param("table"), GP64())
	w := Load(Param("w"), GP64())
	zero := XMM()
	VXORPD(zero, zero, zero)
	VMOVSD(zero, Mem{Base: table})
	x := XMM()
	for bit := range 2 {
		VXORPD(x, x, x)
		VCVTSS2SD(Mem{Base: w, Disp: 4 * bit}, x, x)
		for low := range 1 << bit {
			s := XMM()
			VMOVSD(Mem{Base: table, Disp: 8 * low}, s)
			VADDSD(x, s, s)
			VMOVSD(s, Mem{Base: table, Disp: 8 * (1<<bit + low)})
		}
	}
	// From four sums on, four at a time.
	for bit := 2; bit < 8; bit++ {
		y := YMM()
		VBROADCASTSS(Mem{Base: w, Disp: 4 * bit}, y.AsX())
		VCVTPS2PD(y.AsX(), y)
		for low := 0; low < 1<<bit; low += 4 {
			s := YMM()
			VADDPD(Mem{Base: table, Disp: 8 * low}, y, s)
			VMOVUPD(s, Mem{Base: table, Disp: 8 * (1<<bit + low)})
		}
	}
	VZEROUPPER()
	RET()
}

// planes adds up four rows of bits in the lanes of a register: bit i of a row, at the sign's place, takes w[i] or 0.
func planes() {
	TEXT("planesAVX2", NOSPLIT, "func(sums *[4]float64, rows *[4]*byte, w *float64, bytes int)")
	Doc("planesAVX2 sums w over the set bits of four rows of 8·bytes bits: per byte, then over the bytes, ascending; bytes ≥ 1. Rows are read eight bytes at a time.")
	Pragma("noescape")
	sums := Load(Param("sums"), GP64())
	rows := Load(Param("rows"), GP64())
	w := Load(Param("w"), GP64())
	left := Load(Param("bytes"), GP64())
	var row [4]GPVirtual
	for i := range row {
		row[i] = GP64()
		MOVQ(Mem{Base: rows, Disp: 8 * i}, row[i])
	}
	zero, total := YMM(), YMM()
	VXORPD(zero, zero, zero)
	VXORPD(total, total, total)
	at, count := GP64(), GP64()
	XORQ(at, at)
	bits := YMM()
	Label("planesWord")
	low, up := XMM(), XMM()
	VMOVQ(Mem{Base: row[0], Index: at, Scale: 1}, low)
	VMOVHPS(Mem{Base: row[1], Index: at, Scale: 1}, low, low)
	VMOVQ(Mem{Base: row[2], Index: at, Scale: 1}, up)
	VMOVHPS(Mem{Base: row[3], Index: at, Scale: 1}, up, up)
	VINSERTI128(Imm(1), up, low.AsY(), bits)
	ADDQ(Imm(8), at)
	MOVQ(U32(8), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	SUBQ(count, left)
	Label("planesByte")
	sum := YMM()
	for i := range 8 {
		sign, term := YMM(), YMM()
		VPSLLQ(Imm(uint64(63-i)), bits, sign)
		VBROADCASTSD(Mem{Base: w, Disp: 8 * i}, term)
		if i == 0 {
			VBLENDVPD(sign, term, zero, sum)
			VADDPD(zero, sum, sum) // −0 is 0
			continue
		}
		VBLENDVPD(sign, term, zero, term)
		VADDPD(term, sum, sum)
	}
	VADDPD(sum, total, total)
	VPSRLQ(Imm(8), bits, bits)
	ADDQ(Imm(64), w)
	DECQ(count)
	JNZ(LabelRef("planesByte"))
	CMPQ(left, Imm(0))
	JNE(LabelRef("planesWord"))
	VMOVUPD(total, Mem{Base: sums})
	VZEROUPPER()
	RET()
}

// entries makes the table of a half byte from its four weights: its 16 sums in four registers, less the least, in steps.
func entries() {
	TEXT("entriesAVX2", NOSPLIT, "func(table *byte, w, lows *float64, halves int, inverse float64)")
	Doc("entriesAVX2 sets table[16·h+x] to min(255, ⌊(s − lows[h])·inverse + ½⌋), s being the sum of w[4·h+bit] over the set bits of x, ascending, for halves ≥ 1. No s is below lows[h].")
	Pragma("noescape")
	table := Load(Param("table"), GP64())
	w := Load(Param("w"), GP64())
	lows := Load(Param("lows"), GP64())
	halves := Load(Param("halves"), GP64())
	inverse, half, most, scratch := YMM(), YMM(), YMM(), GP64()
	Load(Param("inverse"), inverse.AsX())
	VBROADCASTSD(inverse.AsX(), inverse)
	for _, c := range []struct {
		to  VecVirtual
		bit uint64
	}{{half, 0x3fe0000000000000}, {most, 0x406fe00000000000}} {
		MOVQ(U64(c.bit), scratch)
		VMOVQ(scratch, c.to.AsX())
		VBROADCASTSD(c.to.AsX(), c.to)
	}
	zero := YMM()
	VXORPD(zero, zero, zero)
	Label("entriesLoop")
	var x [4]VecVirtual
	for i := range x {
		x[i] = YMM()
		VBROADCASTSD(Mem{Base: w, Disp: 8 * i}, x[i])
	}
	var s [4]VecVirtual
	for i := range s {
		s[i] = YMM()
	}
	one := YMM()
	VBLENDPD(Imm(0b1010), x[0], zero, s[0]) // 0, w0, 0, w0
	VADDPD(zero, s[0], s[0])                // −0 is 0
	VBLENDPD(Imm(0b1100), x[1], zero, one)  // 0, 0, w1, w1
	VADDPD(one, s[0], s[0])
	VADDPD(x[2], s[0], s[1])
	VADDPD(x[3], s[0], s[2])
	VADDPD(x[3], s[1], s[3])
	low := YMM()
	VBROADCASTSD(Mem{Base: lows}, low)
	var words [4]VecVirtual
	for i := range s {
		words[i] = XMM()
		VSUBPD(low, s[i], s[i])
		VMULPD(inverse, s[i], s[i])
		VADDPD(half, s[i], s[i])
		VMINPD(most, s[i], s[i])
		VCVTTPD2DQY(s[i], words[i])
	}
	VPACKUSDW(words[1], words[0], words[0])
	VPACKUSDW(words[3], words[2], words[2])
	VPACKUSWB(words[2], words[0], words[0])
	VMOVDQU(words[0], Mem{Base: table})
	ADDQ(Imm(32), w)
	ADDQ(Imm(8), lows)
	ADDQ(Imm(16), table)
	DECQ(halves)
	JNZ(LabelRef("entriesLoop"))
	VZEROUPPER()
	RET()
}

// touch prefetches rows: any address may be asked for, but only those of rows are.
func touch() {
	TEXT("touchAVX2", NOSPLIT, "func(rows *byte, stride int, codes *int32, n int)")
	Doc("touchAVX2 prefetches the first and the last byte of n ≥ 1 rows of stride ≥ 1 bytes.")
	Pragma("noescape")
	rows, stride := Load(Param("rows"), GP64()), Load(Param("stride"), GP64())
	codes, n := Load(Param("codes"), GP64()), Load(Param("n"), GP64())
	at := GP64()
	Label("touchLoop")
	MOVLQSX(Mem{Base: codes}, at)
	IMULQ(stride, at)
	ADDQ(rows, at)
	PREFETCHT0(Mem{Base: at})
	PREFETCHT0(Mem{Base: at, Index: stride, Scale: 1, Disp: -1})
	ADDQ(Imm(4), codes)
	DECQ(n)
	JNZ(LabelRef("touchLoop"))
	RET()

	TEXT("touchPairsAVX2", NOSPLIT, "func(rows *[2]float32, codes *int32, n int)")
	Doc("touchPairsAVX2 prefetches n ≥ 1 pairs.")
	Pragma("noescape")
	pairs := Load(Param("rows"), GP64())
	codes, n = Load(Param("codes"), GP64()), Load(Param("n"), GP64())
	Label("touchPairsLoop")
	MOVLQSX(Mem{Base: codes}, at)
	PREFETCHT0(Mem{Base: pairs, Index: at, Scale: 8})
	ADDQ(Imm(4), codes)
	DECQ(n)
	JNZ(LabelRef("touchPairsLoop"))
	RET()
}
