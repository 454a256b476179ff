package rabitq

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidemark/internal/vector/kernel"
)

// gaussians draws n·d components; the seed is fixed, so every run sees the same ones.
func gaussians(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

func TestRotationIsOrthonormal(t *testing.T) {
	t.Parallel()
	for _, d := range []int{1, 2, 7, 33, 100} {
		r := NewRotation(d, 42)
		for i := range d {
			for j := range i + 1 {
				want := 0.0
				if i == j {
					want = 1
				}
				if got := kernel.Dot64(r.Row(i), r.Row(j)); math.Abs(got-want) > 1e-5 {
					t.Fatalf("D=%d: rows %d and %d: got %v", d, i, j, got)
				}
			}
		}
	}
}

// Sixteen columns at a time give the bits of the columns one after the other.
func TestOrthonormalForms(t *testing.T) {
	t.Parallel()
	for _, d := range []int{1, 2, 15, 16, 17, 32, 47, 100} {
		one, two := make([][]float64, d), make([][]float64, d)
		for j, x := range gaussians(uint64(d), d*d) {
			one[j%d] = append(one[j%d], float64(x))
			two[j%d] = append(two[j%d], float64(x))
		}
		if d > 20 { // a column that depends on others keeps hardly any length
			copy(one[d-3], one[2])
			copy(two[d-3], two[2])
		}
		orthonormalisePanels(one)
		for k, ck := range two {
			normalise(ck)
			for _, c := range two[k+1:] {
				subtract(ck, c)
			}
		}
		for j := range one {
			for i := range one[j] {
				if math.Float64bits(one[j][i]) != math.Float64bits(two[j][i]) {
					t.Fatalf("D=%d, column %d, component %d: got %v, want %v", d, j, i, one[j][i], two[j][i])
				}
			}
		}
	}
}

func TestRotationCache(t *testing.T) {
	// Not parallel: it fills the cache that other tests use.
	if one, two := NewRotation(5, 1), NewRotation(5, 1); one != two {
		t.Error("the same rotation was made twice")
	}
	first := NewRotation(3, -7)
	for seed := range int64(rotationCacheSize) {
		NewRotation(3, 1000+seed)
	}
	if len(rotations.order) > rotationCacheSize || len(rotations.made) != len(rotations.order) {
		t.Errorf("cache holds %d rotations in %d places", len(rotations.made), len(rotations.order))
	}
	again := NewRotation(3, -7)
	if again == first || again.Digest() != first.Digest() {
		t.Error("a rotation that left the cache was not made again alike")
	}
	if again.Dim() != 3 || again.Seed() != -7 {
		t.Errorf("got %d/%d", again.Dim(), again.Seed())
	}
}

func TestImpossibleArgumentsPanic(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func(){
		"no dimension":  func() { NewRotation(0, 1) },
		"big dimension": func() { NewRotation(MaxDim+1, 1) },
		"no bits":       func() { NewEncoder(NewRotation(2, 42), 0) },
		"nine bits":     func() { NewEncoder(NewRotation(2, 42), 9) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			fn()
		}()
	}
}

// The mean quality of the sign code, the bias of the estimate and the share outside the bound are what the theory says.
func TestBoundIsHonest(t *testing.T) {
	t.Parallel()
	const n, d = 400, 96
	rot := NewRotation(d, 42)
	vectors, centroid, query := gaussians(1, n*d), rot.ApplyAll(gaussians(2, d)), gaussians(3, d)
	for _, bits := range []int{1, 4} {
		enc := NewEncoder(rot, bits)
		q, err := NewQuery(rot, kernel.L2, false, query)
		if err != nil {
			t.Fatal(err)
		}
		cq := q.Cluster(centroid)
		outside, bias, fullError := 0, 0.0, 0.0
		for i := range n {
			v := vectors[i*d : (i+1)*d]
			code := enc.Encode(v, centroid)
			signDot, optimistic := cq.Pass1(AppendSignRow(nil, d, code), &code.F)
			exact := kernel.Distance64(kernel.L2, v, query)
			estimate := cq.distance(float64(code.F.FRescale1)*float64(cq.signIP(signDot)), code.F.FAdd1, &code.F)
			full := cq.Pass2(signDot, AppendExPlanes(nil, d, code), RowBytes(d), bits, &code.F)
			bias += (estimate - exact) / exact
			fullError += math.Abs(full-exact) / exact
			if math.Abs(estimate-exact) > estimate-optimistic {
				outside++
			}
		}
		if share := float64(outside) / n; share < 0.02 || share > 0.10 {
			t.Errorf("%d bits: %.1f %% lie outside the bound", bits, 100*share)
		}
		if math.Abs(bias/n) > 0.03 {
			t.Errorf("%d bits: mean relative bias %v", bits, bias/n)
		}
		if want := map[int]float64{1: 0.13, 4: 0.02}[bits]; fullError/n > want {
			t.Errorf("%d bits: mean relative error %v, want at most %v", bits, fullError/n, want)
		}
	}
}

// u is the full unsigned code of dimension i.
func u(c Code, i int) int {
	sign := int(c.Sign[i/8] >> (i % 8) & 1)
	if c.Bits == 1 {
		return sign
	}
	return sign<<(c.Bits-1) + int(c.Levels[i])
}

func TestCodeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, bits := rapid.IntRange(1, 70).Draw(t, "d"), rapid.IntRange(1, 8).Draw(t, "bits")
		rot := NewRotation(d, 42)
		v := gaussians(rapid.Uint64().Draw(t, "vector"), d)
		enc := NewEncoder(rot, bits)
		code := enc.Encode(v, nil)
		negated, doubled := make([]float32, d), make([]float32, d)
		for i, x := range v {
			negated[i], doubled[i] = -x, 4*x
		}
		minus, twice := enc.Encode(negated, nil), enc.Encode(doubled, nil)
		for i := range d {
			if u(code, i)+u(minus, i) != 1<<bits-1 {
				t.Fatalf("dimension %d: code %d, negated %d", i, u(code, i), u(minus, i))
			}
		}
		if !slices.Equal(DeltaBinary(nil, code), DeltaBinary(nil, twice)) {
			t.Fatal("a longer vector has another code")
		}
		prefix := []byte{1, 2, 3}
		delta := DeltaBinary(slices.Clone(prefix), code)
		if len(delta) != 3+DeltaBytes(d, bits) || !slices.Equal(delta[:3], prefix) {
			t.Fatalf("delta has %d bytes", len(delta)-3)
		}
		packed := delta[3+SignBytes(d):]
		planes := AppendExPlanes(nil, d, code)
		if len(planes) != (bits-1)*RowBytes(d) {
			t.Fatalf("planes have %d bytes", len(planes))
		}
		for i := range code.Levels {
			level := byte(0)
			for p := range bits - 1 {
				level = level<<1 | planes[p*RowBytes(d)+i/8]>>(i%8)&1
			}
			if level != code.Levels[i] || levelAt(packed, i*(bits-1), bits-1) != level {
				t.Fatalf("dimension %d: level %d, planes %d, packed %d", i, code.Levels[i], level, levelAt(packed, i*(bits-1), bits-1))
			}
		}
	})
}

// Any finite vector has finite factors, and scores are numbers.
func TestFiniteInputGivesFiniteFactors(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, bits := rapid.IntRange(1, 20).Draw(t, "d"), rapid.IntRange(1, 8).Draw(t, "bits")
		component := rapid.OneOf(rapid.Float32(), rapid.SampledFrom([]float32{0, math.MaxFloat32, -math.MaxFloat32, 1e-45, 1, 1e-30}))
		v := rapid.SliceOfN(component, d, d).Draw(t, "v")
		rot := NewRotation(d, 42)
		var rc []float32
		if rapid.Bool().Draw(t, "centred") {
			rc = rot.ApplyAll(gaussians(5, d))
		}
		f := NewEncoder(rot, bits).Encode(v, rc).F
		for i, x := range []float32{f.FAdd1, f.FRescale1, f.Err1, f.FAddEx, f.FRescaleEx, f.ResidualNorm, f.VectorNorm} {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("factor %d of %v is %v", i, v, x)
			}
		}
	})
}

func TestQueryRefuses(t *testing.T) {
	t.Parallel()
	rot := NewRotation(3, 42)
	for _, m := range []kernel.Metric{kernel.Cosine, kernel.Dot} {
		if _, err := NewQuery(rot, m, false, []float32{0, 0, 0}); !errors.Is(err, ErrZeroQuery) {
			t.Errorf("%s: got %v", m, err)
		}
	}
	if _, err := NewQuery(rot, kernel.L2, false, []float32{0, 0}); err == nil {
		t.Error("a query of another dimension was accepted")
	}
	q, err := NewQuery(rot, kernel.L2, false, []float32{0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	cq := q.Cluster([]float32{0, 0, 0})
	if _, err := cq.Delta([]byte{1, 2}, 1, &Factors{}); err == nil {
		t.Error("a code of another length was accepted")
	}
	if got := cq.distance(5, 1, &Factors{ResidualNorm: 3}); got != 9 {
		t.Errorf("query on the centroid: got %v", got)
	}
	c, err := NewQuery(rot, kernel.Cosine, false, []float32{1, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Cluster([]float32{0, 0, 0}).distance(5, 1, &Factors{}); got != 1 {
		t.Errorf("cosine to a vector without length: got %v", got)
	}
}

// Chunks of the search grid: the chosen factor is never worse than any other of the grid.
func TestLevelsAreTheBestOfTheGrid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, bits := rapid.IntRange(1, 200).Draw(t, "d"), rapid.IntRange(2, 8).Draw(t, "bits")
		r := gaussians(rapid.Uint64().Draw(t, "residual"), d)
		if rapid.Bool().Draw(t, "ties") { // few values: many components cross a level together
			for i := range r {
				r[i] = float32(math.Round(float64(r[i])))
			}
		}
		n := float32(math.Sqrt(kernel.SquaredNorm64(r)))
		if n == 0 {
			t.Skip()
		}
		top := float64(int(1)<<(bits-1) - 1)
		a, largest := make([]float64, d), 0.0
		for i, x := range r {
			a[i] = math.Abs(float64(x / n))
			largest = max(largest, a[i])
		}
		got := newChoice(bits, Reference).levels(make([]byte, d), make([]float64, d), r, n)
		want, wantScore := 1.0, math.Inf(-1)
		for s := 1; s <= 64; s++ {
			f := float64(s) * top / (64 * largest)
			num, den := 0.0, 0.25*float64(d)
			extra := 0.0
			for _, x := range a {
				level := min(top, math.Floor(float64(f*x)+1e-5))
				num += float64((level + 0.5) * x)
				extra += float64(level*level) + level
			}
			if score := num / math.Sqrt(den+extra); score > wantScore {
				want, wantScore = f, score
			}
		}
		if got != want {
			t.Fatalf("got factor %v, want %v", got, want)
		}
	})
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint8(4), uint32(0x3f800000))
	f.Fuzz(func(t *testing.T, code []byte, bits uint8, factor uint32) {
		rot := NewRotation(9, 42)
		q, err := NewQuery(rot, kernel.Cosine, false, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9})
		if err != nil {
			t.Fatal(err)
		}
		x := math.Float32frombits(factor)
		width := int(bits%8) + 1
		_, err = q.Cluster(make([]float32, 9)).Delta(code, width, &Factors{FRescaleEx: x, FAddEx: x, VectorNorm: x})
		if (err == nil) != (len(code) == DeltaBytes(9, width)) {
			t.Fatalf("%d bytes for %d bits: %v", len(code), width, err)
		}
	})
}
