package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// Every instant inside a wide file is found, whatever the file's bounds are, singly and by every range (O-AR-01).
func TestRangesInsideOneFile(t *testing.T) {
	t.Parallel()
	st := mem.New("t")
	archive(t, st, 1, commitRows(100, 199))
	a := newArchive(t, st)
	for i := 100; i <= 199; i++ {
		inst, ok, err := a.Find(t.Context(), at(i))
		if !ok || err != nil || inst.Requested != at(i) || inst.Completed != at(i+1) || inst.Action != timeline.Commit || !inst.Archived {
			t.Errorf("%d: %+v %v %v", i, inst, ok, err)
		}
		for n := i; n <= 199; n += 13 {
			if got := collect(t, a, at(i), at(n)); len(got) != n-i+1 || got[0].Requested != at(i) {
				t.Errorf("%d to %d: %d instants", i, n, len(got))
			}
		}
		m, err := a.Commit(t.Context(), inst)
		if err != nil || m.Stats[0].NumWrites != int64(i) {
			t.Errorf("%d: %+v %v", i, m, err)
		}
	}
	if inst, ok, err := a.Find(t.Context(), at(200)); !ok || err != nil || inst.Requested != at(199) {
		t.Errorf("by completion: %+v %v %v", inst, ok, err)
	}
	for _, n := range []int{99, 201, 500} {
		if inst, ok, err := a.Find(t.Context(), at(n)); ok || err != nil {
			t.Errorf("%d: %+v %v", n, inst, err)
		}
	}
	if _, err := a.Commit(t.Context(), timeline.Instant{Requested: at(500), Completed: at(501), Action: timeline.Commit, Archived: true}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an instant that is not archived: %v", err)
	}
}

// Only files whose range is asked for are opened, each once, and of the columns only those that are needed: the metadata of
// one instant does not cost that of the others.
func TestArchiveIsReadLazily(t *testing.T) {
	t.Parallel()
	mst := mem.New("t")
	var files [][]row
	for f := range 5 {
		rows := commitRows(1000*f, 1000*f+499)
		for i := range rows {
			rows[i].metadata = []byte(strings.Repeat(" ", 2000) + string(rows[i].metadata))
			rows[i].metadata[i%1000] = '\t' // no two alike
		}
		files = append(files, rows)
	}
	names := archive(t, mst, 7, files...)
	st := fault.New(mst, fault.Config{})
	a := timeline.NewArchive(st, dotHoodie, mustLoad(t, v9))
	if upto, err := a.Upto(t.Context()); upto != at(4499) || err != nil {
		t.Errorf("up to %s, %v", upto, err)
	}
	if got := st.Calls(); got != 2 {
		t.Errorf("%d requests for the manifest: %v", got, st.Trace())
	}
	inst := collect(t, a, at(2010), at(2010))[0]
	for _, line := range st.Trace()[2:] {
		if !strings.HasSuffix(line, names[2]) && !strings.HasSuffix(line, "_version_") {
			t.Errorf("asked for %s", line)
		}
	}
	before := st.Calls()
	for range 10 {
		collect(t, a, at(2010), at(2020))
	}
	if got := st.Calls() - before; got != 10 {
		t.Errorf("%d requests for ten more looks: %v", got, st.Trace()[before:])
	}
	before = st.Calls()
	m, err := a.Commit(t.Context(), inst)
	if err != nil || m.Stats[0].NumWrites != 2010 {
		t.Errorf("%+v %v", m, err)
	}
	if got := st.Calls() - before; got == 0 || got > 3 {
		t.Errorf("%d requests for one instant's metadata: %v", got, st.Trace()[before:])
	}
	before = st.Calls()
	if again, err := a.Commit(t.Context(), inst); again != m || err != nil || st.Calls() != before {
		t.Errorf("read again: %v", st.Trace()[before:])
	}
	// One after the other they cost far less than a request each.
	before = st.Calls()
	for _, i := range collect(t, a, at(0), at(499)) {
		if _, err := a.Commit(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if got := st.Calls() - before; got > 40 {
		t.Errorf("%d requests for 500 instants in order", got)
	}
}

func TestRowsOfOldWriters(t *testing.T) {
	t.Parallel()
	st := mem.New("t")
	old, bare := commitRow(10), commitRow(20)
	old.completed, bare.metadata = "", nil
	archive(t, st, 1, []row{old, bare, commitRow(30)}, []row{commitRow(10), commitRow(30)})
	a := newArchive(t, st)
	got := collect(t, a, "", "")
	if len(got) != 3 || got[0].Completed != at(11) || got[0].Derived {
		t.Errorf("of two rows of one instant the one with a completion time counts, and each instant comes once: %+v", got)
	}
	if _, err := a.Commit(t.Context(), got[1]); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), at(20)) {
		t.Errorf("a commit without metadata: %v", err)
	}
	st = mem.New("t")
	archive(t, st, 1, []row{old})
	got = collect(t, newArchive(t, st), "", "")
	if len(got) != 1 || got[0].Completed != at(10) || !got[0].Derived {
		t.Errorf("without completion time: %+v", got)
	}
	if m, err := newArchive(t, st).Commit(t.Context(), got[0]); err != nil || len(m.Stats) != 1 {
		t.Errorf("%+v %v", m, err)
	}
}

func TestArchiveVersions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		versionFile string
		leftover    bool // a manifest that a writer was about to announce
		want        int
	}{
		"named by the version file": {"9\n", true, 9},
		"version file away":         {"", true, 10},
		"version file empty":        {" ", false, 9},
	} {
		st := mem.New(name)
		if tt.leftover {
			archive(t, st, 10, commitRows(10, 10))
		}
		archive(t, st, 9, commitRows(9, 9))
		st.Put(history+"manifest_11.tmp", nil, time.Unix(0, 0))
		st.Put(history+"_version_", []byte(tt.versionFile), time.Unix(0, 0))
		if tt.versionFile == "" {
			if err := st.Delete(t.Context(), history+"_version_"); err != nil {
				t.Fatal(err)
			}
		}
		if got := collect(t, newArchive(t, st), "", ""); len(got) != 1 || got[0].Requested != at(tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := newArchive(t, mem.New("none")).Upto(t.Context()); got != "" || err != nil {
		t.Errorf("nothing archived: %q %v", got, err)
	}
	v6 := timeline.NewArchive(mem.New("v6"), dotHoodie, mustLoad(t, strings.Replace(v9, "version=9", "version=6", 1)))
	if _, err := v6.Upto(t.Context()); !errors.Is(err, storage.ErrUnsupported) || storage.Hint(err) == "" {
		t.Errorf("layout 1: %v", err)
	}
}

// read asks an archive for everything and returns the first error.
func read(ctx context.Context, a *timeline.Archive) (int, error) {
	n := 0
	for i, err := range a.Instants(ctx, "", "") {
		if err != nil {
			return n, err
		}
		if i.Action.IsWrite() {
			if _, err := a.Commit(ctx, i); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, nil
}

// A damaged archive is an error that says where and what next; it never looks like one in which less was archived.
func TestDamagedArchives(t *testing.T) {
	t.Parallel()
	odd := func(change func(r *row)) []row {
		rows := commitRows(10, 30)
		change(&rows[7])
		return rows
	}
	other := commitRow(12)
	other.completed = at(999)
	for name, tt := range map[string]struct {
		damage func(st *mem.Store)
		want   error
		say    string
	}{
		"no JSON":          {func(st *mem.Store) { st.Put(history+"manifest_1", []byte(`{"files":[`), time.Unix(1, 0)) }, storage.ErrCorrupt, "manifest_1"},
		"other JSON":       {func(st *mem.Store) { st.Put(history+"manifest_1", []byte(`{}`), time.Unix(1, 0)) }, storage.ErrCorrupt, "manifest_1"},
		"strange name":     {func(st *mem.Store) { manifestOf(st, 1, `{"fileName":"x.parquet","fileLen":1}`) }, storage.ErrCorrupt, "x.parquet"},
		"negative length":  {func(st *mem.Store) { manifestOf(st, 1, `{"fileName":"1_2_0.parquet","fileLen":-1}`) }, storage.ErrCorrupt, "length -1"},
		"range backwards":  {func(st *mem.Store) { manifestOf(st, 1, `{"fileName":"2_1_0.parquet","fileLen":1}`) }, storage.ErrCorrupt, "2_1_0"},
		"manifest missing": {func(st *mem.Store) { st.Put(history+"_version_", []byte("3"), time.Unix(1, 0)) }, storage.ErrCorrupt, "manifest_3"},
		"file missing":     {func(st *mem.Store) { manifestOf(st, 1, `{"fileName":"1_2_0.parquet","fileLen":100}`) }, storage.ErrCorrupt, "1_2_0.parquet"},
		"unknown version":  {func(st *mem.Store) { archive(t, st, 2, odd(func(r *row) { r.version = 2 })) }, storage.ErrUnsupported, "version"},
		"row outside":      {func(st *mem.Store) { rename(t, st, 11, 30) }, storage.ErrCorrupt, "outside"},
		"name without row": {func(st *mem.Store) { rename(t, st, 9, 30) }, storage.ErrCorrupt, "not in its rows"},
		"no action":        {func(st *mem.Store) { archive(t, st, 2, odd(func(r *row) { r.action = "" })) }, storage.ErrCorrupt, "outside"},
		"impossible time":  {func(st *mem.Store) { archive(t, st, 2, odd(func(r *row) { r.completed = "99999999999999999" })) }, storage.ErrCorrupt, "99999999999999999"},
		"two completions":  {func(st *mem.Store) { archive(t, st, 2, commitRows(10, 30), []row{other}) }, storage.ErrCorrupt, "two completion times"},
		"no metadata":      {func(st *mem.Store) { archive(t, st, 2, odd(func(r *row) { r.metadata = nil })) }, storage.ErrCorrupt, at(17)},
		"metadata cut":     {func(st *mem.Store) { archive(t, st, 2, odd(func(r *row) { r.metadata = r.metadata[:60] })) }, storage.ErrCorrupt, at(17)},
		"manifests removed": {func(st *mem.Store) {
			_ = st.Delete(t.Context(), history+"manifest_1")
			_ = st.Delete(t.Context(), history+"_version_")
		}, storage.ErrCorrupt, "no manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New(name)
			archive(t, st, 1, commitRows(10, 30))
			tt.damage(st)
			n, err := read(t.Context(), newArchive(t, st))
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.say) || tt.want == storage.ErrCorrupt && !strings.Contains(storage.Hint(err), "archive") {
				t.Errorf("%d instants, %v (hint %q), want %v that says %q", n, err, storage.Hint(err), tt.want, tt.say)
			}
			if errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%v passes for something that is not there", err)
			}
		})
	}
}

// rename makes a manifest that names the rows 10 to 30 by other bounds.
func rename(t testing.TB, st *mem.Store, from, to int) {
	b := level(t, commitRows(10, 30)...)
	name := fmt.Sprintf("%s_%s_0.parquet", at(from), at(to))
	st.Put(history+name, b, time.Unix(0, 0))
	manifestOf(st, 2, fmt.Sprintf(`{"fileName":"%s","fileLen":%d}`, name, len(b)))
}

// A level file that is cut anywhere, or shorter or longer than its manifest says, is refused.
func TestCutLevelFiles(t *testing.T) {
	t.Parallel()
	st := mem.New("t")
	name := archive(t, st, 1, commitRows(10, 15))[0]
	whole, _, err := st.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 7 {
		st.Put(name, whole[:n], time.Unix(0, 0))
		if got, err := read(t.Context(), newArchive(t, st)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut to %d of %d: %d instants, %v", n, len(whole), got, err)
		}
		short := st.Clone()
		manifestOf(short, 1, fmt.Sprintf(`{"fileName":"%s","fileLen":%d}`, strings.TrimPrefix(name, history), n))
		if got, err := read(t.Context(), newArchive(t, short)); !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("cut to %d, and the manifest says so: %d instants, %v", n, got, err)
		}
	}
}

// A file that is gone because the archive was merged makes the reader start anew, between looks and in the midst of one (O-AR-04).
func TestMergedUnderTheReader(t *testing.T) {
	t.Parallel()
	build := func() (*mem.Store, func()) {
		st := mem.New("t")
		small := archive(t, st, 1, commitRows(10, 19), commitRows(20, 29))
		return st, func() {
			archive(t, st, 2, commitRows(10, 29))
			for _, f := range small {
				_ = st.Delete(context.Background(), f)
			}
		}
	}
	mst, merge := build()
	kept := newArchive(t, mst)
	some := collect(t, kept, at(10), at(19))
	merge()
	for _, i := range some { // index columns are known, the metadata has moved
		if m, err := kept.Commit(t.Context(), i); err != nil || len(m.Stats) != 1 {
			t.Errorf("%s: %v", i.Requested, err)
		}
	}
	total := 0
	for n := 1; ; n++ { // merge right before the n-th request
		mst, merge := build()
		st := fault.New(mst, fault.Config{Before: func(i int, _, _ string) error {
			if i == n {
				merge()
			}
			return nil
		}})
		got, err := read(t.Context(), timeline.NewArchive(st, dotHoodie, mustLoad(t, v9)))
		if got != 20 || err != nil {
			t.Errorf("merged before request %d: %d instants, %v\n%v", n, got, err, st.Trace())
		}
		if total = st.Calls(); n > total {
			break
		}
	}
	if total < 5 {
		t.Errorf("only %d requests", total)
	}
}

// An archive that is merged faster than it can be read is not called damaged.
func TestMergedForEver(t *testing.T) {
	t.Parallel()
	mst := mem.New("t")
	version := 1
	archive(t, mst, version, commitRows(10, 19))
	st := fault.New(mst, fault.Config{Before: func(_ int, op, path string) error {
		if strings.HasSuffix(path, ".parquet") {
			_ = mst.Delete(context.Background(), path)
			version++
			manifestOf(mst, version, fmt.Sprintf(`{"fileName":"%s_%s_1.parquet","fileLen":9000}`, at(10), at(19+version)))
		}
		return nil
	}})
	if _, err := read(t.Context(), timeline.NewArchive(st, dotHoodie, mustLoad(t, v9))); !errors.Is(err, storage.ErrStale) || storage.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// What a store cannot answer is passed on as it is.
func TestArchiveOfAFailingStore(t *testing.T) {
	t.Parallel()
	mst := mem.New("t")
	archive(t, mst, 1, commitRows(10, 19))
	for n := 1; n <= 4; n++ {
		st := fault.New(mst, fault.Config{FailAt: n})
		if got, err := read(t.Context(), timeline.NewArchive(st, dotHoodie, mustLoad(t, v9))); !errors.Is(err, fault.ErrUnknown) {
			t.Errorf("request %d fails: %d instants, %v", n, got, err)
		}
	}
}

func requestedTimes(list []timeline.Instant) []string {
	var out []string
	for _, i := range list {
		out = append(out, i.Requested)
	}
	return out
}

// rollbackText is the metadata of a rollback, made by the fixture's own bytes.
func rollbackText(t testing.TB, undone string) []byte {
	t.Helper()
	return container(t, `{"type":"record","name":"HoodieRollbackMetadata","fields":[{"name":"commitsRollback","type":{"type":"array","items":"string"}}]}`,
		map[string]any{"commitsRollback": []any{undone}})
}

func TestWritesOfACatchUp(t *testing.T) {
	t.Parallel()
	st := mem.New("t")
	late := commitRow(12)
	late.completed = at(300)
	clean := row{requested: at(15), completed: at(16), action: "clean"}
	empty := commitRow(22)
	empty.metadata = nil
	archive(t, st, 1, []row{commitRow(10), late, clean, commitRow(18), commitRow(20), empty, commitRow(25), commitRow(26)},
		[]row{commitRow(26), {requested: at(30), completed: at(31), action: "rollback", metadata: rollbackText(t, at(20))}})
	p := mustLoad(t, v9)
	load := func(names ...string) *timeline.Timeline {
		_, _, active := lineStore(t, 2, names...)
		for _, i := range []string{at(40) + "_" + at(50) + ".rollback"} {
			active.Put(".hoodie/timeline/"+i, rollbackText(t, at(25)), time.Unix(0, 0))
			st.Put(".hoodie/timeline/"+i, rollbackText(t, at(25)), time.Unix(0, 0))
		}
		tl, err := timeline.Load(t.Context(), active, dotHoodie, p)
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	a := newArchive(t, st)
	tl := load(at(60)+"_"+at(61)+".commit", at(26)+"_"+at(27)+".commit", at(26)+"_"+at(28)+".savepoint")
	for _, tt := range []struct{ after, want string }{
		// 20 and 25 were rolled back, 26 is still active (saved), the clean is no data write; 12 completed late.
		{"", at(10) + " " + at(18) + " " + at(22) + " " + at(12)},
		{at(11), at(18) + " " + at(22) + " " + at(12)},
		{at(25), at(12)},
		{at(300), ""},
	} {
		got, err := a.Writes(t.Context(), tl, tt.after)
		if err != nil || strings.Join(requestedTimes(got), " ") != tt.want {
			t.Errorf("after %q: %v, %v, want %s", tt.after, requestedTimes(got), err, tt.want)
		}
	}
	// The look is older than the archive: what was archived since belongs to a later look.
	if got, err := a.Writes(t.Context(), load(at(18)+"_"+at(19)+".commit"), ""); !errors.Is(err, storage.ErrStale) {
		t.Errorf("archived under the look: %v, %v", requestedTimes(got), err)
	}
	long := tl.With(must(a.Writes(t.Context(), tl, at(11))))
	if got := requestedTimes(long.Writes()); !slices.Equal(got, []string{at(18), at(22), at(26), at(60), at(12)}) {
		t.Errorf("history in completion order: %v", got)
	}
	if long.Earliest() != tl.Earliest() {
		t.Errorf("earliest active instant is now %s", long.Earliest())
	}
	if c, ok := long.CompletionOf(at(12)); c != at(300) || !ok {
		t.Errorf("completion of an archived instant: %s %v", c, ok)
	}
	if c, ok := long.IsCompleted(at(10)); c != "" || !ok {
		t.Errorf("an archived instant before that history: %q %v", c, ok)
	}
	if _, ok := tl.CompletionOf(at(12)); ok {
		t.Error("the shorter timeline changed")
	}
}

// must returns v.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
