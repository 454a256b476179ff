package main

import (
	"slices"
	"strconv"
)

// packages hold the benchmarks.
const (
	kernels = "internal/vector/kernel"
	codes   = "internal/vector/rabitq"
	upkeep  = "indexer"
)

var packages = []string{kernels, codes, upkeep}

// goal is one line of the table.
type goal struct {
	what, pkg, bench, unit string
	bound                  float64
	atMost                 bool
	judged                 []string // forms that the goal is for
	shown                  []string // forms that are measured for comparison
}

var (
	assembly = []string{"avx2", "avx512"}
	avx2     = []string{"avx2"}
	portable = []string{"portable"}
	every    = []string{"portable", "avx2", "avx512"}
)

var goals = []goal{
	{what: "assignment, K 256, D 64, share of F", pkg: kernels, bench: "Assign/K=256,D=64", unit: "of-F", bound: 0.80, judged: assembly, shown: portable},
	{what: "assignment, K 256, D 128", pkg: kernels, bench: "Assign/K=256,D=128", unit: "of-F", bound: 0.80, judged: assembly, shown: portable},
	{what: "assignment, K 1024, D 128", pkg: kernels, bench: "Assign/K=1024,D=128", unit: "of-F", bound: 0.80, judged: assembly},
	{what: "assignment, K 4096, D 128", pkg: kernels, bench: "Assign/K=4096,D=128", unit: "of-F", bound: 0.80, judged: assembly},
	{what: "assignment, K 1024, D 768", pkg: kernels, bench: "Assign/K=1024,D=768", unit: "of-F", bound: 0.80, judged: assembly},
	{what: "assignment, K 4096, D 768", pkg: kernels, bench: "Assign/K=4096,D=768", unit: "of-F", bound: 0.80, judged: assembly},
	{what: "assignment, K 1024, D 1536", pkg: kernels, bench: "Assign/K=1024,D=1536", unit: "of-F", bound: 0.80, judged: assembly},
	{what: "rotation, D 128, share of M", pkg: kernels, bench: "Rotate/D=128", unit: "of-M", bound: 0.80, judged: assembly, shown: portable},
	{what: "rotation, D 768", pkg: kernels, bench: "Rotate/D=768", unit: "of-M", bound: 0.80, judged: assembly, shown: portable},
	{what: "rotation, D 1536", pkg: kernels, bench: "Rotate/D=1536", unit: "of-M", bound: 0.60, judged: assembly, shown: portable},
	{what: "level choice, D 128, 4 bits, × literal loop", pkg: codes, bench: "Levels/D=128,B=4", unit: "×literal", bound: 4, judged: every},
	{what: "level choice, D 768, 4 bits", pkg: codes, bench: "Levels/D=768,B=4", unit: "×literal", bound: 4, judged: every},
	{what: "level choice, D 128, 8 bits", pkg: codes, bench: "Levels/D=128,B=8", unit: "×literal", bound: 4, judged: every},
	{what: "whole encode, K 4096, D 128, 4 bits, of (2KD/F + D²/M)⁻¹", pkg: codes, bench: "Encode/K=4096,D=128,B=4", unit: "of-limit", bound: 0.60, judged: assembly},
	{what: "whole encode, K 4096, D 768, 4 bits", pkg: codes, bench: "Encode/K=4096,D=768,B=4", unit: "of-limit", bound: 0.60, judged: assembly},
	{what: "pass 1, portable, D 128, M codes/s", pkg: codes, bench: "Scan/D=128", unit: "Mcodes/s-portable", bound: 100, judged: portable},
	{what: "pass 1, portable, D 768", pkg: codes, bench: "Scan/D=768", unit: "Mcodes/s-portable", bound: 25, judged: portable},
	{what: "pass 1, SIMD, D 128, × portable beside it", pkg: codes, bench: "Scan/D=128", unit: "×portable", bound: 6, judged: avx2},
	{what: "pass 1, SIMD, D 768", pkg: codes, bench: "Scan/D=768", unit: "×portable", bound: 3, judged: avx2},
	{what: "two cores ÷ one, encode, by the clock", pkg: codes, bench: "TwoCores/encode", unit: "×one-core", bound: 1.85, judged: assembly},
	{what: "the same by processor time: 2 ÷ what one call costs more beside another", pkg: codes, bench: "TwoCores/encode", unit: "×by-processor-time", bound: 1.85, judged: assembly},
	{what: "two cores ÷ one, scan, by the clock", pkg: codes, bench: "TwoCores/scan", unit: "×one-core", bound: 1.85, judged: avx2},
	{what: "the same by processor time", pkg: codes, bench: "TwoCores/scan", unit: "×by-processor-time", bound: 1.85, judged: avx2},
	{what: "sync, processor time ÷ vector of a new row, × pure encode, files apart", pkg: upkeep, bench: "SyncOfVectors", unit: "×encode-new", bound: 3, atMost: true, judged: assembly},
	{what: "with reading and writing the files", pkg: upkeep, bench: "SyncOfVectors", unit: "×encode-new-with-files", shown: assembly},
	{what: "sync, changed vector (two routes, one code), files apart", pkg: upkeep, bench: "SyncOfVectors", unit: "×encode-changed", bound: 3, atMost: true, judged: assembly},
	{what: "with reading and writing the files", pkg: upkeep, bench: "SyncOfVectors", unit: "×encode-changed-with-files", shown: assembly},
}

func (g goal) judges(form string) bool { return slices.Contains(g.judged, form) }

func (g goal) asks(form string) bool { return g.judges(form) || slices.Contains(g.shown, form) }

func (g goal) met(value float64) bool {
	if g.atMost {
		return value <= g.bound
	}
	return value >= g.bound
}

// digits are enough to tell what is just missed from what is just met.
func (g goal) digits() int {
	switch {
	case g.bound >= 10:
		return 1
	case g.bound >= 1 || g.judged == nil:
		return 2
	}
	return 3
}

// number is the bound as people read it.
func (g goal) number() string {
	switch {
	case g.judged == nil:
		return ""
	case g.atMost:
		return "≤ " + strconv.FormatFloat(g.bound, 'f', -1, 64)
	}
	return "≥ " + strconv.FormatFloat(g.bound, 'f', -1, 64)
}
