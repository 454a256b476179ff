package ivf

import (
	"context"
	"math"

	"tidemark/internal/vector/kernel"
)

// splitMix is the SplitMix64 generator: eight lines that will give the same stream for ever.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// float64 is uniform in [0, 1).
func (s *splitMix) float64() float64 { return float64(s.next()>>11) * 0x1p-53 }

// start draws the first centroids by k-means++: the first row uniformly, each further one with a chance proportional to
// the squared distance to the nearest centroid so far. k is at most the number of different rows, so there always is a
// row away from all centroids.
func (t *trainer) start(ctx context.Context) error {
	random := splitMix(t.seed)
	t.centroids = make([]float32, 0, t.k*t.d)
	weights := make([]float64, t.n)
	for i := range weights {
		weights[i] = math.Inf(1)
	}
	pick := int(random.next() % uint64(t.n))
	for {
		t.centroids = append(t.centroids, t.row(pick)...)
		if len(t.centroids) == t.k*t.d {
			return nil
		}
		last := t.centroids[len(t.centroids)-t.d:]
		if err := t.ranges(ctx, t.n, rowSpan, func(from, to int) {
			var dists [rowSpan]float64
			kernel.Distances64(kernel.L2, dists[:to-from], t.rows[from*t.d:to*t.d], last)
			for i, x := range dists[:to-from] {
				weights[from+i] = min(weights[from+i], x)
			}
		}); err != nil {
			return err
		}
		pick = draw(weights, &random)
	}
}

// draw picks an index with a chance proportional to its weight. Some weight is above 0; one of 0 is never picked.
func draw(weights []float64, random *splitMix) int {
	// Scaled by the largest weight, so that the sum cannot overflow.
	largest, total := 0.0, 0.0
	for _, w := range weights {
		largest = max(largest, w)
	}
	for _, w := range weights {
		total += w / largest
	}
	rest, last := float64(random.float64()*total), 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		last = i
		if rest -= w / largest; rest < 0 {
			break
		}
	}
	return last
}
