// Command peak writes the assembly of internal/vector/peak. Run it by make generate.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	loop("fma", "fma is 12 independent chains of float32 multiply-adds in 8 lanes, n times.", 12, func(x VecVirtual, acc []VecVirtual) {
		for _, a := range acc {
			VFMADD231PS(x, x, a)
		}
	})
	loop("mulAdd", "mulAdd is 10 independent chains of float64 additions in 4 lanes, each of a product made before, n times.", 10, func(x VecVirtual, acc []VecVirtual) {
		for _, a := range acc {
			p := YMM()
			VMULPD(x, x, p)
			VADDPD(p, a, a)
		}
	})
	Generate()
}

func loop(name, doc string, chains int, step func(x VecVirtual, acc []VecVirtual)) {
	TEXT(name, NOSPLIT, "func(n int)")
	Doc(doc)
	n := Load(Param("n"), GP64())
	x := YMM()
	VXORPS(x, x, x)
	acc := make([]VecVirtual, chains)
	for i := range acc {
		acc[i] = YMM()
		VXORPS(acc[i], acc[i], acc[i])
	}
	Label(name + "Loop")
	step(x, acc)
	DECQ(n)
	JNZ(LabelRef(name + "Loop"))
	VZEROUPPER()
	RET()
}
