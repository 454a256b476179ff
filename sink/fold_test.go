package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// folded does what work does, and folds until nothing is left to fold.
func folded(ctx context.Context, s *Sink, due int, st *mem.Store, t testing.TB) error {
	writes := writes(t, st)
	if err := work(ctx, s, writes[len(writes)-due:]); err != nil {
		return err
	}
	if err := s.Acquire(ctx); err != nil {
		return err
	}
	var err error
	if n, _ := s.State().Unfolded(); n > 0 {
		_, err = s.Fold(ctx, Fold{})
	}
	return errors.Join(err, s.Release(ctx))
}

// records returns what readers see of an index, key by key.
func records(t testing.TB, st storage.Store, state *mdt.State) string {
	t.Helper()
	return scan(t, views(t, st, state))
}

// views are one view for each file group: the kit's batches have the same key in several.
func views(t testing.TB, st storage.Store, state *mdt.State) []*mdt.View {
	t.Helper()
	var out []*mdt.View
	for g := range groups {
		files := slices.DeleteFunc(state.Live(idx), func(f mdt.DataFile) bool { return f.Group != g })
		v, err := mdt.OpenFiles(t.Context(), mdt.Inside(st), files, groups)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func scan(t testing.TB, views []*mdt.View) string {
	t.Helper()
	var out []string
	for g, v := range views {
		if err := v.ScanEntries(t.Context(), nil, func(e mdt.Entry) error {
			out = append(out, fmt.Sprintf("%d %q=%q", g, e.Key, e.Value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, "\n")
}

// withoutUs is a store without our state and data files; only commit files are left.
func withoutUs(t testing.TB, st *mem.Store) *mem.Store {
	t.Helper()
	out := st.Clone()
	for _, p := range out.Paths() {
		if strings.Contains(p, "/.tidemark/") || strings.Contains(p, "/vector_index_") {
			if err := out.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// A fold leaves every record as it was, in one base file for each file group that had logs; what it replaced stays for readers
// that started before, and is deleted after the retention.
func TestFold(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	all := writes(t, st)
	for _, i := range all[len(all)-3:] {
		b := follow(idx, i)
		build := b.Build
		b.Build = func(id, completion string) ([]FileRecords, error) { // a key of the base, and one that all logs have
			out, err := build(id, completion)
			out[0].Records = append([]Record{record("a", "log "+i.Requested), record("zz", i.Requested)}, out[0].Records...)
			slices.SortFunc(out[0].Records, func(a, b Record) int { return strings.Compare(string(a.Key), string(b.Key)) })
			return out, err
		}
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	before := s.State()
	want := records(t, st, before)
	old := views(t, st, before) // they open their files at first use
	done, err := s.Fold(t.Context(), Fold{})
	if err != nil {
		t.Fatal(err)
	}
	after := s.State()
	if done.Groups != groups || len(after.Commits) != 0 || len(after.Base) != groups || after.Base[0].ID != done.ID {
		t.Fatalf("%+v: commits %v, base %v", done, after.Commits, after.Base)
	}
	if got := records(t, st, after); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := scan(t, old); got != want {
		t.Errorf("a reader that started before: got\n%s\nwant\n%s", got, want)
	}
	evidence, err := mdt.Evidence(t.Context(), mdt.Inside(st), after, idx)
	if err != nil || len(evidence) != 3 || len(after.Ledger) != 1 {
		t.Errorf("evidence of %d commits in %d files, %v", len(evidence), len(after.Ledger), err)
	}
	for _, f := range before.Live("") {
		i := slices.IndexFunc(after.Retired, func(r mdt.Retired) bool { return r.Path == f.Path })
		if i < 0 || !after.Retired[i].DeleteAfter.Equal(clk.Now().Add(time.Hour)) {
			t.Errorf("%s is not retired for an hour: %v", f.Path, after.Retired)
		}
	}
	again, err := s.Fold(t.Context(), Fold{})
	if err != nil || again.ID != "" {
		t.Errorf("nothing to fold: %+v, %v", again, err)
	}
	clk.advance(time.Hour + time.Second)
	two := acquired(t, st, config(clk, "two"))
	if left := two.State().Retired; len(left) != 0 {
		t.Errorf("still retired: %v", left)
	}
	for _, f := range before.Live("") {
		if _, err := st.Stat(t.Context(), s.place.File(f.Path)); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	if got := records(t, st, after); got != want {
		t.Errorf("after the retention: got\n%s\nwant\n%s", got, want)
	}
}

// A fold of everything writes all file groups anew, and a record that the caller does not keep is gone.
func TestFoldAllAndDrop(t *testing.T) {
	t.Parallel()
	st, s, _ := built(t, "cow_basic")
	if _, err := s.Commit(t.Context(), follow(idx, last(t, st))); err != nil {
		t.Fatal(err)
	}
	before := records(t, st, s.State())
	if _, err := s.Fold(t.Context(), Fold{}); err != nil {
		t.Fatal(err)
	}
	keep := func(x *mdt.Index, base *mdt.View) func(context.Context, mdt.Entry) (bool, error) {
		if x.Name != idx {
			t.Errorf("index %s", x.Name)
		}
		return func(_ context.Context, e mdt.Entry) (bool, error) { return string(e.Key) != "a", nil }
	}
	done, err := s.Fold(t.Context(), Fold{All: true, Keep: keep})
	if err != nil || done.Groups != groups || records(t, st, s.State()) != before {
		t.Fatalf("%+v, %v\n%s", done, err, records(t, st, s.State()))
	}
	b := activate(idx)
	b.Build = func(string, string) ([]FileRecords, error) {
		return []FileRecords{{Index: idx, Group: 0, Records: []Record{record("a", "gone"), record("b", "new")}}}, nil
	}
	b.Apply = func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
		st.Commits = append(st.Commits, mdt.Commit{ID: id, Completion: completion, Files: files})
		return nil
	}
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	done, err = s.Fold(t.Context(), Fold{Keep: keep})
	if got := records(t, st, s.State()); err != nil || done.Groups != 1 || done.Dropped != 1 || strings.Contains(got, `"a"=`) || !strings.Contains(got, `"b"="new"`) {
		t.Errorf("%+v, %v\n%s", done, err, got)
	}
}

// What a fold reads is compared with the state: a damaged file is refused, and nothing becomes visible.
func TestFoldRefusesDamage(t *testing.T) {
	t.Parallel()
	start, s, clk := built(t, "cow_basic")
	if _, err := s.Commit(t.Context(), follow(idx, last(t, start))); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.State().Live("") {
		st := start.Clone()
		b, info, err := st.ReadFile(t.Context(), s.place.File(f.Path))
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(b); at += 97 {
			bad := slices.Clone(b)
			bad[at] ^= 1
			st.Put(s.place.File(f.Path), bad, info.ModTime)
			two := acquired(t, st, config(clk, "two"))
			if done, err := two.Fold(t.Context(), Fold{}); !errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("%s, byte %d: %+v, %v", f.Path, at, done, err)
			}
			if now := two.State(); now.Intent != nil || len(now.Commits) != len(s.State().Commits) {
				t.Fatalf("%s, byte %d: %+v", f.Path, at, now)
			}
			_ = two.Release(t.Context())
		}
	}
}

func TestKillFold(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	c := newClock()
	table.SetClock(c.Now)
	start := table.Clone()
	if err := work(t.Context(), open(t, start, config(c, "zero")), writes(t, table)[1:]); err != nil {
		t.Fatal(err)
	}
	ideal := start.Clone()
	if err := folded(t.Context(), open(t, ideal, config(c, "ideal")), 2, table, t); err != nil {
		t.Fatal(err)
	}
	want := content(t, ideal)
	if strings.Contains(want, "base false") {
		t.Fatalf("logs are left:\n%s", want)
	}
	image := func(ctx context.Context, st *fault.Store) error {
		return folded(ctx, open(t, st, config(c, "first")), 2, table, t)
	}
	bare := withoutUs(t, start)
	kills := forEachKill(t, start, true, image, func(t *testing.T, what string, left *mem.Store) {
		if err := folded(t.Context(), open(t, left, config(c, "second")), 2, table, t); err != nil {
			t.Fatalf("%s: the next process: %v", what, err)
		}
		if got := content(t, left); got != want {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, want)
		}
		checkTidy(t, bare, left, what)
	})
	t.Logf("a fold: %d kills", kills)
}

// repeated covers one instant after another of a made up table history by one commit and one fold each.
func repeated(t *testing.T, s *Sink, n int) {
	t.Helper()
	for i := range n {
		at := fmt.Sprintf("2026113003%07d", i)
		b := follow(idx, timeline.Instant{Requested: at, Completed: at, Action: timeline.Commit})
		b.NewestData = timeline.Instant{}
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fold(t.Context(), Fold{}); err != nil {
			t.Fatal(err)
		}
	}
}

// However many folds there were, there are few ledger files, with all evidence in order; one that is damaged stops no fold.
func TestLedgerFilesStayFew(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	const n = 40
	repeated(t, s, n)
	state := s.State()
	if len(state.Ledger) > 6 || state.Evidence() != 0 {
		t.Errorf("%d ledger files after %d folds, %d instants in the state", len(state.Ledger), n, state.Evidence())
	}
	evidence, err := mdt.Evidence(t.Context(), s.place, state, idx)
	if err != nil || len(evidence) != n || !slices.IsSortedFunc(evidence, func(a, b mdt.Commit) int { return strings.Compare(a.ID, b.ID) }) {
		t.Fatalf("%d commits with evidence, %v", len(evidence), err)
	}
	last := s.place.LedgerPath(state.Ledger[len(state.Ledger)-1].Path)
	st.Put(last, []byte("damaged"), clk.Now())
	repeated(t, s, 3)
	after := s.State()
	if after.Ledger[len(state.Ledger)-1].Path != state.Ledger[len(state.Ledger)-1].Path {
		t.Errorf("a damaged file was put together with others: %v", after.Ledger)
	}
	if _, err := mdt.Evidence(t.Context(), s.place, after, idx); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	clk.advance(time.Hour + time.Second)
	_ = s.Release(t.Context())
	acquired(t, st, config(clk, "two"))
	files := 0
	for _, p := range st.Paths() {
		if strings.Contains(p, "/ledger/") {
			files++
		}
	}
	if files != len(after.Ledger) {
		t.Errorf("%d ledger files on the store, the state names %d", files, len(after.Ledger))
	}
}

// TestKillFoldRecovery kills a fold, and the process that recovers from it.
func TestKillFoldRecovery(t *testing.T) {
	t.Parallel()
	table := table(t, "cow_basic")
	c := newClock()
	table.SetClock(c.Now)
	start := table.Clone()
	if err := work(t.Context(), open(t, start, config(c, "zero")), writes(t, table)[1:]); err != nil {
		t.Fatal(err)
	}
	twoKills(t, start, withoutUs(t, start), 3, func(ctx context.Context, st storage.Store, owner string) error {
		return folded(ctx, open(t, st, config(c, owner)), 2, table, t)
	})
}
