package kernel

import (
	"math"

	"tidemark/internal/vector/simd"
)

// Router finds the nearest of a fixed set of centroids. It is immutable and safe for concurrent use. It keeps the
// centroids twice as float32, or, in the portable form, once as float64: 8·k·d bytes.
type Router struct {
	metric Metric
	k, d   int
	norms  []float64 // only for Cosine
	rows   []float32 // row-major; only for the assembly
	tiles  *tiles    // nil: literal comparisons only
	panels []float64 // only for the portable form
}

// NewRouter prepares k centroids of d components, row-major. It copies them. len(centroids) is at least k·d.
func NewRouter(m Metric, centroids []float32, k, d int) *Router {
	r := &Router{metric: m, k: k, d: d}
	if m == Cosine {
		r.norms = make([]float64, k)
		for c := range k {
			r.norms[c] = math.Sqrt(SquaredNorm64(centroids[c*d : (c+1)*d]))
		}
	}
	if simd.Fast() {
		r.rows = append(r.rows, centroids[:k*d]...)
		r.tiles = newTiles(r)
	} else {
		r.panels = panels[float64](centroids, k, d, 0)
	}
	return r
}

func (r *Router) row(c int) []float32 { return r.rows[c*r.d : (c+1)*r.d] }

// Nearest is the flat nearest centroid: smallest float32 metric distance, lowest id
// wins ties (design, decision 19). v has d components. With no centroids, or if no distance is a number, id is −1 and
// the distance NaN.
func (r *Router) Nearest(v []float32) (id int, dist float32) {
	var ids [1]int32
	var dists [1]float32
	r.NearestAll(v, ids[:], dists[:])
	return int(ids[0]), dists[0]
}

// NearestAll is Nearest for n vectors, row-major; ids and dists have n places, dists may be nil.
func (r *Router) NearestAll(vectors []float32, ids []int32, dists []float32) {
	if r.tiles != nil {
		r.nearestTiled(vectors, ids, dists)
		return
	}
	sums := make([]float64, r.k+lanes)
	for i := range ids {
		id, dist := r.literal(vectors[i*r.d:(i+1)*r.d], sums)
		ids[i] = int32(id)
		if dists != nil {
			dists[i] = dist
		}
	}
}

// literal looks at every centroid. sums has k + 8 places.
func (r *Router) literal(v []float32, sums []float64) (int, float32) {
	norm := 0.0
	if r.metric == Cosine {
		norm = math.Sqrt(SquaredNorm64(v))
	}
	r.sum(sums, v)
	sums = sums[:r.k]
	best, bestDist, bestSum := -1, float32(math.NaN()), math.Inf(1)
	for c, s := range sums {
		// Rounding and square root keep the order, so a sum that is not smaller cannot win.
		if r.metric == L2 && best >= 0 && s >= bestSum {
			continue
		}
		if d := r.distance(s, c, norm); d < bestDist || best < 0 && d == d {
			best, bestDist, bestSum = c, d, s
		}
	}
	return best, bestDist
}

// sum fills in the squared distances, or products, of all centroids.
func (r *Router) sum(sums []float64, v []float32) {
	switch {
	case r.panels != nil:
		wide := make([]float64, r.d)
		for j, x := range v {
			wide[j] = float64(x)
		}
		for c := 0; c < r.k; c += lanes {
			out, panel := (*[lanes]float64)(sums[c:]), r.panels[c*r.d:(c+lanes)*r.d]
			if r.metric == L2 {
				squaredPanel(out, panel, wide)
			} else {
				dotPanel(out, panel, wide)
			}
		}
	case r.metric == L2:
		simd.SquaresTo(sums[:r.k], r.rows, v)
	default:
		simd.DotsTo(sums[:r.k], r.rows, v)
	}
}

// distance is the distance to centroid c, from the sum of squares or products and, for Cosine, the vector's length.
func (r *Router) distance(sum float64, c int, norm float64) float32 {
	switch r.metric {
	case L2:
		return float32(math.Sqrt(sum))
	case Dot:
		return float32(-sum)
	}
	return float32(cosineDistance(sum, norm, r.norms[c]))
}

// Nearest is Router.Nearest for a single question. For more than one, keep a Router.
func Nearest(m Metric, centroids []float32, k, d int, v []float32) (id int, dist float32) {
	return NewRouter(m, centroids, k, d).Nearest(v)
}
