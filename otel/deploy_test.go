package otel

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	selector = regexp.MustCompile(`\b(tidemark_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without)\s*\(([^)]*)\)`)
)

// checkQuery says what is wrong with the metrics, labels and values that a query names.
func checkQuery(query string) []string {
	var bad []string
	var labels []string
	found := false
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		name := m[1]
		def, ok := find(name)
		if !ok {
			bad = append(bad, "no metric "+name)
			continue
		}
		found = true
		labels = append(labels, def.Labels...)
		for _, kv := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(def.Labels, kv[1]) {
				bad = append(bad, name+" has no label "+kv[1])
				continue
			}
			if def.Values == nil || kv[1] != def.Labels[len(def.Labels)-1] {
				continue
			}
			for _, v := range strings.Split(kv[3], "|") {
				if !slices.Contains(def.Values, v) {
					bad = append(bad, name+" has no "+kv[1]+" "+v)
				}
			}
		}
	}
	if !found {
		bad = append(bad, "no metric at all")
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for _, l := range strings.Split(g[1], ",") {
			if l = strings.TrimSpace(l); l != "le" && !slices.Contains(labels, l) {
				bad = append(bad, "grouped by "+l+", which no metric of the query has")
			}
		}
	}
	return bad
}

// find returns a metric by the name of one of its series.
func find(series string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == series || m.Kind == Histogram && slices.Contains([]string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}, series) {
			return m, true
		}
	}
	return Metric{}, false
}

func TestQueriesAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"up", "tidemark_lag", `tidemark_state{state="frehs"}`, `tidemark_lag_seconds{reason="x"}`, "sum by (class) (tidemark_lag_seconds)",
		"tidemark_lag_seconds_bucket"} {
		if len(checkQuery(bad)) == 0 {
			t.Errorf("nothing found wrong with %s", bad)
		}
	}
}

// TestBoard checks every query of the board for Grafana against the metrics there are, and that every metric is on it.
func TestBoard(t *testing.T) {
	t.Parallel()
	var board struct {
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(deployed(t, "deploy/grafana/tidemark.json")), &board); err != nil {
		t.Fatal(err)
	}
	shown := ""
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 || p.Title == "" || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: no query or title, an id that is taken, or too wide", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			shown += q.Expr + "\n"
			for _, bad := range checkQuery(q.Expr) {
				t.Errorf("panel %q: %s: %s", p.Title, q.Expr, bad)
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		for _, bad := range checkQuery(v.Definition) {
			t.Errorf("variable %s: %s", v.Name, bad)
		}
	}
	for _, m := range Metrics {
		if !strings.Contains(shown, m.Name) {
			t.Errorf("%s is on no panel", m.Name)
		}
	}
}

// TestAlerts checks the queries of the rules, and that each alert has an entry for operators and a test, and each entry an alert.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rules, tests := deployed(t, "deploy/prometheus/tidemark.rules.yml"), deployed(t, "deploy/prometheus/tidemark.rules.test.yml")
	_, doc, _ := strings.Cut(deployed(t, "docs/operations.md"), "\n## Alerts\n")
	doc, _, _ = strings.Cut(doc, "\n## ")
	var alerts []string
	last := ""
	for line := range strings.Lines(rules) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "alert":
			last = value
			alerts = append(alerts, last)
			if !strings.Contains(rules, "runbook: docs/operations.md#"+strings.ToLower(last)+"\n") {
				t.Errorf("%s names no entry for operators", last)
			}
			if !strings.Contains(doc, "### "+last+"\n") {
				t.Errorf("docs/operations.md has no entry for %s", last)
			}
			if !strings.Contains(tests, "alertname: "+last+"\n") {
				t.Errorf("%s is never seen firing in a test", last)
			}
		case "expr":
			for _, bad := range checkQuery(strings.ReplaceAll(value, "tidemark:late", "late")) {
				if bad != "no metric at all" || !strings.Contains(value, "tidemark:late:") {
					t.Errorf("%s: %s: %s", last, value, bad)
				}
			}
		}
	}
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts found", len(alerts))
	}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(doc, -1) {
		if !slices.Contains(alerts, m[1]) {
			t.Errorf("docs/operations.md has an entry for %s, which is no alert", m[1])
		}
	}
}

// TestPromtool runs the rules' own tests, and lints the page, where promtool is at hand: PROMTOOL or on the path.
func TestPromtool(t *testing.T) {
	t.Parallel()
	tool := os.Getenv("PROMTOOL")
	if tool == "" {
		var err error
		if tool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("promtool is not on the path, and PROMTOOL does not name it")
		}
	}
	dir := filepath.Join(testkit.Root(), "deploy", "prometheus")
	for _, args := range [][]string{{"check", "rules", "tidemark.rules.yml"}, {"test", "rules", "tidemark.rules.test.yml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tel, _ := telemetry(t, Config{})
	everything(tel, "t")
	sourceOf(tel)
	cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape(t, tel))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
