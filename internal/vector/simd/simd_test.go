package simd

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// draw makes n components of one of several kinds: plain ones, few different ones, subnormal ones, huge ones, and such
// with infinities and NaN among them. They begin at an odd place of their array.
func draw(r *rand.Rand, n, kind int) []float32 {
	out := make([]float32, n+9)[1+r.IntN(8):][:n:n]
	for i := range out {
		switch kind % 5 {
		case 0:
			out[i] = float32(r.NormFloat64())
		case 1:
			out[i] = []float32{0, 1, -1, 0.5, -7, float32(math.Copysign(0, -1))}[r.IntN(6)]
		case 2:
			out[i] = math.Float32frombits(uint32(r.IntN(1<<23)) | uint32(r.IntN(2))<<31)
		case 3:
			out[i] = float32(r.NormFloat64()) * 1e38
		default:
			out[i] = []float32{1, -2, float32(math.Inf(1)), float32(math.NaN()), float32(math.Inf(-1)), 3}[r.IntN(6)]
		}
	}
	return out
}

// shapes are seeds of every fuzz target: random state, dimension, rows, kind of values.
func shapes(f *testing.F) {
	for i, d := range []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 128, 130, 768, 1023, 2048} {
		for kind := range 5 {
			f.Add(uint64(i), uint16(d), uint8(i%40+1), uint8(kind))
		}
	}
}

func sized(d uint16, n uint8) (int, int) { return int(d)%2048 + 1, int(n)%40 + 1 }

func same64(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func same32(a, b float32) bool { return same64(float64(a), float64(b)) }

func FuzzRows(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		d, n := sized(dim, count)
		r := rand.New(rand.NewPCG(seed, 1))
		rows, others, v := draw(r, n*d, int(kind)), draw(r, 3*d, int(kind)), draw(r, d, int(kind))
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(r.IntN(3))
		}
		sums := make([]float64, n)
		check := func(what string, other func(i int) []float32, squares bool) {
			for i, got := range sums {
				// The plain loop, without a helper of the package.
				want := 0.0
				for j, x := range rows[i*d : (i+1)*d] {
					a, b := float64(x), float64(other(i)[j])
					if squares {
						a -= b
						b = a
					}
					want += float64(a * b)
				}
				if !same64(got, want) {
					t.Fatalf("%s: D=%d, row %d of %d: got %v, want %v", what, d, i, n, got, want)
				}
			}
		}
		total := make([]float64, d)
		for i := range n {
			Accumulate(total, rows[i*d:(i+1)*d])
		}
		for j, got := range total {
			want := 0.0
			for i := range n {
				want += float64(rows[i*d+j])
			}
			if !same64(got, want) {
				t.Fatalf("sum of %d rows of D=%d, component %d: got %v, want %v", n, d, j, got, want)
			}
		}
		one, each := func(int) []float32 { return v }, func(i int) []float32 { return others[int(ids[i])*d:][:d] }
		SquaresTo(sums, rows, v)
		check("squares to", one, true)
		DotsTo(sums, rows, v)
		check("dots to", one, false)
		SquaresOf(sums, rows, others, ids, d)
		check("squares of", each, true)
		DotsOf(sums, rows, others, ids, d)
		check("dots of", each, false)
	})
}

// FuzzMatrix multiplies by four to twenty vectors, all columns at once and in two parts, and by one vector alone.
func FuzzMatrix(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		d, n := sized(dim, count)
		n = n%5 + 1
		r := rand.New(rand.NewPCG(seed, 2))
		panels, rows := draw(r, 32*d, int(kind)), draw(r, 4*n*d, int(kind))
		panel := make([]float64, 8*d+1)[1:]
		Widen(panel, panels[:8*d], r.IntN(3))
		for i, x := range panel {
			if !same64(x, float64(panels[i])) {
				t.Fatalf("widened, D=%d: %d: got %v, want %v", d, i, x, panels[i])
			}
		}
		product := func(l int, v []float32) float32 {
			sum := 0.0
			for j, x := range v {
				sum += float64(float64(panels[8*d*(l/8)+8*j+l%8]) * float64(x))
			}
			return float32(sum)
		}
		stride := 8 + r.IntN(3)
		out := make([]float32, stride*(4*n-1)+9)[:stride*(4*n-1)+8]
		split := d
		if d > 1 && r.IntN(2) == 1 {
			split = 1 + r.IntN(d-1)
		}
		var sums []float64
		if split < d {
			sums = make([]float64, 32*n+1)[1:]
		}
		for from, to := 0, split; from < d; from, to = to, d {
			quads := make([]float64, 4*n*(to-from)+1)[1:]
			for q := range n {
				four := quads[4*q*(to-from):][:4*(to-from)]
				Quad(four, rows[4*q*d+from:(4*q+4)*d], d, to-from)
				for i, x := range four {
					if want := float64(rows[(4*q+i%4)*d+from+i/4]); !same64(x, want) {
						t.Fatalf("quad of D=%d: %d: got %v, want %v", d, i, x, want)
					}
				}
			}
			out[:cap(out)][len(out)] = 77
			Matrix(out, stride, sums, panel[8*from:8*to], quads, n)
		}
		if out[:cap(out)][len(out)] != 77 {
			t.Fatal("wrote behind the products")
		}
		for i := range 4 * n {
			for l, got := range out[stride*i:][:8] {
				if want := product(l, rows[i*d:(i+1)*d]); !same32(got, want) {
					t.Fatalf("D=%d in parts of %d, vector %d of %d, row %d: got %v, want %v", d, split, i, 4*n, l, got, want)
				}
			}
		}
		v, one := make([]float64, d+1)[1:], rows[:d]
		Widen(v, one, 0)
		var alone [32]float32
		Matrix1(&alone, panels, v)
		for l, got := range alone {
			if want := product(l, one); !same32(got, want) {
				t.Fatalf("one vector of D=%d, row %d: got %v, want %v", d, l, got, want)
			}
		}
	})
}

func FuzzProject(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		d, _ := sized(dim, count)
		r := rand.New(rand.NewPCG(seed, 6))
		narrow, narrowQ := draw(r, Columns*d, int(kind)), draw(r, d, int(kind))
		panel, q := make([]float64, Columns*d+1)[1:], make([]float64, d+1)[1:]
		for i, x := range narrow {
			panel[i] = float64(x)
		}
		for i, x := range narrowQ {
			q[i] = float64(x)
		}
		Project(panel, q)
		for l := range Columns {
			s := 0.0
			for i, x := range q {
				s += float64(x * float64(narrow[Columns*i+l]))
			}
			for i, x := range q {
				if got, want := panel[Columns*i+l], float64(narrow[Columns*i+l])-float64(s*x); !same64(got, want) {
					t.Fatalf("D=%d, column %d, component %d: got %v, want %v", d, l, i, got, want)
				}
			}
		}
	})
}

// The portable scan of plain rows is the oracle of the scan of interleaved ones.
func FuzzScan(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		d, n := sized(dim, count)
		n *= 1 + int(kind)%4
		r := rand.New(rand.NewPCG(seed, 3))
		width, stride := (d+7)/8, (d+63)/64*8
		rows, nibbles := make([]byte, n*stride+3)[3:], make([]byte, 32*width)
		for i := range rows {
			rows[i] = byte(r.Uint32())
		}
		for i := range nibbles {
			nibbles[i] = byte(r.IntN(min(256, 65536/(2*width))))
		}
		tables := make([][2048]uint16, stride/8)
		for b := range width {
			for x := range 256 {
				tables[b/8][b%8*256+x] = uint16(nibbles[32*b+x&15]) + uint16(nibbles[32*b+16+x>>4])
			}
		}
		prefix := []byte("x")
		turned := Interleave(prefix, rows, stride)[1:]
		for i := range n {
			for b := range stride {
				if got := turned[Group*(i/Group*stride+b)+i%Group]; got != rows[i*stride+b] {
					t.Fatalf("D=%d: byte %d of code %d of %d: got %d, want %d", d, b, i, n, got, rows[i*stride+b])
				}
			}
		}
		want, got := make([]uint16, n), make([]uint16, len(turned)/stride)
		ScanRows(want, rows, tables)
		ScanGroups(got, turned, stride, nibbles, width)
		for i := range n {
			plain := uint16(0)
			for b := range width {
				plain += tables[b/8][b%8*256+int(rows[i*stride+b])]
			}
			if want[i] != plain || got[i] != plain {
				t.Fatalf("D=%d: code %d of %d: got %d and %d, want %d", d, i, n, want[i], got[i], plain)
			}
		}
	})
}

// FuzzPlanes holds sums over the planes of codes and tables of half bytes against plain sums.
func FuzzPlanes(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		d, _ := sized(dim, count)
		r := rand.New(rand.NewPCG(seed, 8))
		width, stride := (d+7)/8, (d+63)/64*8
		w := make([]float64, 8*width)
		for i, x := range draw(r, d, int(kind)) {
			w[i] = float64(x)
		}
		planes, n := 1+int(count)%MaxPlanes, 1+int(count)%9
		first, rest := make([]byte, n*stride+3)[3:], make([]byte, n*(planes-1)*stride+1)[1:]
		for _, rows := range [][]byte{first, rest} {
			for i := range rows {
				rows[i] = byte(r.Uint32())
			}
		}
		if fast {
			codes := make([]int32, n+3)
			for i := range codes {
				codes[i] = int32(r.IntN(n))
			}
			got := make([][MaxPlanes]float64, len(codes))
			Planes(got, first, rest, codes, stride, planes, w)
			for i, code := range codes {
				for p := range planes {
					row := first[int(code)*stride:]
					if p > 0 {
						row = rest[(int(code)*(planes-1)+p-1)*stride:]
					}
					want := 0.0
					for b := range width {
						part := 0.0
						for bit := range 8 {
							if row[b]>>bit&1 == 1 {
								part += w[8*b+bit]
							}
						}
						want += part
					}
					if !same64(got[i][p], want) {
						t.Fatalf("D=%d, place %d, plane %d of %d: got %v, want %v", d, i, p, planes, got[i][p], want)
					}
				}
			}
		}
		lows, widest := make([]float64, 2*width), 0.0
		for h := range lows {
			wide := 0.0
			for _, x := range w[4*h : 4*h+4] {
				lows[h] += min(x, 0)
				wide += math.Abs(x)
			}
			widest = max(widest, wide)
		}
		if widest-widest != 0 { // not finite
			return
		}
		inverse := 0.0
		if widest > 1e-30 {
			inverse = (200 + float64(count)) / widest
		}
		table := make([]byte, 32*width)
		Entries(table, w, lows, inverse)
		for i, got := range table {
			sum := 0.0
			for bit := range 4 {
				if i>>bit&1 == 1 {
					sum += w[4*(i/16)+bit]
				}
			}
			if want := byte(min(255, float64((sum-lows[i/16])*inverse)+0.5)); got != want {
				t.Fatalf("D=%d, entry %d: got %d, want %d", d, i, got, want)
			}
		}
	})
}

func FuzzByteTable(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, _ uint16, _, kind uint8) {
		r := rand.New(rand.NewPCG(seed, 4))
		w := (*[8]float32)(draw(r, 8, int(kind)))
		var table [256]float64
		ByteTable(&table, w)
		for x, got := range table {
			want := 0.0
			for bit := range 8 {
				if x>>bit&1 == 1 {
					want += float64(w[bit])
				}
			}
			if !same64(got, want) {
				t.Fatalf("%08b: got %v, want %v", x, got, want)
			}
		}
	})
}

func FuzzTile(f *testing.F) {
	shapes(f)
	f.Fuzz(func(t *testing.T, seed uint64, dim uint16, count, kind uint8) {
		if !Fast() {
			t.Skip("portable form: there are no tiles")
		}
		d, n := sized(dim, count)
		panels := n%5 + 1
		r, rows := rand.New(rand.NewPCG(seed, 5)), TileRows()
		stride := d + r.IntN(3)
		x, b := draw(r, rows*stride, int(kind)%3), draw(r, panels*TileColumns*d, int(kind)%3)
		norms, scales := draw(r, panels*TileColumns, 0), draw(r, panels*TileColumns, 0)
		scores := make([]float32, rows*len(norms)+1)
		scores[len(scores)-1] = 77
		var mins [8 * MaxTileRows]float32
		for i := range mins {
			mins[i] = float32(r.NormFloat64()) * 3
		}
		before, limits := mins, make([]float32, rows)
		Tile(scores[:len(scores)-1], x, stride, b, norms, scales, d, &mins)
		if scores[len(scores)-1] != 77 {
			t.Fatal("wrote behind the scores")
		}
		for i := range rows {
			row := x[i*stride:][:d]
			if got, want := float64(Norm(row)), 0.0; true {
				for _, a := range row {
					want += float64(a) * float64(a)
				}
				if math.Abs(got-want) > want*float64(d/8+16)*0x1p-24+1e-44*float64(d) {
					t.Fatalf("norm, D=%d: got %v, want %v", d, got, want)
				}
			}
			got := scores[i*len(norms):][:len(norms)]
			least := [8]float32(before[8*i:])
			for c, s := range got {
				// The error of a fused chain: γ_d times the sum of magnitudes, and one rounding more for the scale.
				want, size := float64(norms[c]), math.Abs(float64(norms[c]))
				for j, a := range row {
					p := float64(a) * float64(b[c/TileColumns*TileColumns*d+TileColumns*j+c%TileColumns])
					want -= p
					size += math.Abs(p)
				}
				scale := float64(scales[c])
				bound := (size*float64(d+2)*0x1p-24+float64(d)*0x1p-149)*math.Abs(scale)*1.001 + 0x1p-149
				if math.Abs(float64(s)-want*scale) > bound {
					t.Fatalf("D=%d, row %d, column %d: got %v, want %v within %v", d, i, c, s, want*scale, bound)
				}
				least[c%8] = min(least[c%8], s)
			}
			var lowest [MaxTileRows]float32
			if Least(&lowest, &mins); lowest[i] != slices.Min(least[:]) {
				t.Fatalf("D=%d, row %d: least score: got %v, want %v", d, i, lowest[i], slices.Min(least[:]))
			}
			if least != [8]float32(mins[8*i:]) {
				t.Fatalf("D=%d, row %d: least scores: got %v, want %v", d, i, mins[8*i:8*i+8], least)
			}
			limits[i] = got[r.IntN(len(got))]
		}
		words := make([]uint64, rows*panels)
		words = words[:Low(words, scores[:len(scores)-1], limits)]
		for g := range rows * panels {
			lanes := uint64(0)
			for l, s := range scores[g*TileColumns:][:TileColumns] {
				if s <= limits[g/panels] {
					lanes |= 1 << l
				}
			}
			if lanes == 0 {
				continue
			}
			if want := uint64(g/panels)<<48 | uint64(g%panels)<<16 | lanes; len(words) == 0 || words[0] != want {
				t.Fatalf("row %d, group %d: low scores: got %x, want %x", g/panels, g%panels, words[:min(1, len(words))], want)
			}
			words = words[1:]
		}
		if len(words) > 0 {
			t.Fatalf("low scores that are not there: %x", words)
		}
	})
}

func TestName(t *testing.T) {
	t.Parallel()
	if fastest := Name() != "portable"; fastest != Fast() {
		t.Errorf("%s is in use, fast is %v", Name(), Fast())
	}
	if os.Getenv("TIDEMARK_KERNELS") == "portable" && Fast() {
		t.Error("the environment asks for the portable form, and it is not in use")
	}
}
