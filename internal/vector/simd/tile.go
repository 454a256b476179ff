package simd

// TileColumns is how many columns a panel has.
const TileColumns = 16

// MaxTileRows is the largest number of rows that a tile has in any form.
const MaxTileRows = 12

// TileRows is how many rows a tile has: 12 with AVX-512, else 6.
func TileRows() int {
	if wide {
		return MaxTileRows
	}
	return 6
}

// Tile scores TileRows rows of d components at x, stride components apart, against whole panels of sixteen columns,
// panels[16·(p·d+j)+l]:
//
//	scores[len(norms)·i + c] = (norms[c] − ⟨x_i, column c⟩)·scales[c]
//
// in float32, each product fused with its subtraction, j ascending. mins[8·i:8·i+8], which the caller sets before, ends
// as the least of what it was and row i's scores. len(norms) is a multiple of 16, at least 16.
func Tile(scores, x []float32, stride int, panels, norms, scales []float32, d int, mins *[8 * MaxTileRows]float32) {
	count, rows := len(norms)/TileColumns, TileRows()
	_, _, _, _ = x[(rows-1)*stride+d-1], panels[count*TileColumns*d-1], scales[len(norms)-1], scores[rows*len(norms)-1]
	if wide {
		tileAVX512(&x[0], 4*stride, &panels[0], &norms[0], &scales[0], d, count, &scores[0], mins)
		return
	}
	tileAVX2(&x[0], 4*stride, &panels[0], &norms[0], &scales[0], d, count, &scores[0], (*[48]float32)(mins[:]))
}

// Low finds the scores, len(scores)/len(limits) of each row and a multiple of 16, that are not above their row's limit: for each group of sixteen that
// has some a word row<<48 | group<<16 | the lanes, one bit each, by row and group. It returns how many. out has room for all groups. A row with a NaN gets
// any words.
func Low(out []uint64, scores, limits []float32) int {
	rows := len(limits)
	groups := len(scores) / TileColumns / rows
	_, _ = out[rows*groups-1], scores[TileColumns*rows*groups-1]
	return lowAVX2(&scores[0], groups, rows, &limits[0], &out[0])
}

// Least sets out[i] to the least of mins[8·i:8·i+8]. None is NaN.
func Least(out *[MaxTileRows]float32, mins *[8 * MaxTileRows]float32) {
	leastAVX2((*[48]float32)(mins[:]), (*[6]float32)(out[:]))
	if wide {
		leastAVX2((*[48]float32)(mins[48:]), (*[6]float32)(out[6:]))
	}
}

// Norm is about Σ x², with a relative error below (len(x)/8 + 16)·2⁻²⁴, not finite if a component is not.
func Norm(x []float32) float32 {
	sum, eight := float32(0), len(x)&^7
	if eight > 0 {
		sum = normAVX2(&x[0], eight)
	}
	for _, a := range x[eight:] {
		sum += float32(a * a)
	}
	return sum
}
