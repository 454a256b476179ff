package rabitq

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/simd"
)

// minNorm is the shortest query that DOT and COSINE accept, and the shortest vector that COSINE divides by.
const minNorm = 1e-9

// ErrZeroQuery is returned for a query without direction under a metric that needs one.
var ErrZeroQuery = errors.New("query vector is zero")

// Query is a rotated query, good for every cluster of a generation. It is immutable and safe for concurrent use.
type Query struct {
	metric           kernel.Metric
	assumeNormalized bool
	rotated          []float32
	norm             float64 // of the rotated query
}

// NewQuery rotates q, which has the rotation's dimension and finite components. assumeNormalized makes COSINE take
// every stored vector as one of length 1. ErrZeroQuery: length below 1e−9 under COSINE or DOT.
func NewQuery(r *Rotation, m kernel.Metric, assumeNormalized bool, q []float32) (*Query, error) {
	if len(q) != r.dim {
		return nil, fmt.Errorf("rotate query: %d components, want %d", len(q), r.dim)
	}
	out := &Query{metric: m, assumeNormalized: assumeNormalized, rotated: make([]float32, r.dim)}
	r.Apply(out.rotated, q)
	out.norm = math.Sqrt(kernel.SquaredNorm64(out.rotated))
	if m != kernel.L2 && out.norm < minNorm {
		return nil, ErrZeroQuery
	}
	return out, nil
}

// ClusterQuery scores the codes of one cluster (docs/format/rabitq.md, Estimates). Safe for concurrent use.
type ClusterQuery struct {
	query *Query
	w     []float32 // rotated query residual
	wide  []float64 // the same, then 0 up to a whole number of bytes of a code row
	sum   float32   // Σ w, running in float32
	w2    float64   // Σ w²
	wNorm float64
	qc    float64 // ⟨Rq, Rc⟩

	tableOnce sync.Once
	table     [][256]float64 // see buildTable; only for the portable form
	scanOnce  sync.Once
	scan      scan
}

// ClusterBytes is about what a ClusterQuery takes in memory.
func (q *Query) ClusterBytes() int {
	n := SignBytes(len(q.rotated))
	if simd.Fast() {
		return 512 + 160*n // weights twice, their half bytes, entries
	}
	return 512 + (160+2048+512)*n // and both tables of whole bytes
}

// queries are those released: their memory would else be made and cleared for each cluster.
var queries = sync.Pool{New: func() any { return &ClusterQuery{} }}

// Cluster prepares the query for one cluster, given its rotated centroid.
func (q *Query) Cluster(rotatedCentroid []float32) *ClusterQuery {
	c, d := queries.Get().(*ClusterQuery), len(q.rotated)
	*c = ClusterQuery{query: q, w: resized(c.w, d), wide: resized(c.wide, 8*SignBytes(d)), table: c.table[:0],
		scan: scan{nibbles: c.scan.nibbles, lows: c.scan.lows, ranges: c.scan.ranges, tables: c.scan.tables[:0]}}
	clear(c.wide[d:])
	for i, x := range q.rotated {
		w := x - rotatedCentroid[i]
		c.w[i], c.wide[i] = w, float64(w)
		c.sum += w
		c.w2 += float64(float64(w) * float64(w))
		c.qc += float64(float64(x) * float64(rotatedCentroid[i]))
	}
	c.wNorm = math.Sqrt(c.w2)
	return c
}

// resized is a slice of n places, of the memory of s if that is enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Release lets later queries have the memory of c, which nobody may use any more.
func (c *ClusterQuery) Release() { queries.Put(c) }

// buildTable sums w over every combination of set bits of each byte of a code row: 256 sums for 8 dimensions, each in
// ascending order of the bits.
func (c *ClusterQuery) buildTable() {
	c.table = resized(c.table, SignBytes(len(c.w)))
	for b := range c.table {
		var w [8]float32 // padding bits weigh nothing
		copy(w[:], c.w[8*b:])
		simd.ByteTable(&c.table[b], &w)
	}
}

// planeDot is Σ w over the set bits of a plane row: per byte, then over the bytes, ascending.
func (c *ClusterQuery) planeDot(row []byte) float64 {
	if simd.Fast() {
		var sums [1][simd.MaxPlanes]float64
		simd.Planes(sums[:], row, nil, []int32{0}, RowBytes(len(c.w)), 1, c.wide)
		return sums[0][0]
	}
	c.tableOnce.Do(c.buildTable)
	sum := 0.0
	table := c.table
	for b, x := range row[:len(table)] {
		sum += table[b][x]
	}
	return sum
}

// Pass1 looks at the sign plane's row of a block (RowBytes long, padding and all). signDot is what Pass2 needs; optimistic is
// the smallest distance that the bound still allows, so a row whose optimistic distance is greater than the worst kept
// one may be skipped. The bound is 1.9 standard deviations wide: it is wrong on this side for about 3 % of the rows that
// lie exactly on the threshold.
func (c *ClusterQuery) Pass1(signRow []byte, f *Factors) (signDot, optimistic float64) {
	signDot = c.planeDot(signRow)
	return signDot, c.optimistic(signDot, f)
}

func (c *ClusterQuery) optimistic(signDot float64, f *Factors) float64 {
	rip := float64(float64(f.FRescale1) * float64(c.signIP(signDot)))
	return c.distance(rip+float64(float64(f.Err1)*c.wNorm), f.FAdd1, f)
}

// signIP is ⟨x⁽¹⁾, w⟩ as the reference rounds it.
func (c *ClusterQuery) signIP(signDot float64) float32 {
	return float32(signDot + float64(c.sum*-0.5))
}

// Pass2 is the estimate from all bits. exPlanes are the bits−1 rows of one vector, each rowBytes long.
func (c *ClusterQuery) Pass2(signDot float64, exPlanes []byte, rowBytes, bits int, f *Factors) float64 {
	var dots [7]float64
	for p := range bits - 1 {
		dots[p] = c.planeDot(exPlanes[p*rowBytes : (p+1)*rowBytes])
	}
	return c.estimate(signDot, dots[:bits-1], f)
}

// Planes are the codes of a block: the rows of its sign plane, and those of the further planes, Bits−1 for each code.
type Planes struct {
	Signs, Rest []byte
	RowBytes    int // of each
	Bits        int
}

// sign is the row of code i in the sign plane.
func (p *Planes) sign(i int) []byte { return p.Signs[i*p.RowBytes : (i+1)*p.RowBytes] }

// rest is its rows in the others.
func (p *Planes) rest(i int) []byte {
	size := (p.Bits - 1) * p.RowBytes
	return p.Rest[i*size : (i+1)*size]
}

// PassesAtOnce is the most codes that Passes takes.
const PassesAtOnce = 16

// Scored is what two passes say of a code.
type Scored struct{ Optimistic, Estimate float64 }

// Passes sets out[i] to Pass1 and Pass2 of code codes[i], no more than PassesAtOnce. The estimate is left out where the optimistic distance exceeds most. Where
// one kernel takes all planes it does, at the cost of one.
func (c *ClusterQuery) Passes(out []Scored, p *Planes, codes []int32, f *FactorColumns, most float64) {
	if !simd.Fast() || p.Bits > simd.MaxPlanes {
		for i, code := range codes {
			x := f.At(int(code))
			dot, optimistic := c.Pass1(p.sign(int(code)), &x)
			if out[i] = (Scored{Optimistic: optimistic}); !(optimistic > most) {
				out[i].Estimate = c.Pass2(dot, p.rest(int(code)), p.RowBytes, p.Bits, &x)
			}
		}
		return
	}
	var dots [PassesAtOnce][simd.MaxPlanes]float64
	if len(codes) > 1 { // all at once, so that one wait is for all
		simd.Touch(p.Signs, p.RowBytes, codes)
		simd.Touch(p.Rest, (p.Bits-1)*p.RowBytes, codes)
		simd.TouchPairs(f.Full, codes)
	}
	simd.Planes(dots[:len(codes)], p.Signs, p.Rest, codes, p.RowBytes, p.Bits, c.wide)
	for i, code := range codes {
		x := f.used(c.query.metric, int(code))
		optimistic := c.optimistic(dots[i][0], &x)
		if out[i] = (Scored{Optimistic: optimistic}); !(optimistic > most) {
			out[i].Estimate = c.estimate(dots[i][0], dots[i][1:p.Bits], &x)
		}
	}
}

func (c *ClusterQuery) estimate(signDot float64, exDots []float64, f *Factors) float64 {
	rip := float64(float64(f.FRescaleEx) * float64(c.fullIP(signDot, exDots)))
	return c.distance(rip, f.FAddEx, f)
}

// fullIP is ⟨x, w⟩ as the reference rounds it on the block path, from the dot products of the sign plane and the others.
func (c *ClusterQuery) fullIP(signDot float64, exDots []float64) float32 {
	bits := len(exDots) + 1
	if bits == 1 {
		return c.signIP(signDot)
	}
	sum := float64(float64(int(1)<<(bits-1)) * signDot)
	for p, dot := range exDots {
		weight := float64(int(1) << (bits - 2 - p))
		sum += float64(weight * dot)
	}
	return float32(sum + float64(float64(c.sum)*(-float64(int(1)<<bits-1)/2)))
}

// Delta is the estimate of a posting delta, from its binaryCode. The reference adds in another order here than on the
// block path, so the last bits may differ. An error means that the code has not the length of (dim, bits).
func (c *ClusterQuery) Delta(binaryCode []byte, bits int, f *Factors) (float64, error) {
	ip, err := c.deltaIP(binaryCode, bits)
	if err != nil {
		return 0, err
	}
	rip := float64(float64(f.FRescaleEx) * float64(ip))
	return c.distance(rip, f.FAddEx, f), nil
}

func (c *ClusterQuery) deltaIP(binaryCode []byte, bits int) (float32, error) {
	d := len(c.w)
	if want := DeltaBytes(d, bits); len(binaryCode) != want {
		return 0, fmt.Errorf("score delta: code of %d bytes, want %d", len(binaryCode), want)
	}
	sign, packed := binaryCode[:SignBytes(d)], binaryCode[SignBytes(d):]
	b, x := 0.0, 0.0
	width := bits - 1
	for i, w := range c.w {
		if sign[i/8]>>(i%8)&1 == 1 {
			b += float64(w)
		}
		if width > 0 {
			x += float64(float64(levelAt(packed, i*width, width)) * float64(w))
		}
	}
	if bits == 1 {
		return float32(b) + float32(c.sum*-0.5), nil
	}
	ip := float32(float32(int(1)<<(bits-1)) * float32(b))
	ip += float32(x)
	return ip + float32(c.sum*(-float32(int(1)<<bits-1)/2)), nil
}

// levelAt reads width (1 to 7) bits at a bit offset of a little-endian bit stream.
func levelAt(packed []byte, bit, width int) byte {
	v := uint16(packed[bit/8])
	if bit%8+width > 8 {
		v |= uint16(packed[bit/8+1]) << 8
	}
	return byte(v >> (bit % 8) & (1<<width - 1))
}

// distance finishes an estimate of ⟨r, w⟩.
func (c *ClusterQuery) distance(rip float64, add float32, f *Factors) float64 {
	switch c.query.metric {
	case kernel.L2:
		n := float64(f.ResidualNorm)
		if c.w2 < 1e-18 {
			return float64(n * n)
		}
		return c.w2 + float64(n*n) - float64(2*rip)
	case kernel.Dot:
		return -(c.qc + float64(add) + rip)
	}
	norm := 1.0
	if !c.query.assumeNormalized {
		norm = float64(f.VectorNorm)
	}
	if norm < minNorm {
		return 1
	}
	return 1 - (c.qc+float64(add)+rip)/float64(c.query.norm*norm)
}
