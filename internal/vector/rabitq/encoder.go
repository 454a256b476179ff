package rabitq

import (
	"fmt"
	"math"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/simd"
)

// Constants of factor version 1 (docs/format/rabitq.md, Factors). The manifest records them.
const (
	Kappa     = 1.9  // half-width of the bound in standard deviations
	GMin      = 1e-3 // smallest quality of the sign code that is used
	Eps1Max   = 1.0  // largest relative error of the sign code that is used
	EpsNRel   = 1e-3 // residuals below this share of the vector's length are not estimated
	ipExFloor = 1e-9
)

// Encoder makes codes of one width under one rotation. It is immutable and safe for concurrent use.
type Encoder struct {
	rotation *Rotation
	bits     int
	choice   choice
}

// NewEncoder returns an encoder for 1 to 8 bits; any other width is a bug of the caller and panics.
func NewEncoder(r *Rotation, bits int) *Encoder {
	if bits < 1 || bits > 8 {
		panic(fmt.Sprintf("rabitq: encoder of %d bits", bits))
	}
	return &Encoder{rotation: r, bits: bits, choice: newChoice(bits, Reference)}
}

// With returns an encoder that chooses levels in another way; at first it is Reference.
func (e *Encoder) With(l Levels) *Encoder {
	return &Encoder{rotation: e.rotation, bits: e.bits, choice: newChoice(e.bits, l)}
}

// Bits is the number of bits per dimension.
func (e *Encoder) Bits() int { return e.bits }

// Rotation is the rotation the encoder applies.
func (e *Encoder) Rotation() *Rotation { return e.rotation }

// Encode returns the code of v against a centroid that is already rotated; nil stands for a centroid at the origin. v
// is not rotated and has finite components. The code owns its slices.
func (e *Encoder) Encode(v, rotatedCentroid []float32) Code {
	d := e.rotation.dim
	rv := make([]float32, d)
	e.rotation.Apply(rv, v)
	c := e.empty(make([]byte, e.codeBytes()))
	e.newScratch().encode(&c, v, rv, rotatedCentroid)
	return c
}

// EncodeAll is Encode for whole vectors, row-major, vector i against the rotated centroid that centroid(i) returns. It
// takes less time for each. The codes share memory that lives as long as any of them.
func (e *Encoder) EncodeAll(vectors []float32, centroid func(i int) []float32) []Code {
	d, size := e.rotation.dim, e.codeBytes()
	rotated := e.rotation.ApplyAll(vectors)
	codes := make([]Code, len(vectors)/d)
	room := make([]byte, len(codes)*size)
	for i := range codes {
		codes[i] = e.empty(room[i*size : (i+1)*size : (i+1)*size])
	}
	if simd.Fast() {
		e.newEight().encode(codes, vectors, rotated, centroid)
		return codes
	}
	s := e.newScratch()
	for i := range codes {
		s.encode(&codes[i], vectors[i*d:(i+1)*d], rotated[i*d:(i+1)*d], centroid(i))
	}
	return codes
}

// codeBytes is what a code needs while its levels are not packed.
func (e *Encoder) codeBytes() int {
	if e.bits == 1 {
		return SignBytes(e.rotation.dim)
	}
	return SignBytes(e.rotation.dim) + e.rotation.dim
}

// empty is a code whose bits lie in room, all 0.
func (e *Encoder) empty(room []byte) Code {
	n := SignBytes(e.rotation.dim)
	c := Code{Bits: e.bits, Sign: room[:n:n]}
	if e.bits > 1 {
		c.Levels = room[n:]
	}
	return c
}

// scratch is the room that encoding needs beside the code.
type scratch struct {
	choice
	r []float32 // residual
	a []float64 // components for the choice of levels
}

func (e *Encoder) newScratch() *scratch {
	return &scratch{choice: e.choice, r: make([]float32, e.rotation.dim), a: make([]float64, e.rotation.dim)}
}

// encode codes v, rotated rv, against the rotated centroid rc into an empty code.
func (s *scratch) encode(c *Code, v, rv, rc []float32) {
	r := s.r
	copy(r, rv)
	if rc != nil {
		rc = rc[:len(r)]
		for i, x := range rc {
			r[i] -= x
		}
	}
	for i, x := range r {
		c.Sign[i/8] |= positive(x) << (i % 8)
	}
	sum := kernel.SquaredNorm64(r)
	rn := float32(math.Sqrt(sum))
	if c.degenerate(rn, v) {
		return
	}
	if c.Bits > 1 {
		s.levels(c.Levels, s.a, r, rn)
	}
	c.F = factors(*c, r, rc, sum, kernel.SquaredNorm64(rv))
}

// degenerate finishes a code without an estimate: of a residual of length 0, or one that is too long.
func (c *Code) degenerate(rn float32, v []float32) bool {
	switch {
	case rn == 0:
		c.F = Factors{VectorNorm: narrow(math.Sqrt(kernel.SquaredNorm64(v)))}
	case math.IsInf(float64(rn), 0) || math.IsNaN(float64(rn)):
		// DECISION: components near the end of float32 can overflow in the rotation. The reference would store NaN;
		// such a row gets a code without an estimate and the widest bound instead, so a scan can neither prune it
		// wrongly nor spread a NaN, and the exact rerank decides.
		clear(c.Sign)
		c.F = Factors{Err1: math.MaxFloat32, ResidualNorm: math.MaxFloat32, VectorNorm: narrow(math.Sqrt(kernel.SquaredNorm64(v)))}
	default:
		return false
	}
	return true
}

// positive is 1 for x > 0, else 0, without a branch, which would be wrong every second time. x is not NaN, or the code is
// not used.
func positive(x float32) byte { return byte(-int64(int32(math.Float32bits(x))) >> 63 & 1) }

// factors computes the stored factors (docs/format/rabitq.md, Factors). n2 is Σ r², rv2 is Σ (Rv)².
func factors(c Code, r, rc []float32, n2, rv2 float64) Factors {
	d := len(r)
	ip1, ipEx, add := 0.0, 0.0, 0.0
	half := float32(int(1)<<(c.Bits-1)) - 0.5
	for _, x := range r {
		ip1 += float64(math.Abs(float64(x)) * 0.5) // x·½ where the sign is set, else x·(−½)
	}
	for i, level := range c.Levels {
		u := float32(int(level) + int(c.Sign[i/8]>>(i%8)&1)<<(c.Bits-1))
		ipEx += float64(float32(r[i] * (u - half)))
	}
	if rc != nil {
		for i, x := range r {
			add += float64(float64(rc[i]) * float64(x))
		}
	}
	if c.Bits == 1 {
		ipEx = ip1
	}
	return sums{n2: n2, rv2: rv2, ip1: ip1, ipEx: ipEx, add: add}.factors(c.Bits, d)
}

// sums are what the factors of a code are made of.
type sums struct {
	n2, rv2   float64 // squared lengths of the residual and of the rotated vector
	ip1, ipEx float64 // products of the residual with the sign code and with the whole code
	add       float64 // product of the residual with the centroid
}

func (s sums) factors(bits, d int) Factors {
	n := math.Sqrt(s.n2)
	norm := narrow(math.Sqrt(s.rv2))
	f := Factors{FAdd1: narrow(s.add), FAddEx: narrow(s.add), ResidualNorm: narrow(n), VectorNorm: norm}
	if n <= float64(EpsNRel*float64(norm)) {
		f.Err1 = f.ResidualNorm
		return f
	}
	if math.Abs(s.ipEx) > float64(ipExFloor*max(1, s.n2)) {
		f.FRescaleEx = narrow(s.n2 / s.ipEx)
	}
	f.FRescale1, f.Err1 = signFactors(n, s.n2, s.ip1, d)
	if bits == 1 {
		f.FRescaleEx = f.FRescale1
	}
	return f
}

// signFactors are fRescale1 and err1, the rows of the table from D = 1 on.
func signFactors(n, n2, ip1 float64, d int) (rescale, err float32) {
	if d == 1 {
		return narrow(n2 / ip1), 0
	}
	g := ip1 / float64(float64(n*0.5)*math.Sqrt(float64(d)))
	if g < GMin {
		return 0, narrow(n)
	}
	g2 := float64(g * g)
	e := float64(Kappa * math.Sqrt(max(0, (1-g2)/float64(g2*float64(d-1)))))
	if e > Eps1Max {
		return 0, narrow(n)
	}
	return narrow(n2 / ip1), narrow(n * e)
}

// narrow rounds to float32; what would overflow becomes the largest float32, so that stored factors are finite.
func narrow(x float64) float32 {
	y := float32(x)
	if math.IsInf(float64(y), 0) {
		return float32(math.Copysign(math.MaxFloat32, x))
	}
	return y
}
