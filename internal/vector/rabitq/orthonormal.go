package rabitq

import (
	"math"

	"tidemark/internal/vector/simd"
)

// orthonormalise is modified Gram-Schmidt in right-looking order: finish column k, then take it out of every later
// column. Each column sees the same operations in the same order as in the column-by-column form of the format page,
// so the bits are equal, and several later columns can be worked on at once, one accumulator each.
func orthonormalise(columns [][]float64) {
	if simd.Fast() {
		orthonormalisePanels(columns)
		return
	}
	for k, ck := range columns {
		normalise(ck)
		j := k + 1
		for ; j+4 <= len(columns); j += 4 {
			subtract4(ck, columns[j], columns[j+1], columns[j+2], columns[j+3])
		}
		for ; j < len(columns); j++ {
			subtract(ck, columns[j])
		}
	}
}

// orthonormalisePanels finishes sixteen columns, then takes them out of sixteen later ones at a time, in their order. It
// holds each column once: in its panel, then as a column, which is a new slice.
func orthonormalisePanels(columns [][]float64) {
	const width = simd.Columns
	n := len(columns)
	panels := make([][]float64, (n+width-1)/width)
	for p := range panels {
		panels[p] = make([]float64, width*n)
		for l, c := range columns[p*width : min(n, (p+1)*width)] {
			for i, x := range c {
				panels[p][width*i+l] = x
			}
			columns[p*width+l] = nil
		}
	}
	for p, panel := range panels {
		done := columns[p*width : min(n, (p+1)*width)]
		for l := range done {
			done[l] = make([]float64, n)
			for i := range done[l] {
				done[l][i] = panel[width*i+l]
			}
		}
		panels[p] = nil
		for k, c := range done {
			normalise(c)
			for _, later := range done[k+1:] {
				subtract(c, later)
			}
		}
		for _, later := range panels[p+1:] {
			for _, c := range done {
				simd.Project(later, c)
			}
		}
	}
}

// normalise gives a column the length 1, unless it has hardly any.
func normalise(c []float64) {
	norm := math.Sqrt(dot(c, c))
	if norm > 1e-10 {
		for i := range c {
			c[i] /= norm
		}
	}
}

// subtract takes the component along q out of c.
func subtract(q, c []float64) {
	d := dot(q, c)
	for i, x := range q {
		c[i] -= float64(d * x)
	}
}

func dot(a, b []float64) float64 {
	b = b[:len(a)]
	sum := 0.0
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// subtract4 takes the component along q out of four columns.
//
// The race detector is off here: the columns belong to the goroutine that makes the matrix, and checking each of the
// 2·D³ accesses would make the golden matrices unaffordable in a test run with -race.
//
//go:norace
func subtract4(q, a, b, c, d []float64) {
	n := len(q)
	a, b, c, d = a[:n], b[:n], c[:n], d[:n]
	var sa, sb, sc, sd float64
	for i, x := range q {
		sa += float64(x * a[i])
		sb += float64(x * b[i])
		sc += float64(x * c[i])
		sd += float64(x * d[i])
	}
	for i, x := range q {
		a[i] -= float64(sa * x)
		b[i] -= float64(sb * x)
		c[i] -= float64(sc * x)
		d[i] -= float64(sd * x)
	}
}
