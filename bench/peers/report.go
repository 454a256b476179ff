package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tidemark/internal/vector/kernel"
)

// Names of the engines.
const (
	tidemark     = "Tidemark"
	tidemarkWide = "Tidemark, wide" // tidemark.levels=wide
	lanceDB      = "LanceDB"
	faissFlat    = "Faiss IVF-Flat"
)

const (
	// judgedAt is the number of probes at which pruning is judged: the default of a search.
	judgedAt = 32
	// equal is by how much recall may differ and still be called equal.
	equal = 0.002
)

// point is one way to ask one engine, and what came of it.
type point struct {
	who    string
	rerank bool
	refine int
	probes int
	recall float64
	pruned float64
	timed
}

// result is what was measured on one data set.
type result struct {
	set        *set
	partitions int
	sums       []string
	truth      [][]int
	builds     map[string]built
	probed     map[int]float64
	points     []point
	lost       map[int]float64 // by refine factor
}

// recall is the mean share of the true neighbours among the rows of the answers; there may be fewer answers than queries.
func (r *result) recall(answers [][]int) float64 {
	sum := 0.0
	for i, rows := range answers {
		n := 0
		for _, row := range r.truth[i] {
			if slices.Contains(rows, row) {
				n++
			}
		}
		sum += float64(n) / float64(len(r.truth[i]))
	}
	return sum / float64(len(answers))
}

func (r *result) recallOfKeys(answers [][]string) float64 {
	sum := 0.0
	for i, keys := range answers {
		n := 0
		for _, row := range r.truth[i] {
			if slices.Contains(keys, r.set.keys[row]) {
				n++
			}
		}
		sum += float64(n) / float64(len(r.truth[i]))
	}
	return sum / float64(len(answers))
}

// of returns the points of an engine by probes.
func (r *result) of(who string, rerank bool, refine int) (out []point) {
	for _, p := range r.points {
		if p.who == who && p.rerank == rerank && p.refine == refine {
			out = append(out, p)
		}
	}
	return out
}

type report struct {
	facts   []string
	lost    map[string]string // engines that could not be had → why
	results []*result
}

// cell is what one data set says about one goal.
type cell struct {
	text string
	met  bool
}

func (c cell) String() string {
	if c.met {
		return c.text
	}
	return c.text + " **missed**"
}

// worst joins what was measured at several points; the goal is met if it is at each.
func worst(values []float64, format string, met func(float64) bool) cell {
	c := cell{met: len(values) > 0}
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprintf(format, v))
		c.met = c.met && met(v)
	}
	c.text = strings.Join(texts, " / ")
	return c
}

// cheapest is the point of least time whose recall is at least that; ok is false if there is none.
func cheapest(points []point, recall float64) (best point, ok bool) {
	for _, p := range points {
		if p.recall >= recall-equal && (!ok || p.wall < best.wall) {
			best, ok = p, true
		}
	}
	return best, ok
}

// against compares our points with each of a peer's: at equal recall, or at the same probes.
func against(mine, theirs []point, sameProbes bool) cell {
	c := cell{met: true}
	var walls, cpus, notes []string
	for _, p := range theirs {
		at, ok := cheapest(mine, p.recall)
		if sameProbes {
			i := slices.IndexFunc(mine, func(m point) bool { return m.probes == p.probes })
			if ok = i >= 0; ok {
				at = mine[i]
			}
		}
		if !ok {
			walls, cpus, c.met = append(walls, "–"), append(cpus, "–"), false
			notes = append(notes, fmt.Sprintf("recall %.3f is not reached", p.recall))
			continue
		}
		ratio := float64(at.wall) / float64(p.wall)
		walls, cpus = append(walls, number(ratio)), append(cpus, number(float64(at.cpu)/float64(p.cpu)))
		c.met = c.met && ratio <= 0.5
	}
	c.text = strings.Join(walls, " / ") + " (processor time " + strings.Join(cpus, " / ") + ")"
	if len(notes) > 0 {
		c.text += "; " + strings.Join(notes, ", ")
	}
	return c
}

func number(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// goal is a row of the table.
type goal struct {
	what, want string
	peer       string // "": none is needed
	of         func(r *result) cell
}

var goals = []goal{
	{"build: rows per second of processor time ÷ LanceDB's", "≥ 1.0", lanceDB, func(r *result) cell {
		ratio := r.builds[lanceDB].cpu.Seconds() / r.builds[tidemark].cpu.Seconds()
		return cell{fmt.Sprintf("%.2f", ratio), ratio >= 1}
	}},
	{"approximate, defaults: mean time ÷ LanceDB's at equal recall", "≤ 0.5", lanceDB, func(r *result) cell {
		return against(r.of(tidemark, false, usual), r.of(lanceDB, false, 0), false)
	}},
	{"approximate, refine factor 1: the same", "≤ 0.5", lanceDB, func(r *result) cell {
		return against(r.of(tidemark, false, 1), r.of(lanceDB, false, 0), false)
	}},
	{"approximate, tidemark.levels=wide: the same", "≤ 0.5", lanceDB, func(r *result) cell {
		return against(r.of(tidemarkWide, false, usual), r.of(lanceDB, false, 0), false)
	}},
	{"reranked, defaults: mean time ÷ LanceDB's with refine factor 10 at equal recall", "≤ 0.5", lanceDB, func(r *result) cell {
		return against(r.of(tidemark, true, usual), r.of(lanceDB, true, 10), false)
	}},
	{"reranked, refine factor 10: the same", "≤ 0.5", lanceDB, func(r *result) cell {
		return against(r.of(tidemark, true, 10), r.of(lanceDB, true, 10), false)
	}},
	{"approximate, defaults: mean time ÷ Faiss IVF-Flat's at the same probes", "≤ 0.5", faissFlat, func(r *result) cell {
		return against(r.of(tidemark, false, usual), r.of(faissFlat, false, 0), true)
	}},
	{"approximate, refine factor 1: the same", "≤ 0.5", faissFlat, func(r *result) cell {
		return against(r.of(tidemark, false, 1), r.of(faissFlat, false, 0), true)
	}},
	{"postings that pass 1 ends, reranked with refine factor 50 (a heap of 500)", "≥ 70 %", "", func(r *result) cell { return r.pruning(true, usual, 70) }},
	{"the same, approximate with refine factor 1 (a heap of 10)", "≥ 90 %", "", func(r *result) cell { return r.pruning(false, 1, 90) }},
	{"points of recall that this costs, heap of 500 / of 10", "≤ 0.3", "", func(r *result) cell {
		return worst([]float64{100 * r.lost[usual], 100 * r.lost[1]}, "%.2f", func(x float64) bool { return x <= 0.3 })
	}},
	{"recall, approximate ÷ probing", "≥ 0.90", "", func(r *result) cell {
		return r.perProbe(tidemark, false, func(recall, probed float64) float64 { return recall / probed }, "%.3f", func(x float64) bool { return x >= 0.9 })
	}},
	{"the same, tidemark.levels=wide", "≥ 0.90", "", func(r *result) cell {
		return r.perProbe(tidemarkWide, false, func(recall, probed float64) float64 { return recall / probed }, "%.3f", func(x float64) bool { return x >= 0.9 })
	}},
	{"points of recall, reranked − probing", "≥ −0.2", "", func(r *result) cell {
		return r.perProbe(tidemark, true, func(recall, probed float64) float64 { return 100 * (recall - probed) }, "%.2f", func(x float64) bool { return x >= -0.2 })
	}},
}

func (r *result) pruning(rerank bool, refine int, least float64) cell {
	for _, p := range r.of(tidemark, rerank, refine) {
		if p.probes == judgedAt {
			return worst([]float64{100 * p.pruned}, "%.1f %%", func(x float64) bool { return x >= least })
		}
	}
	return cell{text: "not measured"}
}

func (r *result) perProbe(who string, rerank bool, value func(recall, probed float64) float64, format string, met func(float64) bool) cell {
	var values []float64
	for _, p := range r.of(who, rerank, usual) {
		if slices.Contains(peerProbes, p.probes) {
			values = append(values, value(p.recall, r.probed[p.probes]))
		}
	}
	return worst(values, format, met)
}

// table is what docs/performance.md shows.
func (rep *report) table() string {
	var b strings.Builder
	b.WriteString("| what | goal |")
	for _, r := range rep.results {
		fmt.Fprintf(&b, " %s, %d × %d, %s, %d partitions |", r.set.name, len(r.set.keys), r.set.dim, r.set.metric, r.partitions)
	}
	b.WriteString("\n| --- | ---: |" + strings.Repeat(" ---: |", len(rep.results)) + "\n")
	for _, g := range goals {
		fmt.Fprintf(&b, "| %s | %s |", g.what, g.want)
		for _, r := range rep.results {
			text := ""
			if reason := rep.lost[g.peer]; reason != "" {
				text = "skipped: " + strings.ReplaceAll(reason, "\n", " ")
			} else {
				text = g.of(r).String()
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nThree figures are those at 16, 32 and 64 probes, of the peer where there is one; pruning is at %d probes. %d bits, the %d nearest of %d queries, one core.\n",
		judgedAt, bits, neighbours, rep.results[0].set.asked())
	fmt.Fprintf(&b, "Run: %s; kernels in the form %s.\n", strings.Join(rep.facts, "; "), kernel.Form())
	for _, r := range rep.results {
		fmt.Fprintf(&b, "SHA-256 of %s as float32: %s.\n", r.set.name, strings.Join(r.sums, ", "))
	}
	return b.String()
}

// figures are the absolute numbers behind the table.
func (rep *report) figures() string {
	var b strings.Builder
	for _, r := range rep.results {
		for _, who := range []string{tidemark, lanceDB, faissFlat} {
			if t, ok := r.builds[who]; ok {
				fmt.Fprintf(&b, "%s: %s built in %.1f s of processor time, %.1f s: %.0f rows a second of processor time\n", r.set.name, who, t.cpu.Seconds(), t.wall.Seconds(),
					float64(len(r.set.keys))/t.cpu.Seconds())
			}
		}
		fmt.Fprintf(&b, "%-14s %-7s %6s %7s %7s %8s %9s %9s %6s\n", "", "rerank", "refine", "probes", "recall", "probing", "mean ms", "cpu ms", "n")
		for _, p := range r.points {
			probed := ""
			if p.who == tidemark || p.who == tidemarkWide {
				probed = fmt.Sprintf("%.4f", r.probed[p.probes])
			}
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			fmt.Fprintf(&b, "%-14s %-7v %6d %7d %7.4f %8s %9.3f %9.3f %6d\n", p.who, p.rerank, p.refine, p.probes, p.recall, probed, ms(p.wall), ms(p.cpu), p.n)
		}
	}
	return b.String()
}
