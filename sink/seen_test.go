package sink

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// What a batch's own look does not show, and takes one of its times, is found before the commit point: the commit gets the next times that
// are free, and the ones that were staged are never used again.
func TestTimesTakenSinceTheLook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		file func(id [4]string) string // of a timeline file that appears; id are the times to come
		next int                       // index of the id that the commit gets
	}{
		{"requested on the metadata table's", func(id [4]string) string {
			return ".hoodie/metadata/.hoodie/timeline/" + id[0] + ".deltacommit.requested"
		}, 2},
		{"completed there", func(id [4]string) string {
			return ".hoodie/metadata/.hoodie/timeline/20261130000000000_" + id[0] + ".deltacommit"
		}, 2},
		{"requested there, the completion time", func(id [4]string) string {
			return ".hoodie/metadata/.hoodie/timeline/" + id[1] + ".deltacommit.requested"
		}, 2},
		{"completed there, the completion time", func(id [4]string) string {
			return ".hoodie/metadata/.hoodie/timeline/20261130000000000_" + id[1] + ".deltacommit"
		}, 2},
		{"requested on the table's", func(id [4]string) string { return ".hoodie/timeline/" + id[1] + ".commit.requested" }, 2},
		{"the millisecond after, on the table's", func(id [4]string) string { return ".hoodie/timeline/" + id[2] + ".commit.requested" }, 3},
		{"a name in the folder of the index", func(id [4]string) string {
			return ".hoodie/metadata/vector_index_v_idx/" + mdt.LogName(0, id[0], "7427-1-0")
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, s, _ := built(t, "cow_basic")
			var id [4]string
			for n := range id {
				var err error
				if id[n], err = timeline.AddMillis(s.State().LastTime, n+1); err != nil {
					t.Fatal(err)
				}
			}
			i := last(t, st)
			b := follow(idx, i)
			b.Seen = sight(t, s)
			st.Put(c.file(id), []byte("someone else's"), time.Unix(0, 0))
			got, err := s.Commit(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if got != id[c.next] {
				t.Errorf("got id %s, want %s", got, id[c.next])
			}
			state := s.State()
			if _, covered := state.Indexes[idx].Covered[i.Requested]; !covered || state.Intent != nil || len(state.Burned) > 0 {
				t.Errorf("covered %t, intent %v, burned %v", covered, state.Intent, state.Burned)
			}
		})
	}
}

// A commit looks for itself where the caller's look is old, or was taken back by what that did not show.
func TestOldLook(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{0, seenFor - time.Second, seenFor + time.Second} {
		st, s, c := built(t, "cow_basic")
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		layer := fault.New(st, fault.Config{})
		s2 := acquired(t, layer, config(c, "two"))
		b := follow(idx, last(t, st))
		b.Seen = sight(t, s2)
		b.Seen.At = b.Seen.At.Add(-age)
		from := len(layer.Trace())
		if _, err := s2.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		first := layer.Trace()[from]
		if looked := !strings.HasPrefix(first, "replace "); looked != (age > seenFor) {
			t.Errorf("%v old: begins with %s", age, first)
		}
	}
}

// Nothing is staged by a look that speaks against it.
func TestLookThatSpeaksAgainst(t *testing.T) {
	t.Parallel()
	const props = ".hoodie/hoodie.properties"
	for _, c := range []struct {
		name      string
		file      string
		old, with string
		want      error
	}{
		{"partition listed", props, "partitions=column_stats", "partitions=vector_index_v_idx,column_stats", ErrHandedOver},
		{"no metadata table", props, ",files", "", ErrNoMDT},
		{"table upgraded", props, "hoodie.table.version=9", "hoodie.table.version=10", storage.ErrUnsupported},
		{"restore", ".hoodie/timeline/20261130020930000_20261130020931000.restore", "", "", storage.ErrStale},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, s, clk := built(t, "cow_basic")
			_ = s.Release(t.Context())
			layer := fault.New(st, fault.Config{})
			s2 := acquired(t, layer, config(clk, "two"))
			content, info, _ := st.ReadFile(t.Context(), c.file)
			st.Put(c.file, []byte(strings.Replace(string(content), c.old, c.with, 1)), info.ModTime)
			b := follow(idx, last(t, st))
			b.Seen = sight(t, s2)
			from := len(layer.Trace())
			if _, err := s2.Commit(t.Context(), b); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			for _, call := range layer.Trace()[from:] {
				if strings.HasPrefix(call, "create ") {
					t.Errorf("staged: %s", call)
				}
			}
		})
	}
}

// late is a store behind a network that is slow to create a commit file: first the look that is taken at the same time comes to its end, and
// something happens.
type late struct {
	storage.Store
	happens func()

	armed, decided  atomic.Bool
	swaps           atomic.Int32
	listed, statted sync.Once
	listing, stat   chan struct{}
}

func newLate(st storage.Store, happens func()) *late {
	return &late{Store: st, happens: happens, listing: make(chan struct{}), stat: make(chan struct{})}
}

func (l *late) Broad() bool { return true }

func (l *late) Replace(ctx context.Context, p string, data []byte, tag string) (storage.Info, error) {
	info, err := l.Store.Replace(ctx, p, data, tag)
	if l.armed.Load() && kindOf(p) == "state" && l.swaps.Add(1) == 2 {
		l.decided.Store(true)
	}
	return info, err
}

func (l *late) List(ctx context.Context, p string) ([]storage.Info, error) {
	infos, err := l.Store.List(ctx, p)
	if l.decided.Load() && p == ".hoodie/timeline" {
		l.listed.Do(func() { close(l.listing) })
	}
	return infos, err
}

func (l *late) Stat(ctx context.Context, p string) (storage.Info, error) {
	info, err := l.Store.Stat(ctx, p)
	if l.decided.Load() && p == ".hoodie/hoodie.properties" {
		l.statted.Do(func() { close(l.stat) })
	}
	return info, err
}

func (l *late) Create(ctx context.Context, p string, data []byte) (storage.Info, error) {
	if l.decided.Load() && kindOf(p) == "deltacommit" {
		<-l.listing
		<-l.stat
		l.happens()
	}
	return l.Store.Create(ctx, p, data)
}

// TestUndoneAfterTheLastLook plays what the look of step 8 cannot see. A restore is then for readers to find, as one right after the commit
// is; a metadata table that has gone is seen by the commit itself, and no skeleton of it stays.
func TestUndoneAfterTheLastLook(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, happens func(st *mem.Store)) (*mem.Store, timeline.Instant, error) {
		st, s, clk := built(t, "cow_basic")
		_ = s.Release(t.Context())
		l := newLate(st, func() { happens(st) })
		s2 := acquired(t, l, config(clk, "two"))
		i := last(t, st)
		b := follow(idx, i)
		b.Seen = sight(t, s2)
		l.armed.Store(true)
		_, err := s2.Commit(t.Context(), b)
		if !l.decided.Load() {
			t.Fatalf("it did not come to the commit file: %v", err)
		}
		return st, i, err
	}
	t.Run("restore", func(t *testing.T) {
		t.Parallel()
		st, i, err := play(t, func(st *mem.Store) {
			st.Put(".hoodie/timeline/20261130020930000_20261130020931000.restore", []byte("x"), time.Unix(0, 0))
		})
		if err != nil {
			t.Fatal(err)
		}
		state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
		if err != nil {
			t.Fatal(err)
		}
		_, tl, err := timeline.Open(t.Context(), st, ".hoodie")
		if err != nil {
			t.Fatal(err)
		}
		if _, covered := state.Indexes[idx].Covered[i.Requested]; !covered {
			t.Error("not visible")
		}
		if err := (&look{data: tl}).checkRestores(state); !errors.Is(err, storage.ErrStale) {
			t.Errorf("the restore passes for one that is dealt with: %v", err)
		}
	})
	t.Run("metadata table", func(t *testing.T) {
		t.Parallel()
		st, _, err := play(t, func(st *mem.Store) {
			for _, p := range st.Paths() {
				if strings.HasPrefix(p, ".hoodie/metadata/") {
					_ = st.Delete(context.Background(), p)
				}
			}
		})
		if !errors.Is(err, ErrNoMDT) {
			t.Errorf("got %v", err)
		}
		for _, p := range st.Paths() {
			if strings.HasPrefix(p, ".hoodie/metadata/") {
				t.Errorf("a skeleton of the metadata table is left: %s", p)
			}
		}
	})
}
