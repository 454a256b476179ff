package rabitq

import "math"

// javaRandom is java.util.Random: the rotation is defined by its stream of Gaussians. Not safe for concurrent use.
type javaRandom struct {
	state   uint64
	next    float64
	hasNext bool
}

const (
	javaMultiplier = 0x5DEECE66D
	javaMask       = 1<<48 - 1
)

func newJavaRandom(seed int64) *javaRandom {
	return &javaRandom{state: (uint64(seed) ^ javaMultiplier) & javaMask}
}

func (r *javaRandom) bits(n uint) int32 {
	r.state = (r.state*javaMultiplier + 0xB) & javaMask
	return int32(r.state >> (48 - n))
}

func (r *javaRandom) float64() float64 {
	high := int64(r.bits(26)) << 27
	return float64(high+int64(r.bits(27))) * 0x1p-53
}

// gaussian is the polar method; every second value comes from the pair before.
func (r *javaRandom) gaussian() float64 {
	if r.hasNext {
		r.hasNext = false
		return r.next
	}
	for {
		v1 := float64(2*r.float64()) - 1
		v2 := float64(2*r.float64()) - 1
		q := float64(v1*v1) + float64(v2*v2)
		if q < 1 && q != 0 {
			m := math.Sqrt(float64(-2*fdlibmLog(q)) / q)
			r.next, r.hasNext = v2*m, true
			return v1 * m
		}
	}
}
