package kernel

// lanes is the number of rows that are worked on at once; one accumulator each, so the bits are those of one at a time.
const lanes = 8

// panels are rows, eight at a time: group g, component j, lane l at (g·cols + j)·lanes + l. There are at least that many rows.
func panels[T float32 | float64](values []float32, rows, cols, least int) []T {
	out := make([]T, (max(rows, least)+lanes-1)/lanes*cols*lanes)
	for i := range rows {
		base := i/lanes*cols*lanes + i%lanes
		for j, x := range values[i*cols : (i+1)*cols] {
			out[base+j*lanes] = T(x)
		}
	}
	return out
}

// squaredPanel is the squared distances of v to eight rows.
func squaredPanel(sums *[lanes]float64, panel, v []float64) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for j, x := range v {
		p := (*[lanes]float64)(panel[j*lanes:])
		d0, d1, d2, d3 := x-p[0], x-p[1], x-p[2], x-p[3]
		d4, d5, d6, d7 := x-p[4], x-p[5], x-p[6], x-p[7]
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
		s4 += float64(d4 * d4)
		s5 += float64(d5 * d5)
		s6 += float64(d6 * d6)
		s7 += float64(d7 * d7)
	}
	*sums = [lanes]float64{s0, s1, s2, s3, s4, s5, s6, s7}
}

// dotPanel is the dot products of v with eight rows.
func dotPanel(sums *[lanes]float64, panel, v []float64) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for j, x := range v {
		p := (*[lanes]float64)(panel[j*lanes:])
		s0 += float64(p[0] * x)
		s1 += float64(p[1] * x)
		s2 += float64(p[2] * x)
		s3 += float64(p[3] * x)
		s4 += float64(p[4] * x)
		s5 += float64(p[5] * x)
		s6 += float64(p[6] * x)
		s7 += float64(p[7] * x)
	}
	*sums = [lanes]float64{s0, s1, s2, s3, s4, s5, s6, s7}
}
