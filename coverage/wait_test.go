package coverage_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/timeline"

	"github.com/google/go-cmp/cmp"
)

func TestWaitLooksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 3)
	w.instant(at(6, 0)+".inflight", "")
	w.instant(at(7, 0)+"_"+at(7, 1)+".clean", "")
	for instant, want := range map[string]bool{
		at(1, 0): true, at(1, 10): true, at(3, 0): true, at(3, 10): true, // baseline and covered, by both times
		at(4, 0): false, at(5, 10): false, // due
		at(6, 0): false,                  // pending
		at(9, 0): false, at(2, 1): false, // unknown, may come
	} {
		res, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: instant})
		if err != nil || res.Covered != want || res.Covered == (res.Reason != "") {
			t.Errorf("%s: got %+v, %v, want %v", instant, res, err, want)
		}
		if res != nil && (res.Frontier == nil || res.Frontier.Requested != at(3, 0)) {
			t.Errorf("frontier %+v", res.Frontier)
		}
	}
	for _, never := range []string{at(0, 0), "20200101000000000", "19990101000000"} { // at once, however long it might wait
		_, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: never, Timeout: time.Hour})
		if !errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), at(1, 0)) || storage.Hint(err) == "" {
			t.Errorf("%s: %v", never, err)
		}
	}
	if _, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: at(7, 0)}); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("a clean: %v", err)
	}
	for _, text := range []string{"", "0", "1", "2019", "2019-01-01T00:00", "2026113002010000", "202611300201000001", "embedding_idx"} {
		if _, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: text}); !errors.Is(err, coverage.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is not on the active timeline is covered if the archive has it and it is proven to be in, never by its place in the
// order of texts.
func TestWaitForArchived(t *testing.T) {
	t.Parallel()
	build := func() *world {
		w := newWorld(t, 8, 8)
		w.instant(at(2, 30)+"_"+at(2, 40)+".clean", "")
		w.archive(archivedWrite(0), archivedWrite(1), archivedWrite(2), [3]string{at(2, 30), at(2, 40), "clean"}, archivedWrite(3), archivedWrite(4))
		x := w.index()
		x.Baseline.Before = at(1, 0)
		x.Baseline.Instants = map[string]string{at(1, 0): at(1, 10)}
		x.Covered = map[string]string{at(4, 0): at(4, 10), at(5, 0): at(5, 10)}
		x.Frontier = mdt.Frontier{Requested: at(5, 0), Completed: at(5, 10)}
		return w
	}
	for name, tt := range map[string]struct {
		change func(w *world)
		at     string
		want   bool
		reason string
	}{
		"before the bootstrap":             {nil, at(0, 0), true, ""},
		"before the bootstrap, completion": {nil, at(0, 10), true, ""},
		"in the baseline":                  {nil, at(1, 0), true, ""},
		"below the frontier":               {nil, at(2, 0), true, ""},
		"below the frontier, completion":   {nil, at(3, 10), true, ""},
		"still named by the state":         {func(w *world) { w.index().Frontier = mdt.Frontier{} }, at(4, 0), true, ""},
		"between archived ones":            {nil, at(2, 1), false, "no instant"},
		"before the archive":               {nil, "19990101000000000", false, "no instant"},
		"no frontier":                      {func(w *world) { w.index().Frontier = mdt.Frontier{} }, at(2, 0), false, "not known to be covered"},
		"frontier before the archive": {func(w *world) { w.index().Frontier = mdt.Frontier{Requested: at(3, 0), Completed: at(3, 10)} },
			at(2, 0), false, "not known to be covered"},
		"another completion in the state": {func(w *world) {
			w.index().Covered[at(4, 0)], w.index().Frontier = at(4, 11), mdt.Frontier{}
		}, at(4, 0), false, "not known to be covered"},
		"undone later": {func(w *world) {
			w.instant(at(9, 0)+"_"+at(9, 5)+".restore", restoreOf(w.t, at(2, 0)))
		}, at(2, 0), false, "restore " + at(9, 0) + " undid it"},
		"a retry of it": {func(w *world) {
			w.instant(at(2, 1)+"_"+at(2, 5)+".rollback", rollbackOf(w.t, at(2, 0)))
		}, at(2, 0), true, ""},
		"rolled back": {func(w *world) { w.drop(".hoodie/timeline/" + at(5, 0) + "_" + at(5, 10) + ".deltacommit") },
			at(5, 0), false, "rolled back or restored away"},
		"index files gone": {func(w *world) { w.drop(metadata + "vector_index_embedding_idx/base.hfile") }, at(5, 0), false, "base.hfile"},
		"not built":        {func(w *world) { w.index().Generations[0].State = mdt.GenBuilding }, at(5, 0), false, "was not finished"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build()
			if tt.change != nil {
				tt.change(w)
			}
			res, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: tt.at})
			if unknown := tt.reason == "no instant"; unknown || err != nil {
				if !unknown || !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("got %+v, %v, want %q", res, err, tt.reason)
				}
				return
			}
			if res.Covered != tt.want || !strings.Contains(res.Reason, tt.reason) {
				t.Errorf("got %+v, %v, want %v, %q", res, err, tt.want, tt.reason)
			}
		})
	}
	for _, text := range []string{at(2, 30), at(2, 40)} {
		if _, err := coverage.Wait(t.Context(), build().deps(), coverage.WaitRequest{Covers: text}); !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("an archived clean: %v", err)
		}
	}
}

// Of a real archive only what is in it is covered.
func TestWaitOnARealArchive(t *testing.T) {
	t.Parallel()
	const before, unknown = "20261130022150021", "20261130022150022"
	st := openFixture(t, testkit.Table(t, "archived"))
	_, tl, err := timeline.Open(t.Context(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 0, 0)
	w.state.Base, w.index().Baseline.Before = nil, tl.Earliest()
	b, err := mdt.EncodeState(w.state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Create(t.Context(), ".hoodie/.tidemark/state.json", b); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{before: true, "20261130022153127": true, "20261130022427715": true} {
		res, err := coverage.Wait(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, coverage.WaitRequest{Covers: text})
		if err != nil || res.Covered != want {
			t.Errorf("%s: got %+v, %v, want %v", text, res, err, want)
		}
	}
	if res, err := coverage.Wait(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, coverage.WaitRequest{Covers: unknown, Timeout: time.Hour}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %+v, %v", res, err)
	}
}

// An undone commit is not covered although it has a marker (design, decision 10).
func TestWaitForAnUndoneCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 5)
	w.drop(".hoodie/timeline/" + at(3, 0) + "_" + at(3, 10) + ".deltacommit")
	res, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: at(3, 0)})
	if err != nil || res.Covered {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestWaitPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5, 4)
		d := w.deps()
		began := time.Now()
		go func() {
			<-time.After(90 * time.Second)
			w.index().Covered[at(5, 0)] = at(5, 10)
			w.witness()
			w.deps()
		}()
		res, err := coverage.Wait(t.Context(), d, coverage.WaitRequest{Covers: at(5, 0), Timeout: 10 * time.Minute})
		if took := time.Since(began); err != nil || !res.Covered || took < 90*time.Second || took > 92*time.Second {
			t.Errorf("got %+v, %v after %s", res, err, took)
		}
		began = time.Now()
		res, err = coverage.Wait(t.Context(), d, coverage.WaitRequest{Covers: at(8, 0), Timeout: 10 * time.Minute, Poll: time.Minute})
		if took := time.Since(began); err != nil || res.Covered || took != 10*time.Minute {
			t.Errorf("timeout: got %+v, %v after %s", res, err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := coverage.Wait(ctx, d, coverage.WaitRequest{Covers: at(8, 0), Timeout: time.Hour, Poll: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context: %v", err)
		}
	})
}

func TestWaitNeedsOneIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	other := *w.index()
	other.Name, other.Dir = "other", "vector_index_other"
	w.state.Indexes["other"] = &other
	for name, kind := range map[string]error{"": storage.ErrRefused, "missing": storage.ErrNotFound} {
		_, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Index: name, Covers: at(1, 0)})
		if !errors.Is(err, kind) || storage.Hint(err) == "" {
			t.Errorf("index %q: %v", name, err)
		}
	}
	if res, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Index: "other", Covers: at(1, 0)}); err != nil || !res.Covered {
		t.Errorf("got %+v, %v", res, err)
	}
	w.state = nil
	w.drop(".hoodie/.tidemark/state.json")
	if _, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: at(1, 0)}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no state: %v", err)
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, 4)
	covered := func(index string, minute int, mode string) mdt.CoveredInstant {
		return mdt.CoveredInstant{Index: index, Requested: at(minute, 0), Completed: at(minute, 10), Action: "deltacommit", Operation: "UPSERT",
			Mode: mode, Counts: map[string]int64{"insert": int64(minute)}}
	}
	// The later of our commits covers the earlier data commit.
	w.state.Commits = []mdt.Commit{
		{ID: at(3, 11), VisibleAt: noon.Add(4 * time.Minute), Covered: []mdt.CoveredInstant{covered("embedding_idx", 3, "full"), covered("dropped", 3, "full")}},
		{ID: at(4, 11), VisibleAt: noon.Add(5 * time.Minute), Covered: []mdt.CoveredInstant{covered("embedding_idx", 4, "full"), covered("embedding_idx", 2, "current_only")}},
	}
	got, err := coverage.Markers(t.Context(), w.deps(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	lag := func(ms int64) *int64 { return &ms }
	counts := func(inserts int64) map[string]int64 {
		return map[string]int64{"insert": inserts, "vector_update": 0, "locator_refresh": 0, "delete": 0, "unchanged": 0, "unindexable": 0}
	}
	want := []coverage.Marker{
		{Index: "embedding_idx", Requested: at(2, 0), Completed: at(2, 10), Action: "deltacommit", Operation: "UPSERT", Mode: "current_only", Counts: counts(2), MDTInstant: at(4, 11), LagMS: lag(170_000)},
		{Index: "embedding_idx", Requested: at(3, 0), Completed: at(3, 10), Action: "deltacommit", Operation: "UPSERT", Mode: "full", Counts: counts(3), MDTInstant: at(3, 11), LagMS: lag(50_000)},
		{Index: "embedding_idx", Requested: at(4, 0), Completed: at(4, 10), Action: "deltacommit", Operation: "UPSERT", Mode: "full", Counts: counts(4), MDTInstant: at(4, 11), LagMS: lag(50_000)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("markers differ (-want +got):\n%s", diff)
	}
	last, err := coverage.Markers(t.Context(), w.deps(), "embedding_idx", 1)
	if err != nil || len(last) != 1 || last[0].Requested != at(4, 0) {
		t.Errorf("last one: %+v, %v", last, err)
	}
	if _, err := coverage.Markers(t.Context(), w.deps(), "dropped", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an index that is not there: %v", err)
	}
	w.drop(".hoodie/hoodie.properties")
	w.drop(".hoodie/timeline/.keep")
	synctest.Test(t, func(t *testing.T) {
		got, err = coverage.Markers(t.Context(), w.deps(), "", 0)
	})
	if err != nil || len(got) != 3 || got[0].LagMS != nil {
		t.Errorf("without a readable timeline: %+v, %v", got, err)
	}
}

// A wait for one completion time is not answered by another write of the same time that is covered.
func TestWaitForASharedCompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 4)
	w.commit(at(4, 5), at(4, 10))
	res, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: at(4, 10)})
	if err != nil || res.Covered || !strings.Contains(res.Reason, at(4, 5)) {
		t.Errorf("got %+v, %v", res, err)
	}
}

// An active write at or below the frontier that the state does not name is not covered: a frontier speaks of archived ones only.
func TestWaitBelowTheFrontier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 5)
	delete(w.index().Covered, at(3, 0))
	for _, text := range []string{at(3, 0), at(3, 10)} {
		res, err := coverage.Wait(t.Context(), w.deps(), coverage.WaitRequest{Covers: text})
		if err != nil || res.Covered || !strings.Contains(res.Reason, "not covered yet") {
			t.Errorf("%s: got %+v, %v", text, res, err)
		}
	}
}
