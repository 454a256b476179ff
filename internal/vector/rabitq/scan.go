package rabitq

import (
	"math"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/simd"
)

// Signs are the rows of a block's sign plane, laid out for Scan. The zero value is ready for Set. Not safe for concurrent
// use while it is set.
type Signs struct {
	n, rowBytes int
	rows        []byte // as in the block
	turned      []byte // interleaved; only where the assembly is in use
	sums        []uint16
}

// Set takes over n rows of RowBytes(dim) bytes each, aliasing plane. The room of an earlier block is used again.
func (s *Signs) Set(plane []byte, n, dim int) {
	s.n, s.rowBytes = n, RowBytes(dim)
	s.rows = plane[:n*s.rowBytes]
	places := n
	if simd.Fast() {
		s.turned = simd.Interleave(s.turned[:0], s.rows, s.rowBytes)
		places = len(s.turned) / max(1, s.rowBytes)
	}
	if cap(s.sums) < places {
		s.sums = make([]uint16, places)
	}
	s.sums = s.sums[:places]
}

// scan is what a cluster's query needs to scan sign planes with integers.
//
// The dot product of w with a row of signs is a sum over half bytes, each with one of 16 values P. An entry of the table
// is e = round((P − low)/step), 0 to 255, low being the least of the 16, so Σ P = Σ low + step·Σ e up to step/2 for each half
// byte. The sums are exact in 16 bits, in whatever order they are made.
type scan struct {
	lows    []float64      // of each half byte, the low one of a byte first
	ranges  []float64      // of the same, the greatest of the 16 values less the least
	nibbles []byte         // 16 entries for each half byte, the low half of a byte first
	tables  [][2048]uint16 // the same for whole bytes, eight at a time; only for the portable form
	usable  bool           // w is finite, and not so large that sums overflow
	step    float64
	most    float64 // what ⟨x⁽¹⁾, w⟩, as Pass1 rounds it, is at most where the integers sum up to 0
}

// maxSum is the largest sum of entries: what 16 bits hold, less one for each of the half bytes that round up.
const maxSum = math.MaxUint16 - 2*MaxDim/8

// quantize makes the tables.
func (c *ClusterQuery) quantize() {
	s, width := &c.scan, SignBytes(len(c.w))
	s.lows, s.ranges = resized(s.lows, 2*width), resized(s.ranges, 2*width)
	widest, all := 0.0, 0.0
	for h := range s.lows {
		low, wide := 0.0, 0.0
		for _, w := range (*[4]float64)(c.wide[4*h:]) {
			bits := math.Float64bits(w)
			low += math.Float64frombits(bits & uint64(int64(bits)>>63)) // w or 0: no branch could be foretold
			wide += math.Abs(w)
		}
		s.lows[h], s.ranges[h] = low, wide
	}
	for h, wide := range s.ranges {
		if wide > widest {
			widest = wide
		}
		all += wide
		s.most += s.lows[h]
	}
	if !(all < 1e30) {
		return
	}
	s.usable = true
	s.step = max(widest/255, all/maxSum)
	inverse := 0.0
	if s.step > 1e-30 {
		inverse = 1 / s.step
	} else {
		s.step = 0
		s.most += all // every entry is 0: nothing is known of the sum but its bound
	}
	s.nibbles = resized(s.nibbles, 32*width)
	simd.Entries(s.nibbles, c.wide, s.lows, inverse)
	// Half a step for each half byte, and what sums in float64 lose. Then what Pass1's float32 can be too large by: half an
	// ulp, 2⁻²⁴ of Σ|w| + |c.sum|/2, four times for the sums of both sides, or half the smallest float32.
	s.most += float64(s.step*float64(1.000001*float64(width))) - float64(0.5*float64(c.sum))
	s.most += float64(0x1p-22*(all+math.Abs(float64(c.sum)))) + 0x1p-149
	if !simd.Fast() {
		s.tables = s.byteTables(len(c.w))
	}
}

// byteTables adds up both halves of each byte, for the portable form.
func (s *scan) byteTables(d int) [][2048]uint16 {
	tables := resized(s.tables, RowBytes(d)/8)
	clear(tables[len(tables)-1:]) // padding weighs nothing
	for b := range SignBytes(d) {
		table, low, high := (*[256]uint16)(tables[b/8][b%8*256:]), (*[16]byte)(s.nibbles[32*b:]), (*[16]byte)(s.nibbles[32*b+16:])
		for h, y := range high {
			part := (*[16]uint16)(table[16*h:])
			for l, x := range low {
				part[l] = uint16(x) + uint16(y)
			}
		}
	}
	return tables
}

// Scan returns an integer for each row, which Bound understands. It is valid until the next call or Set.
func (c *ClusterQuery) Scan(s *Signs) []uint16 { return c.ScanInto(s.sums, s) }

// ScanInto is Scan with room for the integers of the caller's, of at least s.Room() places, so that several queries can scan the
// same rows at the same time.
func (c *ClusterQuery) ScanInto(sums []uint16, s *Signs) []uint16 {
	sums = sums[:len(s.sums)]
	c.scanOnce.Do(c.quantize)
	switch {
	case !c.scan.usable:
		clear(sums)
	case simd.Fast():
		simd.ScanGroups(sums, s.turned, s.rowBytes, c.scan.nibbles, SignBytes(len(c.w)))
	default:
		simd.ScanRows(sums, s.rows, c.scan.tables)
	}
	return sums[:s.n]
}

// Room is how many places the integers of a scan need.
func (s *Signs) Room() int { return len(s.sums) }

// Bound is never above the optimistic distance that Pass1 finds for the row with that sum and these factors, so a row whose
// Bound is already too far need not be looked at by Pass1. It is −Inf if nothing can be said.
//
// Pass1's ⟨x⁽¹⁾, w⟩ is at most most + step·sum. From there on both take the same steps, each of which keeps the order or,
// the last one, turns it: fRescale1 is not negative, and rounding is monotone.
func (c *ClusterQuery) Bound(sum uint16, f *Factors) float64 {
	rescale := float64(f.FRescale1)
	if !c.scan.usable || !(rescale >= 0) {
		return math.Inf(-1)
	}
	ip := c.scan.most + float64(c.scan.step*float64(sum))
	return c.distance(float64(rescale*ip)+float64(float64(f.Err1)*c.wNorm), f.FAdd1, f)
}

// Bounds sets out[i] to the Bound of sums[i] and row i of f. All have as many places.
func (c *ClusterQuery) Bounds(out []float64, sums []uint16, f *FactorColumns) {
	m := c.query.metric
	if !c.scan.usable || m == kernel.L2 && c.w2 < 1e-18 {
		for i := range out {
			x := f.At(i)
			out[i] = c.Bound(sums[i], &x)
		}
		return
	}
	rows := simd.BoundRows{Rescale: f.FRescale1, Err: f.Err1}
	terms := simd.BoundTerms{Most: c.scan.most, Step: c.scan.step, WNorm: c.wNorm}
	switch m {
	case kernel.L2:
		rows.Norm, terms.Base = f.ResidualNorm, c.w2
		simd.SquaresBounds(out, sums, rows, &terms)
	case kernel.Dot:
		rows.Add, terms.Base = f.FAdd1, c.qc
		simd.DotsBounds(out, sums, rows, &terms)
	default:
		if rows.Add = f.FAdd1; !c.query.assumeNormalized {
			rows.Norm = f.VectorNorm
		}
		terms.Base, terms.Length, terms.Least = c.qc, c.query.norm, minNorm
		simd.CosinesBounds(out, sums, rows, &terms)
	}
}
