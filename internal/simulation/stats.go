package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stats is what a run did.
type Stats struct {
	Seeds, Steps, Syncs, Kills, Failures, Checks, Fresh int
	// Unexpected counts syncs that ended with an error that no fault explains; the next one must do better.
	Unexpected int
	// Refused and Lost count syncs that ended because another Tidemark had the lease, at their start and later. Takeovers counts leases
	// that were taken from a process that had not ended.
	Refused, Lost, Takeovers int
	// Kinds counts what happened, by the names of kinds and of the writer's operations.
	Kinds map[string]int
}

// Kinds of faults.
const (
	kindLost       = "hint lost" // nothing came between a commit and the next
	kindDoubled    = "hint doubled"
	kindSlow       = "call slow"
	kindStale      = "listings late"
	kindFailBefore = "call failed without effect"
	kindFailAfter  = "call failed with effect"
	kindKillBefore = "killed before a call"
	kindKillAfter  = "killed after a call"
	kindClock      = "clock wrong"
	kindPause      = "paused past the lease"
	kindFold       = "fold" // the kind of its commit
)

// kinds are all kinds, and the operations of the writer.
func kinds() []string {
	return append([]string{kindLost, kindDoubled, kindSlow, kindStale, kindFailBefore, kindFailAfter, kindKillBefore, kindKillAfter, kindClock, kindPause, kindFold},
		operationNames[:operations]...)
}

func (s *sim) count(kind string) { s.stats.Kinds[kind]++ }

func (s *Stats) add(o Stats) {
	s.Seeds, s.Steps, s.Syncs, s.Kills = s.Seeds+o.Seeds, s.Steps+o.Steps, s.Syncs+o.Syncs, s.Kills+o.Kills
	s.Failures, s.Checks, s.Fresh, s.Unexpected = s.Failures+o.Failures, s.Checks+o.Checks, s.Fresh+o.Fresh, s.Unexpected+o.Unexpected
	s.Refused, s.Lost, s.Takeovers = s.Refused+o.Refused, s.Lost+o.Lost, s.Takeovers+o.Takeovers
	if s.Kinds == nil {
		s.Kinds = map[string]int{}
	}
	for k, n := range o.Kinds {
		s.Kinds[k] += n
	}
}

// String has every count with its name.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d steps, %d syncs, %d kills, %d failed calls, %d comparisons, %d times fresh, %d refused, %d leases lost, %d taken over, %d unexpected ends",
		s.Seeds, s.Steps, s.Syncs, s.Kills, s.Failures, s.Checks, s.Fresh, s.Refused, s.Lost, s.Takeovers, s.Unexpected)
	for _, k := range slices.Sorted(maps.Keys(s.Kinds)) {
		fmt.Fprintf(&b, "; %s %d", k, s.Kinds[k])
	}
	return b.String()
}
