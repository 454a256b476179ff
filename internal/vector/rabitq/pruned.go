package rabitq

import "math"

// Of the components of a factor that is not the best, a part is enough to tell so. Let n and q be Σ (l+½)·a and Σ (l+½)² over the
// components looked at, and r be Σ a² over the others. Whatever their levels are, by Cauchy and Schwarz the score is at most
// √(n²/q + r). Rounding in sums of up to MaxDim components changes no side of the comparison by more than 10⁻¹¹ of Σ a²; the
// margin is ten times that.
const (
	pruneMargin = 1e-10
	pruneTests  = 16 // how many parts of the components there are
)

// bestPruned scores the factors four at a time, from the greatest on, which usually are the best ones, and leaves out what cannot
// reach the best score so far. Scores of the others are made of literalScore's operations in their order.
func bestPruned(grid *factors64, a []float64, half *halfTable) float64 {
	var rest [pruneTests + 1]float64 // Σ a² from a part on
	part, all := (len(a)+pruneTests-1)/pruneTests, 0.0
	for t := pruneTests - 1; t >= 0; t-- {
		all += squares(a[min(len(a), t*part):min(len(a), (t+1)*part)])
		rest[t] = all
	}
	best, bestScore, least := 1.0, math.Inf(-1), math.Inf(-1)
factors:
	for s := gridSize; s > 0; s -= 4 {
		four := fourFactors{halfTable: half, f: [4]float64(grid[s-3 : s+1])}
		// The error of a code is about the same at all factors, so that its share of the length grows by the square of 1/f. That
		// tells which part is needed at least; there is nothing to be gained by a test before.
		t, seen := max(1, pruneTests*s*s*11/(10*gridSize*gridSize)), 0
		for ; seen < len(a); t++ {
			next := min(t*part, len(a))
			four.add(a[seen:next])
			if seen = next; seen < len(a) && four.below(least-rest[t], seen) {
				continue factors
			}
		}
		quarter := float64(0.25 * float64(len(a)))
		for i := 3; i >= 0; i-- {
			// Of equal scores the first factor's counts.
			if score := four.num[i] / math.Sqrt(quarter+float64(four.extra[i])); score >= bestScore {
				best, bestScore = four.f[i], score
			}
		}
		least = float64(bestScore*bestScore) - float64(pruneMargin*all)
	}
	return best
}

// fourFactors are four factors and their sums so far: num is Σ (l+½)·a, extra is Σ (l²+l).
type fourFactors struct {
	*halfTable
	f, num [4]float64
	extra  [4]int
}

// below says that num² < need·(¼·seen + extra) for all four.
func (q *fourFactors) below(need float64, seen int) bool {
	quarter := float64(0.25 * float64(seen))
	for i, n := range q.num {
		if float64(n*n) >= float64(need*(quarter+float64(q.extra[i]))) {
			return false
		}
	}
	return true
}

// add takes in more components. Without branches, four chains of additions are under way at once.
func (q *fourFactors) add(a []float64) {
	f0, f1, f2, f3 := q.f[0], q.f[1], q.f[2], q.f[3]
	n0, n1, n2, n3 := q.num[0], q.num[1], q.num[2], q.num[3]
	e0, e1, e2, e3 := q.extra[0], q.extra[1], q.extra[2], q.extra[3]
	h := q.halfTable
	for _, x := range a {
		k, l := uint8(int64(float64(f0*x)+1e-5)), uint8(int64(float64(f1*x)+1e-5))
		n0 += float64(h.half[k] * x)
		e0 += h.extra[k]
		n1 += float64(h.half[l] * x)
		e1 += h.extra[l]
		k, l = uint8(int64(float64(f2*x)+1e-5)), uint8(int64(float64(f3*x)+1e-5))
		n2 += float64(h.half[k] * x)
		e2 += h.extra[k]
		n3 += float64(h.half[l] * x)
		e3 += h.extra[l]
	}
	q.num, q.extra = [4]float64{n0, n1, n2, n3}, [4]int{e0, e1, e2, e3}
}

// halfTable is l+½ and l²+l for each level l, those of the top level beyond it. No factor of a grid gives a level above 255.
type halfTable struct {
	half  [256]float64
	extra [256]int
}

// halves are the tables by bits.
var halves = func() (all [9]halfTable) {
	for bits := 2; bits < len(all); bits++ {
		t := &all[bits]
		for i := range t.half {
			l := min(i, 1<<(bits-1)-1)
			t.half[i], t.extra[i] = float64(l)+0.5, l*l+l
		}
	}
	return all
}()

// squares is about Σ a².
func squares(a []float64) float64 {
	var s, t, u, v float64
	for ; len(a) >= 4; a = a[4:] {
		s += float64(a[0] * a[0])
		t += float64(a[1] * a[1])
		u += float64(a[2] * a[2])
		v += float64(a[3] * a[3])
	}
	for _, x := range a {
		s += float64(x * x)
	}
	return s + t + (u + v)
}
