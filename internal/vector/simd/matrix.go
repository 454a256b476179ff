package simd

// Matrix multiplies eight rows by n ≥ 1 fours of vectors: out[stride·(4·q+i)+l] = float32(Σ_j panel[8·j+l]·quads[4·(d·q+j)+i]), float64, j
// ascending, every product rounded before it is added. Panel and quads hold float32 values, whose products are exact. len(panel) is 8·d, d ≥ 1. If sums, 32·n of them, are not nil, each sum goes on
// from sums[32·q+8·i+l] and is left there, too, so that columns can be taken in parts.
func Matrix(out []float32, stride int, sums, panel, quads []float64, n int) {
	d := len(panel) / 8
	panel, quads, out = panel[:8*d], quads[:4*d*n], out[:stride*(4*n-1)+8]
	var from *float64
	if sums != nil {
		from = &sums[:32*n][0]
	}
	if eights := n / 2; wide && eights > 0 {
		matrix8AVX512(&out[0], 4*stride, from, &panel[0], &quads[0], d, eights)
		if n%2 == 0 {
			return
		}
		n, out, quads = 1, out[8*stride*eights:], quads[8*d*eights:]
		if sums != nil {
			from = &sums[64*eights]
		}
	}
	if fast {
		matrix4AVX2(&out[0], 4*stride, from, &panel[0], &quads[0], d, n)
		return
	}
	for i := range 4 * n {
		var s [8]float64
		if sums != nil {
			s = [8]float64(sums[8*i:])
		}
		eightRows(&s, panel, quads[4*d*(i/4)+i%4:], 4)
		if sums != nil {
			copy(sums[8*i:], s[:])
		}
		narrow((*[8]float32)(out[stride*i:]), &s)
	}
}

// Widen makes float64 of all of x. What lies ahead components after it, if anything does, is wanted soon.
func Widen(out []float64, x []float32, ahead int) {
	out = out[:len(x)]
	i := 0
	if eights := len(x) / 8; fast && eights > 0 {
		widenAVX2(&out[0], &x[0], eights, 4*ahead)
		i = 8 * eights
	}
	for ; i < len(x); i++ {
		out[i] = float64(x[i])
	}
}

// Quad widens d components of four rows, stride components apart: out[4·j+i] = rows[stride·i+j].
func Quad(out []float64, rows []float32, stride, d int) {
	out, rows = out[:4*d], rows[:3*stride+d]
	j := 0
	if four := d &^ 3; fast && four > 0 {
		quadAVX2(&out[0], &rows[0], 4*stride, four)
		j = four
	}
	for ; j < d; j++ {
		q := (*[4]float64)(out[4*j:])
		q[0], q[1], q[2], q[3] = float64(rows[j]), float64(rows[stride+j]), float64(rows[2*stride+j]), float64(rows[3*stride+j])
	}
}

// Matrix1 multiplies 32 rows by one vector: out[8·p+l] is float32(Σ_j panels[8·d·p+8·j+l]·v[j]), d = len(v) ≥ 1, in float64 as Matrix does.
func Matrix1(out *[32]float32, panels []float32, v []float64) {
	d := len(v)
	panels = panels[:32*d]
	if fast {
		matrix1AVX2(out, &panels[0], 32*d, &v[0], d)
		return
	}
	for p := range 4 {
		var s [8]float64
		eightRows(&s, panels[8*d*p:8*d*(p+1)], v, 1)
		narrow((*[8]float32)(out[8*p:]), &s)
	}
}

// eightRows keeps one accumulator for each row, so that the bits are those of one row at a time.
func eightRows[T float32 | float64](sums *[8]float64, panel []T, v []float64, step int) {
	s0, s1, s2, s3, s4, s5, s6, s7 := sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]
	for j := 0; len(panel) >= 8; j += step {
		p, x := (*[8]T)(panel), v[j]
		s0 += float64(float64(p[0]) * x)
		s1 += float64(float64(p[1]) * x)
		s2 += float64(float64(p[2]) * x)
		s3 += float64(float64(p[3]) * x)
		s4 += float64(float64(p[4]) * x)
		s5 += float64(float64(p[5]) * x)
		s6 += float64(float64(p[6]) * x)
		s7 += float64(float64(p[7]) * x)
		panel = panel[8:]
	}
	*sums = [8]float64{s0, s1, s2, s3, s4, s5, s6, s7}
}

func narrow(out *[8]float32, sums *[8]float64) {
	for l, s := range sums {
		out[l] = float32(s)
	}
}
