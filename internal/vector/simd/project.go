package simd

// Columns is how many columns Project works on.
const Columns = 16

// Project takes the component along q out of sixteen columns of len(q) ≥ 1 components: with s = Σ_i q[i]·panel[16·i+l],
// i ascending, panel[16·i+l] loses s·q[i]. Every product is rounded before it is used.
func Project(panel, q []float64) {
	n := len(q)
	panel = panel[:Columns*n]
	if fast {
		projectAVX2(&panel[0], &q[0], n)
		return
	}
	for l := range Columns {
		s := 0.0
		for i, x := range q {
			s += float64(x * panel[Columns*i+l])
		}
		for i, x := range q {
			panel[Columns*i+l] -= float64(s * x)
		}
	}
}
