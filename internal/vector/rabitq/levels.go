package rabitq

import "math"

// gridSize is the number of factors that the level search tries.
const gridSize = 64

// chooseLevels picks the best factor of the grid and writes the levels (vector-index format, section 4.3). It returns
// the factor.
func chooseLevels(levels []byte, r []float32, rn float32, bits int) float64 {
	top := float64(int(1)<<(bits-1) - 1)
	a := make([]float64, len(r))
	largest := 0.0
	for i, x := range r {
		a[i] = math.Abs(float64(x / rn))
		largest = max(largest, a[i])
	}
	factor := 1.0
	if largest > 1e-12 {
		factor = bestFactor(a, top, largest)
	}
	for i, x := range a {
		level := byte(levelOf(factor, x, top))
		if r[i] < 0 {
			level = byte(top) - level
		}
		levels[i] = level
	}
	return factor
}

// levelOf is clamp(floor(f·a + 1e−5), 0, top). Both inputs are at least 0, so cutting off the fraction is the floor.
func levelOf(f, a, top float64) float64 {
	x := float64(f*a) + 1e-5
	if x >= top {
		return top
	}
	return float64(int64(x))
}

// bestFactor is the first factor of the grid with the best score. Few components change their level from one factor to
// the next, so the scores are first summed up from those changes; the few factors whose score comes within rounding
// error of the best are then scored literally, which decides as the plain loop over the whole grid would.
func bestFactor(a []float64, top, largest float64) float64 {
	var grid [gridSize + 1]float64 // 1-based
	for s := 1; s <= gridSize; s++ {
		grid[s] = float64(float64(s)*top) / float64(gridSize*largest)
	}
	var num, extra [gridSize + 1]float64 // what changes at a factor
	sum := 0.0
	for _, x := range a {
		sum += x
		if top > maxBucketLevel {
			addLevels(&num, &extra, &grid, x, top)
		} else {
			addCrossings(&num, &extra, &grid, x, top)
		}
	}
	quarter := float64(0.25 * float64(len(a)))
	var scores [gridSize + 1]float64
	high, n, e := math.Inf(-1), float64(0.5*sum), 0.0
	for s := 1; s <= gridSize; s++ {
		n += num[s]
		e += extra[s]
		scores[s] = n / math.Sqrt(quarter+e)
		high = max(high, scores[s])
	}
	best, bestScore := 1.0, math.Inf(-1)
	for s := 1; s <= gridSize; s++ {
		if scores[s] < high-float64(high*1e-12) {
			continue
		}
		if score := literalScore(a, grid[s], top, quarter); score > bestScore {
			best, bestScore = grid[s], score
		}
	}
	return best
}

// maxBucketLevel is the top level from which on there are more levels than factors, so that looking at each factor is
// cheaper than looking for each level.
const maxBucketLevel = 31

// addCrossings finds the first factor at which x reaches each level.
func addCrossings(num, extra, grid *[gridSize + 1]float64, x, top float64) {
	reached := levelOf(grid[gridSize], x, top)
	step := grid[1] * x
	for k := 1.0; k <= reached; k++ {
		// An estimate, then the literal test of the neighbours.
		s := min(gridSize, max(1, int(k/step)))
		for s > 1 && float64(grid[s-1]*x)+1e-5 >= k {
			s--
		}
		for float64(grid[s]*x)+1e-5 < k {
			s++
		}
		num[s] += x
		extra[s] += 2 * k
	}
}

// addLevels looks at every factor.
func addLevels(num, extra, grid *[gridSize + 1]float64, x, top float64) {
	before := 0.0
	for s := 1; s <= gridSize; s++ {
		if level := levelOf(grid[s], x, top); level > before {
			num[s] += float64((level - before) * x)
			extra[s] += float64(level*level) + level - float64(before*before) - before
			before = level
		}
	}
}

// literalScore is the score of one factor in the reference's order of operations.
func literalScore(a []float64, f, top, quarter float64) float64 {
	num, extra := 0.0, 0.0
	for _, x := range a {
		level := levelOf(f, x, top)
		num += float64((level + 0.5) * x)
		extra += float64(level*level) + level
	}
	return num / math.Sqrt(quarter+extra)
}
