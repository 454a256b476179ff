package follow_test

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// lateTable is a recorded table whose writer commits when the test says so.
type lateTable struct {
	st   *mem.Store
	held map[string][]byte // files of the timeline that are not there yet
	due  []timeline.Instant
}

// late takes all commits but the first from a copy of a recorded table, which has an index of that one.
func late(t testing.TB, name string) *lateTable {
	t.Helper()
	l := indexed(t, name)
	return &lateTable{st: l.st.Clone(), held: maps.Clone(l.held), due: slices.Clone(l.due)}
}

var indexedTables sync.Map // fixture name → *lateTable

func indexed(t testing.TB, name string) *lateTable {
	if l, ok := indexedTables.Load(name); ok {
		return l.(*lateTable)
	}
	st := indexertest.Store(t, name)
	p := mdt.Inside(st)
	indexertest.Create(t, p, generation.CreateRequest{Column: "embedding", AsOf: indexertest.EarliestInstant(t, p)}, map[string]string{"vector.num_clusters": "3"})
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	l := &lateTable{st: st, held: map[string][]byte{}}
	set := indexer.SetOf(state.Indexes["embedding_idx"])
	for _, i := range tb.Timeline.Writes() {
		if !set.Has(i) {
			l.due = append(l.due, i)
		}
	}
	for _, f := range st.Paths() {
		for _, i := range l.due {
			if path.Dir(f) == ".hoodie/timeline" && strings.HasPrefix(path.Base(f), i.Requested) {
				b, _, err := st.ReadFile(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				l.held[f] = b
				if err := st.Delete(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	indexedTables.Store(name, l)
	return l
}

// commit lets the writer commit its next instant.
func (l *lateTable) commit(t testing.TB) timeline.Instant {
	t.Helper()
	return l.commitTo(t, l.st)
}

// commitTo is commit in a copy of the table.
func (l *lateTable) commitTo(t testing.TB, st storage.Store) timeline.Instant {
	t.Helper()
	i := l.due[0]
	l.due = l.due[1:]
	for f, b := range l.held {
		if strings.HasPrefix(path.Base(f), i.Requested) {
			if _, err := st.Create(t.Context(), f, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	return i
}

// following is a follower under way.
type following struct {
	*follow.Follower
	t    testing.TB
	stop func() error
}

// launch runs a follower of stores by name. Call it in a bubble.
func launch(t testing.TB, cfg follow.Config, stores map[string]storage.Store, tables ...follow.TableConfig) *following {
	t.Helper()
	if cfg.Open == nil {
		cfg.Open = func(_ context.Context, c follow.TableConfig) (mdt.Place, error) {
			st := stores[c.URL]
			if st == nil {
				return mdt.Place{}, &storage.Error{Op: "open", Path: c.URL, Err: storage.ErrNotFound}
			}
			return mdt.Inside(st), nil
		}
	}
	if tables == nil {
		for url := range stores {
			tables = append(tables, follow.TableConfig{URL: url})
		}
	}
	f, err := follow.New(cfg, tables)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return &following{Follower: f, t: t, stop: sync.OnceValue(func() error {
		cancel()
		return <-done
	})}
}

// view is what the follower knows of a table.
func (f *following) view(name string) follow.TableView {
	f.t.Helper()
	v, ok := f.Table(name)
	if !ok {
		f.t.Fatalf("table %s is not followed", name)
	}
	return v
}

// recorder keeps the commits that it is told of.
type recorder struct {
	follow.Silent
	mu      sync.Mutex
	covered []indexer.CoveredInstant
}

func (r *recorder) Covered(c indexer.CoveredInstant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.covered = append(r.covered, c)
}

// coveredOf are the commits that have a marker, each once, or the test fails.
func coveredOf(t testing.TB, st storage.Store) map[string]bool {
	t.Helper()
	all, err := coverage.Markers(t.Context(), coverage.Deps{Place: mdt.Inside(st)}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range all {
		if out[m.Requested] {
			t.Fatalf("commit %s has two markers", m.Requested)
		}
		out[m.Requested] = true
	}
	return out
}

// Whatever hints do, every commit is covered within one interval and what a pass takes; a hint makes it at once; a look without news
// is two listings and four Stats.
func TestFollowPollsAndIsWoken(t *testing.T) {
	t.Parallel()
	l := late(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		calls := fault.New(l.st, fault.Config{})
		f := launch(t, follow.Config{Interval: 10 * time.Second, Look: time.Hour}, map[string]storage.Store{"/t": calls})
		synctest.Wait()
		if ok, why := f.Ready(); !ok {
			t.Fatalf("not ready after the first look: %s", why)
		}
		if v := f.view("/t"); !v.Fresh || v.State != coverage.StateFresh || v.Looks != 1 {
			t.Fatalf("after the first look: %+v", v)
		}
		time.Sleep(15 * time.Second) // the eager looks are over
		before, looks := len(calls.Trace()), f.view("/t").Looks
		time.Sleep(time.Minute)
		synctest.Wait()
		seen := calls.Trace()[before:]
		if n := f.view("/t").Looks - looks; int64(len(seen)) != 6*n || n < 6 || n > 7 {
			t.Errorf("%d looks in a minute took %d calls: %q", n, len(seen), seen)
		}
		i := l.commit(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !coveredOf(t, l.st)[i.Requested] {
			t.Errorf("commit %s is not covered within an interval", i.Requested)
		}
		time.Sleep(time.Minute)
		i = l.commit(t)
		told := make(chan error, 1)
		f.Hint(source.Hint{Table: "file:///t/", Instant: i.Requested, Done: func(err error) { told <- err }})
		began := time.Now()
		if err := <-told; err != nil {
			t.Error(err)
		}
		if !coveredOf(t, l.st)[i.Requested] || time.Since(began) > time.Second {
			t.Errorf("commit %s after a hint: covered %v after %v", i.Requested, coveredOf(t, l.st)[i.Requested], time.Since(began))
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A storm of hints is one pass, and every one of them is told of its end.
func TestHintsCollapse(t *testing.T) {
	t.Parallel()
	l := late(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		seen := &recorder{}
		f := launch(t, follow.Config{Observer: seen}, map[string]storage.Store{"/t": l.st})
		synctest.Wait()
		before := f.view("/t").Looks
		i := l.commit(t)
		var told, unknown, refused atomic.Int64
		for range 12_000 {
			f.Hint(source.Hint{Table: "/t", Instant: i.Requested, Done: func(err error) {
				if told.Add(1); errors.Is(err, storage.ErrRefused) {
					refused.Add(1)
				}
			}})
		}
		f.Hint(source.Hint{Source: "kafka", Table: "/other", Done: func(err error) {
			if errors.Is(err, storage.ErrNotFound) {
				unknown.Add(1)
			}
		}})
		synctest.Wait()
		if n := f.view("/t").Looks - before; n > 3 {
			t.Errorf("%d looks for one commit", n)
		}
		if told.Load() != 12_000 || unknown.Load() != 1 || f.Unknown() != 1 || f.Hints("kafka") != (follow.HintCounts{Unknown: 1}) {
			t.Errorf("told %d of 12000 (%d refused), %d of unknown tables", told.Load(), refused.Load(), unknown.Load())
		}
		if len(seen.covered) != 1 || !coveredOf(t, l.st)[i.Requested] {
			t.Errorf("covered %+v", seen.covered)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A table that does not exist yet is waited for, one without an index too, one that is deleted again; none of them stops others.
func TestTablesThatAreNotThere(t *testing.T) {
	t.Parallel()
	l, other := late(t, "mor_basic"), late(t, "cow_basic")
	bare := indexertest.Store(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		stores := map[string]storage.Store{"/ok": other.st, "/bare": bare}
		var mu sync.Mutex
		f := launch(t, follow.Config{Open: func(_ context.Context, c follow.TableConfig) (mdt.Place, error) {
			mu.Lock()
			defer mu.Unlock()
			if st := stores[c.URL]; st != nil {
				return mdt.Inside(st), nil
			}
			return mdt.Place{}, &storage.Error{Op: "open", Path: c.URL, Err: storage.ErrNotFound}
		}}, nil, follow.TableConfig{URL: "/ok"}, follow.TableConfig{URL: "/late", Indexes: []string{"embedding_idx", "gone_idx"}}, follow.TableConfig{URL: "/bare"})
		synctest.Wait()
		if v := f.view("/late"); !strings.Contains(v.Reason, "does not exist yet") || v.Error != "" {
			t.Errorf("a table that is not there: %+v", v)
		}
		if v := f.view("/bare"); !strings.Contains(v.Reason, "no index yet") || v.State != coverage.StateAbsent {
			t.Errorf("a table without an index: %+v", v)
		}
		if ok, why := f.Ready(); !ok {
			t.Errorf("not ready: %s", why)
		}
		mu.Lock()
		stores["/late"] = l.st
		mu.Unlock()
		i := l.commit(t)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if v := f.view("/late"); !v.Fresh || !coveredOf(t, l.st)[i.Requested] || !strings.Contains(v.Reason, "gone_idx") {
			t.Errorf("a table that came late: %+v", v)
		}
		for _, file := range l.st.Paths() {
			if err := l.st.Delete(t.Context(), file); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if v := f.view("/late"); !strings.Contains(v.Reason, "deleted") {
			t.Errorf("a table that was deleted: %+v", v)
		}
		i = other.commit(t)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if !coveredOf(t, other.st)[i.Requested] {
			t.Error("the other table is not followed")
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Pause holds over restarts and is lifted by resume; lag goes on being counted.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	l := late(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		stores := map[string]storage.Store{"/t": l.st}
		p := mdt.Inside(l.st)
		if d, err := indexer.Pause(t.Context(), p); err != nil || !d.Paused {
			t.Fatalf("pause: %+v, %v", d, err)
		}
		var f *following
		for range 2 { // the second one is a restart
			f = launch(t, follow.Config{}, stores)
			l.commit(t)
			time.Sleep(time.Minute)
			synctest.Wait()
			v := f.view("/t")
			if len(coveredOf(t, l.st)) != 0 || v.State != coverage.StatePaused || len(v.Indexes) != 1 || *v.Indexes[0].LagInstants == 0 || v.Error != "" {
				t.Fatalf("paused: %+v", v)
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		}
		f = launch(t, follow.Config{}, stores)
		synctest.Wait()
		if d, err := indexer.Resume(t.Context(), p); err != nil || d.Paused {
			t.Fatalf("resume: %+v, %v", d, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if v := f.view("/t"); !v.Fresh || len(coveredOf(t, l.st)) != 2 {
			t.Errorf("resumed: %+v", v)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A commit that cannot be compared is tried again with growing pauses, set aside after some, passed over when an operator says so,
// and covered once it has been repaired. The frontier never moves over it.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	l := late(t, "cow_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		p := mdt.Inside(l.st)
		bad := l.commit(t)
		tb, err := table.Open(t.Context(), l.st)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := tb.Commit(t.Context(), bad)
		if err != nil {
			t.Fatal(err)
		}
		file := meta.Stats[0].Path
		whole, info, err := l.st.ReadFile(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err = l.st.Replace(t.Context(), file, slices.Concat(whole[:len(whole)-8], make([]byte, 8)), info.Tag); err != nil {
			t.Fatal(err)
		}
		seen := &recorder{}
		f := launch(t, follow.Config{Attempts: 3, Observer: seen}, map[string]storage.Store{"/t": l.st})
		time.Sleep(1500 * time.Millisecond)
		if v := f.view("/t"); v.Error == "" || v.Failures == 0 || v.RetryAt.IsZero() {
			t.Errorf("a pass that failed: %+v", v)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		v := f.view("/t")
		if v.State != coverage.StateBlocked || !strings.Contains(v.Indexes[0].Reason, "set aside after 3 attempts") || v.Error != "" {
			t.Fatalf("after three failures: %+v", v)
		}
		frontier := v.Indexes[0].Frontier
		next := l.commit(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(coveredOf(t, l.st)) != 0 {
			t.Error("a commit after the one set aside was marked before an operator decided")
		}
		if _, err := indexer.Skip(t.Context(), p, bad.Completed, ""); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("skip without a reason: %v", err)
		}
		if _, err := indexer.Skip(t.Context(), p, "20000101000000000", "x"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("skip what is not there: %v", err)
		}
		d, err := indexer.Skip(t.Context(), p, bad.Completed, "the file is lost")
		if err != nil || !slices.Equal(d.Skipped, []string{bad.Requested}) || !slices.Equal(d.Quarantined, d.Skipped) {
			t.Fatalf("skip: %+v, %v", d, err)
		}
		if !f.Wake("/t") {
			t.Error("no such table")
		}
		synctest.Wait()
		v = f.view("/t")
		if got := coveredOf(t, l.st); !got[next.Requested] || got[bad.Requested] {
			t.Errorf("after the skip, covered %v; %+v", got, v)
		}
		if now := v.Indexes[0].Frontier; v.Fresh || v.State == coverage.StateBlocked || *now != *frontier || *v.Indexes[0].LagInstants != 1 {
			t.Errorf("after the skip: frontier %v, was %v: %+v", now, frontier, v)
		}
		if _, err := l.st.Replace(t.Context(), file, whole, info.Tag); err != nil {
			t.Fatal(err)
		}
		if _, err := indexer.Retry(t.Context(), p, "20000101000000000"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("retry what was not set aside: %v", err)
		}
		if d, err := indexer.Retry(t.Context(), p, bad.Requested); err != nil || len(d.Skipped)+len(d.Quarantined) != 0 {
			t.Fatalf("retry: %+v, %v", d, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if v := f.view("/t"); !v.Fresh || !coveredOf(t, l.st)[bad.Requested] {
			t.Errorf("after the repair: %+v", v)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// hung is a store that stops to answer, as a dead network mount does: not even a cancelled call comes back.
type hung struct {
	storage.Store
	on      atomic.Bool
	release chan struct{}
}

func (h *hung) List(ctx context.Context, dir string) ([]storage.Info, error) {
	if h.on.Load() {
		<-h.release
	}
	return h.Store.List(ctx, dir)
}

// only tells an observer of one table.
type only struct {
	*told
	table string
}

func (o only) State(table string, all []coverage.IndexStatus) {
	if table == o.table {
		o.told.State(table, all)
	}
}

// A store that does not answer takes nobody else's turn, hints of its table are told so, and the end of the daemon is not held up.
func TestStuckTable(t *testing.T) {
	t.Parallel()
	stuck, other := late(t, "mor_basic"), late(t, "cow_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		h := &hung{Store: stuck.st, release: make(chan struct{})}
		metrics := &told{}
		f := launch(t, follow.Config{Passes: 1, Observer: only{metrics, "/stuck"}}, map[string]storage.Store{"/stuck": h, "/ok": other.st})
		synctest.Wait()
		stuck.commit(t)
		h.on.Store(true)
		told := make(chan error, 2)
		f.Hint(source.Hint{Table: "/stuck", Done: func(err error) { told <- err }})
		time.Sleep(5 * time.Second)
		f.Hint(source.Hint{Table: "/stuck", Done: func(err error) { told <- err }})
		for range 2 {
			if err := <-told; err == nil || !strings.Contains(err.Error(), "has not answered") {
				t.Errorf("told %v", err)
			}
		}
		v := f.view("/stuck")
		if !strings.Contains(v.Reason, "has not answered") || v.State != coverage.StateStalled || v.Fresh || v.Indexes[0].Fresh || v.Indexes[0].LagInstants != nil {
			t.Errorf("stuck: %+v", v)
		}
		if metrics.state() != coverage.StateStalled {
			t.Errorf("metrics say %s of a store that does not answer", metrics.state())
		}
		i := other.commit(t)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if !coveredOf(t, other.st)[i.Requested] {
			t.Error("a stuck table holds another one up")
		}
		began := time.Now()
		err := f.stop()
		if err == nil || !strings.Contains(err.Error(), "/stuck") || time.Since(began) > 10*time.Second {
			t.Errorf("end after %v: %v", time.Since(began), err)
		}
		close(h.release)
	})
}

// slow is a store whose reads of data take long once it is told so.
type slow struct {
	storage.Store
	on atomic.Bool
}

func (s *slow) ReadRange(ctx context.Context, p string, off, n int64) ([]byte, error) {
	if s.on.Load() && strings.HasSuffix(p, ".parquet") {
		time.Sleep(5 * time.Second)
	}
	return s.Store.ReadRange(ctx, p, off, n)
}

// While a pass takes long, nobody is told for longer than an interval and a half that the table is fresh as it was: neither the view nor the metrics.
func TestLongPassIsNotFresh(t *testing.T) {
	t.Parallel()
	l := late(t, "cow_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		metrics, st := &told{}, &slow{Store: l.st}
		f := launch(t, follow.Config{Observer: metrics, Interval: 4 * time.Second}, map[string]storage.Store{"/t": st})
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := f.view("/t"); !v.Fresh {
			t.Fatalf("before: %+v", v)
		}
		l.commit(t)
		st.on.Store(true)
		f.Hint(source.Hint{Table: "/t"})
		began := time.Now()
		seen := map[coverage.State]bool{}
		for !f.view("/t").Fresh || time.Since(began) < 8*time.Second {
			time.Sleep(time.Second)
			synctest.Wait()
			v := f.view("/t")
			seen[v.State] = true
			if time.Since(began) > 8*time.Second && !v.Fresh && (v.State == coverage.StateFresh || metrics.state() == coverage.StateFresh) {
				t.Fatalf("after %v: state %s, metrics %s: %+v", time.Since(began), v.State, metrics.state(), v)
			}
			if s := v.Indexes[0]; v.State == coverage.StateCatchingUp && (*s.LagInstants != 1 || s.OldestUncovered == nil || !strings.Contains(s.Reason, "a pass is at work since")) {
				t.Fatalf("%+v", s)
			}
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("no end: %+v", v)
			}
		}
		if time.Since(began) < 9*time.Second || !seen[coverage.StateCatchingUp] || seen[coverage.StateStalled] || metrics.state() != coverage.StateFresh {
			t.Errorf("it took %v, seen %v, metrics %s", time.Since(began), seen, metrics.state())
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A table that can carry no index is not one whose index is waited for.
func TestUnsupportedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	st := indexertest.Store(t, "v6")
	indexertest.InBubble(t, func(t *testing.T) {
		f := launch(t, follow.Config{}, map[string]storage.Store{"/v6": st})
		synctest.Wait()
		v := f.view("/v6")
		if v.State != coverage.StateUnsupported || !strings.Contains(v.Reason, "table version 6") || v.Fresh || !v.Trouble() {
			t.Errorf("state %s: %s", v.State, v.Reason)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Tables come, go and change while others are followed, and what a table is told twice is refused.
func TestReload(t *testing.T) {
	t.Parallel()
	a, b := late(t, "mor_basic"), late(t, "cow_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		stores := map[string]storage.Store{"/a": a.st, "/b": b.st}
		f := launch(t, follow.Config{}, stores, follow.TableConfig{URL: "/a"})
		synctest.Wait()
		looks := f.view("/a").Looks
		for _, list := range [][]follow.TableConfig{
			{{URL: "/a"}, {URL: "file:///a/"}}, {{URL: "/a", Name: "x"}, {URL: "/b", Name: "x"}}, {{URL: ""}},
			{{URL: "/a", Aliases: []string{"/mnt/b"}}, {URL: "/b", Aliases: []string{"/mnt/b"}}},
		} {
			if err := f.SetTables(list); !errors.Is(err, storage.ErrRefused) {
				t.Errorf("%+v: %v", list, err)
			}
		}
		if err := f.SetTables([]follow.TableConfig{{URL: "/a"}, {URL: "/b", Name: "bee", Aliases: []string{"/mnt/b"}}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v := f.view("bee"); !v.Fresh || f.view("/a").Looks != looks {
			t.Errorf("a table more: %+v", v)
		}
		i := b.commit(t)
		f.Hint(source.Hint{Table: "file:/mnt/b"})
		synctest.Wait()
		if !coveredOf(t, b.st)[i.Requested] {
			t.Error("a hint by an alias woke nobody")
		}
		if err := f.SetTables([]follow.TableConfig{{URL: "/b", Name: "bee", Interval: time.Minute}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := f.Table("/a"); ok || f.Wake("/a") {
			t.Error("a table that was taken out is followed")
		}
		a.commit(t)
		i = b.commit(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(coveredOf(t, a.st)) != 0 || !coveredOf(t, b.st)[i.Requested] {
			t.Error("after the change the wrong tables are followed")
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Two daemons on one table: one works, the other stands by and says who does, and takes over when it is killed.
func TestStandsBy(t *testing.T) {
	t.Parallel()
	l := late(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		owner, err := indexer.OpenCommitter(t.Context(), mdt.Inside(l.st), indexer.CommitterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := owner.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		cfg := follow.Config{}
		cfg.Sink.Host, cfg.Sink.PID, cfg.Sink.Alive = "other", 1, func(int) bool { return true }
		f := launch(t, cfg, map[string]storage.Store{"/t": l.st})
		i := l.commit(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := f.view("/t"); v.StandsBy != owner.Owner() || v.Error != "" || v.State != coverage.StateCatchingUp {
			t.Errorf("while another one has the lease: %+v", v)
		}
		if err := owner.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if v := f.view("/t"); v.StandsBy != "" || !coveredOf(t, l.st)[i.Requested] {
			t.Errorf("afterwards: %+v", v)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Where several processes share tables out, one that is another's is not worked on, and is once it is ours.
func TestOwns(t *testing.T) {
	t.Parallel()
	l := late(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		var ours atomic.Bool
		var asked atomic.Value
		f := launch(t, follow.Config{Owns: func(name string) bool {
			asked.Store(name)
			return ours.Load()
		}}, map[string]storage.Store{"/t": l.st})
		i := l.commit(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := f.view("/t"); v.StandsBy == "" || v.Error != "" || v.State != coverage.StateCatchingUp || len(coveredOf(t, l.st)) != 0 {
			t.Errorf("another's: %+v", v)
		}
		if asked.Load() != "mor_basic" {
			t.Errorf("asked for %v", asked.Load())
		}
		ours.Store(true)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if v := f.view("/t"); v.StandsBy != "" || !coveredOf(t, l.st)[i.Requested] {
			t.Errorf("ours: %+v", v)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}
