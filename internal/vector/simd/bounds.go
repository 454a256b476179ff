package simd

import "math"

// BoundTerms are what the bounds of a scan have in common. rip stands for Rescale·(Most + Step·sum) + Err·WNorm.
type BoundTerms struct {
	Most, Step, WNorm float64
	// Base is added before rip.
	Base float64
	// Length is what a row's norm is multiplied by, Least the norm below which a cosine distance is 1.
	Length, Least float64
}

// list is how the assembly takes them.
func (t *BoundTerms) list() *[6]float64 {
	return &[6]float64{t.Most, t.Step, t.WNorm, t.Base, t.Length, t.Least}
}

// BoundRows are the numbers of each row that bounds are made of: as many of each as there are sums.
type BoundRows struct{ Rescale, Err, Add, Norm []float32 }

// cut makes all of n places.
func (r *BoundRows) cut(n int) BoundRows {
	return BoundRows{Rescale: r.Rescale[:n], Err: r.Err[:n], Add: r.Add[:min(n, len(r.Add))], Norm: r.Norm[:min(n, len(r.Norm))]}
}

// rip is what sum stands for in row i; ok unless its bound is −Inf.
func (r *BoundRows) rip(i int, sum uint16, t *BoundTerms) (rip float64, ok bool) {
	rescale := float64(r.Rescale[i])
	ip := t.Most + float64(t.Step*float64(sum))
	return float64(rescale*ip) + float64(float64(r.Err[i])*t.WNorm), rescale >= 0
}

// SquaresBounds sets out[i] to Base + Norm² − 2·rip, and to −Inf unless Rescale ≥ 0: float64, each operation rounded.
func SquaresBounds(out []float64, sums []uint16, rows BoundRows, t *BoundTerms) {
	rows = rows.cut(len(out))
	sums, rows.Norm = sums[:len(out)], rows.Norm[:len(out)]
	from := 0
	if fours := len(out) / 4; fast && fours > 0 {
		boundsSquaresAVX2(&out[0], &sums[0], &rows.Rescale[0], &rows.Err[0], &rows.Norm[0], t.list(), fours)
		from = 4 * fours
	}
	for i := from; i < len(out); i++ {
		rip, ok := rows.rip(i, sums[i], t)
		n := float64(rows.Norm[i])
		if out[i] = t.Base + float64(n*n) - float64(2*rip); !ok {
			out[i] = math.Inf(-1)
		}
	}
}

// DotsBounds sets out[i] to −(Base + Add + rip) in the same way.
func DotsBounds(out []float64, sums []uint16, rows BoundRows, t *BoundTerms) {
	rows = rows.cut(len(out))
	sums, rows.Add = sums[:len(out)], rows.Add[:len(out)]
	from := 0
	if fours := len(out) / 4; fast && fours > 0 {
		boundsDotsAVX2(&out[0], &sums[0], &rows.Rescale[0], &rows.Err[0], &rows.Add[0], t.list(), fours)
		from = 4 * fours
	}
	for i := from; i < len(out); i++ {
		rip, ok := rows.rip(i, sums[i], t)
		if out[i] = -(t.Base + float64(rows.Add[i]) + rip); !ok {
			out[i] = math.Inf(-1)
		}
	}
}

// ones are the norms of rows that have none.
var ones = [4]float32{1, 1, 1, 1}

// CosinesBounds sets out[i] to 1 − (Base + Add + rip)/(Length·Norm) in the same way, and to 1 where Norm < Least. Without norms, all are 1.
func CosinesBounds(out []float64, sums []uint16, rows BoundRows, t *BoundTerms) {
	rows = rows.cut(len(out))
	sums, rows.Add = sums[:len(out)], rows.Add[:len(out)]
	norm, step := &ones[0], 0
	if rows.Norm != nil {
		rows.Norm = rows.Norm[:len(out)]
	}
	from := 0
	if fours := len(out) / 4; fast && fours > 0 {
		if rows.Norm != nil {
			norm, step = &rows.Norm[0], 16
		}
		boundsCosinesAVX2(&out[0], &sums[0], &rows.Rescale[0], &rows.Err[0], &rows.Add[0], norm, step, t.list(), fours)
		from = 4 * fours
	}
	for i := from; i < len(out); i++ {
		rip, ok := rows.rip(i, sums[i], t)
		n := 1.0
		if rows.Norm != nil {
			n = float64(rows.Norm[i])
		}
		out[i] = 1
		if !(n < t.Least) {
			out[i] = 1 - (t.Base+float64(rows.Add[i])+rip)/float64(t.Length*n)
		}
		if !ok {
			out[i] = math.Inf(-1)
		}
	}
}

// Below sets bit i%64 of set[i/64] unless x[i] > limit, so that it is set for NaN, and clears the others of whole words. set has at least
// (len(x)+63)/64 words.
func Below(set []uint64, x []float64, limit float64) {
	set = set[:(len(x)+63)/64]
	clear(set)
	from := 0
	if eights := len(x) / 8; fast && eights > 0 {
		belowAVX2(&set[0], &x[0], limit, eights)
		from = 8 * eights
	}
	for i := from; i < len(x); i++ {
		if !(x[i] > limit) {
			set[i/64] |= 1 << (i % 64)
		}
	}
}
