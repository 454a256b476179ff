package simd

// Matrix4 multiplies eight rows by four vectors: out[8·i+l] = float32(Σ_j panel[8·j+l]·v[4·j+i]), float64, j ascending,
// every product rounded before it is added. len(panel) is 8·d and len(v) 4·d, d ≥ 1.
func Matrix4(out *[32]float32, panel, v []float64) {
	d := len(v) / 4
	panel, v = panel[:8*d], v[:4*d]
	if fast {
		matrix4AVX2(out, &panel[0], &v[0], d)
		return
	}
	for i := range 4 {
		eightRows((*[8]float32)(out[8*i:]), panel, v[i:], 4)
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
