package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"tidemark/internal/vector/simd"
)

// draw makes n components: spread out, few different ones, subnormal, huge, tiny, near one another far from the origin,
// or with infinities and NaN among them.
func draw(r *rand.Rand, n, kind int) []float32 {
	out := make([]float32, n+3)[1+r.IntN(2):][:n:n]
	for i := range out {
		g := float32(r.NormFloat64())
		switch kind % 8 {
		case 0:
			out[i] = g
		case 1:
			out[i] = []float32{0, 1, -1, 0.5, 3e-4, -7}[r.IntN(6)]
		case 2:
			out[i] = math.Float32frombits(uint32(r.IntN(1<<23)) | uint32(r.IntN(2))<<31)
		case 3:
			out[i] = g * 1e38
		case 4:
			out[i] = g * 1e-25
		case 5:
			out[i] = 100 + g*1e-4
		case 6:
			out[i] = []float32{g, g * 1e-12, g * 1e12}[r.IntN(3)]
		default:
			out[i] = g
			if r.IntN(50) == 0 {
				out[i] = []float32{float32(math.Inf(1)), float32(math.NaN()), float32(math.Inf(-1))}[r.IntN(3)]
			}
		}
	}
	return out
}

// distance32 is the routing distance, by its definition: float64 sums rounded to float32 at the end; L2 with the square root.
func distance32(m Metric, a, b []float32) float32 {
	d := Distance64(m, a, b)
	if m == L2 {
		d = math.Sqrt(d)
	}
	return float32(d)
}

// FuzzNearest compares the router with the plain loop over exact distances.
func FuzzNearest(f *testing.F) {
	for i, d := range []uint16{1, 2, 3, 7, 8, 15, 16, 17, 40, 64, 100, 129, 600} {
		for kind := range uint8(8) {
			f.Add(uint64(i), uint8(i)+kind, d, uint8(3*i+1), 17*kind+uint8(i), kind, kind)
			f.Add(uint64(i), uint8(i)+kind, d, uint8(3*i+1), 17*kind+uint8(i), kind, uint8(1))
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, metric uint8, dim uint16, count, clusters, kind, others uint8) {
		m, d, n, k := Metric(metric%3), int(dim)%2048+1, int(count)%130+1, int(clusters)%80+1
		if d > 256 {
			n, k = n%14+1, k%40+1
		}
		r := rand.New(rand.NewPCG(seed, 1))
		centroids, vectors := draw(r, k*d, int(kind)), draw(r, n*d, int(others))
		// Some centroids twice, or almost, so that ties are common; some vectors at a centroid, and some zero.
		for c := range k {
			switch row := centroids[c*d : (c+1)*d]; r.IntN(6) {
			case 0:
				copy(row, centroids[r.IntN(k)*d:])
			case 1:
				copy(row, centroids[r.IntN(k)*d:])
				row[r.IntN(d)] *= 1 + 0x1p-20
			case 2:
				clear(row[:r.IntN(d+1)])
			}
		}
		for i := range n {
			switch row := vectors[i*d : (i+1)*d]; r.IntN(8) {
			case 0:
				copy(row, centroids[r.IntN(k)*d:])
			case 1:
				clear(row)
			}
		}
		exact := make([]float64, k)
		for i := range min(n, 3) {
			v := vectors[i*d : (i+1)*d]
			Distances64(m, exact, centroids, v)
			for c, got := range exact {
				if want := Distance64(m, centroids[c*d:(c+1)*d], v); got != want && (got == got || want == want) {
					t.Fatalf("%s, D=%d: distance %d: got %v, want %v", m, d, c, got, want)
				}
			}
		}
		router := NewRouter(m, centroids, k, d)
		ids, dists, alone := make([]int32, n), make([]float32, n), make([]int32, n)
		router.NearestAll(vectors, ids, dists)
		router.NearestAll(vectors, alone, nil)
		for i := range n {
			v := vectors[i*d : (i+1)*d]
			want, wantDist := -1, float32(math.NaN())
			for c := range k {
				if got := distance32(m, v, centroids[c*d:(c+1)*d]); got < wantDist || want < 0 && got == got {
					want, wantDist = c, got
				}
			}
			if int(ids[i]) != want || int(alone[i]) != want || dists[i] != wantDist && want >= 0 {
				t.Fatalf("%s, D=%d, K=%d, vector %d of %d: got %d at %v, alone %d, want %d at %v", m, d, k, i, n, ids[i], dists[i], alone[i], want, wantDist)
			}
			if one, dist := router.Nearest(v); i < 3 && (one != want || dist != wantDist && want >= 0) {
				t.Fatalf("%s, D=%d, K=%d, vector %d by itself: got %d at %v, want %d at %v", m, d, k, i, one, dist, want, wantDist)
			}
		}
	})
}

// Data as it usually is must be decided by tiles: a bound that lets everything through would only be slow.
func TestFewCandidates(t *testing.T) {
	t.Parallel()
	if !simd.Fast() {
		t.Skip("portable form: there are no tiles")
	}
	const n, k, d = 96, 1024, 256
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range []Metric{L2, Cosine, Dot} {
		router := NewRouter(m, draw(r, k*d, 0), k, d)
		b := newTileBatch(router, n)
		b.scan(draw(r, n*d, 0), n)
		all := 0
		for i := range b.searches {
			s := &b.searches[i]
			for _, c := range s.found {
				if c.score <= s.limit {
					all++
				}
			}
			if s.exact {
				t.Errorf("%s: vector %d is compared literally", m, i)
			}
		}
		if all > n*11/10 {
			t.Errorf("%s: %d candidates for %d vectors", m, all, n)
		}
	}
}

func FuzzMatrix(f *testing.F) {
	for i, d := range []uint16{1, 2, 7, 8, 9, 31, 32, 33, 64, 100} {
		f.Add(uint64(i), d, uint16(3*i+1), uint8(7*i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols uint16, count, kind uint8) {
		h, w, n := int(rows)%300+1, int(cols)%300+1, int(count)%70+1
		r := rand.New(rand.NewPCG(seed, 2))
		values, v := draw(r, h*w, int(kind)), draw(r, n*w, int(kind)/8)
		m := NewMatrix(values, h, w)
		all, one := make([]float32, n*h), make([]float32, h)
		m.ApplyAll(all, v)
		for i := range n {
			m.Apply(one, v[i*w:(i+1)*w])
			for j := range h {
				want := float32(Dot64(values[j*w:(j+1)*w], v[i*w:(i+1)*w]))
				got := all[i*h+j]
				if (got != want || one[j] != want) && (want == want || got == got || one[j] == one[j]) {
					t.Fatalf("%d×%d, row %d, vector %d of %d: got %v together and %v alone, want %v", h, w, j, i, n, got, one[j], want)
				}
			}
		}
	})
}
