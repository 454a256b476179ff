package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Comparisons that are true for NaN unless ordered, and signal nothing.
var (
	notGreaterEqual = Imm(0x19)
	notGreater      = Imm(0x1a)
	less            = Imm(0x11)
)

// everywhere sets all lanes to a number.
func everywhere(x float64) VecVirtual {
	bits, v := GP64(), YMM()
	MOVQ(U64(math.Float64bits(x)), bits)
	VMOVQ(bits, v.AsX())
	VPBROADCASTQ(v.AsX(), v)
	return v
}

// bounds does the steps of rabitq's Bound in lanes, each rounded as there.
func bounds(metric string) {
	name := "bounds" + metric + "AVX2"
	params, doc := "", ""
	switch metric {
	case "Squares":
		params, doc = "norm", "terms[3] + norm[i]² − 2·rip"
	case "Dots":
		params, doc = "add", "−(terms[3] + add[i] + rip)"
	default:
		params, doc = "add, norm", "1 − (terms[3] + add[i] + rip)/(terms[4]·norm[i]), or 1 where norm[i] < terms[5]; norm goes on by step bytes, 0 or 16, after each four,"
	}
	step := ""
	if metric == "Cosines" {
		step = "step int, "
	}
	TEXT(name, NOSPLIT, "func(out *float64, sums *uint16, rescale, err, "+params+" *float32, "+step+"terms *[6]float64, fours int)")
	Doc(name + " sets out[i] to " + doc + " with rip = rescale[i]·(terms[0] + terms[1]·sums[i]) + err[i]·terms[2], and to −Inf unless rescale[i] ≥ 0, for 4·fours places, fours ≥ 1.")
	Pragma("noescape")
	out, sums := Load(Param("out"), GP64()), Load(Param("sums"), GP64())
	rescale, err := Load(Param("rescale"), GP64()), Load(Param("err"), GP64())
	terms, left := Load(Param("terms"), GP64()), Load(Param("fours"), GP64())
	at := GP64()
	XORQ(at, at)
	var add, norm, forth Register
	switch metric {
	case "Squares":
		norm = Load(Param("norm"), GP64())
	case "Dots":
		add = Load(Param("add"), GP64())
	default:
		add, norm, forth = Load(Param("add"), GP64()), Load(Param("norm"), GP64()), Load(Param("step"), GP64())
	}
	var term [6]VecVirtual
	for i := range term {
		term[i] = YMM()
		VBROADCASTSD(Mem{Base: terms, Disp: 8 * i}, term[i])
	}
	zero, least := YMM(), everywhere(math.Inf(-1))
	VXORPD(zero, zero, zero)
	var sign, one VecVirtual
	if metric == "Dots" {
		sign = everywhere(math.Copysign(0, -1))
	}
	if metric == "Cosines" {
		one = everywhere(1)
	}
	wide := func(from Register) VecVirtual {
		v := YMM()
		VCVTPS2PD(Mem{Base: from, Index: at, Scale: 4}, v)
		return v
	}
	Label(name + "Loop")
	rip, bad := YMM(), YMM()
	VPMOVZXWD(Mem{Base: sums, Index: at, Scale: 2}, rip.AsX())
	VCVTDQ2PD(rip.AsX(), rip)
	VMULPD(term[1], rip, rip)
	VADDPD(rip, term[0], rip)
	r, e := wide(rescale), wide(err)
	VCMPPD(notGreaterEqual, zero, r, bad)
	VMULPD(rip, r, rip)
	VMULPD(term[2], e, e)
	VADDPD(e, rip, rip)
	x := YMM()
	switch metric {
	case "Squares":
		n := wide(norm)
		VMULPD(n, n, n)
		VADDPD(n, term[3], x)
		VADDPD(rip, rip, rip)
		VSUBPD(rip, x, x)
	case "Dots":
		VADDPD(wide(add), term[3], x)
		VADDPD(rip, x, x)
		VXORPD(sign, x, x)
	default:
		n, short := YMM(), YMM()
		VCVTPS2PD(Mem{Base: norm}, n)
		VADDPD(wide(add), term[3], x)
		VADDPD(rip, x, x)
		VCMPPD(less, term[5], n, short)
		VMULPD(n, term[4], n)
		VDIVPD(n, x, x)
		VSUBPD(x, one, x)
		VBLENDVPD(short, one, x, x)
		ADDQ(forth, norm)
	}
	VBLENDVPD(bad, least, x, x)
	VMOVUPD(x, Mem{Base: out, Index: at, Scale: 8})
	ADDQ(Imm(4), at)
	DECQ(left)
	JNZ(LabelRef(name + "Loop"))
	VZEROUPPER()
	RET()
}

// below compares eight numbers at a time.
func below() {
	TEXT("belowAVX2", NOSPLIT, "func(set *uint64, x *float64, limit float64, eights int)")
	Doc("belowAVX2 sets bit i of set unless x[i] > limit, for 8·eights numbers, eights ≥ 1; a byte of set for each eight.")
	Pragma("noescape")
	set, x, left := Load(Param("set"), GP64()), Load(Param("x"), GP64()), Load(Param("eights"), GP64())
	limit := YMM()
	Load(Param("limit"), limit.AsX())
	VBROADCASTSD(limit.AsX(), limit)
	Label("belowLoop")
	low, high, a, b := YMM(), YMM(), GP32(), GP32()
	VMOVUPD(Mem{Base: x}, low)
	VMOVUPD(Mem{Base: x, Disp: 32}, high)
	VCMPPD(notGreater, limit, low, low)
	VCMPPD(notGreater, limit, high, high)
	VMOVMSKPD(low, a)
	VMOVMSKPD(high, b)
	SHLL(Imm(4), b)
	ORL(b, a)
	MOVB(a.As8(), Mem{Base: set})
	INCQ(set)
	ADDQ(Imm(64), x)
	DECQ(left)
	JNZ(LabelRef("belowLoop"))
	VZEROUPPER()
	RET()
}
