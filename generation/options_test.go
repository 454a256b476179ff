package generation

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
)

func TestParseOptionsDefaults(t *testing.T) {
	t.Parallel()
	o, err := ParseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"vector.metric": "cosine", "vector.quantizer": "IVF_RABITQ", "vector.num_clusters": "256", "vector.max_iter": "20",
		"vector.rabitq.bits": "4", "vector.rabitq.seed": "42", "vector.rabitq.assume_normalized": "false",
		"vector.query.nprobes": "32", "vector.query.refine_factor": "50", "vector.query.mode": "exact_rerank",
		"vector.query.stale_policy": "FAIL", "tidemark.on_duplicate_key": "refuse",
	}
	if diff := cmp.Diff(o.Map(), want); diff != "" {
		t.Errorf("got - want +\n%s", diff)
	}
}

// The page has every option, in the order of the list, with its default.
func TestOptionsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "options.md"))
	if err != nil {
		t.Fatal(err)
	}
	defaults := Default().Map()
	defaults[OptTraining], defaults[OptLevels] = TrainingFlat, LevelsReference
	defaults[OptMemoryLimit] = "2GiB"
	if n, err := parseBytes(defaults[OptMemoryLimit]); err != nil || n != DefaultMemoryLimit {
		t.Errorf("the default of %s is %d bytes: %v", OptMemoryLimit, DefaultMemoryLimit, err)
	}
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:`([^`]*)`|[^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		got = append(got, row[1]+"="+row[2])
	}
	for _, name := range optionNames() {
		want = append(want, name+"="+defaults[name])
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("docs/options.md - options +\n%s", diff)
	}
}

func TestParseOptionsCanonical(t *testing.T) {
	t.Parallel()
	o, err := ParseOptions(map[string]string{
		"vector.metric": " Dot-Product ", "vector.quantizer": "ivf_rabitq", "vector.num_clusters": "007", "vector.rabitq.seed": "-9223372036854775808",
		"vector.rabitq.assume_normalized": "TRUE", "vector.query.nprobes": "7", "vector.query.mode": "Approximate", "vector.query.stale_policy": "warn",
		"tidemark.file_groups": "3", "tidemark.on_duplicate_key": "LAST_WINS", "tidemark.memory_limit": "3 GiB", "tidemark.training": "Hierarchical",
		"tidemark.levels": "Wide",
	})
	if err != nil {
		t.Fatal(err)
	}
	m := o.Map()
	for k, want := range map[string]string{
		"vector.metric": "dot_product", "vector.quantizer": "IVF_RABITQ", "vector.num_clusters": "7", "vector.rabitq.seed": "-9223372036854775808",
		"vector.rabitq.assume_normalized": "true", "vector.query.nprobes": "7", "vector.query.mode": "approximate", "vector.query.stale_policy": "WARN",
		"tidemark.file_groups": "3", "tidemark.on_duplicate_key": "last_wins", "tidemark.memory_limit": "3221225472", "tidemark.training": "hierarchical",
		"tidemark.levels": "wide",
	} {
		if m[k] != want {
			t.Errorf("%s: got %q, want %q", k, m[k], want)
		}
	}
	again, err := ParseOptions(m)
	if err != nil || !cmp.Equal(again.Map(), m) {
		t.Errorf("canonical values do not parse to themselves: %v", err)
	}
	if again.Metric != kernel.Dot {
		t.Errorf("metric %v", again.Metric)
	}
}

func TestParseOptionsReportsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := ParseOptions(map[string]string{
		"vector.metric": "manhattan", "vector.quantizer": "PQ", "vector.num_clusters": "0", "vector.max_iter": "-1", "vector.rabitq.bits": "9",
		"vector.rabitq.seed": "x", "vector.rabitq.assume_normalized": "maybe", "vector.query.nprobes": "", "vector.query.refine_factor": "1.5",
		"vector.query.mode": "fast", "vector.query.stale_policy": "IGNORE", "tidemark.file_groups": "65", "tidemark.on_duplicate_key": "first",
		"tidemark.memory_limit": "lots", "tidemark.training": "deep", "tidemark.levels": "narrow", "vector.dimension": "8", "vector.rotation": "x",
	})
	if !errors.Is(err, storage.ErrRefused) {
		t.Fatalf("got %v", err)
	}
	for _, name := range append(optionNames(), "vector.dimension", "vector.rotation") {
		if !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s is not among the problems: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "\n") || storage.Hint(err) == "" {
		t.Errorf("not one line with a hint: %q", err)
	}
}

func TestProbesAndClusters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		given   map[string]string
		trained int
		want    int // 0: refused
	}{
		{"default is clamped to the option", map[string]string{"vector.num_clusters": "8"}, 8, 8},
		{"default is clamped to the trained number", nil, 5, 5},
		{"default fits", nil, 256, 32},
		{"given fits", map[string]string{"vector.query.nprobes": "4"}, 5, 4},
		{"given is more than trained", map[string]string{"vector.query.nprobes": "6"}, 5, 0},
		{"given is more than asked for", map[string]string{"vector.num_clusters": "8", "vector.query.nprobes": "9"}, 8, 0},
	} {
		o, err := ParseOptions(c.given)
		if err == nil {
			err = o.clamp(c.trained)
		}
		if c.want == 0 {
			if !errors.Is(err, storage.ErrRefused) {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err != nil || o.NProbes != c.want {
			t.Errorf("%s: got %d, %v", c.name, o.NProbes, err)
		}
	}
}

func TestParseBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "512": 512, "1KiB": 1024, "2 mib": 2 << 20, "1TiB": 1 << 40} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "1.5GiB", "GiB", "9999999999TiB", "5MB"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q was taken for %d", text, got)
		}
	}
}
