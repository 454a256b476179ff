package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"tidemark/internal/storage"
)

// reader walks one Avro value. The first fault is kept; after it every call returns zero values. Byte fields
// alias the input, strings are copies.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, storage.ErrCorrupt)
	}
	r.b = nil
}

func (r *reader) long() int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("integer cut short or too long")
		return 0
	}
	r.b = r.b[n:]
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) int() int32 {
	v := r.long()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.fail("int out of range")
		return 0
	}
	return int32(v)
}

func (r *reader) take(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.fail(fmt.Sprintf("field of %d bytes, %d left", n, len(r.b)))
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) bytes() []byte { return r.take(r.long()) }

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) bool() bool {
	b := r.take(1)
	if b == nil {
		return false
	}
	if b[0] > 1 {
		r.fail("boolean is neither 0 nor 1")
	}
	return b[0] == 1
}

func (r *reader) float() float32 {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

func (r *reader) double() float64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// some reads the branch of a ["null", T] union and says whether T follows.
func (r *reader) some() bool {
	switch r.long() {
	case 0:
		return false
	case 1:
		return r.err == nil
	}
	r.fail("union branch out of range")
	return false
}

func (r *reader) optString() *string {
	if !r.some() {
		return nil
	}
	s := r.string()
	return &s
}

// strings reads an Avro array of strings, in blocks with or without a byte size.
func (r *reader) strings() []string {
	var out []string
	for r.err == nil {
		n := r.long()
		if n == 0 {
			return out
		}
		if n < 0 {
			n = -n
			if size := r.long(); size < 0 || size > int64(len(r.b)) { // in bytes; needed by those who step over the block
				r.fail("array block longer than its record")
				return nil
			}
		}
		if n < 0 || n > int64(len(r.b)) { // every item takes at least its length byte
			r.fail("array longer than its record")
			return nil
		}
		for ; n > 0 && r.err == nil; n-- {
			out = append(out, r.string())
		}
	}
	return nil
}

// errForeign marks a record of another metadata partition; the caller's message says which.
var errForeign = errors.New("not a vector index record")

// decodeOwn decodes a value written with exactly SchemaJSON.
func decodeOwn(value []byte) (Record, error) {
	r := &reader{b: value}
	for range metaFields {
		if r.some() {
			r.bytes()
		}
	}
	r.bytes() // key: empty in files, the HFile's key is the true one
	typ := r.int()
	for range 5 {
		if r.err == nil && r.long() != 0 {
			return nil, fmt.Errorf("record of type %d: %w: %w", typ, errForeign, storage.ErrUnsupported)
		}
	}
	branch := r.long()
	if r.err != nil {
		return nil, r.err
	}
	if typ != recordType || branch == 0 {
		return nil, fmt.Errorf("record of type %d, payload branch %d: %w: %w", typ, branch, errForeign, storage.ErrUnsupported)
	}
	rec := r.payload(branch)
	if r.err == nil && len(r.b) != 0 {
		r.fail(fmt.Sprintf("%d bytes after the record", len(r.b)))
	}
	if r.err != nil {
		return nil, r.err
	}
	return rec, nil
}

func (r *reader) payload(branch int64) Record {
	switch branch {
	case branchActiveManifest:
		m := &ActiveManifest{IndexVersion: r.int()}
		if r.some() {
			g := r.int()
			m.ActiveGeneration = &g
		}
		return m
	case branchManifest:
		return r.manifest()
	case branchQuantizer:
		q := &Quantizer{QuantizerType: r.string(), RandomSeed: r.long()}
		if r.some() {
			q.RotationBytes = r.bytes()
		}
		return q
	case branchCentroids:
		return &Centroids{ClusterIDs: r.bytes(), CentroidBytes: r.bytes(), ClusterRadii: r.bytes()}
	case branchPostingBlock:
		return &PostingBlock{
			BlockFormatVersion: r.int(), NumVectors: r.int(), CodeRowBytes: r.int(),
			SignPlane: r.bytes(), ExPlanes: r.bytes(), ScalarFactors: r.bytes(), RowLocators: r.bytes(),
			FileGroupDict: r.strings(), InstantTimeDict: r.strings(), PartitionDict: r.strings(),
			RecordKeyOffsets: r.bytes(), RecordKeyBytes: r.bytes(),
		}
	case branchPostingDelta:
		d := &PostingDelta{
			RecordKey: r.string(), BinaryCode: r.bytes(),
			FAdd1: r.float(), FRescale1: r.float(), Err1: r.float(),
			FAddEx: r.float(), FRescaleEx: r.float(), ResidualNorm: r.float(),
		}
		if r.some() {
			v := r.float()
			d.VectorNorm = &v
		}
		d.FileGroupID, d.PartitionPath, d.BaseInstantTime = r.string(), r.string(), r.string()
		d.RowPosition = r.long()
		return d
	case branchClusterStats:
		return &ClusterStats{
			RoutingVersion: r.int(), ShardCount: r.int(), FileGroupIDs: r.strings(),
			LiveCount: r.long(), DeltaCount: r.long(), TombstoneCount: r.long(),
			LastRebalanceInstant: r.optString(), LastUpdatedTs: r.long(),
		}
	case branchMarker:
		return &SourceInstantMarker{DataInstant: r.string()}
	case branchTombstone:
		return &Tombstone{DeleteInstant: r.string(), DeleteReason: r.string()}
	}
	r.fail(fmt.Sprintf("payload branch %d out of range", branch))
	return nil
}

func (r *reader) manifest() *Manifest {
	return &Manifest{
		IndexVersion: r.int(), GenerationID: r.string(), State: r.string(),
		Dim: r.int(), DimPadded: r.int(), CodeRowBytes: r.int(), BitsTotal: r.int(), NumExPlanes: r.int(),
		NumClusters: r.int(), ShardCount: r.int(), FileGroupCount: r.int(),
		Metric: r.string(), AssumeNormalized: r.bool(), ResidualEncoding: r.bool(), VectorColumn: r.string(),
		TargetBlockBytes: r.int(), VectorsPerBlock: r.int(), BlockFormatVersion: r.int(), FactorVersion: r.int(),
		Kappa: r.double(), GMin: r.double(), Eps1Max: r.double(), EpsNRel: r.double(),
		CentroidChunkCount: r.int(), CentroidChecksum: r.optString(), SplitLimit: r.int(), MergeFloor: r.int(),
		BootstrapInstant: r.optString(), VerifiedFrontier: r.optString(), CreatedTs: r.long(),
	}
}
