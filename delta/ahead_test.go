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

// A builder that has looked ahead works out the same as one that has not, errors included, and asks for nothing twice.
func TestAheadIsTheSame(t *testing.T) {
	t.Parallel()
	const d, k, n = 21, 7, 300
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
	failed := 0
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
	for from := 0; from < n; from += 50 {
		span := changes[from : from+50]
		ahead := b.Ahead(span)
		for i := range span {
			want, wantErr := b.Net(&span[i])
			before := f.singles
			got, err := ahead.Net(&span[i])
			if !cmp.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("change %d: got %+v, %v, want %+v, %v", from+i, got, err, want, wantErr)
			}
			if err != nil {
				failed++
			} else if f.singles != before {
				t.Errorf("change %d: %d vectors were looked at again", from+i, f.singles-before)
			}
		}
	}
	if failed == 0 || failed > n/3 {
		t.Errorf("%d of %d changes failed", failed, n)
	}
	one := struct{ Router }{f}
	if (&Builder{Router: one}).Ahead(changes).Router != Router(one) {
		t.Error("a router that takes one vector at a time was wrapped")
	}
}
