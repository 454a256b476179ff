package ivf

import "context"

// Rows for each cluster that the start looks at, the first half of the iterations, and those up to the last ones.
const (
	startRows  = 16
	coarseRows = 64
	fineRows   = 128
)

// inStages starts and iterates. Centroids that are far from their place need few rows to get nearer, so that the start, the first half of the
// iterations, and those up to the last fifth take an even part of the sample each. A part of more than half of the sample is all of it. A stage in
// which no row changes its cluster any more is over.
func (t *trainer) inStages(ctx context.Context, last int, progress func(iter int)) error {
	now, parts := t.part(startRows*t.k), true
	if now != t && now.distinct(t.k) < t.k {
		now, parts = t, false // the rows that differ are few: none may be left out
	}
	if err := now.start(ctx); err != nil {
		return err
	}
	settled := false
	half, whole := last/2, last-max(1, last/5)
	for _, stage := range []struct{ first, last, rows int }{{1, half, coarseRows}, {half + 1, whole, fineRows}, {whole + 1, last, t.n}} {
		next := t
		if parts {
			next = t.part(min(stage.rows, t.n/t.k) * t.k)
		}
		if stage.first > stage.last || settled && next == now {
			continue
		}
		next.centroids = now.centroids
		var err error
		if settled, err = next.iterations(ctx, stage.first, stage.last, progress); err != nil {
			return err
		}
		now = next
	}
	return nil
}

// part is a trainer of so many rows, evenly spread over those of t, or t itself if that is more than half of them. It has no centroids.
func (t *trainer) part(n int) *trainer {
	if n > t.n/2 {
		return t
	}
	p := &trainer{rows: make([]float32, 0, n*t.d), n: n, d: t.d, k: t.k, spherical: t.spherical, seed: t.seed, workers: t.workers}
	for i := range n {
		p.rows = append(p.rows, t.row(int(int64(i)*int64(t.n)/int64(n)))...)
	}
	p.prepare()
	return p
}
