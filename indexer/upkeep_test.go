package indexer_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/storage"
	"tidemark/sink"
)

// Due says what Advance then does, in parts; after a Sync of the same table the same is there.
func TestUpkeep(t *testing.T) {
	t.Parallel()
	st := store(t, "mor_basic")
	p := mdt.Inside(st)
	asks := 0
	u := indexer.NewUpkeep(p, indexer.UpkeepOptions{SyncOptions: indexer.SyncOptions{MaxInstants: 2, Sink: dead()}, Lock: func(mdt.Place) (lock.Locker, error) {
		if asks++; asks == 1 {
			return nil, storage.ErrUnsupported
		}
		return nil, nil
	}})
	due := func() indexer.Due {
		t.Helper()
		before := st.Version()
		d, err := u.Due(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Version() != before {
			t.Error("a look wrote something")
		}
		return d
	}
	if d := due(); d.State != nil || d.Any || u.State() != nil {
		t.Errorf("without an index: %+v", d)
	}
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	whole := mdt.Inside(st.Clone())
	if _, err := indexer.Sync(t.Context(), whole, indexer.SyncOptions{Sink: dead()}); err != nil {
		t.Fatal(err)
	}
	left := len(due().Instants)
	if r, err := u.Advance(t.Context()); !errors.Is(err, storage.ErrUnsupported) || r.Processed > 0 {
		t.Fatalf("without a lock: %+v, %v", r, err)
	}
	for left > 0 {
		if d := due(); !d.Any || len(d.Instants) != left || d.Indexes != 1 || d.Props == nil {
			t.Fatalf("%d are left: %+v", left, d)
		}
		n := min(left, 2)
		r, err := u.Advance(t.Context())
		if err != nil || r.Processed != n || r.More != (n == 2) {
			t.Fatalf("%d are left: %+v, %v", left, r, err)
		}
		left -= n
	}
	if d := due(); d.Any || len(d.Instants) > 0 || d.State.Revision != u.State().Revision {
		t.Errorf("in the end: %+v", d)
	}
	got, want := outcomeOf(t, p), outcomeOf(t, whole)
	if d := cmp.Diff(want, got); d != "" || len(got.Covered) == 0 || len(got.Postings) == 0 {
		t.Errorf("%d commits are covered, %d postings (-by a sync +in parts)\n%s", len(got.Covered), len(got.Postings), d)
	}
	if asks != 2 {
		t.Errorf("a lock was made %d times", asks)
	}
	if _, err := indexer.Pause(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if d := due(); !d.State.Paused || d.Any || d.Props != nil {
		t.Errorf("paused: %+v", d)
	}
}

// An Upkeep does not wait for a lease, names the commit that cannot be compared, and goes no further than one that was set aside.
func TestUpkeepIsStopped(t *testing.T) {
	t.Parallel()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	u := indexer.NewUpkeep(p, indexer.UpkeepOptions{})
	d, err := u.Due(t.Context())
	if err != nil || len(d.Instants) < 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	second := d.Instants[1]
	rival, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: sink.Config{Owner: "rival"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := rival.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var held *sink.LeaseError
	if r, err := u.Advance(t.Context()); !errors.As(err, &held) || held.Owner != "rival" || r.Processed > 0 {
		t.Errorf("while another one has the lease: %+v, %v", r, err)
	}
	if err := rival.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	st.Put(".hoodie/timeline/"+second.File, []byte("damaged"), second.ModTime)
	var at *indexer.InstantError
	r, err := u.Advance(t.Context())
	if !errors.As(err, &at) || at.Requested != second.Requested || !errors.Is(err, storage.ErrCorrupt) || r.Processed != 1 {
		t.Fatalf("at a damaged commit: %+v, %v", r, err)
	}
	if err := u.SetAside(t.Context(), at.Requested, at.Error(), 5); err != nil {
		t.Fatal(err)
	}
	if d, err := u.Due(t.Context()); err != nil || d.Any || d.Stopped != second.Requested || d.State.Quarantine[second.Requested].Attempts != 5 {
		t.Errorf("after it was set aside: %+v, %v", d, err)
	}
}
