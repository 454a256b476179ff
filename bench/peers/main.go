package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"tidemark/generation"
	"tidemark/search"
)

// settings are the flags; run.sh gives them.
type settings struct {
	work, tidemark, glove, fashion, lancedb, faiss string
	clusters                                       string
	queries, limit, rounds                         int
	budget                                         time.Duration
	profile, facts                                 string
}

// bits is a setting, too.
var bits int

func main() {
	var f settings
	flag.StringVar(&f.work, "work", "", "folder for tables and the peers' files")
	flag.StringVar(&f.tidemark, "tidemark", "", "the program")
	flag.StringVar(&f.glove, "glove", "", "npm package of word vectors, or skip: and the reason")
	flag.StringVar(&f.fashion, "fashion", "", "folder of pictures, or skip: and the reason")
	flag.StringVar(&f.lancedb, "lancedb", "", "program that answers as LanceDB, or skip: and the reason")
	flag.StringVar(&f.faiss, "faiss", "", "program that answers as Faiss, or skip: and the reason")
	flag.StringVar(&f.clusters, "partitions", "", "partitions of the two data sets; empty: 1024,256, with -rows in proportion, but at least 64")
	flag.IntVar(&f.queries, "queries", 500, "queries")
	flag.IntVar(&bits, "bits", 4, "bits of a code for each dimension, of our codes and LanceDB's")
	flag.IntVar(&f.limit, "rows", 0, "rows of a data set; 0: all")
	flag.IntVar(&f.rounds, "rounds", 3, "rounds of timed queries, all engines in turn")
	flag.DurationVar(&f.budget, "budget", time.Second, "longest time for one engine's queries of one kind in a round")
	flag.StringVar(&f.profile, "profile", "", "folder for profiles of our queries")
	flag.StringVar(&f.facts, "facts", "", "what to say of machine and commit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, f, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// skipped is the reason in a setting of the form "skip:reason".
func skipped(setting string) (reason string, yes bool) { return strings.CutPrefix(setting, "skip:") }

func run(ctx context.Context, f settings, out io.Writer) error {
	partitions, err := f.partitions()
	if err != nil {
		return err
	}
	load := loadAverage()
	rep := &report{facts: []string{f.facts}, lost: map[string]string{}}
	sources := []struct {
		setting string
		load    func() (*set, error)
	}{
		{f.glove, func() (*set, error) { return loadGlove(f.glove, f.queries, f.limit) }},
		{f.fashion, func() (*set, error) { return loadFashion(f.fashion, f.queries, f.limit) }},
	}
	for i, src := range sources {
		if reason, yes := skipped(src.setting); yes {
			rep.facts = append(rep.facts, "data set left out: "+reason)
			continue
		}
		s, err := src.load()
		if err != nil {
			return err
		}
		r, err := compare(ctx, f, rep, s, partitions[i])
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rep.results = append(rep.results, r)
	}
	rep.facts = append(rep.facts, fmt.Sprintf("load average %s before, %s after", load, loadAverage()))
	if len(rep.results) == 0 {
		return errors.New("no data set could be had: " + strings.Join(rep.facts, "; "))
	}
	text := rep.table()
	if err := os.WriteFile(filepath.Join(f.work, "table.md"), []byte(text), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprint(out, "\n", text, "\n", rep.figures())
	return err
}

// whole is how many rows the two data sets have, and usually the partitions of their indexes.
var whole = [2]struct{ rows, partitions int }{{340_979, 1024}, {60_000, 256}}

// partitions are those of the two indexes. Those of a part of the rows hold as many rows each as those of all do, as long as there are enough of them for
// every number of probes.
func (f *settings) partitions() (n [2]int, err error) {
	if f.clusters != "" {
		if _, err := fmt.Sscanf(f.clusters, "%d,%d", &n[0], &n[1]); err != nil {
			return n, fmt.Errorf("-partitions %q: want two numbers", f.clusters)
		}
		return n, nil
	}
	for i, w := range whole {
		n[i] = w.partitions
		if f.limit > 0 {
			n[i] = min(n[i], max(n[i]*f.limit/w.rows, slices.Max(peerProbes)))
		}
	}
	return n, nil
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(b))[0]
}

// The numbers of probes. The goals are judged at those of a peer; ours are closer together, to be compared at equal recall.
var (
	ourProbes  = []int{4, 8, 16, 24, 32, 48, 64}
	peerProbes = []int{16, 32, 64}
)

// plan is one thing that is asked of one engine.
type plan struct {
	point
	time func(budget time.Duration) (timed, error)
}

// compare builds the indexes of one data set and asks all engines in turn.
func compare(ctx context.Context, f settings, rep *report, s *set, partitions int) (*result, error) {
	dir := filepath.Join(f.work, s.name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+s.name+": "+format+"\n", args...)
	}
	table := filepath.Join(dir, "table")
	say("%d × %d, %d queries", len(s.keys), s.dim, s.asked())
	if err := writeTable(table, s); err != nil {
		return nil, err
	}
	r := &result{set: s, partitions: partitions, builds: map[string]built{}}
	for name, flat := range map[string][]float32{"rows": s.rows, "queries": s.queries} {
		b := appendFloats(make([]byte, 0, 4*len(flat)), flat)
		if err := os.WriteFile(filepath.Join(dir, name+".f32"), b, 0o644); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		r.sums = append(r.sums, name+" "+hex.EncodeToString(sum[:]))
	}
	slices.Sort(r.sums)
	say("exact neighbours")
	r.truth = exact(s)
	var err error
	clusters := fmt.Sprintf("%s=%d", generation.OptNumClusters, partitions)
	if r.builds[tidemark], err = buildOurs(ctx, f.tidemark, table, s, indexName, "--option", clusters); err != nil {
		return nil, err
	}
	say("built by Tidemark: %v", r.builds[tidemark])
	if _, err = buildOurs(ctx, f.tidemark, table, s, wideName, "--centroids-from", indexName, "--option", generation.OptLevels+"="+generation.LevelsWide); err != nil {
		return nil, err
	}
	plans, err := ourPlans(ctx, table, r)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name, command string
		refines       []int
	}{{lanceDB, f.lancedb, []int{0, 10}}, {faissFlat, f.faiss, []int{0}}} {
		if reason, yes := skipped(p.command); yes {
			rep.lost[p.name] = reason
			continue
		}
		if rep.lost[p.name] != "" {
			continue
		}
		more, done, err := peerPlans(ctx, p.name, p.command, dir, rep, r, p.refines)
		defer done()
		if err != nil { // the others are compared all the same, and the table says so
			rep.lost[p.name] = err.Error()
			say("%v", err)
			continue
		}
		say("built by %s: %v", p.name, r.builds[p.name])
		plans = append(plans, more...)
	}
	slices.SortStableFunc(plans, func(a, b plan) int { return a.probes - b.probes })
	say("asking")
	return r, r.ask(ctx, f, plans)
}

// ask times every plan once in each round.
func (r *result) ask(ctx context.Context, f settings, plans []plan) error {
	if f.profile != "" {
		file, err := os.Create(filepath.Join(f.profile, r.set.name+".prof"))
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	times := make([][]timed, len(plans))
	for range f.rounds {
		for i, p := range plans {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t, err := p.time(f.budget)
			if err != nil {
				return err
			}
			times[i] = append(times[i], t)
		}
	}
	for i, p := range plans {
		slices.SortFunc(times[i], func(a, b timed) int { return int(a.wall - b.wall) })
		p.timed = times[i][len(times[i])/2]
		r.points = append(r.points, p.point)
	}
	return nil
}

// ourPlans asks everything once, which warms the index up too, and measures recall and pruning.
func ourPlans(ctx context.Context, table string, r *result) ([]plan, error) {
	s := r.set
	o, err := openOurs(table, indexName, s)
	if err != nil {
		return nil, err
	}
	wide, err := openOurs(table, wideName, s)
	if err != nil {
		return nil, err
	}
	probes := slices.DeleteFunc(slices.Clone(ourProbes), func(p int) bool { return p > r.partitions })
	if r.probed, err = o.probed(ctx, r.truth, probes); err != nil {
		return nil, err
	}
	var plans []plan
	for _, of := range []struct {
		*ours
		who string
		how
	}{{o, tidemark, how{mode: search.Approximate, refine: usual}}, {o, tidemark, how{mode: search.Approximate, refine: 1}},
		{o, tidemark, how{mode: search.ExactRerank, refine: usual}}, {o, tidemark, how{mode: search.ExactRerank, refine: 10}},
		{wide, tidemarkWide, how{mode: search.Approximate, refine: usual}}} {
		o := of.ours
		for _, probes := range probes {
			h := how{mode: of.mode, refine: of.refine, probes: probes} // of this plan alone
			keys, pruned, scanned, err := o.all(ctx, h, s.asked())
			if err != nil {
				return nil, err
			}
			p := point{who: of.who, rerank: h.mode == search.ExactRerank, refine: h.refine, probes: h.probes,
				recall: r.recallOfKeys(keys), pruned: float64(pruned) / float64(max(scanned, 1))}
			plans = append(plans, plan{p, func(budget time.Duration) (timed, error) { return o.time(ctx, h, budget) }})
		}
	}
	// An approximate answer of 1000 rows keeps thousands of postings: what the bound of pass 1 ends is not missed by the first ten. One of
	// 125 rows has the heap of 500 that a reranked answer of ten rows has.
	few := min(100, s.asked())
	var recalls []float64
	for _, h := range []how{{k: 1000, refine: usual}, {k: 125, refine: usual}, {refine: 1}} {
		h.mode, h.probes = search.Approximate, judgedAt
		keys, _, _, err := o.all(ctx, h, few)
		if err != nil {
			return nil, err
		}
		recalls = append(recalls, r.recallOfKeys(keys))
	}
	r.lost = map[int]float64{usual: recalls[0] - recalls[1], 1: recalls[0] - recalls[2]}
	return plans, nil
}

// peerPlans starts a peer, lets it build, and asks everything once.
func peerPlans(_ context.Context, name, command, dir string, rep *report, r *result, refines []int) (plans []plan, done func(), err error) {
	p, err := startPeer(context.Background(), name, strings.Fields(command)...)
	if err != nil {
		return nil, func() {}, err
	}
	if fact := name + " " + p.version; !slices.Contains(rep.facts, fact) {
		rep.facts = append(rep.facts, fact)
	}
	if r.builds[name], err = p.build(dir, r.set, r.partitions); err != nil {
		return nil, p.stop, err
	}
	for _, refine := range refines {
		for _, probes := range peerProbes {
			rows, err := p.all(probes, refine)
			if err != nil {
				return nil, p.stop, err
			}
			of := point{who: name, rerank: refine > 0, refine: refine, probes: probes, recall: r.recall(rows)}
			plans = append(plans, plan{of, func(budget time.Duration) (timed, error) { return p.time(probes, refine, budget) }})
		}
	}
	return plans, p.stop, nil
}
