package generation

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tidemark/delta"
	"tidemark/internal/storage"
)

func someCentroids(k, dim int) (centroids, radii []float32) {
	for i := range k * dim {
		centroids = append(centroids, float32(i)/7)
	}
	for i := range k {
		radii = append(radii, float32(i))
	}
	return centroids, radii
}

func TestCentroidChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ k, dim, chunks int }{{1, 1, 1}, {3, 8, 1}, {700, 768, 3}, {2, 270_000, 2}} {
		centroids, radii := someCentroids(c.k, c.dim)
		chunks, sum, err := centroidChunks(centroids, radii, c.dim)
		if err != nil || len(chunks) != c.chunks {
			t.Fatalf("%d × %d: %d chunks, %v", c.k, c.dim, len(chunks), err)
		}
		for i, ch := range chunks {
			if n := len(delta.AppendPayload(nil, ch)); n > chunkBytes && c.dim < 100_000 {
				t.Errorf("chunk %d has %d bytes", i, n)
			}
		}
		m := &delta.Manifest{Dim: int32(c.dim), NumClusters: int32(c.k), CentroidChunkCount: int32(len(chunks)), CentroidChecksum: &sum}
		gotC, gotR, err := readCentroids(m, chunks)
		if err != nil || !slices.Equal(gotC, centroids) || !slices.Equal(gotR, radii) {
			t.Errorf("%d × %d does not come back: %v", c.k, c.dim, err)
		}
	}
}

func TestReadCentroidsRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *delta.Manifest, c []*delta.Centroids) []*delta.Centroids{
		"a chunk is missing": func(_ *delta.Manifest, c []*delta.Centroids) []*delta.Centroids { return c[:1] },
		"chunks swapped":     func(_ *delta.Manifest, c []*delta.Centroids) []*delta.Centroids { c[0], c[1] = c[1], c[0]; return c },
		"a flipped bit":      func(_ *delta.Manifest, c []*delta.Centroids) []*delta.Centroids { c[0].CentroidBytes[5] ^= 1; return c },
		"ids cut": func(_ *delta.Manifest, c []*delta.Centroids) []*delta.Centroids {
			c[0].ClusterIDs = c[0].ClusterIDs[1:]
			return c
		},
		"radii cut": func(_ *delta.Manifest, c []*delta.Centroids) []*delta.Centroids {
			c[0].ClusterRadii = c[0].ClusterRadii[4:]
			return c
		},
		"other cluster count": func(m *delta.Manifest, c []*delta.Centroids) []*delta.Centroids { m.NumClusters++; return c },
		"not finite": func(m *delta.Manifest, c []*delta.Centroids) []*delta.Centroids {
			empty := ""
			m.CentroidChecksum = &empty
			copy(c[0].CentroidBytes, appendFloat(nil, float32(math.NaN())))
			return c
		},
	} {
		centroids, radii := someCentroids(700, 768)
		chunks, sum, err := centroidChunks(centroids, radii, 768)
		if err != nil {
			t.Fatal(err)
		}
		m := &delta.Manifest{Dim: 768, NumClusters: 700, CentroidChunkCount: int32(len(chunks)), CentroidChecksum: &sum}
		if _, _, err := readCentroids(m, change(m, chunks)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another writer's single chunk without a checksum is taken.
	centroids, radii := someCentroids(3, 4)
	chunks, _, _ := centroidChunks(centroids, radii, 4)
	if _, _, err := readCentroids(&delta.Manifest{Dim: 4, NumClusters: 3, CentroidChunkCount: 1}, chunks); err != nil {
		t.Error(err)
	}
}

func goodManifest() *delta.Manifest {
	m := newManifest(Default(), 3, "v", 100)
	m.NumClusters, m.ShardCount, m.FileGroupCount, m.CentroidChunkCount = 5, 1, 1, 1
	return m
}

func TestCheckManifest(t *testing.T) {
	t.Parallel()
	if err := checkManifest(goodManifest(), 3); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*delta.Manifest)
		kind   error
	}{
		"index version":  {func(m *delta.Manifest) { m.IndexVersion = 2 }, storage.ErrUnsupported},
		"block format":   {func(m *delta.Manifest) { m.BlockFormatVersion = 2 }, storage.ErrUnsupported},
		"factor version": {func(m *delta.Manifest) { m.FactorVersion = 2 }, storage.ErrUnsupported},
		"no residuals":   {func(m *delta.Manifest) { m.ResidualEncoding = false }, storage.ErrUnsupported},
		"metric":         {func(m *delta.Manifest) { m.Metric = "HAMMING" }, storage.ErrUnsupported},
		"generation":     {func(m *delta.Manifest) { m.GenerationID = "4" }, storage.ErrCorrupt},
		"padding":        {func(m *delta.Manifest) { m.DimPadded = 128 }, storage.ErrCorrupt},
		"row bytes":      {func(m *delta.Manifest) { m.CodeRowBytes = 8 }, storage.ErrCorrupt},
		"bits":           {func(m *delta.Manifest) { m.BitsTotal = 9 }, storage.ErrCorrupt},
		"planes":         {func(m *delta.Manifest) { m.NumExPlanes = 4 }, storage.ErrCorrupt},
		"no clusters":    {func(m *delta.Manifest) { m.NumClusters = 0 }, storage.ErrCorrupt},
		"segments":       {func(m *delta.Manifest) { m.ShardCount = 65 }, storage.ErrCorrupt},
		"file groups":    {func(m *delta.Manifest) { m.FileGroupCount = 0 }, storage.ErrCorrupt},
		"chunks":         {func(m *delta.Manifest) { m.CentroidChunkCount = 70000 }, storage.ErrCorrupt},
		"dim":            {func(m *delta.Manifest) { m.Dim = 0 }, storage.ErrCorrupt},
	} {
		m := goodManifest()
		c.change(m)
		if err := checkManifest(m, 3); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), "generation 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
