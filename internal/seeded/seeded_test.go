package seeded

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// root is the repository.
const root = "../.."

func long() bool { return os.Getenv("TIDEMARK_TEST_LONG") != "" }

// Every mistake can be made in the sources as they are.
func TestBugsApply(t *testing.T) {
	t.Parallel()
	if len(Bugs) < 25 {
		t.Errorf("%d mistakes, want 25 at least", len(Bugs))
	}
	seen := map[string]bool{}
	for _, b := range Bugs {
		if seen[b.Name] {
			t.Errorf("%s is there twice", b.Name)
		}
		seen[b.Name] = true
		if _, err := broken(b); err != "" {
			t.Errorf("%s: %s", b.Name, err)
		}
	}
}

// broken returns the changed file.
func broken(b Bug) (string, string) {
	src, err := os.ReadFile(filepath.Join(root, b.File))
	if err != nil {
		return "", err.Error()
	}
	if n := strings.Count(string(src), b.Old); n != 1 {
		return "", b.File + " has the text that is to be changed not exactly once; change the list with the code:\n" + b.Old
	}
	return strings.Replace(string(src), b.Old, b.New, 1), ""
}

// Every mistake is found. The ordinary run tries a sample; TIDEMARK_TEST_LONG=1 all, TIDEMARK_BUG one, by its name.
func TestBugsAreFound(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	only := os.Getenv("TIDEMARK_BUG")
	for _, b := range Bugs {
		if only != "" && only != b.Name || only == "" && !long() && !b.Sample {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			text, bad := broken(b)
			if bad != "" {
				t.Fatal(bad)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "broken.go")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			original, err := filepath.Abs(filepath.Join(root, b.File))
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: file}})
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			// Vetting is for code that is meant to be kept.
			args := []string{"test", "-vet=off", "-count=1", "-timeout=20m", "-overlay", list, "./" + b.By}
			switch b.By {
			case Rule:
				args = append(args, "-rapid.nofailfile") // the failure is wanted, its example is not
			case Content:
				args = append(args, "-run=^TestOtherContentIsSeenAfterAFold$")
			}
			cmd := exec.Command("go", args...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "TIDEMARK_TEST_LONG=", "TIDEMARK_SHRINK=0")
			out, err := cmd.CombinedOutput()
			switch said := string(out); {
			case err == nil:
				t.Fatalf("%s does not find it:\n%s", b.By, said)
			case !strings.Contains(said, "--- FAIL"):
				t.Fatalf("%v, but no test failed:\n%s", err, said)
			default:
				t.Log(cause(said))
			}
		})
	}
}

// cause is the first line that says what was found.
func cause(said string) string {
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if _, what, ok := strings.Cut(line, "_test.go:"); ok {
			return what
		}
	}
	return said
}

// The page shows the list as it is.
func TestPageListsMistakes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range Bugs {
		row := "| " + b.Name + " | `" + b.File + "` | " + strings.TrimPrefix(b.By, "internal/")
		if b.Sample {
			row += ", also in `make test`"
		}
		if !strings.Contains(string(page), row+" |\n") {
			t.Errorf("docs/protocol.md has no row\n%s |", row)
		}
	}
}
