package search

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// ErrUsage is the kind of error for a query that cannot be asked: a vector of another dimension, k below 1, a
// partition that the table does not have. Asking again does not help.
var ErrUsage = errors.New("wrong query")

// Mode is how an answer is found.
type Mode string

// Modes of a search.
const (
	// ExactRerank finds candidates by their codes and ranks them by exact distance.
	ExactRerank Mode = "exact_rerank"
	// Approximate ranks by the codes' estimates.
	Approximate Mode = "approximate"
	// BruteForce reads every row of the snapshot.
	BruteForce Mode = "brute_force"
)

// Policy says what to do when the index does not cover the snapshot, or cannot be used.
type Policy string

// Policies for a stale index (R94).
const (
	// Fail refuses the query, for a stale index with storage.ErrStale.
	Fail Policy = "FAIL"
	// Warn answers from the index and says how far it lags. An index that cannot be read gives no answer to warn about:
	// then the query is refused.
	Warn Policy = "WARN"
	// Fallback answers by BruteForce, whatever is wrong with the index, as long as the table can be read.
	Fallback Policy = "FALLBACK"
)

// Request is one query. Either Key or Vector is set.
type Request struct {
	// Index names the index; "" if the table has only one.
	Index string
	// Key asks for the neighbours of a row, which is one of them.
	Key string
	// Vector asks for the neighbours of a place. It has the column's dimension. For COSINE it is not zero. For DOT_PRODUCT a
	// zero vector, or one shorter than 2e-9, and for L2 and DOT_PRODUCT one longer than 1e18, is answered by BruteForce only: its
	// distances are defined, but codes say nothing about them.
	Vector []float64
	// K is the number of rows wanted, at least 1.
	K int
	// Mode defaults to the index option vector.query.mode.
	Mode Mode
	// NProbes is the number of clusters looked at first. Defaults to the index option vector.query.nprobes, at most the
	// number of clusters. More clusters are looked at only if these hold fewer than K live rows.
	NProbes int
	// Policy defaults to the index option vector.query.stale_policy.
	Policy Policy
	// Partitions limits the answer to rows of these partitions; empty means all.
	Partitions []string
	// Columns names further columns to return with each row.
	Columns []string
}

// Freshness is what the index covers of the newest completed snapshot (design, decision 9).
type Freshness struct {
	// Fresh is true only if exactly the completed data writes of the snapshot are covered.
	Fresh bool
	// LagInstants counts the completed data writes that are not covered; nil if that is not known.
	LagInstants *int
	// Reason says why the index is not fresh.
	Reason string

	unknown bool // it could not be judged
}

// MaxBatch is how many queries a batch may have.
const MaxBatch = 10_000

// Deps is what a search needs from outside.
type Deps struct {
	// Place of the table and of our state in it.
	Place mdt.Place
	// Table is how the operator calls the table, for commands in hints. Defaults to the store's URL.
	Table string
	// Sink is the place of the indexes beside the table, for the same commands; "" for inside.
	Sink string
	// Freshness judges the index against the table as it was opened for this query.
	Freshness func(ctx context.Context, t *table.Table, st *mdt.State, index string) (Freshness, error)
	// Cache keeps clusters between queries; several Readers may share one. nil: the Reader has its own.
	Cache *Cache
	// Observer is told of each search. nil: nobody is.
	Observer Observer
}

// Observer is told what searches did. It is called by many goroutines.
type Observer interface {
	Searched(Searched)
}

// Searched is a search that was answered, or failed.
type Searched struct {
	// Table is Deps.Table; Index and Mode are "" where it did not come to that.
	Table, Index string
	Mode         Mode
	Queries      int // more than 1 in a batch
	Took         time.Duration
	Stats        Stats // of all queries together
	Incomplete   int   // answers that were not complete
	Err          error // nil: answered
}

// Answer is the result of a query. Its JSON names are a contract (design, section 5).
type Answer struct {
	Index string `json:"index"`
	// Snapshot is the requested time of the newest completed data write the answer sees; "" for a table without any.
	Snapshot string `json:"snapshot"`
	// Generation is the pinned generation, nil if the index has none.
	Generation *uint32 `json:"generation"`
	// Mode is what was really done.
	Mode        Mode `json:"mode"`
	Fresh       bool `json:"fresh"`
	LagInstants *int `json:"lag_instants"`
	// Complete is true if there are K rows, or if it is proved that the table holds no more.
	Complete bool `json:"complete"`
	// Reason says why the answer is not complete, not fresh, or not of the mode asked for: among others what is wrong with
	// an index that could not be used.
	Reason  string   `json:"reason,omitempty"`
	Results []Result `json:"results"`
	Stats   Stats    `json:"stats"`
}

// Result is one row of an answer. Results are sorted by distance, then key, then partition. The distance of an approximate
// answer is an estimate; for L2 and COSINE those below 0 are shown as 0 and keep their order.
type Result struct {
	Key       string  `json:"key"`
	Partition string  `json:"partition"`
	Distance  float64 `json:"distance"`
	// Row holds the columns asked for.
	Row map[string]any `json:"row,omitempty"`
}

// Stats is what a query did (R102). A candidate is a posting that was good enough to be looked up.
type Stats struct {
	Clusters             int `json:"clusters"`               // probed
	Scanned              int `json:"scanned"`                // postings looked at, in the last round
	Pruned               int `json:"pruned"`                 // of those, ended by the bound of pass 1; varies with the order in which goroutines come to them
	Candidates           int `json:"candidates"`             // looked up in the record index
	Dead                 int `json:"dead"`                   // not in the record index
	Moved                int `json:"moved"`                  // in another file group than the posting says
	Copied               int `json:"copied"`                 // live, or may live, more than once: looked for wherever they may be
	Unresolved           int `json:"unresolved"`             // named by the record index, but not in that file slice
	LogResidentFinalists int `json:"log_resident_finalists"` // authoritative row lies in a log
	FetchKeyMismatch     int `json:"fetch_key_mismatch"`     // positional reads that met another key
	RowsRead             int `json:"rows_read"`              // by a scan of the table
	Rounds               int `json:"rounds"`
}

func (s *Stats) add(o Stats) {
	s.Clusters += o.Clusters
	s.Scanned += o.Scanned
	s.Pruned += o.Pruned
	s.Candidates += o.Candidates
	s.Dead += o.Dead
	s.Moved += o.Moved
	s.Copied += o.Copied
	s.Unresolved += o.Unresolved
	s.LogResidentFinalists += o.LogResidentFinalists
	s.FetchKeyMismatch += o.FetchKeyMismatch
	s.RowsRead += o.RowsRead
	s.Rounds += o.Rounds
}

// MarshalJSON adds stale_crowding_rate, see StaleCrowding.
func (s Stats) MarshalJSON() ([]byte, error) {
	type counts Stats
	return json.Marshal(struct {
		counts
		StaleCrowding float64 `json:"stale_crowding_rate"`
	}{counts(s), s.StaleCrowding()})
}

// StaleCrowding is the share of candidates that the liveness check dropped or moved, 0 to 1 (R102); 0 without candidates.
func (s Stats) StaleCrowding() float64 {
	if s.Candidates == 0 {
		return 0
	}
	return float64(s.Dead+s.Moved) / float64(s.Candidates)
}
