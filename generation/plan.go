package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/rabitq"
	"tidemark/timeline"
)

// DefaultMemoryLimit is how much memory a bootstrap may be estimated to need unless tidemark.memory_limit or the
// request says otherwise: 2 GiB.
const DefaultMemoryLimit int64 = 2 << 30

// CreateRequest says which index to build.
type CreateRequest struct {
	Name    string // "": the column's name with _idx
	Column  string
	Options Options
	// AsOf is the requested or completion time of an instant: the snapshot is what was completed by its completion. "": the
	// newest completed write.
	AsOf string
	// CentroidsFrom copies the centroids of another generation instead of training. Dimension and metric must be equal.
	CentroidsFrom *Generation
	// Progress, if not nil, is told how far a stage is: "read" in file slices, "train" in iterations, "assign" in rows, "encode" in
	// clusters, "write" in commits, "validate" in records. Calls come one at a time.
	Progress func(stage string, done, total int64)
	// MemoryLimit in bytes goes before the option. 0: the option, else DefaultMemoryLimit.
	MemoryLimit int64
	// Workers is the number of goroutines that train, assign and encode. Defaults to GOMAXPROCS. The bytes do not depend on it.
	Workers int
	// Place says where state and records go. The zero value means inside the table.
	Place mdt.Place
}

func (r *CreateRequest) progress(stage string, done, total int64) {
	if r.Progress != nil {
		r.Progress(stage, done, total)
	}
}

// Plan is what a bootstrap would read and need. Nothing has been written.
type Plan struct {
	Index    string
	Column   string
	Vector   avrox.Vector
	Options  Options          // as asked for; with copied centroids the number of clusters and the probes are settled
	Baseline timeline.Instant // newest data write of the snapshot
	Frontier string           // completion time the frontier starts with; "" if none
	HeldBy   string           // requested time of the instant that holds it; "" if none
	Instants int              // data writes of the snapshot on the active timeline
	Slices   int              // file slices
	Files    int              // files to read
	Bytes    int64            // their size
	// Rows is a bound, not a count: rows of base files, deleted ones too, and rows written to logs, however often the same ones.
	// A log whose commit is archived counts with as many rows as its size could hold. Only reading would tell how many are live.
	Rows   int64
	Sample int64 // rows to train on (RFC-109 section 5.1); 0 when centroids are copied
	Memory int64 // estimated peak, bytes
	Limit  int64 // bytes
	// Warnings are what the operator should know; none of them stops a bootstrap.
	Warnings []string

	snapshot snapshot
	slices   []table.Slice
}

// Refuse returns storage.ErrRefused if the estimate is above the limit (RFC-109 section 5.1: before anything is
// allocated).
func (p *Plan) Refuse() error {
	if p.Memory <= p.Limit {
		return nil
	}
	return &storage.Error{Op: "create index", Path: p.Index,
		Hint: fmt.Sprintf("set %s=%d on a machine that has it, or ask for fewer clusters", OptMemoryLimit, p.Memory),
		Err: fmt.Errorf("%d rows of %d dimensions and %d clusters are estimated to need %s of memory, the limit is %s: %w",
			p.Rows, p.Vector.Dim, p.Options.NumClusters, mebibytes(p.Memory), mebibytes(p.Limit), storage.ErrRefused)}
}

// mebibytes writes a number of bytes; what is less than 10 MiB is not rounded to MiB.
func mebibytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// indexName keeps names usable as a directory and in a command line.
var indexName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$`)

// IndexName returns the name of the index: Name, or the column's with _idx.
func (r CreateRequest) IndexName() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Column + "_idx"
}

// NewPlan looks at what a bootstrap would read: one snapshot, its slices, the footers of base files.
func NewPlan(ctx context.Context, t *table.Table, req CreateRequest) (*Plan, error) {
	p := &Plan{Index: req.IndexName(), Column: req.Column, Options: req.Options, Limit: DefaultMemoryLimit}
	if !indexName.MatchString(p.Index) {
		return nil, &storage.Error{Op: "create index", Path: p.Index, Hint: "use letters, digits, _ and -, at most 100", Err: fmt.Errorf("bad name: %w", storage.ErrRefused)}
	}
	if req.Options.MemoryLimit > 0 {
		p.Limit = req.Options.MemoryLimit
	}
	if req.MemoryLimit > 0 {
		p.Limit = req.MemoryLimit
	}
	var err error
	if p.Vector, err = t.Vector(req.Column); err != nil {
		return nil, err
	}
	if from := req.CentroidsFrom; from != nil {
		if from.Dim != p.Vector.Dim || from.Metric != p.Options.Metric {
			return nil, &storage.Error{Op: "copy centroids", Hint: "leave it out to train new ones", Err: fmt.Errorf("the other index has %d dimensions and metric %s, this one %d and %s: %w",
				from.Dim, from.Metric, p.Vector.Dim, p.Options.Metric, storage.ErrRefused)}
		}
		if err := p.Options.copied(from.K); err != nil {
			return nil, err
		}
	}
	if p.snapshot, err = snapshotOf(t, req.AsOf); err != nil {
		return nil, archived(ctx, t, req.AsOf, err)
	}
	p.Baseline, p.Instants = p.snapshot.newest, len(p.snapshot.baseline.Instants)
	p.Frontier = p.snapshot.frontier.Completed
	if h := p.snapshot.frontier.HeldBy; h != nil {
		p.HeldBy = h.Requested
	}
	m, err := mdt.Open(ctx, t.Store)
	if errors.Is(err, storage.ErrNotFound) && req.Place.IsBeside() {
		p.Warnings = append(p.Warnings, "the table has no metadata table, so no record index: exact searches scan the whole table, approximate ones are refused")
	} else if err != nil {
		return nil, err
	} else if !m.HasRecordIndex() {
		why, remedy := "the table has no record index", "enable it with hoodie.metadata.global.record.level.index.enable=true"
		if err := m.NoRecordIndex(); m.ListsRecordIndex() {
			why, remedy = err.Error(), cmp.Or(storage.Hint(err), "let the writer build it anew")
		}
		p.Warnings = append(p.Warnings, why+": exact searches scan the whole table, approximate ones are refused; "+remedy)
	}
	largest, err := p.measure(ctx, t)
	if err != nil {
		return nil, err
	}
	if req.CentroidsFrom == nil {
		p.Sample = ivf.SampleSize(p.Rows, int64(p.Options.NumClusters))
	}
	p.Memory = estimate(p.Rows, largest, p.Sample, p.Vector, p.Options)
	return p, nil
}

// maxRows bounds what a slice is taken to hold, so that footers that lie cannot make a sum overflow; the estimate refuses far fewer.
const maxRows = 1 << 40

// measure finds the slices and counts files, bytes and rows. It returns the rows of the largest slice.
func (p *Plan) measure(ctx context.Context, t *table.Table) (largest int64, err error) {
	files, err := t.Universe(ctx)
	if err != nil {
		return 0, fmt.Errorf("list files: %w", err)
	}
	for s, err := range files.Slices(p.snapshot.cut) {
		if err != nil {
			return 0, gone(ctx, t, err)
		}
		p.slices = append(p.slices, s)
		rows := int64(0)
		if s.Base != nil {
			f, err := basefile.Open(ctx, storage.FileSource(t.Store, s.Base.Path, s.Base.Size))
			if err != nil {
				return 0, gone(ctx, t, &storage.Error{Op: "read footer", Path: s.Base.Path, Err: err})
			}
			rows = f.Rows()
			p.Files++
			p.Bytes += s.Base.Size
		}
		for _, l := range s.Logs {
			p.Files++
			p.Bytes += l.Size
			n := l.Size/int64(p.Vector.Bytes()) + 1
			written, known, err := t.LogRows(ctx, l)
			if err != nil {
				return 0, err
			}
			if known {
				n = min(n, written)
			}
			rows += n
		}
		rows = min(rows, maxRows)
		p.Rows += rows
		largest = max(largest, rows)
	}
	p.Slices = len(p.slices)
	return largest, nil
}

// Constants of the estimate, in bytes.
const (
	// rowBytes is a row beside its vector: key, locator, and its place in the map that finds duplicate keys.
	rowBytes = 256
	// assignBytes is cluster, distance and place in its cluster.
	assignBytes = 12
	// recordCopies is how often a record is held at most: encoded, in its file, and read back.
	recordCopies = 3
)

// estimate is the peak memory of a bootstrap:
//
//	always    rows·(4·D + 256) + K·D·16 + D²·16          vectors, rows, centroids and router, rotation
//	and the largest of
//	reading   rows of the largest slice·(D·width + 256)
//	training  sample·4·D if it is not all rows, as much again for two levels, and ivf.TrainBytes
//	encoding  rows·12 + 3·rows·(B·W + 76)                 records: encoded, in a file, read back
func estimate(rows, largest, sample int64, v avrox.Vector, o Options) int64 {
	n, d, k := float64(rows), float64(v.Dim), float64(min(int64(o.NumClusters), max(1, rows)))
	always := n*(4*d+rowBytes) + k*d*16 + d*d*16
	reading := float64(largest) * (float64(v.Bytes()) + rowBytes)
	training := float64(ivf.TrainBytes(sample, int64(k), int64(v.Dim), o.Metric))
	if sample < rows {
		training += float64(sample) * 4 * d
	}
	if o.Training == TrainingHierarchical {
		training += float64(sample) * 4 * d // the rows of one cell, at worst all
	}
	record := float64(o.Bits*rabitq.RowBytes(v.Dim) + 76)
	encoding := n*assignBytes + recordCopies*n*record
	total := always + max(reading, training, encoding)
	if total > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return int64(total)
}
