package ivf

import (
	"slices"
	"testing"

	"tidemark/internal/vector/kernel"
)

// assigned returns a trainer after one assignment to the given centroids on a line.
func assigned(t *testing.T, rows, centroids []float32) *trainer {
	t.Helper()
	tr, err := newTrainer(t.Context(), rows, len(rows), 1, TrainConfig{K: len(centroids), Metric: kernel.L2})
	if err != nil {
		t.Fatal(err)
	}
	tr.k, tr.centroids = len(centroids), centroids
	tr.boundaries = make([]int, tr.k+1)
	kernel.NewRouter(kernel.L2, centroids, tr.k, 1).NearestAll(tr.rows, tr.clusters, tr.distances)
	tr.group()
	return tr
}

func TestEmptyClustersAreStartedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		rows, centroids []float32
		want            []int32
	}{
		{"the farthest row of the largest cluster", []float32{0, 1, 5, 2, 100, 104}, []float32{0, 100, 1000}, []int32{0, 0, 2, 0, 1, 1}},
		{"the lowest row on ties", []float32{-3, 3, 0}, []float32{0, 50}, []int32{1, 0, 0}},
		{"the lowest cluster on ties", []float32{0, 1, 100, 109}, []float32{0, 100, 1000}, []int32{0, 2, 1, 1}},
		{"two empty clusters", []float32{0, 1, 5, 2}, []float32{0, 1000, 2000}, []int32{0, 0, 1, 2}},
		{"a large cluster of one place gives nothing", []float32{7, 7, 7, 0, 1}, []float32{7, 0, 1000}, []int32{0, 0, 0, 1, 2}},
		{"nothing to give", []float32{7, 7, 7}, []float32{7, 1000}, []int32{0, 0, 0}},
	} {
		tr := assigned(t, c.rows, slices.Clone(c.centroids))
		tr.refill()
		if !slices.Equal(tr.clusters, c.want) {
			t.Errorf("%s: got clusters %v, want %v", c.name, tr.clusters, c.want)
		}
		for i, cluster := range tr.clusters {
			if !slices.Contains(tr.cluster(int(cluster)), int32(i)) {
				t.Errorf("%s: row %d is no member of its cluster", c.name, i)
			}
		}
	}
}

func TestMoveKeepsACentroidWithoutDirection(t *testing.T) {
	t.Parallel()
	rows := []float32{1, 0, -1, 0}
	tr, err := newTrainer(t.Context(), rows, 2, 2, TrainConfig{K: 1, Metric: kernel.Cosine})
	if err != nil {
		t.Fatal(err)
	}
	tr.centroids = []float32{0, 1}
	tr.clusters[0], tr.clusters[1] = 0, 0
	tr.group()
	tr.move(0)
	if !slices.Equal(tr.centroids, []float32{0, 1}) {
		t.Errorf("got %v", tr.centroids)
	}
	tr.boundaries = []int{0, 0}
	tr.move(0)
	if !slices.Equal(tr.centroids, []float32{0, 1}) {
		t.Errorf("empty cluster: got %v", tr.centroids)
	}
}
