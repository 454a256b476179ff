package delta

import (
	"encoding/binary"
	"math"
)

// metaFields is how many of Hudi's meta fields stand in front of every record, all null.
const metaFields = 5

// EncodeRecord appends the stored value of r to dst: Avro binary of a whole HoodieMetadataRecord in SchemaJSON,
// with null meta fields and an empty key (the true key is the HFile's). Same record, same bytes.
func EncodeRecord(dst []byte, r Record) []byte {
	dst = append(dst, make([]byte, metaFields)...) // union branch 0 = null, five times
	dst = append(dst, 0)                           // key ""
	dst = appendLong(dst, recordType)
	dst = append(dst, 0, 0, 0, 0, 0) // filesystem, bloom filter, column stats, record index, secondary index: null
	dst = appendLong(dst, int64(r.branch()))
	return r.appendTo(dst)
}

// AppendPayload appends the Avro binary of the payload alone, without the record around it. Checksums over chunks are
// taken over these bytes, which do not depend on the meta fields.
func AppendPayload(dst []byte, r Record) []byte { return r.appendTo(dst) }

func appendLong(dst []byte, v int64) []byte {
	return binary.AppendUvarint(dst, uint64(v)<<1^uint64(v>>63))
}

func appendInt(dst []byte, v int32) []byte { return appendLong(dst, int64(v)) }

func appendString(dst []byte, s string) []byte {
	return append(appendLong(dst, int64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(appendLong(dst, int64(len(b))), b...)
}

func appendOptString(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return appendString(append(dst, 2), *s)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendFloat(dst []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
}

func appendDouble(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// appendStrings writes an Avro array as one block of all items, as Java's encoder does.
func appendStrings(dst []byte, items []string) []byte {
	if len(items) > 0 {
		dst = appendLong(dst, int64(len(items)))
		for _, s := range items {
			dst = appendString(dst, s)
		}
	}
	return append(dst, 0)
}

func (m *ActiveManifest) appendTo(dst []byte) []byte {
	dst = appendInt(dst, m.IndexVersion)
	if m.ActiveGeneration == nil {
		return append(dst, 0)
	}
	return appendInt(append(dst, 2), *m.ActiveGeneration)
}

func (m *Manifest) appendTo(dst []byte) []byte {
	dst = appendInt(dst, m.IndexVersion)
	dst = appendString(dst, m.GenerationID)
	dst = appendString(dst, m.State)
	for _, v := range [...]int32{m.Dim, m.DimPadded, m.CodeRowBytes, m.BitsTotal, m.NumExPlanes, m.NumClusters, m.ShardCount, m.FileGroupCount} {
		dst = appendInt(dst, v)
	}
	dst = appendString(dst, m.Metric)
	dst = appendBool(dst, m.AssumeNormalized)
	dst = appendBool(dst, m.ResidualEncoding)
	dst = appendString(dst, m.VectorColumn)
	for _, v := range [...]int32{m.TargetBlockBytes, m.VectorsPerBlock, m.BlockFormatVersion, m.FactorVersion} {
		dst = appendInt(dst, v)
	}
	for _, v := range [...]float64{m.Kappa, m.GMin, m.Eps1Max, m.EpsNRel} {
		dst = appendDouble(dst, v)
	}
	dst = appendInt(dst, m.CentroidChunkCount)
	dst = appendOptString(dst, m.CentroidChecksum)
	dst = appendInt(dst, m.SplitLimit)
	dst = appendInt(dst, m.MergeFloor)
	dst = appendOptString(dst, m.BootstrapInstant)
	dst = appendOptString(dst, m.VerifiedFrontier)
	return appendLong(dst, m.CreatedTs)
}

func (q *Quantizer) appendTo(dst []byte) []byte {
	dst = appendString(dst, q.QuantizerType)
	dst = appendLong(dst, q.RandomSeed)
	if q.RotationBytes == nil {
		return append(dst, 0)
	}
	return appendBytes(append(dst, 2), q.RotationBytes)
}

func (c *Centroids) appendTo(dst []byte) []byte {
	dst = appendBytes(dst, c.ClusterIDs)
	dst = appendBytes(dst, c.CentroidBytes)
	return appendBytes(dst, c.ClusterRadii)
}

func (b *PostingBlock) appendTo(dst []byte) []byte {
	dst = appendInt(dst, b.BlockFormatVersion)
	dst = appendInt(dst, b.NumVectors)
	dst = appendInt(dst, b.CodeRowBytes)
	dst = appendBytes(dst, b.SignPlane)
	dst = appendBytes(dst, b.ExPlanes)
	dst = appendBytes(dst, b.ScalarFactors)
	dst = appendBytes(dst, b.RowLocators)
	dst = appendStrings(dst, b.FileGroupDict)
	dst = appendStrings(dst, b.InstantTimeDict)
	dst = appendStrings(dst, b.PartitionDict)
	dst = appendBytes(dst, b.RecordKeyOffsets)
	return appendBytes(dst, b.RecordKeyBytes)
}

func (d *PostingDelta) appendTo(dst []byte) []byte {
	dst = appendString(dst, d.RecordKey)
	dst = appendBytes(dst, d.BinaryCode)
	for _, v := range [...]float32{d.FAdd1, d.FRescale1, d.Err1, d.FAddEx, d.FRescaleEx, d.ResidualNorm} {
		dst = appendFloat(dst, v)
	}
	if d.VectorNorm == nil {
		dst = append(dst, 0)
	} else {
		dst = appendFloat(append(dst, 2), *d.VectorNorm)
	}
	dst = appendString(dst, d.FileGroupID)
	dst = appendString(dst, d.PartitionPath)
	dst = appendString(dst, d.BaseInstantTime)
	return appendLong(dst, d.RowPosition)
}

func (s *ClusterStats) appendTo(dst []byte) []byte {
	dst = appendInt(dst, s.RoutingVersion)
	dst = appendInt(dst, s.ShardCount)
	dst = appendStrings(dst, s.FileGroupIDs)
	dst = appendLong(dst, s.LiveCount)
	dst = appendLong(dst, s.DeltaCount)
	dst = appendLong(dst, s.TombstoneCount)
	dst = appendOptString(dst, s.LastRebalanceInstant)
	return appendLong(dst, s.LastUpdatedTs)
}

func (m *SourceInstantMarker) appendTo(dst []byte) []byte { return appendString(dst, m.DataInstant) }

func (t *Tombstone) appendTo(dst []byte) []byte {
	return appendString(appendString(dst, t.DeleteInstant), t.DeleteReason)
}
