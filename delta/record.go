package delta

// recordType is the value of the field "type" in every record of a vector index partition.
const recordType = 8

// IndexVersion is the only index format this program writes and reads.
const IndexVersion = 1

// States of a generation, as the manifest spells them.
const (
	StateBuilding = "BUILDING"
	StateActive   = "ACTIVE"
	StateRetired  = "RETIRED"
)

// QuantizerType is the only quantizer of the format.
const QuantizerType = "IVF_RABITQ"

// ReasonManual is the reason of the tombstones this program writes.
const ReasonManual = "MANUAL"

// Branch indexes of the union field VectorIndexMetadata (docs/format/records.md); 0 is null.
const (
	branchActiveManifest = iota + 1
	branchManifest
	branchQuantizer
	branchCentroids
	branchPostingBlock
	branchPostingDelta
	branchClusterStats
	branchMarker
	branchTombstone
)

// Record is one of the nine payloads of a vector index record: *ActiveManifest, *Manifest, *Quantizer,
// *Centroids, *PostingBlock, *PostingDelta, *ClusterStats, *SourceInstantMarker or *Tombstone.
type Record interface {
	branch() int
	appendTo(dst []byte) []byte
}

// ActiveManifest is the pointer record under key 0x00.
type ActiveManifest struct {
	IndexVersion     int32
	ActiveGeneration *int32 // nil before the first activation and after a drop
}

// Manifest describes one generation (docs/format/records.md).
type Manifest struct {
	IndexVersion       int32
	GenerationID       string // decimal
	State              string
	Dim                int32
	DimPadded          int32 // equals Dim
	CodeRowBytes       int32
	BitsTotal          int32 // 1 to 8
	NumExPlanes        int32 // BitsTotal - 1
	NumClusters        int32
	ShardCount         int32  // largest segment count of a cluster
	FileGroupCount     int32  // physical file groups
	Metric             string // L2, COSINE or DOT
	AssumeNormalized   bool
	ResidualEncoding   bool
	VectorColumn       string
	TargetBlockBytes   int32
	VectorsPerBlock    int32
	BlockFormatVersion int32
	FactorVersion      int32
	Kappa              float64
	GMin               float64
	Eps1Max            float64
	EpsNRel            float64
	CentroidChunkCount int32
	CentroidChecksum   *string // lower-hex SHA-256 over all centroid chunk payloads in chunk order
	SplitLimit         int32
	MergeFloor         int32
	BootstrapInstant   *string // completion time of the newest instant of the baseline
	VerifiedFrontier   *string // completion time of the frontier; "" or nil if there is none
	CreatedTs          int64   // the digits of the writing commit's id
}

// Quantizer is a quantizer chunk: everything the rotation is derived from.
type Quantizer struct {
	QuantizerType string
	RandomSeed    int64
	RotationBytes []byte // nil: derive the rotation from the seed
}

// Centroids is one chunk of centroids.
type Centroids struct {
	ClusterIDs    []byte // uint32 little-endian each
	CentroidBytes []byte // float32 little-endian, row-major, original space
	ClusterRadii  []byte // float32 little-endian each
}

// PostingBlock is a packed block of postings (docs/format/posting-block.md); BlockView reads it.
type PostingBlock struct {
	BlockFormatVersion int32
	NumVectors         int32
	CodeRowBytes       int32
	SignPlane          []byte   // NumVectors rows of CodeRowBytes
	ExPlanes           []byte   // NumVectors times NumExPlanes rows
	ScalarFactors      []byte   // 6 or 7 arrays of float32
	RowLocators        []byte   // 8 bytes each
	FileGroupDict      []string // file ids
	InstantTimeDict    []string // base instants
	PartitionDict      []string // parallel to FileGroupDict
	RecordKeyOffsets   []byte   // NumVectors+1 uint32
	RecordKeyBytes     []byte
}

// PostingDelta is one posting under its own key (docs/format/posting-delta.md).
type PostingDelta struct {
	RecordKey       string
	BinaryCode      []byte // sign code, then level-packed extended code
	FAdd1           float32
	FRescale1       float32
	Err1            float32
	FAddEx          float32
	FRescaleEx      float32
	ResidualNorm    float32
	VectorNorm      *float32
	FileGroupID     string
	PartitionPath   string
	BaseInstantTime string
	RowPosition     int64 // -1: the row lives in a log of its slice
}

// ClusterStats holds the counters of one cluster: absolute totals, hints for planning (design, decision 5).
type ClusterStats struct {
	RoutingVersion       int32
	ShardCount           int32 // segment count of the cluster, fixed for the generation
	FileGroupIDs         []string
	LiveCount            int64
	DeltaCount           int64
	TombstoneCount       int64
	LastRebalanceInstant *string
	LastUpdatedTs        int64
}

// SourceInstantMarker says that the data commit named in its key is in the index.
type SourceInstantMarker struct {
	DataInstant string // requested time(s), comma-joined
}

// Tombstone hides the packed posting of the record key in its own key (branch 9, a logical delete).
type Tombstone struct {
	DeleteInstant string // requested time of the data instant that removed or moved the row
	DeleteReason  string
}

func (*ActiveManifest) branch() int      { return branchActiveManifest }
func (*Manifest) branch() int            { return branchManifest }
func (*Quantizer) branch() int           { return branchQuantizer }
func (*Centroids) branch() int           { return branchCentroids }
func (*PostingBlock) branch() int        { return branchPostingBlock }
func (*PostingDelta) branch() int        { return branchPostingDelta }
func (*ClusterStats) branch() int        { return branchClusterStats }
func (*SourceInstantMarker) branch() int { return branchMarker }
func (*Tombstone) branch() int           { return branchTombstone }
