package diffing

import (
	"encoding/binary"
	"math"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/vector/kernel"
)

// The fast form never calls a row indexable that is not, and calls every ordinary row so.
func TestPlainlyLikeNarrow(t *testing.T) {
	t.Parallel()
	parts := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-40,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xff800001), math.Float32frombits(0x7f7fffff)}
	for _, dim := range []int{1, 2, 3, 4} {
		n := 1
		for range dim {
			n *= len(parts)
		}
		for k := range n {
			raw := make([]byte, 0, 4*dim)
			for range dim {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(parts[k%len(parts)]))
				k /= len(parts)
			}
			for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
				target := &Target{Vector: avrox.Vector{Dim: dim, Element: avrox.ElementFloat}, Metric: m}
				want, _ := kernel.Narrow(make([]float32, dim), raw, kernel.Float, m)
				if got := plainly(raw, target); got != want {
					t.Fatalf("%x by %v: %v, want %v", raw, m, got, want)
				}
			}
		}
	}
	if plainly(make([]byte, 4), &Target{Vector: avrox.Vector{Dim: 2, Element: avrox.ElementFloat}}) || plainly(make([]byte, 8), &Target{Vector: avrox.Vector{Dim: 8, Element: avrox.ElementInt8}}) {
		t.Error("a row that must be looked at closer")
	}
}
