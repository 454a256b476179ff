package generation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tidemark/delta"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
)

// Names of the options. The vector.* ones and their defaults are RFC-109's (R113).
const (
	OptMetric           = "vector.metric"
	OptQuantizer        = "vector.quantizer"
	OptNumClusters      = "vector.num_clusters"
	OptMaxIter          = "vector.max_iter"
	OptBits             = "vector.rabitq.bits"
	OptSeed             = "vector.rabitq.seed"
	OptAssumeNormalized = "vector.rabitq.assume_normalized"
	OptNProbes          = "vector.query.nprobes"
	OptRefineFactor     = "vector.query.refine_factor"
	OptMode             = "vector.query.mode"
	OptStalePolicy      = "vector.query.stale_policy"
	OptFileGroups       = "tidemark.file_groups"
	OptOnDuplicateKey   = "tidemark.on_duplicate_key"
	OptMemoryLimit      = "tidemark.memory_limit"
	OptTraining         = "tidemark.training"
	OptLevels           = "tidemark.levels"
)

// Limits of option values.
const (
	// MaxClusters keeps the nearest-centroid search, which is flat, and the number of counters within reason.
	MaxClusters = 1 << 20
	// MaxFileGroups keeps the number of log files of one commit within reason (design, decision 20).
	MaxFileGroups = 64
)

// What to do about a record key that the table holds twice.
const (
	DuplicateRefuse   = "refuse"
	DuplicateLastWins = "last_wins"
)

// How clusters are trained.
const (
	TrainingFlat         = "flat"
	TrainingHierarchical = "hierarchical" // ivf.TrainConfig.Hierarchical: for many clusters
)

// How the levels of codes of 2 bits or more are chosen. Readers, and writers that know only the reference, can take codes of either.
const (
	LevelsReference = "reference"
	LevelsWide      = "wide" // rabitq.Wide: nearer estimates, the more so the fewer the bits
)

// Options are the checked options of an index.
type Options struct {
	Metric           kernel.Metric
	NumClusters      int   // wanted; the trained number is the smaller of this and the distinct vectors
	NumClustersGiven bool  // not the default: copied centroids of another number are refused
	MaxIter          int   // k-means iterations
	Bits             int   // 1 to 8 per dimension
	Seed             int64 // of the rotation and of the training
	AssumeNormalized bool
	NProbes          int  // clusters a query looks at
	NProbesGiven     bool // not the default: a value above the trained number of clusters is refused
	RefineFactor     int
	Mode             string // exact_rerank or approximate
	StalePolicy      string // FAIL, WARN or FALLBACK
	FileGroups       int    // physical file groups; 0: from the size of the postings
	OnDuplicateKey   string // DuplicateRefuse or DuplicateLastWins
	MemoryLimit      int64  // bytes; 0: DefaultMemoryLimit
	Training         string // TrainingFlat or TrainingHierarchical
	Levels           string // LevelsReference or LevelsWide
}

// Default returns the options of an index that was given none.
func Default() Options {
	return Options{
		Metric: kernel.Cosine, NumClusters: 256, MaxIter: 20, Bits: 4, Seed: 42, NProbes: 32, RefineFactor: 50,
		Mode: "exact_rerank", StalePolicy: "FAIL", OnDuplicateKey: DuplicateRefuse, Training: TrainingFlat,
		Levels: LevelsReference,
	}
}

// option is one row of the closed list: how a value gets in, and its canonical text.
type option struct {
	name string
	set  func(o *Options, v string) error
	get  func(o *Options) string // "": left out, the default holds
}

func positive(limit int, field func(*Options) *int) func(*Options, string) error {
	return func(o *Options, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > limit {
			return fmt.Errorf("%q is not a whole number from 1 to %d", v, limit)
		}
		*field(o) = n
		return nil
	}
}

func oneOf(fold func(string) string, field func(*Options) *string, values ...string) func(*Options, string) error {
	return func(o *Options, v string) error {
		if v = fold(v); !slices.Contains(values, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(values, ", "))
		}
		*field(o) = v
		return nil
	}
}

const maxInt32 = 1<<31 - 1

// optionList is the closed list. Anything else is refused.
var optionList = []option{
	{OptMetric, func(o *Options, v string) (err error) { o.Metric, err = kernel.ParseMetric(v); return err },
		func(o *Options) string { return o.Metric.String() }},
	{OptQuantizer, func(_ *Options, v string) error {
		if !strings.EqualFold(v, delta.QuantizerType) {
			return fmt.Errorf("%q is not %s", v, delta.QuantizerType)
		}
		return nil
	}, func(*Options) string { return delta.QuantizerType }},
	{OptNumClusters, func(o *Options, v string) error {
		o.NumClustersGiven = true
		return positive(MaxClusters, func(o *Options) *int { return &o.NumClusters })(o, v)
	}, func(o *Options) string { return strconv.Itoa(o.NumClusters) }},
	{OptMaxIter, positive(maxInt32, func(o *Options) *int { return &o.MaxIter }),
		func(o *Options) string { return strconv.Itoa(o.MaxIter) }},
	{OptBits, positive(8, func(o *Options) *int { return &o.Bits }),
		func(o *Options) string { return strconv.Itoa(o.Bits) }},
	{OptSeed, func(o *Options, v string) (err error) {
		if o.Seed, err = strconv.ParseInt(v, 10, 64); err != nil {
			return fmt.Errorf("%q is not a 64-bit whole number", v)
		}
		return nil
	}, func(o *Options) string { return strconv.FormatInt(o.Seed, 10) }},
	{OptAssumeNormalized, func(o *Options, v string) error {
		switch strings.ToLower(v) {
		case "true":
			o.AssumeNormalized = true
		case "false":
			o.AssumeNormalized = false
		default:
			return fmt.Errorf("%q is neither true nor false", v)
		}
		return nil
	}, func(o *Options) string { return strconv.FormatBool(o.AssumeNormalized) }},
	{OptNProbes, func(o *Options, v string) error {
		o.NProbesGiven = true
		return positive(MaxClusters, func(o *Options) *int { return &o.NProbes })(o, v)
	}, func(o *Options) string { return strconv.Itoa(o.NProbes) }},
	{OptRefineFactor, positive(maxInt32, func(o *Options) *int { return &o.RefineFactor }),
		func(o *Options) string { return strconv.Itoa(o.RefineFactor) }},
	{OptMode, oneOf(strings.ToLower, func(o *Options) *string { return &o.Mode }, "approximate", "exact_rerank"),
		func(o *Options) string { return o.Mode }},
	{OptStalePolicy, oneOf(strings.ToUpper, func(o *Options) *string { return &o.StalePolicy }, "FAIL", "WARN", "FALLBACK"),
		func(o *Options) string { return o.StalePolicy }},
	{OptFileGroups, positive(MaxFileGroups, func(o *Options) *int { return &o.FileGroups }),
		func(o *Options) string {
			if o.FileGroups == 0 {
				return ""
			}
			return strconv.Itoa(o.FileGroups)
		}},
	{OptOnDuplicateKey, oneOf(strings.ToLower, func(o *Options) *string { return &o.OnDuplicateKey }, DuplicateRefuse, DuplicateLastWins),
		func(o *Options) string { return o.OnDuplicateKey }},
	{OptMemoryLimit, func(o *Options, v string) (err error) { o.MemoryLimit, err = parseBytes(v); return err },
		func(o *Options) string {
			if o.MemoryLimit == 0 {
				return ""
			}
			return strconv.FormatInt(o.MemoryLimit, 10)
		}},
	{OptTraining, oneOf(strings.ToLower, func(o *Options) *string { return &o.Training }, TrainingFlat, TrainingHierarchical),
		func(o *Options) string {
			if o.Training == TrainingFlat {
				return "" // as indexes have it that were built when there was no other
			}
			return o.Training
		}},
	{OptLevels, oneOf(strings.ToLower, func(o *Options) *string { return &o.Levels }, LevelsReference, LevelsWide),
		func(o *Options) string {
			if o.Levels == LevelsReference {
				return "" // likewise
			}
			return o.Levels
		}},
}

// ParseOptions checks an option map against the closed list. Unknown names, empty values and values out of range are
// storage.ErrRefused; all problems are reported together, by name.
func ParseOptions(given map[string]string) (Options, error) {
	o := Default()
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(optionList, func(d option) bool { return d.name == name })
		v := strings.TrimSpace(given[name])
		switch {
		case i < 0:
			problems = append(problems, fmt.Errorf("%s: unknown option", name))
		case v == "":
			problems = append(problems, fmt.Errorf("%s: empty value", name))
		default:
			if err := optionList[i].set(&o, v); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	if len(problems) == 0 && o.NProbesGiven && o.NProbes > o.NumClusters {
		problems = append(problems, fmt.Errorf("%s: %d is more than %s, %d", OptNProbes, o.NProbes, OptNumClusters, o.NumClusters))
	}
	if len(problems) > 0 {
		return Options{}, &storage.Error{Op: "read options", Hint: "options are " + strings.Join(optionNames(), ", "),
			Err: fmt.Errorf("%w: %w", oneLine(problems), storage.ErrRefused)}
	}
	return o, nil
}

func optionNames() []string {
	names := make([]string, len(optionList))
	for i, d := range optionList {
		names[i] = d.name
	}
	return names
}

// oneLine joins errors with semicolons: every message of ours is one line.
func oneLine(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// Map returns every option with its canonical value, as the state keeps them. Options that follow from the table when
// they are not given (file groups, memory limit) are left out, and so are flat training and the reference's levels.
func (o Options) Map() map[string]string {
	m := map[string]string{}
	for _, d := range optionList {
		if v := d.get(&o); v != "" {
			m[d.name] = v
		}
	}
	return m
}

// copied settles the number of clusters, and the probes, when centroids are copied.
func (o *Options) copied(clusters int) error {
	if o.NumClustersGiven && o.NumClusters != clusters {
		return &storage.Error{Op: "copy centroids", Hint: fmt.Sprintf("leave %s out, or leave the copying out to train new ones", OptNumClusters),
			Err: fmt.Errorf("%s is %d, the other index has %d clusters: %w", OptNumClusters, o.NumClusters, clusters, storage.ErrRefused)}
	}
	o.NumClusters = clusters
	return o.clamp(clusters)
}

// clamp settles the probes once the number of clusters is known (design, decision 19).
func (o *Options) clamp(clusters int) error {
	if o.NProbes <= clusters {
		return nil
	}
	if o.NProbesGiven {
		return &storage.Error{Op: "create index", Hint: fmt.Sprintf("set %s to at most %d, or leave it out", OptNProbes, clusters),
			Err: fmt.Errorf("%s is %d, but there are only %d clusters: %w", OptNProbes, o.NProbes, clusters, storage.ErrRefused)}
	}
	o.NProbes = clusters
	return nil
}

// parseBytes reads a number of bytes with an optional unit: KiB, MiB, GiB or TiB.
func parseBytes(v string) (int64, error) {
	digits, shift := v, 0
	for i, unit := range []string{"kib", "mib", "gib", "tib"} {
		if rest, ok := strings.CutSuffix(strings.ToLower(v), unit); ok {
			digits, shift = strings.TrimSpace(rest), 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is not a number of bytes such as 536870912 or 512MiB", v)
	}
	return n << shift, nil
}
