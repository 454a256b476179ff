// Command goals measures the vector engine against its goals and prints one table. Run it by make bench.
//
// Every number is a ratio to something measured beside it in the same process; a benchmark whose calibration differs by more than a tenth
// between its two halves is run again, and marked if that does not help.
package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const (
	mostDrift = 10 // per cent
	tries     = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "goals:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goals")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := &machine{root: root, dir: dir, results: map[string]map[string]float64{}}
	before := load()
	for _, f := range forms() {
		for _, pkg := range packages {
			if err := m.measure(ctx, pkg, f); err != nil {
				return err
			}
		}
	}
	m.print(before)
	return nil
}

// forms are the forms of the inner loops that this machine has, the simplest first.
func forms() []string {
	out := []string{"portable"}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || runtime.GOARCH != "amd64" {
		return out
	}
	for _, flag := range []string{"avx2", "avx512f"} {
		if strings.Contains(string(info), " "+flag+" ") {
			out = append(out, strings.TrimSuffix(flag, "f"))
		}
	}
	return out
}

// machine keeps what was measured: metrics by form and benchmark.
type machine struct {
	root, dir string
	results   map[string]map[string]float64
}

// measure runs the benchmarks of a package that some goal asks for in that form.
func (m *machine) measure(ctx context.Context, pkg, form string) error {
	wanted := map[string]bool{}
	for _, g := range goals {
		if g.pkg == pkg && g.asks(form) {
			wanted[g.bench] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	binary := filepath.Join(m.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	if _, err := os.Stat(binary); err != nil {
		build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+pkg)
		build.Dir, build.Stderr = m.root, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build the benchmarks of %s: %w", pkg, err)
		}
	}
	for _, bench := range slices.Sorted(maps.Keys(wanted)) {
		fmt.Fprintf(os.Stderr, "\r\033[K%s %s %s", form, pkg, bench)
		for range tries {
			metrics, err := once(ctx, binary, filepath.Join(m.root, pkg), bench, form)
			if err != nil {
				return err
			}
			key := form + " " + pkg + " " + bench
			if old := m.results[key]; old == nil || metrics["drift-%"] < old["drift-%"] {
				m.results[key] = metrics
			}
			if m.results[key]["drift-%"] <= mostDrift {
				break
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\033[K")
	return nil
}

// once runs one benchmark and returns its metrics.
func once(ctx context.Context, binary, dir, bench, form string) (map[string]float64, error) {
	parts := strings.Split("Benchmark"+bench, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	c := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", strings.Join(parts, "/"), "-test.benchtime", "1x")
	c.Dir, c.Stderr = dir, os.Stderr
	c.Env = append(os.Environ(), "TIDEMARK_KERNELS="+form)
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", bench, err, out)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark"+bench) {
			continue
		}
		metrics := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if metrics[fields[i+1]], err = strconv.ParseFloat(fields[i], 64); err != nil {
				return nil, fmt.Errorf("%s: %w", bench, err)
			}
		}
		return metrics, nil
	}
	return nil, fmt.Errorf("%s: no such benchmark: %s", bench, out)
}

// print writes the table, then what it was measured on.
func (m *machine) print(before string) {
	all := forms()
	fmt.Printf("| goal | number | %s |\n| --- | ---: |%s\n", strings.Join(all, " | "), strings.Repeat(" ---: |", len(all)))
	missed, marked := 0, false
	for _, g := range goals {
		fmt.Printf("| %s | %s |", g.what, g.number())
		for _, f := range all {
			metrics := m.results[f+" "+g.pkg+" "+g.bench]
			value, ok := metrics[g.unit]
			if !ok || !g.asks(f) {
				fmt.Print(" |")
				continue
			}
			text := strconv.FormatFloat(value, 'f', g.digits(), 64)
			switch {
			case !g.judges(f):
			case g.met(value):
				text += " met"
			default:
				text += " MISSED"
				missed++
			}
			if metrics["drift-%"] > mostDrift {
				text, marked = text+" ~", true
			}
			fmt.Printf(" %s |", text)
		}
		fmt.Println()
	}
	f, mul := m.peak("F-GF/s"), m.peak("M-GMAC/s")
	fmt.Printf("\n%d missed. F is the AVX2 fused multiply-add peak, here %.0f GF/s; M the float64 multiplication, then addition, %.1f G pairs/s.\n", missed, f, mul)
	if marked {
		fmt.Printf("~: the calibration differed by more than %d %% in each of %d runs; the machine is too busy for that line.\n", mostDrift, tries)
	}
	fmt.Printf("%s, %d cores, %s, %s; load %s before, %s after.\n", cpu(), runtime.NumCPU(), runtime.Version(), m.commit(), before, load())
}

// peak is the greatest value of a calibration.
func (m *machine) peak(unit string) (most float64) {
	for _, metrics := range m.results {
		most = max(most, metrics[unit])
	}
	return most
}

func (m *machine) commit() string {
	c := exec.Command("git", "describe", "--always", "--dirty")
	c.Dir = m.root
	out, err := c.Output()
	if err != nil {
		return "no commit"
	}
	return "commit " + strings.TrimSpace(string(out))
}

// cpu is what the processor calls itself.
func cpu() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // not on every system: then only the architecture is told
	var name, model string
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			name = strings.TrimSpace(value)
		case "model":
			model = ", model " + strings.TrimSpace(value)
		}
	}
	return cmp.Or(name, runtime.GOARCH) + model
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(b))[0]
}
