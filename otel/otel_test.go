package otel

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/search"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// telemetry is set up with a clock that stands at noon until it is moved.
func telemetry(t *testing.T, cfg Config) (*Telemetry, *time.Time) {
	t.Helper()
	now := noon
	cfg.Now = func() time.Time { return now }
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	tel, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel, &now
}

func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// status is the status of an index that lags.
func status(index string) coverage.IndexStatus {
	lag, seconds, oldest, horizon := 3, 12.5, 100.0, 7
	return coverage.IndexStatus{Index: &index, State: coverage.StateCatchingUp, LagInstants: &lag, LagSeconds: &seconds, OldestUncovered: &oldest,
		FrontierAt: noon.Add(-time.Minute), Gaps: []coverage.Gap{{Reason: "pending"}, {Reason: "pending"}, {Reason: "quarantined"}},
		Horizon: coverage.Horizon{Cleaner: &horizon, Archiver: &horizon}}
}

func covered(table, index, instant string) indexer.CoveredInstant {
	counts, bytes := map[string]int64{}, map[string]int64{}
	for _, c := range classNames() {
		counts[c] = 2
	}
	for _, k := range indexer.Kinds {
		bytes[k] = 10
	}
	return indexer.CoveredInstant{Table: table, Index: index, Requested: instant, Completed: instant + "9", Action: "deltacommit", Operation: "UPSERT", Mode: "full",
		Counts: counts, Commit: "m" + instant, Frontier: instant + "9", CompletedAt: noon, Read: bytes, Written: bytes,
		Steps: indexer.Steps{Noticed: noon.Add(100 * time.Millisecond), Looked: noon.Add(200 * time.Millisecond), Compared: noon.Add(time.Second),
			Encoded: noon.Add(1200 * time.Millisecond), Staged: noon.Add(1500 * time.Millisecond), Visible: noon.Add(1800 * time.Millisecond),
			Groups: []indexer.GroupStep{{Partition: "eu", FileID: "a", From: noon.Add(300 * time.Millisecond), To: noon.Add(600 * time.Millisecond)},
				{Partition: "us", FileID: "b", From: noon.Add(600 * time.Millisecond), To: noon.Add(time.Second)}}}}
}

// everything tells telemetry something of every kind.
func everything(tel *Telemetry, table string) {
	tel.State(table, []coverage.IndexStatus{status("a")})
	tel.Covered(covered(table, "a", "1"))
	tel.Pass(table, nil, time.Second)
	tel.Pass(table, errors.New("x"), time.Second)
	tel.Folded(table, time.Second)
	tel.Searched(search.Searched{Table: table, Index: "a", Queries: 1, Err: errors.New("x")})
	for _, m := range Metrics {
		if m.Name == searchSeconds {
			for _, mode := range m.Values {
				tel.Searched(search.Searched{Table: table, Index: "a", Mode: search.Mode(mode), Queries: 3, Incomplete: 1, Took: time.Millisecond,
					Stats: search.Stats{Candidates: 9, Moved: 2, Dead: 1, LogResidentFinalists: 1, FetchKeyMismatch: 1}})
			}
		}
	}
}

func sourceOf(tel *Telemetry) {
	tel.SearchCache(search.NewCache(0))
	tel.Source("kafka", func() SourceState {
		st := SourceState{Connected: true, Messages: map[string]int64{}}
		for _, m := range Metrics {
			if m.Name == sourceHints {
				for _, r := range m.Values {
					st.Messages[r] = 1
				}
			}
		}
		return st
	})
}

// parsed is what a page says: kind by metric, and the values by metric and label.
type parsed struct {
	kinds  map[string]string
	labels map[string][]string
	values map[string][]string // by metric and label
}

var (
	typeLine = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	sample   = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	label    = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

func parse(t *testing.T, page string) parsed {
	t.Helper()
	p := parsed{map[string]string{}, map[string][]string{}, map[string][]string{}}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if m := typeLine.FindStringSubmatch(line); m != nil {
			p.kinds[m[1]] = m[2]
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && p.kinds[base] == "histogram" {
				name = base
			}
		}
		for _, kv := range label.FindAllStringSubmatch(m[2], -1) {
			if kv[1] == "le" {
				continue
			}
			if !slices.Contains(p.labels[name], kv[1]) {
				p.labels[name] = append(p.labels[name], kv[1])
			}
			if key := name + " " + kv[1]; !slices.Contains(p.values[key], kv[2]) {
				p.values[key] = append(p.values[key], kv[2])
			}
		}
	}
	return p
}

// TestDocsAndPageAgree compares docs/metrics.md with what a scrape of everything shows: metrics, kinds, labels and values, both ways.
func TestDocsAndPageAgree(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry(t, Config{Version: "v"})
	sourceOf(tel)
	everything(tel, "t")
	page := parse(t, scrape(t, tel))
	doc, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var wantKinds, wantLabels, wantValues []string
	_, text, _ := strings.Cut(string(doc), "<!-- metrics -->")
	metrics, values, found := strings.Cut(text, "<!-- values -->")
	if !found {
		t.Fatal("docs/metrics.md lacks its marks")
	}
	for row := range rows(metrics) {
		wantKinds = append(wantKinds, row[0]+" "+row[1])
		wantLabels = append(wantLabels, row[0]+" "+row[2])
	}
	metric, name := "", ""
	for row := range rows(values) {
		if row[0] != "" {
			metric, name = row[0], row[1]
		}
		wantValues = append(wantValues, metric+" "+name+" "+row[2])
	}
	var kinds, labels, vals []string
	for m, k := range page.kinds {
		kinds = append(kinds, m+" "+k)
		slices.Sort(page.labels[m])
		labels = append(labels, m+" "+strings.Join(page.labels[m], ", "))
	}
	for key, all := range page.values {
		if name := key[strings.Index(key, " ")+1:]; slices.Contains([]string{"table", "index", "source", "version"}, name) {
			continue
		}
		for _, v := range all {
			vals = append(vals, key+" "+v)
		}
	}
	for i, l := range wantLabels {
		m, list, _ := strings.Cut(l, " ")
		names := strings.Split(list, ", ")
		slices.Sort(names)
		wantLabels[i] = m + " " + strings.Join(names, ", ")
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{{"kinds", kinds, wantKinds}, {"labels", labels, wantLabels}, {"values", vals, wantValues}} {
		slices.Sort(c.got)
		slices.Sort(c.want)
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-docs +page):\n%s", c.what, d)
		}
	}
}

// docs/operations.md has an entry for every state and a row for every gap reason, and none for anything else.
func TestStatesAndReasonsAreExplained(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, gaps, _ := strings.Cut(string(b), "<!-- gaps -->")
	gaps, _, _ = strings.Cut(gaps, "\n\n`writer`")
	var reasons, states []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(gaps, -1) {
		reasons = append(reasons, m[1])
	}
	_, entries, _ := strings.Cut(string(b), "\n## States\n")
	entries, _, _ = strings.Cut(entries, "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(entries, -1) {
		states = append(states, m[1])
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{{"gap reasons", reasons, coverage.GapReasons}, {"states, in their order", states, names(States)}} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-code +docs):\n%s", c.what, d)
		}
	}
}

// rows yields the cells of a table's rows without quotes.
func rows(text string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| metric") {
				if strings.HasPrefix(line, "## Traces") {
					return
				}
				continue
			}
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "`", "")
			}
			if !yield(cells) {
				return
			}
		}
	}
}

func TestValuesOfSeries(t *testing.T) {
	t.Parallel()
	tel, now := telemetry(t, Config{})
	everything(tel, "t")
	tel.Covered(covered("t", "a", "2"))
	again := covered("t", "a", "3")
	again.Commit = "m2" // the same batch
	again.CompletedAt = time.Time{}
	tel.Covered(again)
	*now = noon.Add(time.Minute)
	page := scrape(t, tel)
	for _, line := range []string{
		`tidemark_lag_instants{index="a",table="t"} 3`,
		`tidemark_lag_seconds{index="a",table="t"} 12.5`,
		`tidemark_oldest_uncovered_seconds{index="a",table="t"} 160`, // it grows
		`tidemark_gap_instants{index="a",reason="pending",table="t"} 2`,
		`tidemark_gap_instants{index="a",reason="inflight",table="t"} 0`,
		`tidemark_quarantined_instants{index="a",table="t"} 1`,
		`tidemark_state{index="a",state="catching_up",table="t"} 1`,
		`tidemark_state{index="a",state="fresh",table="t"} 0`,
		fmt.Sprintf(`tidemark_frontier_seconds{index="a",table="t"} %s`, "1.79603994e+09"),
		`tidemark_rows_total{class="insert",index="a",table="t"} 6`,
		`tidemark_read_bytes_total{file="base",index="a",table="t"} 30`,
		`tidemark_mdt_commits_total{index="a",table="t"} 2`,
		`tidemark_commit_coverage_seconds_count{index="a",table="t"} 2`, // one could not be measured
		`tidemark_commit_coverage_seconds_bucket{index="a",table="t",le="1"} 0`,
		`tidemark_commit_coverage_seconds_bucket{index="a",table="t",le="2"} 2`,
		`tidemark_commit_coverage_seconds_sum{index="a",table="t"} 3.6`,
		`tidemark_passes_total{result="failed",table="t"} 1`,
		`tidemark_build_info{version="unknown"} 1`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("not on the page: %s", line)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// What an operator has skipped counts in no series that an alert goes by, but in one of its own.
func TestSkippedRingsNoBell(t *testing.T) {
	t.Parallel()
	tel, now := telemetry(t, Config{})
	none, zero := 0, 0.0
	st := status("a")
	st.Gaps = []coverage.Gap{{Reason: "quarantined", Skipped: "its files are lost"}}
	st.Skipped, st.Owed = 1, &coverage.Owed{LagInstants: &none, LagSeconds: &zero, OldestUncovered: &zero}
	tel.State("t", []coverage.IndexStatus{st})
	*now = noon.Add(time.Hour)
	page := scrape(t, tel)
	for _, line := range []string{`tidemark_lag_instants{index="a",table="t"} 0`, `tidemark_lag_seconds{index="a",table="t"} 0`,
		`tidemark_oldest_uncovered_seconds{index="a",table="t"} 0`, `tidemark_quarantined_instants{index="a",table="t"} 0`,
		`tidemark_skipped_instants{index="a",table="t"} 1`, `tidemark_gap_instants{index="a",reason="quarantined",table="t"} 1`} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("not on the page: %s", line)
		}
	}
	if strings.Contains(page, "\n"+horizonInstants) {
		t.Error("the horizon of what nobody owes is on the page")
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestSeriesOfWhatIsGoneDisappear(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry(t, Config{})
	everything(tel, "stays")
	before := scrape(t, tel)
	for _, gone := range []func(){func() { tel.Forget("goes") }, func() { tel.State("goes", nil) }} {
		everything(tel, "goes")
		if !strings.Contains(scrape(t, tel), `table="goes"`) {
			t.Fatal("no series of the table")
		}
		gone()
		if d := cmp.Diff(before, scrape(t, tel)); d != "" {
			t.Errorf("a table that is gone (-before +after):\n%s", d)
		}
	}
	// A dropped index, and one of which something is not known any more.
	tel.State("stays", []coverage.IndexStatus{status("a"), status("b")})
	tel.Covered(covered("stays", "b", "1"))
	unknown := status("a")
	unknown.LagSeconds, unknown.OldestUncovered, unknown.FrontierAt, unknown.Horizon = nil, nil, time.Time{}, coverage.Horizon{}
	tel.State("stays", []coverage.IndexStatus{unknown})
	page := scrape(t, tel)
	for _, part := range []string{`index="b"`, lagSeconds, oldestUncovered, frontierSeconds, horizonInstants} {
		if strings.Contains(page, "\n"+part) || strings.Contains(page, `"b"`) {
			t.Errorf("%s is still on the page", part)
		}
	}
	// No index at all.
	tel.State("none", []coverage.IndexStatus{{State: coverage.StateAbsent}})
	if !strings.Contains(scrape(t, tel), `tidemark_state{index="",state="absent",table="none"} 1`) {
		t.Error("the state of a table without an index is not on the page")
	}
}

func TestStandardVariables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		env      map[string]string
		protocol string
		bad      string
	}{
		{map[string]string{}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, "http/protobuf", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4318"}, "http/protobuf", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x:4318"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "true"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_TRACES_EXPORTER": "zipkin"}, "", "OTEL_TRACES_EXPORTER"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, "http/protobuf", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		got, err := endpoint(func(name string) string { return tc.env[name] }, "TRACES")
		if got != tc.protocol || (err != nil) != (tc.bad != "") {
			t.Errorf("%v: %q, %v", tc.env, got, err)
		}
		if tc.bad != "" && (!strings.Contains(err.Error(), tc.bad) || storage.Hint(err) == "") {
			t.Errorf("%v: %v does not name %s, or has no hint", tc.env, err, tc.bad)
		}
	}
}
