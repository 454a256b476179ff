package simulation

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidemark/internal/testkit"
)

// setting is a number from the environment.
func setting(t *testing.T, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestSimulation plays many seeds. TIDEMARK_SEED plays one seed, TIDEMARK_TAPE one tape; TIDEMARK_SEEDS and TIDEMARK_EVENTS set how many
// there are and how long they are.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("TIDEMARK_TAPE"); text != "" {
		tape, err := ParseTape(text)
		if err != nil {
			t.Fatal(err)
		}
		fault, trace, stats := Run(t, tape)
		t.Logf("%s\n%+v", trace, stats)
		if fault != "" {
			t.Fatal(fault)
		}
		return
	}
	seeds, events := 2000, 0 // of mixed length
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		seeds, events = 1600, 40 // more than a million steps
	}
	seeds, events = setting(t, "TIDEMARK_SEEDS", seeds), setting(t, "TIDEMARK_EVENTS", events)
	first := setting(t, "TIDEMARK_SEED", -1)
	if first >= 0 {
		seeds = first + 1
	}
	const lanes = 2
	var (
		mu    sync.Mutex
		total Stats
		found atomic.Bool
	)
	t.Run("seeds", func(t *testing.T) {
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				for seed := max(first, 0) + lane; seed < seeds && !found.Load(); seed += lanes {
					if testkit.Thinned(seed, 41) && first < 0 {
						continue
					}
					tape := NewTape(uint64(seed), length(seed, events))
					fault, _, stats := Run(t, tape)
					if fault != "" {
						found.Store(true)
						report(t, seed, tape, fault)
					}
					mu.Lock()
					total.add(stats)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d seeds: %+v", seeds, total)
}

// length is how many events a seed has: most are short, so that there can be many, and some are long enough for one thing to lead to
// another.
func length(seed, events int) int {
	switch {
	case events > 0:
		return events
	case seed%5 == 0:
		return 15
	}
	return 4
}

// report shrinks a failing tape and shows it. TIDEMARK_SHRINK sets how many other tapes may be tried.
func report(t *testing.T, seed int, tape Tape, fault string) {
	tries := setting(t, "TIDEMARK_SHRINK", 400)
	t.Logf("seed %d: %s", seed, fault)
	small := Shrink(tape, tries, func(c Tape) bool {
		f, _, _ := Run(t, c)
		return f != ""
	})
	fault, trace, _ := Run(t, small)
	t.Errorf("seed %d: %s\n\n%s\n\nrepeat with TIDEMARK_TAPE=%s go test ./internal/simulation -run TestSimulation -v", seed, fault, trace, small)
}

// The same tape gives the same run, call by call.
func TestSameRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		if testkit.Thinned(int(seed), 6) {
			continue
		}
		tape := NewTape(seed, 12)
		_, one, _ := Run(t, tape)
		_, two, _ := Run(t, tape)
		if one != two {
			a, b := strings.Split(one, "\n"), strings.Split(two, "\n")
			n := 0
			for n < len(a) && n < len(b) && a[n] == b[n] {
				n++
			}
			t.Errorf("seed %d: two runs of one tape differ from line %d on:\n%s\n%s", seed, n, strings.Join(a[n:min(n+3, len(a))], "\n"), strings.Join(b[n:min(n+3, len(b))], "\n"))
		}
	}
}
