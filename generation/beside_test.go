package generation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

func TestCopiedCentroidsSetTheNumberOfClusters(t *testing.T) {
	t.Parallel()
	st := fixture(t, "two_vectors")
	mustCreate(t, st, generation.CreateRequest{Column: "c", Name: "x", Options: options(t, "vector.num_clusters", "20")})
	from, _ := loaded(t, st, "x")
	before := st.Clone()
	for _, o := range [][]string{{"vector.num_clusters", "3"}, {"vector.num_clusters", "300"}, {"vector.query.nprobes", "200"}} {
		_, err := create(t, st, generation.CreateRequest{Column: "c", Name: "z", CentroidsFrom: from, Options: options(t, o...)})
		if !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" || !strings.Contains(err.Error(), o[0]) {
			t.Errorf("%v: %v", o, err)
		}
		if !slices.Equal(before.Paths(), st.Paths()) {
			t.Fatalf("%v: a refusal wrote something", o)
		}
	}
	r := mustCreate(t, st, generation.CreateRequest{Column: "c", Name: "z", CentroidsFrom: from, Options: options(t)})
	if r.Clusters != 20 || r.Options["vector.num_clusters"] != "20" || r.Options["vector.query.nprobes"] != "20" {
		t.Errorf("%d clusters, options %v", r.Clusters, r.Options)
	}
	steps := testkit.Oracle(t, "two_vectors")
	check(t, st, "z", steps[len(steps)-1])
}

// TestABrokenIndexDoesNotHideOthers lists one whose options contradict themselves, as an earlier version could leave it.
func TestABrokenIndexDoesNotHideOthers(t *testing.T) {
	t.Parallel()
	st := mdt.NewState()
	st.Indexes["a"] = &mdt.Index{Name: "a", Options: options(t).Map(), Generations: []mdt.GenState{{Number: 1, State: mdt.GenActive}}}
	st.Indexes["z"] = &mdt.Index{Name: "z", Options: options(t, "vector.rabitq.bits", "7").Map(), Generations: []mdt.GenState{{Number: 2, State: mdt.GenBuilding}}}
	st.Indexes["z"].Options["vector.num_clusters"] = "3"
	list := generation.List(st)
	if len(list) != 2 {
		t.Fatalf("%v", list)
	}
	if l := list[0]; l.State != mdt.GenActive || l.Broken != "" {
		t.Errorf("%+v", l)
	}
	if l := list[1]; l.State != mdt.GenBuilding || l.Generation != 2 || l.Bits != 7 || l.Metric.String() != "cosine" || !strings.Contains(l.Broken, "nprobes") {
		t.Errorf("%+v", l)
	}
}

// TestDropOfAnotherIndexMeanwhile drops index a while b is about to make either of its commits.
func TestDropOfAnotherIndexMeanwhile(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{1, 2} {
		st := fixture(t, "cow_basic")
		mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "a", Options: options(t, small...)})
		mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "b", Options: options(t, small...), Progress: func(stage string, done, _ int64) {
			if stage == "write" && done == at {
				if err := generation.Drop(t.Context(), newCommitter(t, st), "a"); err != nil {
					t.Error(err)
				}
			}
		}})
		steps := testkit.Oracle(t, "cow_basic")
		check(t, st, "b", steps[len(steps)-1])
	}
}

// TestDropOfTheIndexItselfMeanwhile is not answered by building it all the same.
func TestDropOfTheIndexItselfMeanwhile(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{1, 2} {
		st := fixture(t, "cow_basic")
		_, err := create(t, st, generation.CreateRequest{Column: "embedding", Name: "b", Options: options(t, small...), Progress: func(stage string, done, _ int64) {
			if stage == "write" && done == at {
				if err := generation.Drop(t.Context(), newCommitter(t, st), "b"); err != nil {
					t.Error(err)
				}
			}
		}})
		if !errors.Is(err, storage.ErrStale) || isActive(t, st, "b") {
			t.Errorf("dropped at %d: %v", at, err)
		}
	}
}
