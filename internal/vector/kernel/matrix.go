package kernel

import "tidemark/internal/vector/simd"

// batch is how many vectors ApplyAll takes with each panel of the matrix, so that a panel is fetched once for all of
// them; a multiple of 4.
const batch = 64

// Matrix is a dense matrix laid out for products with vectors. It is immutable and safe for concurrent use. It keeps
// float64 values: 8·rows·cols bytes, rows rounded up to whole groups of eight.
type Matrix struct {
	rows, cols int
	panels     []float64
}

// NewMatrix prepares a row-major matrix. It copies the values.
func NewMatrix(values []float32, rows, cols int) *Matrix {
	return &Matrix{rows: rows, cols: cols, panels: panels(values, rows, cols)}
}

// Apply sets dst[i] to float32(Σ_j m[i][j]·v[j]), float64 sums, j ascending. dst has rows places, v has cols; they may
// not overlap.
func (m *Matrix) Apply(dst, v []float32) {
	wide := make([]float64, m.cols)
	for j, x := range v[:m.cols] {
		wide[j] = float64(x)
	}
	var out [32]float32
	i := 0
	for ; (i+32)*m.cols <= len(m.panels); i += 32 {
		simd.Matrix1(&out, m.panels[i*m.cols:(i+32)*m.cols], wide)
		copy(dst[i:m.rows], out[:])
	}
	if i == m.rows {
		return
	}
	quad := make([]float64, 4*m.cols) // the other three vectors are 0
	for j, x := range wide {
		quad[4*j] = x
	}
	for ; i < m.rows; i += lanes {
		simd.Matrix4(out[:], lanes, m.panels[i*m.cols:(i+lanes)*m.cols], quad)
		copy(dst[i:m.rows], out[:lanes])
	}
}

// ApplyAll is Apply for whole vectors, row-major: len(v)/cols of them. It takes a third to a fifth of the time of Apply for
// each.
func (m *Matrix) ApplyAll(dst, v []float32) {
	n := len(v) / m.cols
	quads := make([]float64, min(batch, (n+3)/4*4)*m.cols)
	for from := 0; from < n; from += batch {
		count := min(batch, n-from)
		m.applyBatch(dst[from*m.rows:(from+count)*m.rows], v[from*m.cols:(from+count)*m.cols], count, quads)
	}
}

// applyBatch takes each panel once: vectors lie in fours, component by component, in quads.
func (m *Matrix) applyBatch(dst, v []float32, n int, quads []float64) {
	i := 0
	for ; i+4 <= n; i += 4 {
		simd.Quad(quads[i*m.cols:(i+4)*m.cols], v[i*m.cols:(i+4)*m.cols], m.cols)
	}
	if i < n {
		last := make([]float32, 4*m.cols)
		copy(last, v[i*m.cols:])
		simd.Quad(quads[i*m.cols:(i+4)*m.cols], last, m.cols)
	}
	var out [32]float32
	for r := 0; r < m.rows; r += lanes {
		panel, width := m.panels[r*m.cols:(r+lanes)*m.cols], min(lanes, m.rows-r)
		for q := 0; q < n; q += 4 {
			quad := quads[q*m.cols : (q+4)*m.cols]
			if width == lanes && q+4 <= n {
				simd.Matrix4(dst[q*m.rows+r:], m.rows, panel, quad)
				continue
			}
			simd.Matrix4(out[:], lanes, panel, quad)
			for i := range min(4, n-q) {
				copy(dst[(q+i)*m.rows+r:][:width], out[lanes*i:])
			}
		}
	}
}
