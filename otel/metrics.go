package otel

import (
	"slices"
	"strings"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/indexer"
	"tidemark/search"
)

// Kind is what a metric's values are.
type Kind string

// The kinds.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// Metric is one metric: docs/metrics.md has a row for each, and a test compares the two.
type Metric struct {
	// Name is that of Prometheus and of OTLP alike.
	Name string
	Kind Kind
	Help string
	// Labels are the names of its labels, in order.
	Labels []string
	// Values are all values that the last label can have, where they are few and known; nil otherwise.
	Values []string

	buckets []float64
}

// unit is the unit of a metric's values for OTLP, by its name: seconds, bytes, or none for what is counted.
func (m Metric) unit() string {
	name := strings.TrimSuffix(m.Name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	}
	return "1"
}

// States are the states of an index, as coverage shows them.
var States = []coverage.State{coverage.StateUnsupported, coverage.StateAbsent, coverage.StateHandedOver, coverage.StateFailClosed,
	coverage.StateBlocked, coverage.StateStalled, coverage.StatePaused, coverage.StateCatchingUp, coverage.StateDegraded,
	coverage.StateWaiting, coverage.StateFresh}

var (
	// seconds are the bounds of what takes between a blink and a day.
	seconds = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}
	// blinks are those of a search.
	blinks = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
)

var perIndex = []string{"table", "index"}

func with(label string) []string { return append(slices.Clone(perIndex), label) }

// Metrics are all metrics there are (design, section 7).
var Metrics = []Metric{
	{Name: lagInstants, Kind: Gauge, Labels: perIndex, Help: "Completed data writes that the index does not cover and no operator has skipped."},
	{Name: lagSeconds, Kind: Gauge, Labels: perIndex, Help: "Seconds between the newest completion and the newest one up to which all are covered; 0 when fresh."},
	{Name: oldestUncovered, Kind: Gauge, Labels: perIndex, Help: "Seconds since the first uncovered data write completed; 0 when there is none."},
	{Name: gapInstants, Kind: Gauge, Labels: with("reason"), Values: coverage.GapReasons, Help: "Data writes that are not covered or hold the frontier, by reason."},
	{Name: state, Kind: Gauge, Labels: with("state"), Values: names(States), Help: "1 for the state that the index is in, 0 for all others."},
	{Name: frontierSeconds, Kind: Gauge, Labels: perIndex, Help: "When the frontier completed, as Unix time."},
	{Name: horizonInstants, Kind: Gauge, Labels: with("kind"), Values: []string{"cleaner", "archiver"},
		Help: "Commits until the table forgets what an uncovered data write needs; no series while nothing is uncovered or it is not known."},
	{Name: quarantined, Kind: Gauge, Labels: perIndex, Help: "Data writes that were set aside after repeated failures and wait for an operator."},
	{Name: skipped, Kind: Gauge, Labels: perIndex, Help: "Data writes that are not covered because an operator lets them be; in no lag, horizon or alert."},
	{Name: rowsTotal, Kind: Counter, Labels: with("class"), Values: classNames(), Help: "Rows of covered commits by what became of them."},
	{Name: readBytes, Kind: Counter, Labels: with("file"), Values: indexer.Kinds, Help: "Bytes read from the table's store, by kind of file."},
	{Name: writtenBytes, Kind: Counter, Labels: with("kind"), Values: indexer.Kinds, Help: "Bytes written to the table's store, by kind of file."},
	{Name: coverageSeconds, Kind: Histogram, Labels: perIndex, buckets: seconds, Help: "Seconds from a commit's completion until the index covered it."},
	{Name: mdtCommits, Kind: Counter, Labels: perIndex, Help: "Commits made to the metadata table that covered data writes."},
	{Name: foldSeconds, Kind: Histogram, Labels: []string{"table"}, buckets: seconds, Help: "Seconds that a fold of the index's log files took."},
	{Name: searchSeconds, Kind: Histogram, Labels: with("mode"), Values: []string{"exact_rerank", "approximate", "brute_force"}, buckets: blinks,
		Help: "Seconds that a search took, by how it was answered."},
	{Name: searchQueries, Kind: Counter, Labels: with("result"), Values: []string{"complete", "incomplete", "failed"}, Help: "Queries of searches, each of a batch, by how they ended."},
	{Name: searchCandidates, Kind: Counter, Labels: with("found"), Values: []string{"in_place", "moved", "dead"},
		Help: "Candidates of searches by what the record index says; moved and dead ones crowd out others."},
	{Name: searchLogResident, Kind: Counter, Labels: perIndex, Help: "Finalists of searches whose row lies in a log file of the table."},
	{Name: searchKeyMismatch, Kind: Counter, Labels: perIndex, Help: "Reads of a row by its position that met another row; it was then found by its key."},
	{Name: searchCacheBytes, Kind: Gauge, Labels: []string{"kind"}, Values: search.CacheKinds, Help: "Bytes of what is kept between searches, by what it is."},
	{Name: searchCache, Kind: Counter, Labels: []string{"kind", "result"}, Values: []string{"hit", "miss", "evicted"},
		Help: "What searches found in memory, had to read, and what was dropped for want of room, by what it is."},
	{Name: passes, Kind: Counter, Labels: []string{"table", "result"}, Values: []string{"ok", "failed"}, Help: "Passes over a table."},
	{Name: lastSuccess, Kind: Gauge, Labels: []string{"table"}, Help: "When a pass over the table last ended without failure, as Unix time."},
	{Name: sourceUp, Kind: Gauge, Labels: []string{"source"}, Help: "1 while a source of hints is connected, 0 while it is not."},
	{Name: sourceHints, Kind: Counter, Labels: []string{"source", "result"},
		Values: []string{"hint", "unknown", "empty", "oversized", "not_json", "not_commit", "batch", "refused", "let_go", "given_up"},
		Help:   "Messages of a source of hints, by what became of them: docs/metrics.md says what each result means."},
	{Name: buildInfo, Kind: Gauge, Labels: []string{"version"}, Help: "1, with the program's version."},
}

// The names.
const (
	lagInstants     = "tidemark_lag_instants"
	lagSeconds      = "tidemark_lag_seconds"
	oldestUncovered = "tidemark_oldest_uncovered_seconds"
	gapInstants     = "tidemark_gap_instants"
	state           = "tidemark_state"
	frontierSeconds = "tidemark_frontier_seconds"
	horizonInstants = "tidemark_horizon_instants"
	quarantined     = "tidemark_quarantined_instants"
	skipped         = "tidemark_skipped_instants"
	rowsTotal       = "tidemark_rows_total"
	readBytes       = "tidemark_read_bytes_total"
	writtenBytes    = "tidemark_written_bytes_total"
	coverageSeconds = "tidemark_commit_coverage_seconds"
	mdtCommits      = "tidemark_mdt_commits_total"
	foldSeconds     = "tidemark_fold_seconds"
	searchSeconds   = "tidemark_search_seconds"

	searchQueries     = "tidemark_search_queries_total"
	searchCandidates  = "tidemark_search_candidates_total"
	searchLogResident = "tidemark_search_log_resident_finalists_total"
	searchKeyMismatch = "tidemark_search_fetch_key_mismatches_total"
	searchCacheBytes  = "tidemark_search_cache_bytes"
	searchCache       = "tidemark_search_cache_total"

	passes      = "tidemark_passes_total"
	lastSuccess = "tidemark_last_success_seconds"
	sourceUp    = "tidemark_source_up"
	sourceHints = "tidemark_source_messages_total"
	buildInfo   = "tidemark_build_info"
)

func names(states []coverage.State) []string {
	var out []string
	for _, s := range states {
		out = append(out, string(s))
	}
	return out
}

func classNames() []string {
	var out []string
	for _, c := range delta.Classes() {
		out = append(out, c.String())
	}
	return out
}
