package rabitq

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sync"

	"tidemark/internal/vector/kernel"
)

// MaxDim bounds the dimension of a rotation. The matrix takes 8·D² bytes while it lives and as many more while it is
// made (0.5 GB each at this bound), and D³ steps. Hudi knows no bound; longer embeddings are not in use.
const MaxDim = 8192

// Rotation is the orthonormal matrix of a generation, drawn from its seed (docs/format/rabitq.md, From vector to code). It is
// immutable and safe for concurrent use.
type Rotation struct {
	dim    int
	seed   int64
	values []float32 // row-major
	matrix *kernel.Matrix
}

// rotationCacheSize bounds the rotations kept by NewRotation. A process that follows many tables uses few different
// (dim, seed) pairs, since the seed has a default.
const rotationCacheSize = 8

type rotationKey struct {
	dim  int
	seed int64
}

var rotations struct {
	mu    sync.Mutex // guards order and made
	order []rotationKey
	made  map[rotationKey]func() *Rotation
}

// NewRotation returns the rotation of (dim, seed). It costs dim³ steps the first time; the last few are kept and
// shared. dim is 1 to MaxDim; anything else is a bug of the caller and panics.
func NewRotation(dim int, seed int64) *Rotation {
	if dim < 1 || dim > MaxDim {
		panic(fmt.Sprintf("rabitq: rotation of dimension %d", dim))
	}
	key := rotationKey{dim, seed}
	rotations.mu.Lock()
	make1, ok := rotations.made[key]
	if !ok {
		if rotations.made == nil {
			rotations.made = map[rotationKey]func() *Rotation{}
		}
		if len(rotations.order) == rotationCacheSize {
			delete(rotations.made, rotations.order[0])
			rotations.order = rotations.order[1:]
		}
		make1 = sync.OnceValue(func() *Rotation { return makeRotation(dim, seed) })
		rotations.made[key] = make1
		rotations.order = append(rotations.order, key)
	}
	rotations.mu.Unlock()
	return make1()
}

func makeRotation(dim int, seed int64) *Rotation {
	random := newJavaRandom(seed)
	// columns[j] is column j of G, contiguous, because Gram-Schmidt works on columns.
	columns := make([][]float64, dim)
	for j := range columns {
		columns[j] = make([]float64, dim)
	}
	for i := range dim {
		for j := range dim {
			columns[j][i] = random.gaussian()
		}
	}
	orthonormalise(columns)
	// R is the transpose of G: row i of R is column i of G.
	r := &Rotation{dim: dim, seed: seed, values: make([]float32, dim*dim)}
	for i, column := range columns {
		for j, x := range column {
			r.values[i*dim+j] = float32(x)
		}
	}
	r.matrix = kernel.NewMatrix(r.values, dim, dim)
	return r
}

// Dim is the number of rows and of columns.
func (r *Rotation) Dim() int { return r.dim }

// Seed is what the rotation was drawn from.
func (r *Rotation) Seed() int64 { return r.seed }

// Row returns row i. It aliases the rotation and must not be changed.
func (r *Rotation) Row(i int) []float32 { return r.values[i*r.dim : (i+1)*r.dim : (i+1)*r.dim] }

// Apply writes the rotated v to dst; both have Dim components and do not overlap.
func (r *Rotation) Apply(dst, v []float32) { r.matrix.Apply(dst, v) }

// ApplyAll rotates n vectors, row-major, and returns them the same way. len(vectors) is a multiple of Dim.
func (r *Rotation) ApplyAll(vectors []float32) []float32 {
	out := make([]float32, len(vectors))
	r.matrix.ApplyAll(out, vectors)
	return out
}

// Digest is the lower-hex SHA-256 over version 1, dim, seed and the matrix: a check
// that two programs rotate alike.
func (r *Rotation) Digest() string {
	h := sha256.New()
	head := binary.LittleEndian.AppendUint32(nil, 1)
	head = binary.LittleEndian.AppendUint32(head, uint32(r.dim))
	head = binary.LittleEndian.AppendUint64(head, uint64(r.seed))
	h.Write(head)
	row := make([]byte, 0, 4*r.dim)
	for i := range r.dim {
		row = row[:0]
		for _, x := range r.Row(i) {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
		}
		h.Write(row)
	}
	return hex.EncodeToString(h.Sum(nil))
}
