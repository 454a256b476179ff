package delta

import (
	"fmt"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// Decoder decodes record values that were written with one schema. A value written with exactly SchemaJSON takes
// a hand-written path whose byte fields alias the input; any other schema is decoded by field name (copies).
// A Decoder is safe for concurrent use.
type Decoder struct {
	schema *avrox.Schema // nil: SchemaJSON
}

// NewDecoder returns the decoder for values written with the given schema text (HFile info entry "schema", log
// block header SCHEMA).
func NewDecoder(schemaJSON string) (*Decoder, error) {
	if schemaJSON == SchemaJSON {
		return &Decoder{}, nil
	}
	s, err := avrox.ParseSchema(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("read index record schema: %w", err)
	}
	return &Decoder{schema: s}, nil
}

// Decode decodes one value. Bytes that do not fit are storage.ErrCorrupt; a record of another metadata
// partition is storage.ErrUnsupported. Byte fields may alias value.
func (d *Decoder) Decode(value []byte) (Record, error) {
	if d.schema == nil {
		r, err := decodeOwn(value)
		if err != nil {
			return nil, fmt.Errorf("decode index record: %w", err)
		}
		return r, nil
	}
	rec, rest, err := d.schema.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("decode index record: %w", err)
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("decode index record: %d bytes after the record: %w", len(rest), storage.ErrCorrupt)
	}
	return DecodeRecord(rec)
}

// Decode decodes one value written with the given schema; it takes the hand-written path when that is ours. See
// Decoder.Decode.
func Decode(schema *avrox.Schema, value []byte) (Record, error) {
	d := Decoder{schema: schema}
	if schema.Text() == SchemaJSON { // the same string in nearly every case, so no comparison of its bytes
		d.schema = nil
	}
	return d.Decode(value)
}

// fields reads a nested record by field name. A field that the writer's schema does not have is zero: layouts
// differ in a few fields. A required field that is missing is kept as a fault.
type fields struct {
	rec     avrox.Record
	missing string
}

func (f *fields) need(name string) {
	if _, ok := f.rec[name]; !ok && f.missing == "" {
		f.missing = name
	}
}

func (f *fields) str(name string) string { v, _ := f.rec.Str(name); return v }

func (f *fields) optStr(name string) *string {
	if v, ok := f.rec.Str(name); ok {
		return &v
	}
	return nil
}

func (f *fields) int(name string) int32      { v, _ := f.rec.Int(name); return v }
func (f *fields) long(name string) int64     { v, _ := f.rec.Long(name); return v }
func (f *fields) bool(name string) bool      { v, _ := f.rec.Bool(name); return v }
func (f *fields) bytes(name string) []byte   { v, _ := f.rec.Bytes(name); return v }
func (f *fields) float(name string) float32  { v, _ := f.rec.Float(name); return v }
func (f *fields) double(name string) float64 { v, _ := f.rec[name].(float64); return v }

func (f *fields) strs(name string) []string {
	list, _ := f.rec.List(name)
	var out []string
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// DecodeRecord turns a HoodieMetadataRecord, decoded by its writer's schema, into its payload. Branches are told
// apart by a field that only one of them has, so layouts A and B are both read. Byte fields alias rec's.
func DecodeRecord(rec avrox.Record) (Record, error) {
	p, ok := rec.Rec("VectorIndexMetadata")
	if !ok {
		typ, _ := rec.Int("type")
		return nil, fmt.Errorf("decode index record of type %d: %w: %w", typ, errForeign, storage.ErrUnsupported)
	}
	has := func(name string) bool { _, ok := p[name]; return ok }
	f := &fields{rec: p}
	var out Record
	switch {
	case has("activeGeneration"):
		m := &ActiveManifest{IndexVersion: f.int("indexVersion")}
		if g, ok := p.Int("activeGeneration"); ok {
			m.ActiveGeneration = &g
		}
		out = m
	case has("generationId"):
		out = f.manifest()
	case has("quantizerType"):
		out = &Quantizer{QuantizerType: f.str("quantizerType"), RandomSeed: f.long("randomSeed"), RotationBytes: f.bytes("rotationBytes")}
		f.need("randomSeed")
	case has("clusterIds"):
		out = &Centroids{ClusterIDs: f.bytes("clusterIds"), CentroidBytes: f.bytes("centroidBytes"), ClusterRadii: f.bytes("clusterRadii")}
		f.need("centroidBytes")
	case has("numVectors"):
		out = f.block()
	case has("binaryCode"):
		out = f.delta()
	case has("liveCount"):
		out = &ClusterStats{
			RoutingVersion: f.int("routingVersion"), ShardCount: f.int("shardCount"), FileGroupIDs: f.strs("fileGroupIds"),
			LiveCount: f.long("liveCount"), DeltaCount: f.long("deltaCount"), TombstoneCount: f.long("tombstoneCount"),
			LastRebalanceInstant: f.optStr("lastRebalanceInstant"), LastUpdatedTs: f.long("lastUpdatedTs"),
		}
	case has("dataInstant"):
		out = &SourceInstantMarker{DataInstant: f.str("dataInstant")}
	case has("sourceInstant"): // layout B2
		out = &SourceInstantMarker{DataInstant: f.str("sourceInstant")}
	case has("deleteInstant"):
		out = &Tombstone{DeleteInstant: f.str("deleteInstant"), DeleteReason: f.str("deleteReason")}
	default:
		return nil, fmt.Errorf("decode index record: payload of an unknown kind: %w", storage.ErrUnsupported)
	}
	if f.missing != "" {
		return nil, fmt.Errorf("decode index record: payload has no field %s: %w", f.missing, storage.ErrUnsupported)
	}
	return out, nil
}

func (f *fields) manifest() *Manifest {
	for _, name := range []string{"indexVersion", "state", "dim", "bitsTotal", "numClusters", "metric"} {
		f.need(name)
	}
	return &Manifest{
		IndexVersion: f.int("indexVersion"), GenerationID: f.str("generationId"), State: f.str("state"),
		Dim: f.int("dim"), DimPadded: f.int("dimPadded"), CodeRowBytes: f.int("codeRowBytes"),
		BitsTotal: f.int("bitsTotal"), NumExPlanes: f.int("numExPlanes"), NumClusters: f.int("numClusters"),
		ShardCount: f.int("shardCount"), FileGroupCount: f.int("fileGroupCount"),
		Metric: f.str("metric"), AssumeNormalized: f.bool("assumeNormalized"), ResidualEncoding: f.bool("residualEncoding"),
		VectorColumn: f.str("vectorColumn"), TargetBlockBytes: f.int("targetBlockBytes"), VectorsPerBlock: f.int("vectorsPerBlock"),
		BlockFormatVersion: f.int("blockFormatVersion"), FactorVersion: f.int("factorVersion"),
		Kappa: f.double("kappa"), GMin: f.double("gMin"), Eps1Max: f.double("eps1Max"), EpsNRel: f.double("epsNRel"),
		CentroidChunkCount: f.int("centroidChunkCount"), CentroidChecksum: f.optStr("centroidChecksum"),
		SplitLimit: f.int("splitLimit"), MergeFloor: f.int("mergeFloor"),
		BootstrapInstant: f.optStr("bootstrapInstant"), VerifiedFrontier: f.optStr("verifiedFrontier"), CreatedTs: f.long("createdTs"),
	}
}

func (f *fields) block() *PostingBlock {
	for _, name := range []string{"codeRowBytes", "signPlane", "exPlanes", "scalarFactors", "rowLocators", "fileGroupDict", "instantTimeDict", "partitionDict", "recordKeyOffsets", "recordKeyBytes"} {
		f.need(name)
	}
	return &PostingBlock{
		BlockFormatVersion: f.int("blockFormatVersion"), NumVectors: f.int("numVectors"), CodeRowBytes: f.int("codeRowBytes"),
		SignPlane: f.bytes("signPlane"), ExPlanes: f.bytes("exPlanes"), ScalarFactors: f.bytes("scalarFactors"), RowLocators: f.bytes("rowLocators"),
		FileGroupDict: f.strs("fileGroupDict"), InstantTimeDict: f.strs("instantTimeDict"), PartitionDict: f.strs("partitionDict"),
		RecordKeyOffsets: f.bytes("recordKeyOffsets"), RecordKeyBytes: f.bytes("recordKeyBytes"),
	}
}

func (f *fields) delta() *PostingDelta {
	for _, name := range []string{"recordKey", "fAdd1", "fRescale1", "err1", "fAddEx", "fRescaleEx", "residualNorm", "fileGroupId", "partitionPath", "baseInstantTime", "rowPosition"} {
		f.need(name)
	}
	d := &PostingDelta{
		RecordKey: f.str("recordKey"), BinaryCode: f.bytes("binaryCode"),
		FAdd1: f.float("fAdd1"), FRescale1: f.float("fRescale1"), Err1: f.float("err1"),
		FAddEx: f.float("fAddEx"), FRescaleEx: f.float("fRescaleEx"), ResidualNorm: f.float("residualNorm"),
		FileGroupID: f.str("fileGroupId"), PartitionPath: f.str("partitionPath"), BaseInstantTime: f.str("baseInstantTime"),
		RowPosition: f.long("rowPosition"),
	}
	if v, ok := f.rec.Float("vectorNorm"); ok {
		d.VectorNorm = &v
	}
	return d
}
