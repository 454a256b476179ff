package kernel

import (
	"sync"

	"tidemark/internal/vector/simd"
)

const (
	// batch is how many vectors ApplyAll takes with each panel of the matrix, so that a panel is fetched and widened once for all of
	// them; a multiple of 8.
	batch = 64
	// depth bounds the columns of a panel that are worked on at a time: 16 kB, which stay in the first cache.
	depth = 256
	// together is how many rows Apply takes at once.
	together = 32
)

// Matrix is a dense matrix laid out for products with vectors. It is immutable and safe for concurrent use. It keeps
// float32 values: 4·rows·cols bytes, rows rounded up to whole groups of eight, at least four of them.
type Matrix struct {
	rows, cols int
	panels     []float32
	rooms      sync.Pool // of *batchRoom
}

// NewMatrix prepares a row-major matrix. It copies the values.
func NewMatrix(values []float32, rows, cols int) *Matrix {
	return &Matrix{rows: rows, cols: cols, panels: panels[float32](values, rows, cols, together)}
}

// Apply sets dst[i] to float32(Σ_j m[i][j]·v[j]), float64 sums, j ascending. dst has rows places, v has cols; they may
// not overlap.
func (m *Matrix) Apply(dst, v []float32) {
	wide := make([]float64, m.cols)
	simd.Widen(wide, v[:m.cols], 0)
	var out [together]float32
	for i := 0; i < m.rows; i += together {
		// The last 32 rows are taken once more, in part, rather than fewer of them.
		i = min(i, len(m.panels)/m.cols-together)
		simd.Matrix1(&out, m.panels[i*m.cols:(i+together)*m.cols], wide)
		copy(dst[i:m.rows], out[:])
	}
}

// ApplyAll is Apply for whole vectors, row-major: len(v)/cols of them. It takes a third to a half of the time of Apply for
// each.
func (m *Matrix) ApplyAll(dst, v []float32) {
	n := len(v) / m.cols
	b, ok := m.rooms.Get().(*batchRoom)
	if !ok {
		b = &batchRoom{}
	}
	b.grow(m.cols, min(batch, (n+3)/4*4))
	for from := 0; from < n; from += batch {
		count := min(batch, n-from)
		m.applyBatch(dst[from*m.rows:(from+count)*m.rows], v[from*m.cols:(from+count)*m.cols], count, b)
	}
	m.rooms.Put(b)
}

// batchRoom is what ApplyAll works with. It is kept for later calls.
type batchRoom struct {
	depth int       // columns of a part
	quads []float64 // part after part, the vectors in fours, component by component
	panel []float64 // a part of a panel
	sums  []float64 // of a panel with all vectors, if there are more parts than one
	out   []float32 // what does not fit dst
}

// grow makes room for that many columns and vectors. What is there is overwritten before it is read.
func (b *batchRoom) grow(cols, vectors int) {
	if len(b.out) >= lanes*vectors {
		return
	}
	parts := (cols + depth - 1) / depth
	b.depth = (cols + parts - 1) / parts
	b.quads, b.panel, b.out = make([]float64, vectors*cols), make([]float64, lanes*b.depth), make([]float32, lanes*vectors)
	if parts > 1 {
		b.sums = make([]float64, lanes*vectors)
	}
}

// applyBatch takes each panel once.
func (m *Matrix) applyBatch(dst, v []float32, n int, b *batchRoom) {
	fours := (n + 3) / 4
	for q := range fours {
		four := v[4*q*m.cols : min(n, 4*q+4)*m.cols]
		if len(four) < 4*m.cols {
			four = append(make([]float32, 0, 4*m.cols), four...)[:4*m.cols]
		}
		for j := 0; j < m.cols; j += b.depth {
			some := min(b.depth, m.cols-j)
			simd.Quad(b.quads[4*(fours*j+q*some):], four[j:], m.cols, some)
		}
	}
	for r := 0; r < m.rows; r += lanes {
		whole := n == 4*fours && r+lanes <= m.rows
		out, stride := b.out, lanes
		if whole {
			out, stride = dst[r:], m.rows
		}
		clear(b.sums)
		for j := 0; j < m.cols; j += b.depth {
			some := min(b.depth, m.cols-j)
			simd.Widen(b.panel, m.panels[r*m.cols+lanes*j:][:lanes*some], lanes*m.cols)
			to, apart := out, stride
			if j+some < m.cols {
				to, apart = b.out, lanes // nobody looks at it
			}
			simd.Matrix(to, apart, b.sums, b.panel[:lanes*some], b.quads[4*fours*j:], fours)
		}
		if !whole {
			for i := range n {
				copy(dst[i*m.rows+r:(i+1)*m.rows], out[lanes*i:lanes*(i+1)])
			}
		}
	}
}
