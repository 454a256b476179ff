package rabitq

import (
	"math"

	"tidemark/internal/vector/simd"
)

// Levels says which factors are tried for the levels of a code of 2 bits or more.
type Levels uint8

const (
	// Reference are those of the format: up to the one that gives the largest component the top level. The best one is often
	// greater, the more so the fewer the bits and the more the components.
	Reference Levels = iota
	// Wide reaches further: components beyond the top level get the top level. At 2, 3, 4, 5 bits up to 4, 2.5, 1.75, 1.375 times as far.
	// The code and its factors are read like any other.
	Wide
)

// gridSize is the number of factors that the level search tries.
const gridSize = 64

// choice is what the choice of levels depends on beside the vector.
type choice struct {
	top   float64 // level
	reach float64 // the greatest factor of the grid times the largest component, in top levels: 1 in the format
	half  *halfTable
}

func newChoice(bits int, l Levels) choice {
	c := choice{top: float64(int(1)<<(bits-1) - 1), reach: 1, half: &halves[bits]}
	if l == Wide {
		c.reach += 12 / float64(int(1)<<bits)
	}
	return c
}

// levels picks the best factor of the grid and writes the levels (docs/format/rabitq.md, From vector to code). It returns
// the factor. a has a place for each component.
func (c choice) levels(levels []byte, a []float64, r []float32, rn float32) float64 {
	top, largest := c.top, 0.0
	for i, x := range r {
		y := math.Abs(float64(x / rn))
		a[i] = y
		if y > largest {
			largest = y
		}
	}
	factor := 1.0
	if largest > 1e-12 {
		factor = c.best(a, largest)
	}
	for i, x := range a {
		// top − level where r is negative; top is all ones.
		levels[i] = byte(levelOf(factor, x, top)) ^ byte(top)&-positive(-r[i])
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

// factors64 are the factors of the grid, from 1 on.
type factors64 [gridSize + 1]float64

func (c choice) grid(largest float64) *factors64 {
	var grid factors64
	top := c.top * c.reach // exact
	for s := 1; s <= gridSize; s++ {
		grid[s] = float64(float64(s)*top) / float64(gridSize*largest)
	}
	return &grid
}

// best is the first factor of the grid with the best score. There are three ways to find it, and each decides as the
// plain loop over the whole grid does.
func (c choice) best(a []float64, largest float64) float64 {
	grid := c.grid(largest)
	switch {
	case simd.Fast() && c.top >= minLaneLevel:
		return bestLane(grid, a, c.top)
	case c.top > maxBucketLevel:
		return bestPruned(grid, a, c.half)
	}
	return bestBucket(grid, a, c.top)
}

// minLaneLevel is the top level from which on 64 lanes, one for each factor, are faster than buckets.
const minLaneLevel = 7

// bestLane scores every factor in a lane of its own, with the operations of literalScore in their order.
func bestLane(grid *factors64, a []float64, top float64) float64 {
	var num, den [gridSize]float64
	simd.Levels(&num, &den, (*[gridSize]float64)(grid[1:]), a, top)
	best, bestScore := 1.0, math.Inf(-1)
	for s, n := range num {
		if score := n / math.Sqrt(den[s]); score > bestScore { // Σ (l+½)² is D/4 + Σ (l² + l), and exact
			best, bestScore = grid[s+1], score
		}
	}
	return best
}

// maxBucketLevel is the top level beyond which there are so many levels that bestPruned is faster than buckets.
const maxBucketLevel = 7

// bestBucket finds out by buckets which factors may be the best, and scores those literally.
func bestBucket(grid *factors64, a []float64, top float64) float64 {
	quarter := float64(0.25 * float64(len(a)))
	var scores [gridSize + 1]float64
	high := bucketScores(&scores, grid, a, top, quarter)
	least := high - float64(high*1e-12)
	best, bestScore := 1.0, math.Inf(-1)
	for s := 1; s <= gridSize; s++ {
		if scores[s] < least {
			continue
		}
		if score := literalScore(a, grid[s], top, quarter); score > bestScore {
			best, bestScore = grid[s], score
		}
	}
	return best
}

// bucketScores fills in all scores up to rounding and returns the highest. Few components change their level from one factor
// to the next, so the scores are summed up from those changes. What comes within rounding error of the best must then be
// scored literally.
func bucketScores(scores *[gridSize + 1]float64, grid *factors64, a []float64, top, quarter float64) float64 {
	var num, extra [gridSize + 1]float64 // what changes at a factor
	sum := 0.0
	for _, x := range a {
		sum += x
		addCrossings(&num, &extra, grid, x, top)
	}
	high, n, e := math.Inf(-1), float64(0.5*sum), 0.0
	for s := 1; s <= gridSize; s++ {
		n += num[s]
		e += extra[s]
		scores[s] = n / math.Sqrt(quarter+e)
		high = max(high, scores[s])
	}
	return high
}

// addCrossings finds the first factor at which x reaches each level.
func addCrossings(num, extra *[gridSize + 1]float64, grid *factors64, x, top float64) {
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
