package rabitq

import (
	"math"
	"math/rand/v2"
	"testing"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/simd"
)

// literalDot is the sum of a plane row from its bits: the sum of each byte's weights, then of the bytes, ascending.
func literalDot(w []float32, row []byte) float64 {
	sum := 0.0
	for b := 0; 8*b < len(w); b++ {
		part := 0.0
		for bit := 0; bit < 8 && 8*b+bit < len(w); bit++ {
			if row[b]>>bit&1 == 1 {
				part += float64(w[8*b+bit])
			}
		}
		sum += part
	}
	return sum
}

// FuzzScan holds the scan's bound against Pass1, and Pass1 against the plain sum.
func FuzzScan(f *testing.F) {
	for i, d := range []uint16{1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 65, 100, 128, 200, 768, 1030, 2040} {
		for kind := range uint8(6) {
			f.Add(uint64(i), d, uint8(i)+kind, kind, uint8(i*9+1))
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, metric, kind, count uint8) {
		d, n, m := int(dim)%2048+1, int(count)%80+1, kernel.Metric(metric%3)
		r := rand.New(rand.NewPCG(seed, 9))
		number := func() float32 {
			g := float32(r.NormFloat64())
			switch kind % 7 {
			case 1:
				return []float32{0, 1, -1, 5}[r.IntN(4)]
			case 2:
				return math.Float32frombits(uint32(r.IntN(1<<23)) | uint32(r.IntN(2))<<31)
			case 3:
				return g * 1e36
			case 4:
				return []float32{g, g * 1e-9, g * 1e9}[r.IntN(3)]
			case 5:
				return []float32{1, float32(math.Inf(1)), float32(math.NaN()), -2}[min(3, r.IntN(8))]
			case 6:
				return 1 + g*1e-6
			}
			return g
		}
		q := &Query{metric: m, assumeNormalized: metric%2 == 0, rotated: make([]float32, d)}
		centroid := make([]float32, d)
		for i := range centroid {
			q.rotated[i], centroid[i] = number(), number()
		}
		q.norm = math.Sqrt(kernel.SquaredNorm64(q.rotated))
		c := q.Cluster(centroid)
		w := RowBytes(d)
		plane := make([]byte, n*w)
		for i := range plane {
			if plane[i] = byte(r.Uint32()); i%w == w-1 || i%w >= (d+7)/8 {
				plane[i] = 0 // padding; and signs that are all 0 for the last byte
			}
		}
		bits := int(count)%7 + 2
		if n >= bits-1 { // the first rows as the planes of one code
			dot := float64(r.IntN(9))
			want := float64(float64(int(1)<<(bits-1)) * dot)
			for p := range bits - 1 {
				want += float64(float64(int(1)<<(bits-2-p)) * literalDot(c.w, plane[p*w:(p+1)*w]))
			}
			want32 := float32(want + float64(float64(c.sum)*(-float64(int(1)<<bits-1)/2)))
			var dots []float64
			for p := range bits - 1 {
				dots = append(dots, c.planeDot(plane[p*w:(p+1)*w]))
			}
			if got := c.fullIP(dot, dots); got != want32 && (got == got || want32 == want32) {
				t.Fatalf("D=%d, %d bits: got %v, want %v", d, bits, got, want32)
			}
		}
		var s Signs
		s.Set(plane, n, d)
		factors := NewFactorColumns(n)
		for range n {
			f := Factors{FAdd1: number(), FRescale1: float32(math.Abs(float64(number()))), Err1: float32(math.Abs(float64(number()))),
				ResidualNorm: number(), VectorNorm: number()}
			if r.IntN(20) == 0 {
				f.FRescale1 = -f.FRescale1
			}
			f.FRescaleEx = f.FRescale1
			factors.Append(f)
		}
		sums := c.Scan(&s)
		bounds := make([]float64, n)
		c.Bounds(bounds, sums, &factors)
		for i, sum := range sums {
			f := factors.At(i)
			row := plane[i*w : (i+1)*w]
			dot, optimistic := c.Pass1(row, &f)
			if want := literalDot(c.w, row); dot != want && want == want {
				t.Fatalf("D=%d, row %d: got %v, want %v", d, i, dot, want)
			}
			bound := c.Bound(sum, &f)
			if !same(bounds[i], bound) {
				t.Fatalf("%s, D=%d, row %d: bounds %v, bound %v", m, d, i, bounds[i], bound)
			}
			if bound > optimistic {
				t.Fatalf("%s, D=%d, row %d: bound %v is above the optimistic distance %v, sum %d, factors %+v", m, d, i, bound, optimistic, sum, f)
			}
		}
		// Codes whose further planes are the last rows, one behind the other.
		planes := Planes{Signs: plane, Rest: plane[n%bits*w:], RowBytes: w, Bits: bits}
		var codes []int32
		for i := range min(PassesAtOnce, n/bits) {
			codes = append(codes, int32(r.IntN(i+1)))
		}
		most := math.Inf(1)
		if len(codes) > 0 && r.IntN(2) == 0 {
			most = bounds[codes[0]]
		}
		out := make([]Scored, len(codes))
		c.Passes(out, &planes, codes, &factors, most)
		for i, code := range codes {
			f := factors.At(int(code))
			dot, want := c.Pass1(planes.sign(int(code)), &f)
			estimate := 0.0
			if !(want > most) {
				estimate = c.Pass2(dot, planes.rest(int(code)), w, bits, &f)
			}
			if !same(out[i].Optimistic, want) || !same(out[i].Estimate, estimate) {
				t.Fatalf("D=%d, %d bits, row %d: passes give %v, want %v and %v", d, bits, code, out[i], want, estimate)
			}
		}
	})
}

// The bound must be near the optimistic distance: one that holds nothing back would only be slow.
func TestBoundPrunes(t *testing.T) {
	t.Parallel()
	for _, d := range []int{100, 768} {
		const n = 500
		rot := NewRotation(d, 42)
		enc := NewEncoder(rot, 1)
		vectors := gaussians(1, n*d)
		q, err := NewQuery(rot, kernel.L2, false, gaussians(3, d))
		if err != nil {
			t.Fatal(err)
		}
		c := q.Cluster(rot.ApplyAll(gaussians(2, d)))
		var plane []byte
		codes := make([]Code, n)
		for i := range codes {
			codes[i] = enc.Encode(vectors[i*d:(i+1)*d], nil)
			plane = AppendSignRow(plane, d, codes[i])
		}
		var s Signs
		s.Set(plane, n, d)
		lost, spread := 0.0, 0.0
		for i, sum := range c.Scan(&s) {
			f := &codes[i].F
			dot, optimistic := c.Pass1(plane[i*RowBytes(d):(i+1)*RowBytes(d)], f)
			lost += optimistic - c.Bound(sum, f)
			// The width of pass 1's own bound is the measure.
			spread += c.distance(float64(f.FRescale1)*float64(c.signIP(dot)), f.FAdd1, f) - optimistic
		}
		if lost > 0.35*spread || lost < 0 {
			t.Errorf("D=%d: integers widen the bound by %.3f of its width", d, lost/spread)
		}
		t.Logf("D=%d: integers widen the bound by %.3f of its width (%s)", d, lost/spread, simd.Name())
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// Memory of released queries, of other lengths, shows in no later one.
func TestMemoryOfReleasedQueries(t *testing.T) {
	t.Parallel()
	dims := []int{33, 8, 700, 100, 65}
	for round := range 4 {
		for i, d := range dims {
			r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			q := &Query{metric: kernel.L2, rotated: gaussians(uint64(i), d)}
			c := q.Cluster(gaussians(9, d))
			plane := make([]byte, 40*RowBytes(d))
			for i := range plane {
				if i%RowBytes(d) < d/8 {
					plane[i] = byte(r.Uint32())
				}
			}
			var s Signs
			s.Set(plane, 40, d)
			for i, sum := range c.Scan(&s) {
				row, f := plane[i*RowBytes(d):(i+1)*RowBytes(d)], Factors{FRescale1: 1, ResidualNorm: 1}
				dot, optimistic := c.Pass1(row, &f)
				if want := literalDot(c.w, row); dot != want {
					t.Fatalf("D=%d: got %v, want %v", d, dot, want)
				}
				if bound := c.Bound(sum, &f); bound > optimistic || optimistic-bound > 0.2*math.Abs(optimistic) {
					t.Fatalf("D=%d: bound %v of %v", d, bound, optimistic)
				}
			}
			c.Release()
		}
	}
}
