package search

import (
	"fmt"
	"math"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/vector/kernel"
)

// minNorm is the shortest query vector that the codes' estimates take for COSINE and DOT (rabitq.ErrZeroQuery); maxNorm is the longest,
// for all metrics: estimates and distances to centroids are float32 in part, which beyond it overflow.
const (
	minNorm = 1e-9
	maxNorm = 1e18
)

// query is the vector that is asked for, in the forms that the index and the exact distances need. It never changes.
//
// A short query has no direction to compare codes with, and a very long one no estimates that are numbers. For COSINE only the
// direction counts, so the index is asked with a vector of the same one that is as long as it has to be; zero has none and is refused.
// For the others the distances to such a vector are defined, but codes cannot rank them: brute force can.
type query struct {
	metric kernel.Metric
	narrow []float32 // as a row of the column would be narrowed
	wide   []float64 // as it was given; the exact distances of a DOUBLE column use it
	index  []float32 // what the index is asked with: narrow, or for COSINE another one of the same direction
}

// newQuery checks a query vector. Every error is ErrUsage.
func newQuery(m kernel.Metric, v avrox.Vector, given []float64) (*query, error) {
	if len(given) != v.Dim {
		return nil, wrong(fmt.Sprintf("give a vector of %d numbers, or the key of a row", v.Dim),
			"query vector has %d components, column %s has %d", len(given), v.Column, v.Dim)
	}
	q := &query{metric: m, wide: given, narrow: make([]float32, v.Dim)}
	for i, x := range given {
		q.narrow[i] = float32(x)
	}
	if ok, reason := kernel.Indexable(m, q.narrow); !ok {
		return nil, wrong("give a vector of finite float32 numbers, for cosine not all zero", "query vector: %s", reason)
	}
	q.index = q.narrow
	norm := math.Sqrt(kernel.SquaredNorm64(q.narrow))
	if m != kernel.Cosine || norm >= 2*minNorm && norm <= maxNorm { // the length is measured again when it is rotated, which rounds
		return q, nil
	}
	q.index = make([]float32, v.Dim)
	for i, x := range q.narrow {
		q.index[i] = float32(float64(x) / norm)
	}
	return q, nil
}

// uncoded says why codes cannot be compared with the query; "" if they can.
func (q *query) uncoded() string {
	switch norm := math.Sqrt(kernel.SquaredNorm64(q.index)); {
	case norm > maxNorm:
		return fmt.Sprintf("the query vector is longer than %g, so codes say nothing about its distances", float64(maxNorm))
	case q.metric != kernel.L2 && norm < 2*minNorm:
		return fmt.Sprintf("the query vector is shorter than %g, so codes say nothing about its distances", 2*minNorm)
	}
	return ""
}

// stored is a vector of the table, decoded once for all queries. It belongs to one goroutine.
type stored struct {
	metric  kernel.Metric
	element kernel.Element
	narrow  []float32
	wide    []float64
	exact   bool // wide is set
}

func newStored(m kernel.Metric, v avrox.Vector) *stored {
	s := &stored{metric: m, element: v.Element.Kernel(), narrow: make([]float32, v.Dim)}
	if s.element == kernel.Double {
		s.wide = make([]float64, v.Dim)
	}
	return s
}

// set takes over a vector; false for that of a row that cannot be in the index.
func (s *stored) set(raw []byte) bool {
	ok, _ := kernel.Narrow(s.narrow, raw, s.element, s.metric)
	s.exact = ok && s.wide != nil && kernel.ToFloat64(s.wide, raw, s.element)
	return ok
}

// distance is the exact distance to a stored vector (design, section 5). A FLOAT or INT8 column is compared with the narrowed query, so
// that a row is at distance 0 from itself.
func (q *query) distance(s *stored) float64 {
	if s.exact {
		return settled(q.metric, kernel.Distance64(q.metric, s.wide, q.wide))
	}
	return settled(q.metric, kernel.Distance64(q.metric, s.narrow, q.narrow))
}

// settled is a distance as an answer shows it. Rounding can put the cosine of a row with itself a little above 1, and
// estimates can be below 0: a squared length and 1 − cos never are. −0 becomes 0.
func settled(m kernel.Metric, d float64) float64 {
	if d == 0 || d < 0 && m != kernel.Dot {
		return 0
	}
	return d
}
