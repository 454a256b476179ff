package simd

// SquaresTo sets sums[i] to Σ_j (rows[i·d+j] − v[j])², d = len(v): float64, j ascending, every product rounded before it
// is added. rows holds len(sums) rows.
func SquaresTo(sums []float64, rows, v []float32) {
	d := len(v)
	eachEight(sums, rows[:len(sums)*d], d, func(int) []float32 { return v }, true)
}

// DotsTo sets sums[i] to Σ_j rows[i·d+j]·v[j] in the same way.
func DotsTo(sums []float64, rows, v []float32) {
	d := len(v)
	eachEight(sums, rows[:len(sums)*d], d, func(int) []float32 { return v }, false)
}

// SquaresOf sets sums[i] to the squared distance of row i from row ids[i] of others, as SquaresTo does.
func SquaresOf(sums []float64, rows, others []float32, ids []int32, d int) {
	eachEight(sums, rows[:len(sums)*d], d, func(i int) []float32 { return others[int(ids[i])*d : (int(ids[i])+1)*d] }, true)
}

// DotsOf sets sums[i] to the dot product of row i with row ids[i] of others, as DotsTo does.
func DotsOf(sums []float64, rows, others []float32, ids []int32, d int) {
	eachEight(sums, rows[:len(sums)*d], d, func(i int) []float32 { return others[int(ids[i])*d : (int(ids[i])+1)*d] }, false)
}

// DotsWith sets sums[i] to the dot product of row i with other(i), as DotsTo does.
func DotsWith(sums []float64, rows []float32, d int, other func(i int) []float32) {
	eachEight(sums, rows[:len(sums)*d], d, other, false)
}

// eachEight takes eight rows at a time, the last ones again where fewer are left.
func eachEight(sums []float64, rows []float32, d int, other func(i int) []float32, squares bool) {
	n, four := len(sums), d&^3
	if !fast || n < 8 || four == 0 {
		for i := range sums {
			sums[i] = pair(rows[i*d:(i+1)*d], other(i), 0, squares)
		}
		return
	}
	var y [8]*float32
	for from := 0; from < n; from += 8 {
		from = min(from, n-8)
		for l := range y {
			y[l] = &other(from + l)[0]
		}
		out := (*[8]float64)(sums[from:])
		if squares {
			squaresAVX2(out, &rows[from*d], 4*d, &y, four)
		} else {
			dotsAVX2(out, &rows[from*d], 4*d, &y, four)
		}
		if four == d {
			continue
		}
		for l := range out {
			i := from + l
			out[l] = pair(rows[i*d+four:(i+1)*d], other(i)[four:], out[l], squares)
		}
	}
}

// pair adds the terms of one pair of rows to sum.
func pair(x, y []float32, sum float64, squares bool) float64 {
	y = y[:len(x)]
	if squares {
		for j, a := range x {
			t := float64(a) - float64(y[j])
			sum += float64(t * t)
		}
		return sum
	}
	for j, a := range x {
		sum += float64(float64(a) * float64(y[j]))
	}
	return sum
}

// Accumulate adds the components of x to sums, which has as many.
func Accumulate(sums []float64, x []float32) {
	i := 0
	if eights := len(x) / 8; fast && eights > 0 {
		_ = sums[len(x)-1]
		accumulateAVX2(&sums[0], &x[0], eights)
		i = 8 * eights
	}
	for ; i < len(x); i++ {
		sums[i] += float64(x[i])
	}
}

// Scores sets scores[c] to about (norms[c] − ⟨x, column c⟩)·scales[c] in float32: as Tile, for one row, but products j, j+4, j+8... are
// subtracted in a chain of their own. len(norms) is a multiple of 16, at least 16, and x has a component. It may be called only if Fast.
func Scores(scores, x, panels, norms, scales []float32) {
	count, d := len(norms)/TileColumns, len(x)
	_, _, _ = panels[count*TileColumns*d-1], scales[len(norms)-1], scores[len(norms)-1]
	scoresAVX2(&scores[0], &x[0], &panels[0], &norms[0], &scales[0], d, count)
}
