package simd

// Matrix4 multiplies eight rows by four vectors: out[stride·i+l] = float32(Σ_j panel[8·j+l]·v[4·j+i]), float64, j ascending,
// every product rounded before it is added. len(panel) is 8·d and len(v) 4·d, d ≥ 1.
func Matrix4(out []float32, stride int, panel, v []float64) {
	d := len(v) / 4
	panel, v, out = panel[:8*d], v[:4*d], out[:3*stride+8]
	if fast {
		matrix4AVX2(&out[0], 4*stride, &panel[0], &v[0], d)
		return
	}
	for i := range 4 {
		eightRows((*[8]float32)(out[i*stride:]), panel, v[i:], 4)
	}
}

// Quad widens four rows of d components, row-major: out[4·j+i] = rows[d·i+j].
func Quad(out []float64, rows []float32, d int) {
	out, rows = out[:4*d], rows[:4*d]
	j := 0
	if four := d &^ 3; fast && four > 0 {
		quadAVX2(&out[0], &rows[0], 4*d, four)
		j = four
	}
	for ; j < d; j++ {
		q := (*[4]float64)(out[4*j:])
		q[0], q[1], q[2], q[3] = float64(rows[j]), float64(rows[d+j]), float64(rows[2*d+j]), float64(rows[3*d+j])
	}
}

// Matrix1 multiplies 32 rows by one vector: out[8·p+l] from panels[8·d·p+8·j+l] and v[j], d = len(v) ≥ 1, as Matrix4 does.
func Matrix1(out *[32]float32, panels, v []float64) {
	d := len(v)
	panels = panels[:32*d]
	if fast {
		matrix1AVX2(out, &panels[0], 64*d, &v[0], d)
		return
	}
	for p := range 4 {
		eightRows((*[8]float32)(out[8*p:]), panels[8*d*p:8*d*(p+1)], v, 1)
	}
}

// eightRows keeps one accumulator for each row, so that the bits are those of one row at a time.
func eightRows(out *[8]float32, panel, v []float64, step int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for j := 0; len(panel) >= 8; j += step {
		p, x := (*[8]float64)(panel), v[j]
		s0 += float64(p[0] * x)
		s1 += float64(p[1] * x)
		s2 += float64(p[2] * x)
		s3 += float64(p[3] * x)
		s4 += float64(p[4] * x)
		s5 += float64(p[5] * x)
		s6 += float64(p[6] * x)
		s7 += float64(p[7] * x)
		panel = panel[8:]
	}
	*out = [8]float32{float32(s0), float32(s1), float32(s2), float32(s3), float32(s4), float32(s5), float32(s6), float32(s7)}
}
