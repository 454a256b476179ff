package simulation

import (
	"os"
	"path"
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
	seeds, events := 2000, 0 // of mixed length
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		seeds, events = 1600, 40 // more than a million steps
	}
	events = setting(t, "TIDEMARK_EVENTS", events)
	total := play(t, seeds, profile{}, func(seed int) Tape { return NewTape(uint64(seed), length(seed, events)) })
	if total.Seeds < 1600 {
		return // a part
	}
	for _, k := range kinds() {
		if total.Kinds[k] == 0 {
			t.Errorf("nothing of the kind %q occurred", k)
		}
	}
}

// TestRivals plays two and three Tidemarks on one table, paused for longer than their lease, with clocks up to 5 s apart. The settings are those
// of TestSimulation; an odd seed has three.
func TestRivals(t *testing.T) {
	t.Parallel()
	seeds := 500
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		seeds = 5000
	}
	for _, rivals := range []int{2, 3} {
		t.Run(strconv.Itoa(rivals), func(t *testing.T) {
			t.Parallel()
			total := play(t, seeds, profile{rivals: rivals}, func(seed int) Tape { return NewTape(uint64(seed), 4+seed%5) })
			if total.Seeds >= 500 && (total.Takeovers < 75 || total.Lost < 75 || total.Refused < 75) {
				t.Error("the schedules show little")
			}
		})
	}
}

// A store that lets a swap of the state object happen whatever its tag is caught.
func TestRivalsNoticeABlindStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		if fault, _, _ := Run(t, NewTape(seed, 10), profile{rivals: 2, blind: true}); fault != "" {
			t.Logf("seed %d: %s", seed, fault)
			return
		}
	}
	t.Error("not noticed")
}

// What rivals found, as shrunk tapes.
func TestRivalsFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what   string
		rivals int
		tape   string
	}{
		{"an owner that had lost its lease called a restore dealt with", 3, "007500540012"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			tape, err := ParseTape(tc.tape)
			if err != nil {
				t.Fatal(err)
			}
			if fault, trace, _ := Run(t, tape, profile{rivals: tc.rivals}); fault != "" {
				t.Errorf("%s\n%s", fault, trace)
			}
		})
	}
}

// play plays seeds of a profile, or what the settings say, and returns what they did in all.
func play(t *testing.T, seeds int, what profile, tape func(seed int) Tape) Stats {
	if text := os.Getenv("TIDEMARK_TAPE"); text != "" {
		tape, err := ParseTape(text)
		if err != nil {
			t.Fatal(err)
		}
		fault, trace, stats := Run(t, tape, what)
		t.Logf("%s\n%s", trace, stats)
		if fault != "" {
			t.Fatal(fault)
		}
		return stats
	}
	seeds = setting(t, "TIDEMARK_SEEDS", seeds)
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
					fault, _, stats := Run(t, tape(seed), what)
					if fault != "" {
						found.Store(true)
						report(t, seed, tape(seed), what, fault)
					}
					mu.Lock()
					total.add(stats)
					mu.Unlock()
				}
			})
		}
	})
	t.Log(total)
	return total
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
func report(t *testing.T, seed int, tape Tape, what profile, fault string) {
	tries := setting(t, "TIDEMARK_SHRINK", 400)
	t.Logf("seed %d: %s", seed, fault)
	small := Shrink(tape, tries, func(c Tape) bool {
		f, _, _ := Run(t, c, what)
		return f != ""
	})
	fault, trace, _ := Run(t, small, what)
	t.Errorf("seed %d: %s\n\n%s\n\nrepeat with TIDEMARK_TAPE=%s go test ./internal/simulation -run %s$ -v", seed, fault, trace, small, strings.TrimSuffix(t.Name(), "/seeds/"+path.Base(t.Name())))
}

// The same tape gives the same run, call by call.
func TestSameRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		if testkit.Thinned(int(seed), 6) {
			continue
		}
		tape := NewTape(seed, 12)
		_, one, _ := Run(t, tape, profile{})
		_, two, _ := Run(t, tape, profile{})
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
