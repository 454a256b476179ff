package kernel_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
)

func bits32(t *testing.T, s string) float32 {
	t.Helper()
	u, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	return math.Float32frombits(uint32(u))
}

// distance32 is the routing distance, by its definition: float64 sums rounded to float32 at the end; L2 with the square root.
func distance32(m kernel.Metric, a, b []float32) float32 {
	d := kernel.Distance64(m, a, b)
	if m == kernel.L2 {
		d = math.Sqrt(d)
	}
	return float32(d)
}

func TestGoldenNearest(t *testing.T) {
	t.Parallel()
	var g struct {
		Flat struct {
			Centroids [][]float32
			Cases     []struct {
				Metric    string
				Vector    []float32
				Distances []string `json:"distance_bits"`
				Nearest   int
			}
		} `json:"flat_nearest"`
	}
	if err := json.Unmarshal(testkit.File(t, "golden/vector-index/routing.json"), &g); err != nil {
		t.Fatal(err)
	}
	var centroids []float32
	for _, c := range g.Flat.Centroids {
		centroids = append(centroids, c...)
	}
	if len(g.Flat.Cases) == 0 {
		t.Fatal("golden file is empty")
	}
	for i, c := range g.Flat.Cases {
		m, err := kernel.ParseMetric(c.Metric)
		if err != nil {
			t.Fatal(err)
		}
		for j, want := range c.Distances {
			got := distance32(m, c.Vector, g.Flat.Centroids[j])
			if math.Float32bits(got) != math.Float32bits(bits32(t, want)) {
				t.Errorf("case %d %s: distance %d: got %v, want %v", i, m, j, got, bits32(t, want))
			}
		}
		id, dist := kernel.Nearest(m, centroids, len(g.Flat.Centroids), len(c.Vector), c.Vector)
		if id != c.Nearest || math.Float32bits(dist) != math.Float32bits(bits32(t, c.Distances[c.Nearest])) {
			t.Errorf("case %d %s: nearest: got %d at %v, want %d", i, m, id, dist, c.Nearest)
		}
	}
}

// The router looks at eight centroids at once and skips some; the plain loop is its oracle.
func TestNearestEqualsPlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := kernel.Metric(rapid.IntRange(0, 2).Draw(t, "metric"))
		k, d := rapid.IntRange(1, 20).Draw(t, "k"), rapid.IntRange(1, 9).Draw(t, "d")
		// Few different values, so that ties and equal centroids are common.
		component := rapid.SampledFrom([]float32{0, 1, -1, 0.5, 3e-4, 1e20, -7})
		centroids := rapid.SliceOfN(component, k*d, k*d).Draw(t, "centroids")
		vectors := rapid.SliceOfN(component, 3*d, 3*d).Draw(t, "vectors")
		ids, dists := make([]int32, 3), make([]float32, 3)
		kernel.NewRouter(m, centroids, k, d).NearestAll(vectors, ids, dists)
		for i, id := range ids {
			v := vectors[i*d : (i+1)*d]
			want, wantDist := 0, float32(math.Inf(1))
			for c := range k {
				if got := distance32(m, v, centroids[c*d:(c+1)*d]); got < wantDist {
					want, wantDist = c, got
				}
			}
			if int(id) != want || dists[i] != wantDist {
				t.Fatalf("vector %d: got %d at %v, want %d at %v", i, id, dists[i], want, wantDist)
			}
		}
	})
}

func TestNearestWithoutAnswer(t *testing.T) {
	t.Parallel()
	if id, d := kernel.Nearest(kernel.L2, nil, 0, 2, []float32{1, 2}); id != -1 || d == d {
		t.Errorf("no centroids: got %d at %v", id, d)
	}
	nan := float32(math.NaN())
	if id, _ := kernel.Nearest(kernel.L2, []float32{1, 2, 3, 4}, 2, 2, []float32{nan, 0}); id != -1 {
		t.Errorf("NaN: got %d", id)
	}
	if id, _ := kernel.Nearest(kernel.L2, []float32{nan, 2, 3, 4}, 2, 2, []float32{1, 0}); id != 1 {
		t.Errorf("NaN centroid: got %d", id)
	}
	if id, d := kernel.Nearest(kernel.L2, []float32{math.MaxFloat32}, 1, 1, []float32{-math.MaxFloat32}); id != 0 || !math.IsInf(float64(d), 1) {
		t.Errorf("overflow: got %d at %v", id, d)
	}
}

func TestMatrixEqualsPlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 20).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "cols")
		value := rapid.Float32Range(-2, 2)
		m := rapid.SliceOfN(value, rows*cols, rows*cols).Draw(t, "m")
		v := rapid.SliceOfN(value, cols, cols).Draw(t, "v")
		got := make([]float32, rows)
		kernel.NewMatrix(m, rows, cols).Apply(got, v)
		for i := range rows {
			if want := float32(kernel.Dot64(m[i*cols:(i+1)*cols], v)); got[i] != want {
				t.Fatalf("row %d: got %v, want %v", i, got[i], want)
			}
		}
	})
}

func TestGoldenElements(t *testing.T) {
	t.Parallel()
	var g struct {
		Cases []struct {
			Descriptor, Element string
			Values              []float64
			Bytes               string   `json:"fixed_bytes_hex"`
			Narrowed            []string `json:"as_float32_bits"`
		}
	}
	if err := json.Unmarshal(testkit.File(t, "golden/vector-index/vector-type.json"), &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) == 0 {
		t.Fatal("golden file is empty")
	}
	for _, c := range g.Cases {
		el, err := kernel.ParseElement(c.Element)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(c.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		narrow, wide := make([]float32, len(c.Values)), make([]float64, len(c.Values))
		if !kernel.ToFloat32(narrow, raw, el) || !kernel.ToFloat64(wide, raw, el) {
			t.Fatalf("%s: wrong size", c.Descriptor)
		}
		for i, want := range c.Values {
			if narrow[i] != float32(want) || (el == kernel.Double && wide[i] != want) || float32(wide[i]) != narrow[i] {
				t.Errorf("%s[%d]: got %v and %v, want %v", c.Descriptor, i, narrow[i], wide[i], want)
			}
			if c.Narrowed != nil && math.Float32bits(narrow[i]) != math.Float32bits(bits32(t, c.Narrowed[i])) {
				t.Errorf("%s[%d]: got %v, want %v", c.Descriptor, i, narrow[i], bits32(t, c.Narrowed[i]))
			}
		}
		if kernel.ToFloat32(narrow, raw[1:], el) || kernel.ToFloat64(wide, raw[1:], el) {
			t.Errorf("%s: a cut value was accepted", c.Descriptor)
		}
		if el.String() != c.Element || len(raw) != len(c.Values)*el.Width() {
			t.Errorf("%s: got %s, %d bytes a component", c.Descriptor, el, el.Width())
		}
	}
	if _, err := kernel.ParseElement("HALF"); err == nil {
		t.Error("HALF was accepted")
	}
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	inf, nan, sub := float32(math.Inf(1)), float32(math.NaN()), math.Float32frombits(1)
	zero, negZero := float32(0), float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name string
		m    kernel.Metric
		v    []float32
		want string
	}{
		{"plain", kernel.Cosine, []float32{1, 2}, ""},
		{"NaN", kernel.L2, []float32{1, nan}, kernel.ReasonNonFinite},
		{"negative infinity", kernel.Dot, []float32{-inf, 0}, kernel.ReasonNonFinite},
		{"zero under cosine", kernel.Cosine, []float32{zero, negZero}, kernel.ReasonZero},
		{"zero under L2", kernel.L2, []float32{zero, negZero}, ""},
		{"zero under dot", kernel.Dot, []float32{zero, zero}, ""},
		{"subnormal under cosine", kernel.Cosine, []float32{sub, zero}, ""},
		{"largest", kernel.Cosine, []float32{math.MaxFloat32, -math.MaxFloat32}, ""},
	} {
		if ok, reason := kernel.Indexable(c.m, c.v); ok != (c.want == "") || reason != c.want {
			t.Errorf("%s: got %v %q, want %q", c.name, ok, reason, c.want)
		}
	}
	dst := make([]float32, 1)
	for _, c := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"null", nil, kernel.ReasonNull},
		{"empty", []byte{}, kernel.ReasonSize},
		{"overflows when narrowed", []byte{0, 0, 0, 0, 0, 0, 0, 0x7f}, kernel.ReasonNonFinite},
		{"vanishes when narrowed", []byte{1, 0, 0, 0, 0, 0, 0, 0}, kernel.ReasonZero},
		{"one", []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, ""},
	} {
		if ok, reason := kernel.Narrow(dst, c.raw, kernel.Double, kernel.Cosine); ok != (c.want == "") || reason != c.want {
			t.Errorf("%s: got %v %q, want %q", c.name, ok, reason, c.want)
		}
	}
}

// Of vectors of every length, with a special component at every place, Narrow says what a look at one component after the other says.
func TestNarrowEveryPlace(t *testing.T) {
	t.Parallel()
	specials := []uint32{0, 1 << 31, 1, 1<<31 | 1, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000, 0x7fffffff, 0x00800000, 0x3f800000}
	for dim := range 9 {
		for place := range max(1, dim) {
			for _, special := range specials {
				for _, others := range []uint32{0, 1 << 31, 0x7f000000, 0xff7fffff} {
					raw, v := make([]byte, 4*dim), make([]float32, dim)
					want, zero := "", true
					for i := range v {
						b := others
						if i == place {
							b = special
						}
						binary.LittleEndian.PutUint32(raw[4*i:], b)
						v[i] = math.Float32frombits(b)
						if x := float64(v[i]); math.IsNaN(x) || math.IsInf(x, 0) {
							want = kernel.ReasonNonFinite
						}
						zero = zero && v[i] == 0
					}
					for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
						want := want
						if want == "" && zero && m == kernel.Cosine {
							want = kernel.ReasonZero
						}
						dst := make([]float32, dim)
						ok, reason := kernel.Narrow(dst, raw, kernel.Float, m)
						alone, why := kernel.Indexable(m, v)
						if ok != (want == "") || reason != want || alone != ok || why != reason {
							t.Fatalf("%v %x at %d of %d, others %x: got %v %q and %v %q, want %q", m, special, place, dim, others, ok, reason, alone, why, want)
						}
						for i := range v {
							if math.Float32bits(dst[i]) != math.Float32bits(v[i]) {
								t.Fatalf("component %d of %d: %x, want %x", i, dim, math.Float32bits(dst[i]), math.Float32bits(v[i]))
							}
						}
					}
				}
			}
		}
		for _, size := range []int{4*dim - 1, 4*dim + 1, 4*dim + 4} {
			if size >= 0 {
				if ok, reason := kernel.Narrow(make([]float32, dim), make([]byte, size), kernel.Float, kernel.L2); ok || reason != kernel.ReasonSize {
					t.Errorf("%d bytes for %d components: %v %q", size, dim, ok, reason)
				}
			}
		}
	}
}

func TestDistances(t *testing.T) {
	t.Parallel()
	a, b := []float64{3, 4}, []float64{4, 3}
	if got := kernel.Distance64(kernel.L2, a, b); got != 2 {
		t.Errorf("L2: got %v", got)
	}
	if got := kernel.Distance64(kernel.Dot, a, b); got != -24 {
		t.Errorf("dot: got %v", got)
	}
	if got := kernel.Distance64(kernel.Cosine, a, b); math.Abs(got-0.04) > 1e-15 {
		t.Errorf("cosine: got %v", got)
	}
	if got := kernel.Distance64(kernel.Cosine, a, []float64{0, 0}); got != 1 {
		t.Errorf("cosine to zero: got %v", got)
	}
	if got := kernel.Distance64(kernel.L2, a, b[:1]); !math.IsNaN(got) {
		t.Errorf("other length: got %v", got)
	}
}

func TestMetricNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]kernel.Metric{
		"cosine": kernel.Cosine, "COSINE": kernel.Cosine, " Cosine ": kernel.Cosine, "l2": kernel.L2, "L2": kernel.L2,
		"dot_product": kernel.Dot, "Dot-Product": kernel.Dot, "dot product": kernel.Dot, "DOT": kernel.Dot,
	} {
		if got, err := kernel.ParseMetric(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "euclid", "cos"} {
		if _, err := kernel.ParseMetric(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	for _, m := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		for _, name := range []string{m.String(), m.Manifest()} {
			if got, err := kernel.ParseMetric(name); err != nil || got != m {
				t.Errorf("%q: got %v, %v", name, got, err)
			}
		}
	}
}
