package delta

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// flat is a router over a few centroids, which counts the vectors that it was given one at a time.
type flat struct {
	router  *kernel.Router
	enc     *rabitq.Encoder
	rotated []float32
	dim     int
	singles int
}

func (f *flat) Cluster(v []float32) int {
	f.singles++
	c, _ := f.router.Nearest(v)
	return c
}

func (f *flat) Encode(v []float32, cluster int) rabitq.Code {
	f.singles++
	return f.enc.Encode(v, f.rotated[cluster*f.dim:(cluster+1)*f.dim])
}

func (f *flat) Clusters(v []float32, ids []int32) { f.router.NearestAll(v, ids, nil) }

func (f *flat) Codes(v []float32, clusters []int32) []rabitq.Code {
	return f.enc.EncodeAll(v, func(i int) []float32 { return f.rotated[int(clusters[i])*f.dim : (int(clusters[i])+1)*f.dim] })
}

// Changes that are worked out together come to the same as one by one, errors included.
func TestNetsAreTheSame(t *testing.T) {
	t.Parallel()
	const d, k, n = 21, 7, 600
	r := rand.New(rand.NewPCG(3, 4))
	draw := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(r.NormFloat64())
		}
		return out
	}
	centroids, rot := draw(k*d), rabitq.NewRotation(d, 42)
	f := &flat{router: kernel.NewRouter(kernel.Cosine, centroids, k, d), enc: rabitq.NewEncoder(rot, 4), rotated: rot.ApplyAll(centroids), dim: d}
	b := &Builder{Generation: 3, Router: f, Segments: make([]int, k), Groups: 2}
	single := *b
	single.Router = struct{ Router }{f} // it takes one vector at a time
	version := func() *Version {
		v := &Version{Raw: []byte{byte(r.IntN(3))}, Vector: draw(d), Locator: Locator{FileID: "f", Position: int64(r.IntN(9))}}
		switch r.IntN(8) {
		case 0:
			v.Routed, v.Cluster = true, r.IntN(k)
		case 1:
			v.Raw = nil
		case 2:
			if r.IntN(10) == 0 {
				v.Vector = nil
			}
		case 3:
			if r.IntN(10) == 0 {
				v.Routed, v.Cluster = true, k+r.IntN(2)-(k+1)*r.IntN(2)
			}
		}
		return v
	}
	changes := make([]Change, n)
	failed, room := 0, &Room{}
	for i := range changes {
		c := Change{Key: fmt.Sprint(i), Instant: "1"}
		if r.IntN(4) > 0 {
			c.Old = version()
		}
		if r.IntN(4) > 0 {
			c.New = version()
		}
		for range max(0, r.IntN(5)-2) {
			c.Also = append(c.Also, version())
		}
		changes[i] = c
	}
	for from := range n {
		span := changes[from:min(n, from+1+r.IntN(20))]
		if r.IntN(3) > 0 { // as a batch lays vectors out: those of new rows one behind the other, then those of old ones
			buf := make([]float32, 0, 2*len(span)*d)
			lay := func(v *Version) {
				if v != nil && v.Vector != nil && (!v.Routed || r.IntN(2) == 0) {
					buf = append(buf, v.Vector...)
					v.Vector = buf[len(buf)-d:]
				}
			}
			for i := range span {
				lay(span[i].New)
			}
			for i := range span {
				lay(span[i].Old)
			}
		}
		var want []Net
		var wantErr error
		for i := range span {
			one, err := single.Net(&span[i])
			if wantErr = err; err != nil {
				failed++
				break
			}
			want = append(want, one)
		}
		before := f.singles
		got := make([]Net, len(span))
		err := b.Nets(span, got, room)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && !cmp.Equal(got, want) {
			t.Fatalf("changes from %d: got %+v, %v, want %+v, %v", from, got, err, want, wantErr)
		}
		if f.singles != before {
			t.Errorf("changes from %d: %d vectors were looked at one at a time", from, f.singles-before)
		}
		if room.Reset(); r.IntN(2) == 0 {
			room = &Room{}
		}
	}
	if failed == 0 || failed == n {
		t.Errorf("%d of %d spans failed", failed, n)
	}
}
