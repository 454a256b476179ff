package generation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"tidemark/delta"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

const (
	// chunkBytes is the largest payload of a centroid chunk (design, decision 27): readers get and check it in one piece.
	chunkBytes = 1 << 20
	// chunkOverhead is room for the three length prefixes of a chunk.
	chunkOverhead = 32
	// factorVersion is the only version of the factor formulas (docs/format/rabitq.md, Factors).
	factorVersion = 1
)

// centroidChunks splits centroids and radii into records of at most chunkBytes and returns them with the checksum
// over all of them: lower-hex SHA-256 of the Avro payloads in chunk order.
func centroidChunks(centroids, radii []float32, dim int) (chunks []*delta.Centroids, checksum string, err error) {
	k := len(radii)
	per := max(1, (chunkBytes-chunkOverhead)/(4*dim+8))
	if (k+per-1)/per > math.MaxUint16+1 {
		return nil, "", fmt.Errorf("pack centroids: %d clusters of %d dimensions need more than 65536 chunks: %w", k, dim, storage.ErrRefused)
	}
	sum := sha256.New()
	for from := 0; from < k; from += per {
		to := min(k, from+per)
		c := &delta.Centroids{}
		for id := from; id < to; id++ {
			c.ClusterIDs = binary.LittleEndian.AppendUint32(c.ClusterIDs, uint32(id))
			c.ClusterRadii = appendFloat(c.ClusterRadii, radii[id])
		}
		for _, x := range centroids[from*dim : to*dim] {
			c.CentroidBytes = appendFloat(c.CentroidBytes, x)
		}
		sum.Write(delta.AppendPayload(nil, c))
		chunks = append(chunks, c)
	}
	return chunks, hex.EncodeToString(sum.Sum(nil)), nil
}

func appendFloat(dst []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
}

// readCentroids puts chunks together again. The number of chunks, the checksum, every length and the ids, which
// count from 0, are checked before anything is allocated by them.
func readCentroids(m *delta.Manifest, chunks []*delta.Centroids) (centroids, radii []float32, err error) {
	bad := func(format string, args ...any) ([]float32, []float32, error) {
		return nil, nil, fmt.Errorf("read centroids: %s: %w", fmt.Sprintf(format, args...), storage.ErrCorrupt)
	}
	if int(m.CentroidChunkCount) != len(chunks) {
		return bad("%d chunks, the manifest says %d", len(chunks), m.CentroidChunkCount)
	}
	sum := sha256.New()
	k, dim := 0, int(m.Dim)
	for i, c := range chunks {
		n := len(c.ClusterIDs) / 4
		if len(c.ClusterIDs) != 4*n || len(c.CentroidBytes) != 4*n*dim || len(c.ClusterRadii) != 4*n {
			return bad("chunk %d has %d, %d and %d bytes for %d clusters of %d dimensions", i, len(c.ClusterIDs), len(c.CentroidBytes), len(c.ClusterRadii), n, dim)
		}
		for j := range n {
			if id := binary.LittleEndian.Uint32(c.ClusterIDs[4*j:]); int64(id) != int64(k+j) {
				return bad("chunk %d names cluster %d where %d is due", i, id, k+j)
			}
		}
		k += n
		sum.Write(delta.AppendPayload(nil, c))
	}
	if k != int(m.NumClusters) {
		return bad("%d clusters, the manifest says %d", k, m.NumClusters)
	}
	// An empty checksum comes from another writer, whose single chunk has none.
	if s := m.CentroidChecksum; s != nil && *s != "" && *s != hex.EncodeToString(sum.Sum(nil)) {
		return bad("checksum does not match")
	}
	centroids, radii = make([]float32, 0, k*dim), make([]float32, 0, k)
	for i, c := range chunks {
		for b := c.CentroidBytes; len(b) > 0; b = b[4:] {
			x := math.Float32frombits(binary.LittleEndian.Uint32(b))
			if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
				return bad("chunk %d has a component that is not finite", i)
			}
			centroids = append(centroids, x)
		}
		for b := c.ClusterRadii; len(b) > 0; b = b[4:] {
			radii = append(radii, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	}
	return centroids, radii, nil
}

// newManifest fills in everything that is known before the commit's times are (docs/format/records.md).
func newManifest(o Options, number uint32, column string, dim int) *delta.Manifest {
	m := &delta.Manifest{
		IndexVersion: delta.IndexVersion, GenerationID: strconv.FormatUint(uint64(number), 10), State: delta.StateBuilding,
		Dim: int32(dim), DimPadded: int32(dim), CodeRowBytes: int32(rabitq.RowBytes(dim)),
		BitsTotal: int32(o.Bits), NumExPlanes: int32(o.Bits - 1),
		Metric: o.Metric.Manifest(), AssumeNormalized: o.AssumeNormalized, ResidualEncoding: true, VectorColumn: column,
		TargetBlockBytes: delta.TargetBlockBytes, BlockFormatVersion: delta.BlockFormatVersion, FactorVersion: factorVersion,
		Kappa: rabitq.Kappa, GMin: rabitq.GMin, Eps1Max: rabitq.Eps1Max, EpsNRel: rabitq.EpsNRel,
	}
	m.VectorsPerBlock = int32(delta.VectorsPerBlock(dim, o.Bits, delta.NeedsNorm(o.Metric, o.AssumeNormalized)))
	return m
}

// checkManifest refuses a manifest that this program cannot serve or that contradicts itself.
func checkManifest(m *delta.Manifest, number uint32) error {
	unsupported := func(format string, args ...any) error {
		return fmt.Errorf("read manifest of generation %d: %s: %w", number, fmt.Sprintf(format, args...), storage.ErrUnsupported)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("read manifest of generation %d: %s: %w", number, fmt.Sprintf(format, args...), storage.ErrCorrupt)
	}
	switch {
	case m.IndexVersion != delta.IndexVersion:
		return unsupported("index version %d, this program knows %d", m.IndexVersion, delta.IndexVersion)
	case m.BlockFormatVersion != delta.BlockFormatVersion || m.FactorVersion != factorVersion:
		return unsupported("block format %d, factor version %d", m.BlockFormatVersion, m.FactorVersion)
	case !m.ResidualEncoding:
		return unsupported("codes without residuals")
	case m.GenerationID != strconv.FormatUint(uint64(number), 10):
		return bad("generation id %q", m.GenerationID)
	case m.Dim < 1 || m.DimPadded != m.Dim || int(m.CodeRowBytes) != rabitq.RowBytes(int(m.Dim)):
		return bad("dim %d, padded %d, rows of %d bytes", m.Dim, m.DimPadded, m.CodeRowBytes)
	case m.BitsTotal < 1 || m.BitsTotal > 8 || m.NumExPlanes != m.BitsTotal-1:
		return bad("%d bits, %d extended planes", m.BitsTotal, m.NumExPlanes)
	case m.NumClusters < 1 || m.NumClusters > MaxClusters || m.ShardCount < 1 || m.ShardCount > delta.MaxSegments:
		return bad("%d clusters, %d segments", m.NumClusters, m.ShardCount)
	case m.FileGroupCount < 1 || m.CentroidChunkCount < 1 || m.CentroidChunkCount > math.MaxUint16+1 || m.VectorsPerBlock < 1:
		return bad("%d file groups, %d centroid chunks, %d vectors per block", m.FileGroupCount, m.CentroidChunkCount, m.VectorsPerBlock)
	}
	if metric, err := kernel.ParseMetric(m.Metric); err != nil || metric.Manifest() != m.Metric {
		return unsupported("metric %q", m.Metric)
	}
	return nil
}
