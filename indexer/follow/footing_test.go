package follow_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

// told keeps what metrics are told last of a table.
type told struct {
	follow.Silent
	mu  sync.Mutex
	all []coverage.IndexStatus
}

// State implements follow.Observer.
func (o *told) State(_ string, all []coverage.IndexStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = slices.Clone(all)
}

func (o *told) state() coverage.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, _ := follow.Worst(o.all)
	return s
}

// remove deletes all files below a path.
func remove(t *testing.T, st *mem.Store, below string) {
	t.Helper()
	n := 0
	for _, f := range st.Paths() {
		if strings.HasPrefix(f, below) {
			n++
			if err := st.Delete(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n == 0 {
		t.Fatalf("there is nothing below %s", below)
	}
}

// What takes an index away from a table without news is seen within one interval, by who asks the daemon and in the metrics, however
// seldom tables are looked at as a whole.
func TestFollowSeesTheIndexGo(t *testing.T) {
	t.Parallel()
	dir := ".hoodie/metadata/" + mdt.PartitionDir("embedding_idx")
	for name, tc := range map[string]struct {
		change func(t *testing.T, st *mem.Store)
		want   coverage.State
	}{
		"metadata table removed":      {func(t *testing.T, st *mem.Store) { remove(t, st, ".hoodie/metadata/") }, coverage.StateAbsent},
		"metadata properties removed": {func(t *testing.T, st *mem.Store) { remove(t, st, ".hoodie/metadata/.hoodie/hoodie.properties") }, coverage.StateAbsent},
		"state removed":               {func(t *testing.T, st *mem.Store) { remove(t, st, ".hoodie/.tidemark/state.json") }, coverage.StateAbsent},
		"base file removed":           {func(t *testing.T, st *mem.Store) { remove(t, st, dir+"/vector-index-0000-0_") }, coverage.StateAbsent},
		"metafile written": {func(t *testing.T, st *mem.Store) {
			if _, err := st.Create(t.Context(), dir+"/.hoodie_partition_metadata", []byte("x=y\n")); err != nil {
				t.Fatal(err)
			}
		}, coverage.StateHandedOver},
		"partition listed": {func(t *testing.T, st *mem.Store) {
			b, info, err := st.ReadFile(t.Context(), ".hoodie/hoodie.properties")
			if err != nil {
				t.Fatal(err)
			}
			old := []byte("hoodie.table.metadata.partitions=")
			if !bytes.Contains(b, old) {
				t.Fatalf("no partitions in %s", b)
			}
			b = bytes.Replace(b, old, append(old, mdt.PartitionDir("embedding_idx")+","...), 1)
			if _, err := st.Replace(t.Context(), ".hoodie/hoodie.properties", b, info.Tag); err != nil {
				t.Fatal(err)
			}
		}, coverage.StateHandedOver},
		"partition defined": {func(t *testing.T, st *mem.Store) {
			const file = ".hoodie/.index_defs/index.json"
			b := []byte(`{"indexDefinitions":{"` + mdt.PartitionDir("embedding_idx") + `":{}}}`)
			_, info, err := st.ReadFile(t.Context(), file)
			if errors.Is(err, storage.ErrNotFound) {
				_, err = st.Create(t.Context(), file, b)
			} else if err == nil {
				_, err = st.Replace(t.Context(), file, b, info.Tag)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, coverage.StateHandedOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := late(t, "mor_basic")
			indexertest.InBubble(t, func(t *testing.T) {
				metrics := &told{}
				const interval = 5 * time.Second
				f := launch(t, follow.Config{Interval: interval, Look: time.Hour, Observer: metrics}, map[string]storage.Store{"/t": l.st})
				time.Sleep(time.Minute)
				synctest.Wait()
				if v := f.view("/t"); !v.Fresh || metrics.state() != coverage.StateFresh {
					t.Fatalf("before: %+v", v)
				}
				tc.change(t, l.st)
				time.Sleep(interval)
				synctest.Wait()
				v := f.view("/t")
				if v.Fresh || v.State != tc.want || metrics.state() != tc.want || v.Indexes[0].Fresh {
					t.Errorf("an interval later: fresh %v, state %s, metrics %s: %s", v.Fresh, v.State, metrics.state(), v.Reason)
				}
				if err := f.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A table that cannot be looked at, or whose store does not answer, is not called fresh any more.
func TestFollowClaimsNothingWithoutALook(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		l := late(t, "mor_basic")
		indexertest.InBubble(t, func(t *testing.T) {
			metrics := &told{}
			st := &breaking{Store: l.st, hangs: hangs}
			f := launch(t, follow.Config{Interval: 5 * time.Second, Look: time.Hour, Stuck: time.Hour, Observer: metrics}, map[string]storage.Store{"/t": st})
			time.Sleep(time.Minute)
			synctest.Wait()
			if v := f.view("/t"); !v.Fresh {
				t.Fatalf("before: %+v", v)
			}
			st.broken.Store(true)
			time.Sleep(8 * time.Second)
			synctest.Wait()
			v := f.view("/t")
			if v.Fresh || v.Indexes[0].Fresh || v.Reason == "" || v.State != coverage.StateStalled || v.Indexes[0].State != v.State {
				t.Errorf("hangs %v: fresh %v, state %s: %s", hangs, v.Fresh, v.State, v.Reason)
			}
			time.Sleep(time.Second) // how often a turn is looked after
			synctest.Wait()
			if metrics.state() != coverage.StateStalled || !v.Trouble() {
				t.Errorf("hangs %v: metrics say %s", hangs, metrics.state())
			}
			if ok, why := f.Ready(); !ok {
				t.Errorf("not ready: %s", why)
			}
			st.broken.Store(false)
			time.Sleep(time.Minute)
			synctest.Wait()
			if v := f.view("/t"); !v.Fresh || metrics.state() != coverage.StateFresh {
				t.Errorf("hangs %v, afterwards: %+v", hangs, v)
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// breaking is a store whose listings fail, or do not come back, while it is broken.
type breaking struct {
	storage.Store
	hangs  bool
	broken atomic.Bool
}

func (s *breaking) List(ctx context.Context, dir string) ([]storage.Info, error) {
	for s.hangs && s.broken.Load() {
		time.Sleep(100 * time.Millisecond)
	}
	if s.broken.Load() {
		return nil, errors.New("the store is broken")
	}
	return s.Store.List(ctx, dir)
}
