package coverage_test

import (
	"fmt"
	"strings"
	"testing"

	"tidemark/coverage"
	"tidemark/internal/storage/fault"
)

// A table that cannot be judged is stalled with the reason and the next step, never fresh and never just an error.
func TestStatusOfUnreadableTimelines(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(w *world)
		reason string
	}{
		"a commit that completed twice": {func(w *world) { w.commit(at(3, 0), at(3, 20)) }, "completed twice"},
		"an instant of the year 9999": {func(w *world) {
			w.instant("99990101000000000_99990101000000001.commit", commitOf(vectorOf8))
		}, "9999"},
		"a manifest that names a missing file": {func(w *world) {
			w.archive(archivedWrite(1), archivedWrite(2), archivedWrite(3))
			w.put(".hoodie/timeline/history/manifest_1", fmt.Sprintf(`{"files":[{"fileName":"%s_%s_0.parquet","fileLen":7000}]}`, at(0, 0), at(3, 30)))
		}, "not there"},
		"a cut manifest": {func(w *world) {
			w.archive(archivedWrite(1), archivedWrite(2), archivedWrite(3))
			w.put(".hoodie/timeline/history/manifest_1", `{"files":[`)
		}, "manifest_1"},
		"lost manifests": {func(w *world) {
			w.archive(archivedWrite(1), archivedWrite(2), archivedWrite(3))
			w.drop(".hoodie/timeline/history/manifest_1")
			w.drop(".hoodie/timeline/history/_version_")
		}, "no manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 5, 2)
			tt.change(w)
			s := w.status()
			if s.Fresh || s.State != coverage.StateStalled || !strings.Contains(s.Reason, tt.reason) || s.Next == "" {
				t.Errorf("fresh %v, %s: %s; next: %s", s.Fresh, s.State, s.Reason, s.Next)
			}
		})
	}
}

// A timeline that never stands still is stalled, too: two looks are not mixed.
func TestStatusOfAMovingTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 5)
	d := w.deps()
	n := 0
	d.Place.Store = fault.New(w.store, fault.Config{Before: func(_ int, op, path string) error {
		if n++; op == "list" && strings.HasSuffix(path, "/timeline") {
			w.commit(at(0, n%50), at(0, n%50+1)) // an earlier one than all that are there
		}
		return nil
	}})
	all, err := coverage.Status(t.Context(), d)
	if err != nil || len(all) != 1 || all[0].Fresh || all[0].State != coverage.StateStalled || !strings.Contains(all[0].Reason, "changed under") || all[0].Next == "" {
		t.Errorf("%+v %v", all, err)
	}
}
