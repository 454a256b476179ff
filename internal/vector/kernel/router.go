package kernel

import "math"

// lanes is the number of centroids compared at once; one accumulator each, so the bits are those of one at a time.
const lanes = 8

// Router finds the nearest of a fixed set of centroids. It is immutable and safe for concurrent use. It keeps the
// centroids as float64: 8·k·d bytes, rounded up to whole groups of eight centroids.
type Router struct {
	metric Metric
	k, d   int
	panels []float64 // group g, component j, lane l at (g·d + j)·lanes + l
	norms  []float64 // only for Cosine
}

// NewRouter prepares k centroids of d components, row-major. It copies them. len(centroids) is at least k·d.
func NewRouter(m Metric, centroids []float32, k, d int) *Router {
	groups := (k + lanes - 1) / lanes
	r := &Router{metric: m, k: k, d: d, panels: make([]float64, groups*d*lanes)}
	for c := range k {
		row := centroids[c*d : (c+1)*d]
		base := c / lanes * d * lanes
		for j, x := range row {
			r.panels[base+j*lanes+c%lanes] = float64(x)
		}
		if m == Cosine {
			r.norms = append(r.norms, math.Sqrt(SquaredNorm64(row)))
		}
	}
	return r
}

// Nearest is the flat nearest centroid (vector-index format, section 5): smallest float32 metric distance, lowest id
// wins ties (design, decision 19). v has d components. With no centroids, or if no distance is a number, id is −1 and
// the distance NaN.
func (r *Router) Nearest(v []float32) (id int, dist float32) {
	wide := make([]float64, r.d)
	return r.nearest(v, wide)
}

// NearestAll is Nearest for n vectors, row-major; ids and dists have n places, dists may be nil.
func (r *Router) NearestAll(vectors []float32, ids []int32, dists []float32) {
	wide := make([]float64, r.d)
	for i := range ids {
		id, dist := r.nearest(vectors[i*r.d:(i+1)*r.d], wide)
		ids[i] = int32(id)
		if dists != nil {
			dists[i] = dist
		}
	}
}

func (r *Router) nearest(v []float32, wide []float64) (int, float32) {
	norm := 0.0
	for j, x := range v[:r.d] {
		wide[j] = float64(x)
	}
	if r.metric == Cosine {
		norm = math.Sqrt(SquaredNorm64(wide))
	}
	best, bestDist, bestSum := -1, float32(math.NaN()), math.Inf(1)
	for g := 0; g*lanes < r.k; g++ {
		panel := r.panels[g*r.d*lanes : (g+1)*r.d*lanes]
		var sums [lanes]float64
		if r.metric == L2 {
			squaredPanel(&sums, panel, wide)
		} else {
			dotPanel(&sums, panel, wide)
		}
		for l, s := range sums[:min(lanes, r.k-g*lanes)] {
			var d float32
			switch r.metric {
			case L2:
				// Rounding and square root keep the order, so a sum that is not smaller cannot win.
				if best >= 0 && s >= bestSum {
					continue
				}
				d = float32(math.Sqrt(s))
			case Dot:
				d = float32(-s)
			default:
				d = float32(cosineDistance(s, norm, r.norms[g*lanes+l]))
			}
			if d < bestDist || (best < 0 && d == d) {
				best, bestDist, bestSum = g*lanes+l, d, s
			}
		}
	}
	return best, bestDist
}

// Nearest is Router.Nearest for a single question. For more than one, keep a Router.
func Nearest(m Metric, centroids []float32, k, d int, v []float32) (id int, dist float32) {
	return NewRouter(m, centroids, k, d).Nearest(v)
}

// squaredPanel adds the squared distances of v to eight centroids.
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

// dotPanel adds the dot products of v with eight rows.
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
