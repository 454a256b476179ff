package ivf

import (
	"context"
	"errors"
	"fmt"
	"math"

	"tidemark/internal/vector/kernel"
)

// TrainConfig says how to train. Every field but Workers is part of what the result depends on.
type TrainConfig struct {
	// K is the number of clusters wanted, at least 1. The result has K' = min(K, distinct training vectors).
	K int
	// MaxIter bounds the iterations; training ends earlier when no row changes its cluster. Less than 1 means 1.
	MaxIter int
	// Seed of the first centroids.
	Seed int64
	// Metric the centroids will be used with. COSINE trains on copies of length 1.
	Metric kernel.Metric
	// Workers is the number of goroutines. Less than 1 means 1.
	Workers int
	// Hierarchical trains about √K clusters first and divides each of them, see startInCells. It costs about 1/√K of the
	// work; rows lie a little farther from their centroids, and the result can have fewer than K' clusters.
	Hierarchical bool
}

// ErrSample is the kind of error for a sample that cannot be trained on: no rows, a component that is not finite, or a
// zero vector under COSINE. Callers leave unindexable rows out.
var ErrSample = errors.New("unusable training sample")

// TrainBytes estimates the memory Train takes beside the sample itself.
func TrainBytes(n, k, d int64, m kernel.Metric) int64 {
	rows := n * (4 + 4 + 4 + 8 + 8) // clusters, old clusters, members, weights, distances and the distinct count
	if m == kernel.Cosine {
		rows += n * (4*d + 8)
	}
	for _, part := range []int64{coarseRows * k, fineRows * k} { // both are there for a moment
		if part <= n/2 {
			rows += part * (4*d + 28)
		}
	}
	return rows + 24*k*d
}

// Train runs Lloyd's k-means from a seeded k-means++ start (design, decision 19), the first iterations on parts of the sample, see inStages. sample has n rows of d components,
// row-major; it is only read. The centroids have k rows in the original space; the caller owns them. progress, if not
// nil, is called after each iteration (1, 2, …). The only other errors than ErrSample are the context's.
//
// Rows are compared by squared Euclidean distance for every metric; for COSINE on normalised copies with centroids of
// length 1, which orders like 1 − cos. A COSINE centroid is at last scaled to the mean projection of its rows: that
// changes no cosine, and makes the residuals of rows that are not of length 1 short.
//
// A cluster that loses all its rows is started again at the row farthest from its centroid in the largest cluster that
// still has two different rows.
func Train(ctx context.Context, sample []float32, n, d int, cfg TrainConfig, progress func(iter int)) (centroids []float32, k int, err error) {
	t, err := newTrainer(ctx, sample, n, d, cfg)
	if err != nil {
		return nil, 0, err
	}
	last := max(1, cfg.MaxIter)
	if cfg.Hierarchical && t.k >= minHierarchical {
		if err = t.startInCells(ctx, cfg, progress); err == nil {
			_, err = t.iterations(ctx, last, last, progress)
		}
	} else {
		err = t.inStages(ctx, last, progress)
	}
	if err != nil {
		return nil, 0, err
	}
	if cfg.Metric == kernel.Cosine {
		t.scale(sample)
	}
	return t.centroids, t.k, nil
}

type trainer struct {
	rows       []float32 // what is trained on; normalised copies for COSINE
	n, d, k    int
	spherical  bool
	seed       int64
	workers    int
	lengths    []float64 // of the sample's rows, only for COSINE
	centroids  []float32
	clusters   []int32 // of each row; −1 before the first assignment
	previous   []int32
	distances  []float32 // of each row to its centroid
	members    []int32   // rows by cluster, ascending inside a cluster
	boundaries []int     // of each cluster in members
}

func newTrainer(ctx context.Context, sample []float32, n, d int, cfg TrainConfig) (*trainer, error) {
	if n < 1 || d < 1 || cfg.K < 1 || len(sample) < n*d {
		return nil, fmt.Errorf("train %d clusters on %d rows of %d components: %w", cfg.K, n, d, ErrSample)
	}
	t := &trainer{rows: sample[:n*d], n: n, d: d, spherical: cfg.Metric == kernel.Cosine, seed: cfg.Seed, workers: max(1, cfg.Workers)}
	for i := range n {
		if ok, reason := kernel.Indexable(cfg.Metric, t.row(i)); !ok {
			return nil, fmt.Errorf("train on row %d: %s: %w", i, reason, ErrSample)
		}
	}
	if t.spherical {
		t.rows, t.lengths = make([]float32, n*d), make([]float64, n)
		if err := t.eachRow(ctx, func(i int) {
			v := sample[i*d : (i+1)*d]
			t.lengths[i] = math.Sqrt(kernel.SquaredNorm64(v))
			for j, x := range v {
				t.rows[i*d+j] = float32(float64(x) / t.lengths[i])
			}
		}); err != nil {
			return nil, err
		}
	}
	t.k = min(cfg.K, t.distinct(cfg.K))
	t.prepare()
	return t, nil
}

// prepare makes room for what is known of each row.
func (t *trainer) prepare() {
	n := t.n
	t.clusters, t.previous = make([]int32, n), make([]int32, n)
	for i := range t.clusters {
		t.clusters[i] = -1
	}
	t.distances, t.members, t.boundaries = make([]float32, n), make([]int32, n), make([]int, t.k+1)
}

func (t *trainer) row(i int) []float32 { return t.rows[i*t.d : (i+1)*t.d] }

func (t *trainer) centroid(c int) []float32 { return t.centroids[c*t.d : (c+1)*t.d] }

// distinct counts different rows, up to limit. 0 and −0 are the same place.
func (t *trainer) distinct(limit int) int {
	seen := map[string]struct{}{}
	key := make([]byte, 0, 4*t.d)
	for i := 0; i < t.n && len(seen) < limit; i++ {
		key = key[:0]
		for _, x := range t.row(i) {
			b := math.Float32bits(x + 0)
			key = append(key, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
		}
		seen[string(key)] = struct{}{}
	}
	return len(seen)
}

// iterations runs the iterations first to last, or until no row changes its cluster, which it reports.
func (t *trainer) iterations(ctx context.Context, first, last int, progress func(iter int)) (settled bool, err error) {
	for iter := first; iter <= last; iter++ {
		changed, err := t.iterate(ctx)
		if err != nil {
			return false, err
		}
		if progress != nil {
			progress(iter)
		}
		if !changed {
			return true, nil
		}
	}
	return false, nil
}

// iterate assigns every row, starts empty clusters again, and moves the centroids. It reports whether any row changed
// its cluster.
func (t *trainer) iterate(ctx context.Context) (changed bool, err error) {
	t.clusters, t.previous = t.previous, t.clusters
	router := kernel.NewRouter(kernel.L2, t.centroids, t.k, t.d)
	if err := t.ranges(ctx, t.n, rowSpan, func(from, to int) {
		router.NearestAll(t.rows[from*t.d:to*t.d], t.clusters[from:to], t.distances[from:to])
	}); err != nil {
		return false, err
	}
	t.group()
	t.refill()
	for i, c := range t.clusters {
		if c != t.previous[i] {
			changed = true
			break
		}
	}
	return changed, t.ranges(ctx, t.k, 1, func(from, to int) {
		for c := from; c < to; c++ {
			t.move(c)
		}
	})
}

// group fills members and boundaries from clusters.
func (t *trainer) group() {
	clear(t.boundaries)
	for _, c := range t.clusters {
		t.boundaries[c+1]++
	}
	for c := range t.k {
		t.boundaries[c+1] += t.boundaries[c]
	}
	next := append([]int(nil), t.boundaries[:t.k]...)
	for i, c := range t.clusters {
		t.members[next[c]] = int32(i)
		next[c]++
	}
}

func (t *trainer) cluster(c int) []int32 { return t.members[t.boundaries[c]:t.boundaries[c+1]] }

// refill gives every empty cluster a row of the largest one.
func (t *trainer) refill() {
	for c := range t.k {
		if len(t.cluster(c)) > 0 {
			continue
		}
		donor, row := -1, int32(-1)
		for o := range t.k {
			if donor >= 0 && len(t.cluster(o)) <= len(t.cluster(donor)) {
				continue
			}
			if len(t.cluster(o)) > 1 {
				if far := t.farthest(o); far >= 0 {
					donor, row = o, far
				}
			}
		}
		if donor < 0 {
			return // every row lies on its centroid: nothing would be gained
		}
		t.clusters[row], t.distances[row] = int32(c), 0
		copy(t.centroid(c), t.row(int(row)))
		t.group()
	}
}

// farthest is the member of c with the greatest distance to the centroid, the lowest row on ties; −1 if all lie on it.
func (t *trainer) farthest(c int) int32 {
	best, far := int32(-1), float32(0)
	for _, row := range t.cluster(c) {
		if t.distances[row] > far {
			best, far = row, t.distances[row]
		}
	}
	return best
}

// move puts centroid c at the mean of its rows, for COSINE at the mean's direction. A cluster without rows, or with a
// mean of no direction, keeps its centroid.
func (t *trainer) move(c int) {
	rows := t.cluster(c)
	if len(rows) == 0 {
		return
	}
	sums := make([]float64, t.d)
	for _, i := range rows {
		kernel.Accumulate(sums, t.row(int(i)))
	}
	divisor := float64(len(rows))
	if t.spherical {
		if divisor = math.Sqrt(kernel.SquaredNorm64(sums)); divisor < 1e-9 {
			return
		}
	}
	for j, s := range sums {
		t.centroid(c)[j] = float32(s / divisor)
	}
}

// scale lengthens each COSINE centroid to the mean of its rows' projections on it.
func (t *trainer) scale(sample []float32) {
	for c := range t.k {
		sum, rows := 0.0, t.cluster(c)
		for _, i := range rows {
			sum += kernel.Dot64(sample[int(i)*t.d:(int(i)+1)*t.d], t.centroid(c))
		}
		if factor := sum / float64(len(rows)); len(rows) > 0 && factor > 1e-30 && factor < 1e30 {
			for j, x := range t.centroid(c) {
				t.centroid(c)[j] = float32(float64(x) * factor)
			}
		}
	}
}
