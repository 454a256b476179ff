package indexer_test

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// Covered history that was damaged, lost or forged is called fresh by nobody: every command says what is wrong with it, and status what
// to do.
func TestDamagedHistoryIsSeenByEveryCommand(t *testing.T) {
	t.Parallel()
	begin := store(t, "archived")
	create(t, mdt.Inside(begin), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(begin))}, map[string]string{"vector.num_clusters": "2"})
	if _, err := indexer.Sync(t.Context(), mdt.Inside(begin), indexer.SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	_, cert := certificate(t, mdt.Inside(begin))
	tb, err := table.Open(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	base, covered := writes[0], writes[len(writes)-2] // the first is the baseline's
	file := func(i timeline.Instant) string { return ".hoodie/timeline/" + i.File }
	content := func(t *testing.T, st *mem.Store, name string) []byte {
		b, _, err := st.ReadFile(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(b)
	}
	put := func(name string, change func(b []byte) []byte) func(t *testing.T, st *mem.Store) {
		return func(t *testing.T, st *mem.Store) { st.Put(name, change(content(t, st, name)), time.Time{}) }
	}
	text := func(s string) func([]byte) []byte { return func([]byte) []byte { return []byte(s) } }
	remove := func(of func(name string) bool) func(t *testing.T, st *mem.Store) {
		return func(t *testing.T, st *mem.Store) {
			n := 0
			for _, p := range st.Paths() {
				if of(p) {
					n++
					if err := st.Delete(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n == 0 {
				t.Fatal("nothing was there")
			}
		}
	}
	named := func(name string) func(string) bool { return func(p string) bool { return p == name } }
	below := func(dir string) func(string) bool { return func(p string) bool { return strings.HasPrefix(p, dir) } }
	as := func(i timeline.Instant, action string, keep bool) func(t *testing.T, st *mem.Store) {
		return func(t *testing.T, st *mem.Store) {
			b := content(t, st, file(i))
			if !keep {
				remove(named(file(i)))(t, st)
			}
			st.Put(strings.TrimSuffix(file(i), "."+string(i.Action))+"."+action, b, time.Time{})
		}
	}
	level, newest := "", "" // the archive's last file, and the newest base file of the table
	for _, p := range begin.Paths() {
		switch {
		case path.Dir(p) == ".hoodie/timeline/history" && strings.HasSuffix(p, ".parquet"):
			level = p
		case !strings.HasPrefix(p, ".hoodie") && strings.HasSuffix(p, ".parquet") && strings.Contains(p, "_"+writes[len(writes)-1].Requested):
			newest = p
		}
	}
	version := string(content(t, begin, history+"_version_"))
	for name, tt := range map[string]struct {
		damage func(t *testing.T, st *mem.Store)
		want   coverage.State
		says   string
	}{
		"nothing":                             {func(*testing.T, *mem.Store) {}, coverage.StateFresh, ""},
		"a covered commit is empty":           {put(file(covered), text("")), coverage.StateBlocked, covered.Requested},
		"a covered commit is cut":             {put(file(covered), func(b []byte) []byte { return b[:len(b)/2] }), coverage.StateBlocked, covered.Requested},
		"a covered commit is another one":     {put(file(covered), text(`{"operationType":"UPSERT"}`)), coverage.StateBlocked, covered.Requested},
		"a covered commit has another byte":   {put(file(covered), func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), coverage.StateBlocked, covered.Requested},
		"a covered commit has another action": {as(covered, "replacecommit", false), coverage.StateBlocked, "is a replacecommit and was a commit"},
		"a covered commit has two actions":    {as(covered, "replacecommit", true), coverage.StateBlocked, "is a replacecommit and was a commit"},
		"a commit of the baseline is empty":   {put(file(base), text("")), coverage.StateBlocked, base.Requested},
		"a commit of the baseline is another": {put(file(base), text(`{"operationType":"UPSERT"}`)), coverage.StateBlocked, base.Requested},
		"a commit of the baseline has another byte": {put(file(base), func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
			coverage.StateBlocked, base.Requested},
		"an unknown action has completed": {func(_ *testing.T, st *mem.Store) {
			st.Put(".hoodie/timeline/"+at(1)+"_"+at(2)+".reshuffle", []byte("x"), time.Time{})
		}, coverage.StateStalled, "unknown action reshuffle"},
		"a level file of the archive is cut":   {put(level, func(b []byte) []byte { return b[:len(b)-9] }), coverage.StateStalled, path.Base(level)},
		"a level file of the archive is gone":  {remove(named(level)), coverage.StateStalled, path.Base(level)},
		"the archive's manifest is gone":       {remove(named(history + "manifest_" + version)), coverage.StateStalled, "manifest_" + version},
		"the archive's version is zero":        {put(history+"_version_", text("0")), coverage.StateStalled, "_version_"},
		"the archive's version is no number":   {put(history+"_version_", text("x")), coverage.StateStalled, "_version_"},
		"the archive's version is turned back": {put(history+"_version_", text("1")), coverage.StateStalled, "history"},
		"the archive is gone":                  {remove(below(history)), coverage.StateStalled, "it is gone, and it did reach to"},
		"the newest base file is gone":         {remove(named(newest)), coverage.StateBlocked, path.Base(newest)},
		"the newest base file is another one":  {put(newest, text("other")), coverage.StateBlocked, path.Base(newest)},
		"the newest base file has grown":       {put(newest, func(b []byte) []byte { return append(b, 0) }), coverage.StateBlocked, path.Base(newest)},
		"the metadata table's timeline is gone": {remove(func(p string) bool {
			return path.Dir(p) == ".hoodie/metadata/.hoodie/timeline" || strings.HasPrefix(p, ".hoodie/metadata/.hoodie/timeline/history")
		}), coverage.StateAbsent, "has lost commit"},
		"the metadata table's newest commit is gone": {func(t *testing.T, st *mem.Store) {
			state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
			if err != nil {
				t.Fatal(err)
			}
			remove(below(".hoodie/metadata/.hoodie/timeline/"+state.Commits[len(state.Commits)-1].ID))(t, st)
		}, coverage.StateAbsent, "has lost commit"},
		"a restore took the metadata table's newest commit": {func(t *testing.T, st *mem.Store) {
			state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
			if err != nil {
				t.Fatal(err)
			}
			const dir = ".hoodie/metadata/.hoodie/timeline/"
			remove(below(dir+state.Commits[len(state.Commits)-1].ID))(t, st)
			st.Put(dir+"29991231235959000_29991231235959001.restore", []byte("x"), time.Time{})
		}, coverage.StateFresh, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := begin.Clone()
			tt.damage(t, st)
			s := seenByAll(t, st, tt.want, cert)
			if !strings.Contains(s.Reason, tt.says) || (s.Next == "") != (tt.says == "") {
				t.Errorf("%s; next: %s", s.Reason, s.Next)
			}
		})
	}
}

func at(n int) string { return "2026010100000000"[:14] + []string{"000", "001", "002"}[n] }

// An index that names a commit which it does not hold is not fresh, whatever set the name was written into, and whether or not the state
// looks as if it had been noted; a reconcile covers that commit.
func TestForgedStates(t *testing.T) {
	t.Parallel()
	begin := store(t, "cow_basic")
	create(t, mdt.Inside(begin), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(begin))}, map[string]string{"vector.num_clusters": "2"})
	if _, err := indexer.Sync(t.Context(), mdt.Inside(begin), indexer.SyncOptions{MaxInstants: 3}); err != nil {
		t.Fatal(err)
	}
	tb, err := table.Open(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	due := writes[4:]
	for name, tt := range map[string]struct {
		forge  func(x *mdt.Index)
		status bool // seen without reading the index
	}{
		"in the baseline": {func(x *mdt.Index) {
			for _, w := range due {
				x.Baseline.Instants[w.Requested] = w.Completed
			}
		}, true},
		"covered": {func(x *mdt.Index) {
			for _, w := range due {
				x.Covered[w.Requested] = w.Completed
			}
		}, true},
		"in the baseline of an old state": {func(x *mdt.Index) {
			for _, w := range due {
				x.Baseline.Instants[w.Requested] = w.Completed
			}
			x.Seen = nil
		}, true},
		"in the baseline, and noted": {func(x *mdt.Index) {
			for _, w := range due {
				x.Baseline.Instants[w.Requested] = w.Completed
			}
			x.Witness(writes, nil)
		}, false},
		"frontier of the future": {func(x *mdt.Index) {
			x.Frontier = mdt.Frontier{Requested: "20990101000000000", Completed: "20990101000001000"}
		}, true},
		"frontier at a commit that is due": {func(x *mdt.Index) {
			x.Frontier = mdt.Frontier{Requested: due[0].Requested, Completed: due[0].Completed}
		}, true},
		"covered, and noted": {func(x *mdt.Index) {
			for _, w := range due {
				x.Covered[w.Requested] = w.Completed
			}
			x.Witness(writes, nil)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := begin.Clone()
			p := mdt.Inside(st)
			edit(t, st, func(s *mdt.State) { tt.forge(s.Indexes["embedding_idx"]) })
			if s := status(t, p); tt.status && (s.Fresh || s.State != coverage.StateStalled || !strings.Contains(s.Next, "tidemark reconcile")) {
				t.Errorf("%+v", s)
			}
			if s := status(t, p); s.Frontier != nil && s.Frontier.Completed > writes[3].Completed {
				t.Errorf("frontier %+v", s.Frontier)
			}
			if c, err := coverage.Prove(t.Context(), coverage.Deps{Place: p}, ""); err == nil {
				t.Errorf("a certificate, fresh %v", c.Fresh)
			}
			if r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{}); err == nil && r.OK {
				t.Error("verify finds nothing")
			}
			if tt.status {
				if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err == nil {
					t.Error("sync goes on")
				}
			}
			reconcile(t, p)
			if s := status(t, p); !s.Fresh || s.Frontier.Completed != writes[len(writes)-1].Completed {
				t.Errorf("after the reconcile: %+v", s)
			}
			if r, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{}); err != nil || !r.OK {
				t.Errorf("after the reconcile: %+v, %v", r, err)
			}
		})
	}
}
