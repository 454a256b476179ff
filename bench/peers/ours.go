package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/internal/vector/ivf"
	"tidemark/internal/vector/kernel"
	"tidemark/search"
)

const (
	neighbours = 10
	indexName  = "peers"
	wideName   = "wide" // tidemark.levels=wide on the same clusters
	// usual is the index option vector.query.refine_factor where none is given.
	usual = 50
)

// built is what a build took.
type built struct{ cpu, wall time.Duration }

// buildOurs makes an index by the program itself and returns what its process took.
func buildOurs(ctx context.Context, program, dir string, s *set, name string, more ...string) (built, error) {
	c := exec.CommandContext(ctx, program, append([]string{"index", "create", dir, "--column", "v", "--name", name,
		"--option", generation.OptMetric + "=" + s.metric.String(), "--option", fmt.Sprintf("%s=%d", generation.OptBits, bits)}, more...)...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	began := time.Now()
	if err := c.Run(); err != nil {
		return built{}, fmt.Errorf("build our index: %w", err)
	}
	return built{cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime(), wall: time.Since(began)}, nil
}

// tuned shows the state of the indexes with another refine factor, so that one index answers with heaps of any size.
type tuned struct {
	storage.Store
	state  string
	refine int
}

func (t tuned) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	b, info, err := t.Store.ReadFile(ctx, path)
	if err != nil || path != t.state {
		return b, info, err
	}
	st, err := mdt.DecodeState(b)
	if err != nil {
		return nil, info, err
	}
	for _, x := range st.Indexes {
		x.Options[generation.OptRefineFactor] = strconv.Itoa(t.refine)
	}
	b, err = mdt.EncodeState(st)
	return b, info, err
}

// ours asks an index in process, through the library.
type ours struct {
	index string
	set   *set
	place mdt.Place
	// readers by refine factor: 1 is a heap of 10 candidates.
	readers map[int]*search.Reader
	cache   *search.Cache
}

func openOurs(dir, index string, s *set) (*ours, error) {
	st, err := file.New(dir)
	if err != nil {
		return nil, err
	}
	return &ours{index: index, set: s, place: mdt.Inside(st), readers: map[int]*search.Reader{}, cache: search.NewCache(0)}, nil
}

func (o *ours) reader(refine int) *search.Reader {
	if r := o.readers[refine]; r != nil {
		return r
	}
	place := mdt.Inside(tuned{o.place.Store, o.place.StatePath(), refine})
	o.readers[refine] = search.NewReader(search.Deps{Place: place, Cache: o.cache,
		Freshness: func(ctx context.Context, t *table.Table, st *mdt.State, index string) (search.Freshness, error) {
			v, err := coverage.Fresh(ctx, place, t, st, index)
			return search.Freshness{Fresh: v.Fresh, Reason: v.Reason}, err
		}})
	return o.readers[refine]
}

// how is one way to ask.
type how struct {
	mode   search.Mode
	refine int
	probes int
	k      int // 0: neighbours
}

func (o *ours) request(h how) search.Request {
	return search.Request{Index: o.index, K: max(h.k, neighbours), Mode: h.mode, NProbes: h.probes}
}

func wide(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// together is how many queries are asked at once where no time is taken: a round holds all that pass 1 says of so many, as it does of one, so that
// as many postings are ended as in the queries that are timed.
const together = 50

// all asks the first n queries and returns the keys of their nearest rows and what was done for all of them.
func (o *ours) all(ctx context.Context, h how, n int) (keys [][]string, pruned, scanned int, err error) {
	for from := 0; from < n; from += together {
		var vectors [][]float64
		for i := from; i < min(n, from+together); i++ {
			vectors = append(vectors, wide(o.set.query(i)))
		}
		answers, err := o.reader(h.refine).Batch(ctx, o.request(h), vectors)
		if err != nil {
			return nil, 0, 0, err
		}
		for _, a := range answers {
			if a.Mode != h.mode || !a.Fresh || !a.Complete {
				return nil, 0, 0, fmt.Errorf("the index answered in mode %s, fresh %v, complete %v: %s", a.Mode, a.Fresh, a.Complete, a.Reason)
			}
			var of []string
			for _, r := range a.Results[:neighbours] {
				of = append(of, r.Key)
			}
			keys = append(keys, of)
			pruned, scanned = pruned+a.Stats.Pruned, scanned+a.Stats.Scanned
		}
	}
	return keys, pruned, scanned, nil
}

// time asks one query after the other until all are answered or the budget is used, and returns the means.
func (o *ours) time(ctx context.Context, h how, budget time.Duration) (timed, error) {
	r := o.reader(h.refine)
	ctx = pprof.WithLabels(ctx, pprof.Labels("how", fmt.Sprintf("%s-%s-%d-%d", o.index, h.mode, h.refine, h.probes))) // to tell them apart in a profile
	pprof.SetGoroutineLabels(ctx)
	defer pprof.SetGoroutineLabels(context.Background())
	var t timed
	cpu, began := processor(), time.Now()
	for i := 0; i < o.set.asked() && time.Since(began) < budget; i++ {
		q := o.request(h)
		q.Vector = wide(o.set.query(i))
		if _, err := r.Search(ctx, q); err != nil {
			return t, err
		}
		t.n++
	}
	t.wall, t.cpu = time.Since(began)/time.Duration(t.n), (processor()-cpu)/time.Duration(t.n)
	return t, nil
}

// processor is the processor time that this process has taken.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// probed returns for each number of probes the share of the true neighbours that lie in a probed cluster: what no answer can exceed.
func (o *ours) probed(ctx context.Context, truth [][]int, probes []int) (map[int]float64, error) {
	st, _, err := mdt.ReadState(ctx, o.place)
	if err != nil {
		return nil, err
	}
	view, err := mdt.OpenView(ctx, o.place, st, o.index)
	if err != nil {
		return nil, err
	}
	g, err := generation.Load(ctx, view, st.Indexes[o.index])
	if err != nil {
		return nil, err
	}
	router := kernel.NewRouter(g.Metric, g.Centroids, g.K, g.Dim)
	out := map[int]float64{}
	for i, near := range truth {
		order := ivf.ProbeOrder(g.Metric, g.Centroids, g.K, g.Dim, o.set.query(i), g.K)
		rank := make([]int, g.K)
		for at, c := range order {
			rank[c] = at
		}
		for _, row := range near {
			c, _ := router.Nearest(o.set.row(row))
			for _, p := range probes {
				if rank[c] < p {
					out[p] += 1 / float64(len(near)*len(truth))
				}
			}
		}
	}
	return out, nil
}

// exact returns the rows of the nearest neighbours of each query, by exact distance.
func exact(s *set) [][]int {
	n, m := len(s.keys), s.metric
	if m == kernel.Cosine { // the vectors are normalised: the same order, in less time
		m = kernel.L2
	}
	distances := make([]float64, n)
	out := make([][]int, s.asked())
	for i := range out {
		kernel.Distances64(m, distances, s.rows, s.query(i))
		near := make([]int, 0, neighbours+1)
		for row, d := range distances {
			at := len(near)
			for at > 0 && d < distances[near[at-1]] {
				at--
			}
			if at == neighbours {
				continue
			}
			near = append(near, 0)
			copy(near[at+1:], near[at:])
			near[at] = row
			near = near[:min(len(near), neighbours)]
		}
		out[i] = near
	}
	return out
}
