package kernel

import (
	"math"
	"math/bits"
	"sync"

	"tidemark/internal/vector/simd"
)

// chunkBytes is how much of the panels is compared with all vectors of a batch before the next part is taken: it stays
// in the second cache.
const chunkBytes = 512 << 10

// tiledBatch is how many vectors are compared with one part of the panels; a multiple of any tile's rows.
const tiledBatch = 20 * simd.MaxTileRows

// tiles finds the few centroids that can be the nearest, by float32 scores with fused multiply-add; which one it is is
// then decided literally. The score of centroid c for a vector x orders as the distance does:
//
//	L2      ½‖c‖² − ⟨x, c⟩        = ½(‖x − c‖² − ‖x‖²)
//	Dot     −⟨x, c⟩
//	Cosine  −⟨x, c⟩/‖c‖, 0 for c = 0
//
// # Why the result is the literal one
//
// Let u = 2⁻²⁴, X = ‖x‖, C = the greatest ‖c‖, s(c) the exact score and ŝ(c) the computed one.
//
// A chain of d fused steps that begins with p and subtracts a_j·b_j returns p(1+ε₀) − Σ a_j·b_j(1+ε_j) with every |ε| at most
// γ = d·u/(1 − d·u) (Higham, Accuracy and Stability, section 3.1; a fused step rounds once), plus at most d·2⁻¹⁴⁹ where steps
// underflow. The starting value ½‖c‖² is itself rounded, one u; the scale 1/‖c‖ and the product with it are two roundings
// more. By Cauchy-Schwarz Σ|x_j·c_j| ≤ X·C, so |ŝ(c) − s(c)| ≤ E with
//
//	L2      E = g·(½C² + X·C) + t        g = (d+4)·u/(1 − (d+4)·u)
//	Dot     E = g·X·C + t                t = d·2⁻¹⁴⁹
//	Cosine  E = g·X + t/least ‖c‖
//
// The literal distance is a monotone function of a float64 sum, rounded to float32. Its own error makes two distances equal,
// or puts them in the other order, only if their exact scores are within T:
//
//	L2      the sums of squares differ by less than 2⁻²² of the larger (float32 keeps 24 bits of the root, float64 sums are
//	        right to d·2⁻⁵²), and each is at most (X+C)²: T = 2⁻²²·(X+C)², twice what is needed
//	Dot     T = 2⁻²²·X·C
//	Cosine  distances lie in [0, 2], where float32 steps are at most 2⁻²³: T = 2⁻²¹·X
//
// each with t added for distances that are subnormal. Let w be the literal winner and m the centroid of the least computed
// score. The literal distance of w is not above that of m, so s(w) ≤ s(m) + T, and ŝ(w) ≤ s(w) + E ≤ s(m) + T + E ≤ ŝ(m) + T + 2E. So every centroid
// that can win, or tie, has a score within T + 2E of the least, and all of those are compared literally, in the order of
// their ids. X and C, the window and the sum
// of it and the least score are computed; the window is doubled, and T + 2E is at least 10·u times the largest score, which is far more than their error.
//
// The bound needs sums that do not overflow: vectors and centroids of length above 1e15, a vector that is not finite, and
// for Cosine one of length 0, are compared literally with all centroids.
type tiles struct {
	panels        []float32 // panel p, component j, lane l at (p·d + j)·16 + l
	norms, scales []float32 // of each column; columns without a centroid have an infinite norm and scale 1
	longest       float64   // C
	shortest      float64   // the least length that is not 0, only for Cosine
	chunk         int       // columns compared at once
	g, under      float64   // see above; under is t
	batches       sync.Pool // of *tileBatch
}

// longest is the greatest length of vectors and centroids that are compared by tiles. Below it no score overflows.
const longest = 1e15

// newTiles returns nil if some centroid cannot be compared by tiles.
func newTiles(r *Router) *tiles {
	const columns = simd.TileColumns
	if r.k == 0 || r.d == 0 {
		return nil
	}
	count := (r.k + columns - 1) / columns
	g := float64(r.d+4) * 0x1p-24
	t := &tiles{g: g / (1 - g), under: float64(r.d) * 0x1p-149, panels: make([]float32, count*columns*r.d), norms: make([]float32, count*columns), scales: make([]float32, count*columns),
		shortest: math.Inf(1)}
	for c := range t.norms {
		t.scales[c] = 1
		if c >= r.k {
			t.norms[c] = float32(math.Inf(1))
			continue
		}
		squared := SquaredNorm64(r.row(c))
		length := math.Sqrt(squared)
		if !(length <= longest) {
			return nil
		}
		t.longest = max(t.longest, length)
		switch {
		case r.metric == L2:
			t.norms[c] = float32(0.5 * squared)
		case r.metric == Cosine && length > 0:
			if length < 1e-30 { // 1/length would not be a float32
				return nil
			}
			t.scales[c] = float32(1 / length)
			t.shortest = min(t.shortest, length)
		}
		for j, x := range r.row(c) {
			t.panels[(c/columns*r.d+j)*columns+c%columns] = x
		}
	}
	t.chunk = max(1, min(count, chunkBytes/(4*columns*r.d))) * columns
	return t
}

// window is how far above the least computed score of a vector of length x a winner's score may lie.
func (t *tiles) window(m Metric, x float64) float64 {
	switch m {
	case L2:
		sum := x + t.longest
		return 2 * (2*(t.g*(0.5*t.longest*t.longest+x*t.longest)+t.under) + 0x1p-22*sum*sum + t.under)
	case Dot:
		return 2 * (2*(t.g*x*t.longest+t.under) + 0x1p-22*x*t.longest + t.under)
	}
	return 2 * (2*(t.g*x+t.under/min(1, t.shortest)) + 0x1p-21*x + t.under)
}

// candidate is a centroid whose score was low enough when it was met.
type candidate struct {
	id    int32
	score float32
}

// search is the state of one vector while the parts of the panels go by.
type search struct {
	window float32
	limit  float32 // least score so far plus the window
	exact  bool    // compare literally with all centroids
	found  []candidate
}

func (r *Router) nearestTiled(vectors []float32, ids []int32, dists []float32) {
	b, ok := r.tiles.batches.Get().(*tileBatch)
	if !ok || len(b.searches) < min(len(ids), tiledBatch) {
		b = newTileBatch(r, len(ids))
	}
	for from := 0; from < len(ids); from += tiledBatch {
		to := min(len(ids), from+tiledBatch)
		part := vectors[from*r.d : to*r.d]
		b.scan(part, to-from)
		var d []float32
		if dists != nil {
			d = dists[from:to]
		}
		b.decide(part, ids[from:to], d)
	}
	r.tiles.batches.Put(b)
}

// tileBatch is what one call of NearestAll works with.
type tileBatch struct {
	r        *Router
	searches []search
	mins     [][8 * simd.MaxTileRows]float32
	scores   []float32
	low      []uint64
	padded   []float32 // fewer vectors than a tile has rows, filled up
	sums     []float64
}

func newTileBatch(r *Router, n int) *tileBatch {
	rows := simd.TileRows()
	n = max(rows, min(n, tiledBatch))
	b := &tileBatch{r: r, searches: make([]search, n), mins: make([][8 * simd.MaxTileRows]float32, (n+rows-1)/rows),
		scores: make([]float32, rows*r.tiles.chunk), low: make([]uint64, rows*r.tiles.chunk/simd.TileColumns)}
	const room = 4 // candidates of a vector that usually suffice
	slab := make([]candidate, n*room)
	for i := range b.searches {
		b.searches[i].found = slab[i*room : i*room : (i+1)*room]
	}
	return b
}

// infinite is what the least scores begin with.
var infinite = func() (out [8 * simd.MaxTileRows]float32) {
	for i := range out {
		out[i] = float32(math.Inf(1))
	}
	return out
}()

// scan collects the candidates of n vectors.
func (b *tileBatch) scan(vectors []float32, n int) {
	r, t := b.r, b.r.tiles
	for i := range n {
		x := vectors[i*r.d : (i+1)*r.d]
		s := &b.searches[i]
		s.found = s.found[:0]
		// More than the error of Norm, and than what underflows in it.
		length := 1.01 * math.Sqrt(float64(simd.Norm(x))+float64(r.d)*0x1p-148)
		s.exact = !(length <= longest) || r.metric == Cosine && length < 1e-15
		s.window = float32(t.window(r.metric, length))
	}
	rows := simd.TileRows()
	if n < rows {
		if b.padded == nil {
			b.padded = make([]float32, rows*r.d)
		}
		copy(b.padded, vectors[:n*r.d])
		vectors = b.padded
	}
	used := b.mins[:(n+rows-1)/rows]
	for i := range used {
		used[i] = infinite
	}
	for from := 0; from < len(t.norms); from += t.chunk {
		to := min(len(t.norms), from+t.chunk)
		for tile := range used {
			first := max(0, min(tile*rows, n-rows)) // the last tile takes rows again
			scores := b.scores[:rows*(to-from)]
			simd.Tile(scores, vectors[first*r.d:], r.d, t.panels[from*r.d:to*r.d], t.norms[from:to], t.scales[from:to], r.d, &used[tile])
			b.collect(scores, from, tile*rows-first, b.searches[first:min(first+rows, n)], &used[tile])
		}
	}
}

// collect adds, for the searches of a tile from the given one on, the centroids of a part of the panels that are within the window of
// the least score so far.
func (b *tileBatch) collect(scores []float32, from, begin int, searches []search, mins *[8 * simd.MaxTileRows]float32) {
	var limits [simd.MaxTileRows]float32
	simd.Least(&limits, mins)
	for i := begin; i < len(searches); i++ {
		limits[i] += searches[i].window
		searches[i].limit = limits[i]
	}
	const columns = simd.TileColumns
	width := len(scores) / simd.TileRows()
	for _, w := range b.low[:simd.Low(b.low, scores[begin*width:len(searches)*width], limits[begin:len(searches)])] {
		i, group := begin+int(w>>48), int(w>>16&0xffffffff)
		s := &searches[i]
		if s.exact {
			continue
		}
		for lanes := uint16(w); lanes != 0; lanes &= lanes - 1 {
			c := group*columns + bits.TrailingZeros16(lanes)
			s.found = append(s.found, candidate{int32(from + c), scores[i*width+c]})
		}
	}
}

// decide compares the candidates literally. A single one needs no comparison.
func (b *tileBatch) decide(vectors []float32, ids []int32, dists []float32) {
	r := b.r
	for i := range ids {
		x, s := vectors[i*r.d:(i+1)*r.d], &b.searches[i]
		if s.exact {
			if b.sums == nil {
				b.sums = make([]float64, r.k+lanes)
			}
			id, dist := r.literal(x, b.sums)
			ids[i] = int32(id)
			if dists != nil {
				dists[i] = dist
			}
			continue
		}
		if len(s.found) == 1 {
			ids[i] = s.found[0].id
			continue
		}
		kept := s.found[:0]
		for _, c := range s.found {
			if c.score <= s.limit { // the limit has fallen since
				kept = append(kept, c)
			}
		}
		if len(kept) == 1 {
			ids[i] = kept[0].id
			continue
		}
		best, bestDist := int32(-1), float32(math.NaN())
		norm := 0.0
		if r.metric == Cosine {
			norm = math.Sqrt(SquaredNorm64(x))
		}
		for _, c := range kept {
			d := r.pair(x, int(c.id), norm)
			if d < bestDist || best < 0 {
				best, bestDist = c.id, d
			}
		}
		ids[i] = best
	}
	if dists != nil {
		b.measure(vectors, ids, dists)
	}
}

// pair is the literal distance of x, of that length, to one centroid.
func (r *Router) pair(x []float32, c int, norm float64) float32 {
	if r.metric != L2 {
		return r.distance(Dot64(x, r.row(c)), c, norm)
	}
	var sum [1]float64
	simd.SquaresTo(sum[:], r.row(c), x)
	return r.distance(sum[0], c, norm)
}

// measure fills in the distances of rows that have a centroid.
func (b *tileBatch) measure(vectors []float32, ids []int32, dists []float32) {
	r, sums := b.r, make([]float64, len(ids))
	safe := make([]int32, len(ids))
	for i, id := range ids {
		safe[i] = max(0, id)
	}
	if r.metric == L2 {
		simd.SquaresOf(sums, vectors, r.rows, safe, r.d)
	} else {
		simd.DotsOf(sums, vectors, r.rows, safe, r.d)
	}
	for i, id := range ids {
		if b.searches[i].exact {
			continue
		}
		norm := 0.0
		if r.metric == Cosine {
			norm = math.Sqrt(SquaredNorm64(vectors[i*r.d : (i+1)*r.d]))
		}
		dists[i] = r.distance(sums[i], int(id), norm)
	}
}
