package coverage_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// counting counts the requests that reach a store.
type counting struct {
	storage.Store
	requests atomic.Int64
}

func (c *counting) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	c.requests.Add(1)
	return c.Store.ReadFile(ctx, path)
}

func (c *counting) ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error) {
	c.requests.Add(1)
	return c.Store.ReadRange(ctx, path, off, n)
}

func (c *counting) Stat(ctx context.Context, path string) (storage.Info, error) {
	c.requests.Add(1)
	return c.Store.Stat(ctx, path)
}

func (c *counting) List(ctx context.Context, dir string) ([]storage.Info, error) {
	c.requests.Add(1)
	return c.Store.List(ctx, dir)
}

// A status costs the same however long the timeline is: state, properties before and after the listing, the listing and a second one that nothing moved, the
// metadata table's properties and timeline, the index's directory, the newest commit for the schema, and the index definitions. Once in a
// process, and when the timeline has changed, it reads the newest commits to look for their files.
func TestRequestsOfStatus(t *testing.T) {
	t.Parallel()
	for _, commits := range []int{1, 50} {
		w := newWorld(t, commits, commits)
		st := &counting{Store: w.store}
		d := w.deps()
		d.Place, d.Known = mdt.Inside(st), &coverage.Known{}
		for look, want := range []int64{10 + int64(min(commits, 16)), 10, 10} {
			before := st.requests.Load()
			all, err := coverage.Status(t.Context(), d)
			if err != nil || !all[0].Fresh {
				t.Fatal(all, err)
			}
			if n := st.requests.Load() - before; n != want {
				t.Errorf("%d requests for %d commits at look %d, want %d", n, commits, look+1, want)
			}
		}
	}
}

// Coverage changes nothing.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	st := copyOf(t, "cow_basic")
	createIndex(t, st, "")
	guard := storage.NewGuard(st, func(string) bool { return false })
	d := coverage.Deps{Place: mdt.Inside(guard)}
	if _, err := coverage.Status(t.Context(), d); err != nil {
		t.Error(err)
	}
	if _, err := coverage.Markers(t.Context(), d, "", 0); err != nil {
		t.Error(err)
	}
	if _, err := coverage.Wait(t.Context(), d, coverage.WaitRequest{Covers: "20990101000000000"}); err != nil {
		t.Error(err)
	}
	if _, err := coverage.Verify(t.Context(), d, coverage.VerifyRequest{}); err != nil {
		t.Error(err)
	}
	if guard.Refused() != 0 || guard.Writes() != 0 {
		t.Errorf("%d writes were tried", guard.Refused()+guard.Writes())
	}
}

// What was found to be there is looked for again after some minutes, though nothing has changed that would say so.
func TestFilesAreLookedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 2)
		st := &counting{Store: w.store}
		d := w.deps()
		d.Place, d.Known = mdt.Inside(st), &coverage.Known{}
		look := func() int64 {
			before := st.requests.Load()
			if all, err := coverage.Status(t.Context(), d); err != nil || !all[0].Fresh {
				t.Fatal(all, err)
			}
			return st.requests.Load() - before
		}
		first := look()
		time.Sleep(4 * time.Minute)
		if soon := look(); soon >= first {
			t.Errorf("%d requests after four minutes, %d at first", soon, first)
		}
		time.Sleep(time.Minute)
		if later := look(); later != first {
			t.Errorf("%d requests after five minutes, %d at first", later, first)
		}
	})
}
