package generation

import (
	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// Generation is one built generation of an index, ready to route and encode vectors. It is immutable and safe for
// concurrent use. It implements delta.Router and delta.Bulk.
type Generation struct {
	Index    *mdt.Index // as the state had it at Load
	Number   uint32     // counts up over the builds of one index
	Manifest *delta.Manifest
	Options  Options
	Vector   avrox.Vector // the column, as it was at the build
	Metric   kernel.Metric
	Bits     int // per dimension of a code, 1 to 8
	Dim      int // components of a vector
	K        int // clusters
	Groups   int // physical file groups

	Centroids []float32 // K × Dim, row-major, original space
	Rotated   []float32 // the same, rotated
	Radii     []float32 // K: largest distance of a row to its cluster's centroid at bootstrap, in the unit of the vectors for L2
	Segments  []int     // K: segment count of each cluster, frozen
	// Counters are the clusters' totals as of Load. They are hints.
	Counters []delta.Counters

	Rotation *rabitq.Rotation // Dim × Dim
	Encoder  *rabitq.Encoder  // of Bits, under Rotation

	router *kernel.Router
}

var (
	_ delta.Router = (*Generation)(nil)
	_ delta.Bulk   = (*Generation)(nil)
)

// Cluster returns the cluster of a narrowed vector: the nearest centroid by the metric, lowest id on ties. It is the
// only routing function (design, decision 19), so a posting is looked for where it was put.
func (g *Generation) Cluster(v []float32) int {
	c, _ := g.router.Nearest(v)
	return c
}

// Probes returns the n clusters nearest to a vector, as ivf.ProbeOrder does.
func (g *Generation) Probes(v []float32, n int) []int {
	if g.router == nil { // not loaded, but put together
		return ivf.ProbeOrder(g.Metric, g.Centroids, g.K, g.Dim, v, n)
	}
	return ivf.ProbeNear(g.router, g.Metric, g.Centroids, g.K, g.Dim, v, n)
}

// Encode returns the code of a narrowed vector against the centroid of a cluster.
func (g *Generation) Encode(v []float32, cluster int) rabitq.Code {
	return g.Encoder.Encode(v, g.Rotated[cluster*g.Dim:(cluster+1)*g.Dim])
}

// Clusters sets ids[i] to Cluster of vector i, row-major.
func (g *Generation) Clusters(vectors []float32, ids []int32) { g.router.NearestAll(vectors, ids, nil) }

// Codes returns Encode of each vector, row-major, in its cluster.
func (g *Generation) Codes(vectors []float32, clusters []int32) []rabitq.Code {
	return g.Encoder.EncodeAll(vectors, func(i int) []float32 {
		c := int(clusters[i])
		return g.Rotated[c*g.Dim : (c+1)*g.Dim]
	})
}

// Centroid returns the centroid of a cluster in the original space, aliasing Centroids.
func (g *Generation) Centroid(cluster int) []float32 {
	return g.Centroids[cluster*g.Dim : (cluster+1)*g.Dim]
}

// Bytes is about what the centroids, in all their forms, and what belongs to a cluster take in memory. The rotation is shared by generations.
func (g *Generation) Bytes() int64 {
	return 16*int64(g.K)*int64(g.Dim) + 128*int64(g.K) // Centroids 4, Rotated 4, router 8
}

// Shape is what all posting blocks of the generation have in common.
func (g *Generation) Shape() delta.BlockShape { return g.shape() }

func (g *Generation) shape() delta.BlockShape {
	return delta.BlockShape{Dim: g.Dim, Bits: g.Bits, VectorNorm: delta.NeedsNorm(g.Metric, g.Manifest.AssumeNormalized)}
}

// Builder returns the builder of posting deltas for this generation.
func (g *Generation) Builder() *delta.Builder {
	return &delta.Builder{Generation: g.Number, Router: g, Segments: g.Segments, Groups: g.Groups}
}
