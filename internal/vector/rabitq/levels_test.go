package rabitq

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/simd"
)

// FuzzLevels compares the factor that each way chooses, and the levels, with the literal loop over the grid, as far as it reaches in the format and
// further.
func FuzzLevels(f *testing.F) {
	for i, d := range []uint16{1, 2, 3, 5, 16, 33, 100, 128, 700, 2047} {
		for kind := range uint8(12) {
			f.Add(uint64(i), d, uint8(i)+kind, kind)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, width, kind uint8) {
		d, bits := int(dim)%2048+1, int(width)%7+2
		r := rand.New(rand.NewPCG(seed, 11))
		x := make([]float32, d)
		for i := range x {
			g := float32(r.NormFloat64())
			switch kind % 6 {
			case 1: // many components cross a level together
				g = float32(math.Round(float64(2 * g)))
			case 2:
				g = math.Float32frombits(uint32(r.IntN(1<<23)) | uint32(r.IntN(2))<<31)
			case 3:
				g *= 1e36
			case 4:
				g *= []float32{1, 1e-7, 1e-20}[r.IntN(3)]
			case 5: // one component has all the length, or a step's exact multiple
				g = float32(r.IntN(65)) / 64
			}
			x[i] = g
		}
		rn := float32(math.Sqrt(kernel.SquaredNorm64(x)))
		if rn == 0 || math.IsInf(float64(rn), 0) {
			t.Skip()
		}
		choice := newChoice(bits, Levels(kind/6%2))
		top := choice.top
		a, largest := make([]float64, d), 0.0
		for i, y := range x {
			a[i] = math.Abs(float64(y / rn))
			largest = max(largest, a[i])
		}
		want := 1.0
		if largest > 1e-12 {
			want = literalGrid(a, top, choice.reach, largest)
			grid := choice.grid(largest)
			forms := map[string]float64{"pruned": bestPruned(grid, a, choice.half), "buckets": bestBucket(grid, a, top)}
			if simd.Fast() {
				forms["lanes"] = bestLane(grid, a, top)
			}
			for form, got := range forms {
				if got != want {
					t.Fatalf("D=%d, %d bits, %s: got factor %v, want %v", d, bits, form, got, want)
				}
			}
		}
		levels := make([]byte, d)
		if got := choice.levels(levels, make([]float64, d), x, rn); got != want {
			t.Fatalf("D=%d, %d bits: got factor %v, want %v", d, bits, got, want)
		}
		for i, y := range a {
			level := min(top, math.Floor(float64(want*y)+1e-5))
			if x[i] < 0 {
				level = top - level
			}
			if float64(levels[i]) != level {
				t.Fatalf("D=%d, %d bits: level %d: got %d, want %v", d, bits, i, levels[i], level)
			}
		}
	})
}

// What a code misses of a vector, 1 − cos² of the angle between them, is less with levels that reach further, the more so the fewer the bits: of
// 2 bits a third. With many bits it is as much.
func TestWideLevelsAreNearer(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, x := range []struct {
		d, bits int
		most    float64
	}{
		{128, 2, 0.4}, {128, 3, 0.55}, {128, 4, 0.8}, {128, 5, 0.9}, {128, 6, 1}, {128, 8, 1.05},
		{768, 2, 0.36}, {768, 3, 0.45}, {768, 4, 0.65}, {768, 5, 0.83}, {768, 6, 0.95}, {768, 8, 1.03},
	} {
		d, bits := x.d, x.bits
		missed := func(l Levels) (sum float64) {
			c, r, levels, a := newChoice(bits, l), gaussians(3, n*d), make([]byte, d), make([]float64, d)
			for ; len(r) > 0; r = r[d:] {
				dot, length, norm := 0.0, 0.0, kernel.SquaredNorm64(r[:d])
				factor := c.levels(levels, a, r[:d], float32(math.Sqrt(norm)))
				for i, x := range a {
					code := levelOf(factor, x, c.top) + 0.5
					dot, length = dot+code*math.Abs(float64(r[i])), length+code*code
				}
				sum += 1 - dot*dot/(length*norm)
			}
			return sum / n
		}
		share := missed(Wide) / missed(Reference)
		t.Logf("%d dimensions, %d bits: %.2f", d, bits, share)
		if !(share <= x.most) {
			t.Errorf("%d dimensions, %d bits: misses %.3f of what the reference does, want at most %v", d, bits, share, x.most)
		}
	}
}

// Vectors encoded together have the codes of the same ones by themselves.
func TestEncodeAllIsTheSame(t *testing.T) {
	t.Parallel()
	for _, d := range []int{1, 3, 8, 40, 100, 129} {
		for _, bits := range []int{1, 2, 4, 8} {
			for _, l := range []Levels{Reference, Wide} {
				enc := NewEncoder(NewRotation(d, 42), bits).With(l)
				const n = 71
				vectors, centroids := gaussians(uint64(d), n*d), gaussians(9, 3*d)
				copy(vectors[5*d:6*d], make([]float32, d))
				vectors[7*d] = math.MaxFloat32
				at := func(i int) []float32 {
					if i%4 == 3 {
						return nil
					}
					return centroids[i%4*d : (i%4+1)*d]
				}
				for i, got := range enc.EncodeAll(vectors, at) {
					want := enc.Encode(vectors[i*d:(i+1)*d], at(i))
					if got.Bits != want.Bits || !slices.Equal(got.Sign, want.Sign) || !slices.Equal(got.Levels, want.Levels) || got.F != want.F {
						t.Fatalf("D=%d, %d bits, vector %d: got %+v, want %+v", d, bits, i, got, want)
					}
				}
			}
		}
	}
}

// FuzzEncode compares codes and factors of many vectors at once with those of each by itself: all widths, lengths that are no multiple of eight, and
// components of every size.
func FuzzEncode(f *testing.F) {
	for i := range 24 {
		f.Add(uint64(i), uint8(i), uint8(i*7), uint8(i))
	}
	dims := []int{1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 130}
	f.Fuzz(func(t *testing.T, seed uint64, dim, bits, count uint8) {
		d, b, n := dims[int(dim)%len(dims)], int(bits)%8+1, int(count)%20+1
		enc := NewEncoder(NewRotation(d, 42), b).With(Levels(dim / 128))
		r := rand.New(rand.NewPCG(seed, 8))
		draw := func(n int) []float32 {
			out := make([]float32, n)
			scale := []float64{1, 1, 1, 1e-20, 1e-38, 1e-44, 1e15, 1e30, 1e38}[r.IntN(9)]
			for i := range out {
				if out[i] = float32(r.NormFloat64() * scale); r.IntN(8) == 0 {
					out[i] = []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.SmallestNonzeroFloat32}[r.IntN(6)]
				}
				if x := float64(out[i]); math.IsInf(x, 0) {
					out[i] = math.MaxFloat32
				}
			}
			return out
		}
		var vectors []float32
		for range n {
			vectors = append(vectors, draw(d)...)
		}
		rotated := enc.rotation.ApplyAll(vectors)
		centroids := [][]float32{draw(d), nil, rotated[:d], draw(d)}
		at := func(i int) []float32 { return centroids[(i+int(seed))%4] }
		for i, got := range enc.EncodeAll(vectors, at) {
			want := enc.empty(make([]byte, enc.codeBytes()))
			enc.newScratch().encode(&want, vectors[i*d:(i+1)*d], rotated[i*d:(i+1)*d], at(i))
			if got.Bits != want.Bits || !slices.Equal(got.Sign, want.Sign) || !slices.Equal(got.Levels, want.Levels) || got.F != want.F {
				t.Fatalf("D=%d, %d bits, vector %d of %d: got %+v, want %+v", d, b, i, n, got, want)
			}
		}
	})
}
