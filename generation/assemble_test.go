package generation

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/delta"
	"tidemark/internal/vector/kernel"
)

func someCorpus(n, dim int) *corpus {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	c := &corpus{dim: dim}
	for i := range n {
		pos := int64(i)
		if i%5 == 0 {
			pos = delta.LogPosition
		}
		c.rows = append(c.rows, row{key: fmt.Sprintf("k%04d", i), at: delta.Locator{Partition: "p", FileID: fmt.Sprint("f", i%3), BaseInstant: "100", Position: pos}})
		for range dim {
			c.vectors = append(c.vectors, r.Float32()-0.5)
		}
	}
	return c
}

// TestAssembleInAnyMetricAndWidth checks for every metric and bit width that each row has exactly one posting, in its
// nearest cluster and right segment, with the code that the encoder makes, and that workers do not change a byte.
func TestAssembleInAnyMetricAndWidth(t *testing.T) {
	t.Parallel()
	for _, metric := range []kernel.Metric{kernel.L2, kernel.Cosine, kernel.Dot} {
		for bits := 1; bits <= 8; bits++ {
			t.Run(fmt.Sprintf("%s/%d", metric, bits), func(t *testing.T) {
				t.Parallel()
				o := Default()
				o.Metric, o.Bits = metric, bits
				c := someCorpus(300, 12)
				g := trained(o, 2, c.dim, c.vectors[:7*c.dim])
				g.Manifest = newManifest(o, 2, "v", c.dim)
				nothing := func(_, _ int64) {}
				clusters, radii, err := g.assign(t.Context(), c, 1, nothing)
				if err != nil {
					t.Fatal(err)
				}
				p, err := g.encode(t.Context(), c, clusters, 1, nothing)
				if err != nil {
					t.Fatal(err)
				}
				clusters3, radii3, _ := g.assign(t.Context(), c, 3, nothing)
				p3, err := g.encode(t.Context(), c, clusters3, 3, nothing)
				if err != nil || !slices.Equal(radii, radii3) || !slices.EqualFunc(p.records, p3.records, sameRecords) {
					t.Fatalf("workers change the bytes: %v", err)
				}
				g.Segments = p.segments
				seen := map[string]bool{}
				for cl, kvs := range p.records {
					for _, kv := range kvs {
						for _, post := range unpack(t, g, kv) {
							i := index(c, post.RecordKey)
							if seen[post.RecordKey] || g.Cluster(c.vector(i)) != cl {
								t.Fatalf("%s: twice, or not in its nearest cluster %d", post.RecordKey, cl)
							}
							seen[post.RecordKey] = true
							want := g.Encode(c.vector(i), cl)
							if !g.shape().VectorNorm && post.Locator.Position >= 0 {
								want.F.VectorNorm = 0
							}
							if diff := cmp.Diff(post.Code.F, want.F); diff != "" || post.Locator != c.rows[i].at {
								t.Fatalf("%s: %s", post.RecordKey, diff)
							}
						}
					}
				}
				if len(seen) != 300 || p.deltas != 60 {
					t.Errorf("%d postings, %d of them deltas", len(seen), p.deltas)
				}
				for _, r := range radii {
					if r < 0 {
						t.Errorf("radius %v", r)
					}
				}
			})
		}
	}
}

func sameRecords(a, b []delta.KV) bool {
	return slices.EqualFunc(a, b, func(x, y delta.KV) bool { return bytes.Equal(x.Key, y.Key) && bytes.Equal(x.Value, y.Value) })
}

func index(c *corpus, key string) int {
	for i := range c.rows {
		if c.rows[i].key == key {
			return i
		}
	}
	return -1
}

func unpack(t *testing.T, g *Generation, kv delta.KV) (out []delta.Posting) {
	t.Helper()
	dec, err := delta.NewDecoder(delta.SchemaJSON)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := dec.Decode(kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	switch r := rec.(type) {
	case *delta.PostingBlock:
		v, err := delta.NewBlockView(r, g.shape())
		if err != nil {
			t.Fatal(err)
		}
		for i := range v.Len() {
			out = append(out, v.Posting(i))
		}
	case *delta.PostingDelta:
		if err := r.Check(g.Dim, g.Bits); err != nil {
			t.Fatal(err)
		}
		p := delta.Posting{RecordKey: r.RecordKey, Locator: r.Locator()}
		p.Code.F = r.Factors()
		out = append(out, p)
	}
	return out
}

func TestFileGroups(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]int{0: 1, 1: 1, groupBytes: 1, groupBytes + 1: 2, 100 * groupBytes: 64} {
		if got := fileGroups(bytes); got != want {
			t.Errorf("%d bytes: %d file groups, want %d", bytes, got, want)
		}
	}
}

func TestInParallelReturnsTheFirstError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, workers := range []int{0, 1, 4} {
		err := inParallel(t.Context(), workers, 10, func(i int) error {
			if i == 3 {
				return boom
			}
			return nil
		}, nil)
		if !errors.Is(err, boom) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}
