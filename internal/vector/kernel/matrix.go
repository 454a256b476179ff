package kernel

// Matrix is a dense matrix laid out for products with one vector at a time. It is immutable and safe for concurrent
// use. It keeps float64 values: 8·rows·cols bytes, rows rounded up to whole groups of eight.
type Matrix struct {
	rows, cols int
	panels     []float64
}

// NewMatrix prepares a row-major matrix. It copies the values.
func NewMatrix(values []float32, rows, cols int) *Matrix {
	r := NewRouter(Dot, values, rows, cols)
	return &Matrix{rows: rows, cols: cols, panels: r.panels}
}

// Apply sets dst[i] to float32(Σ_j m[i][j]·v[j]), float64 sums, j ascending. dst has rows places, v has cols; they may
// not overlap.
func (m *Matrix) Apply(dst, v []float32) {
	wide := make([]float64, m.cols)
	for j, x := range v[:m.cols] {
		wide[j] = float64(x)
	}
	var sums [lanes]float64
	for i := 0; i < m.rows; i += lanes {
		dotPanel(&sums, m.panels[i*m.cols:(i+lanes)*m.cols], wide)
		for l := range min(lanes, m.rows-i) {
			dst[i+l] = float32(sums[l])
		}
	}
}
