package table_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/timeline"
)

// A pass without news costs one listing of the timeline and one Stat, one with a commit reads that commit once, whatever is
// asked of it: schema, files, metadata. (Partitions are listed by every Files.)
func TestRequestsOfAPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i := range 9 {
		w.commit("deltacommit", 10*i+10, 10*i+11, nil, w.log(10*i+10, data(10*i+10, row(float32(10*i+10)))))
	}
	w.clean(95, 96, basePath(1))
	st := fault.New(w.st, fault.Config{})
	cache := table.NewCache(st)
	pass := func() string {
		t.Helper()
		n := st.Calls()
		tab, err := cache.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tab.Files(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, i := range tab.Timeline.Writes() {
			if _, err := tab.Commit(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tab.Files(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.Join(st.Trace()[n:], ", "), ".hoodie/", "")
	}
	const partitions = ", list , list p, list p"
	const quiet = "list timeline, stat hoodie.properties"
	const moved = quiet + ", list timeline"
	one := pass()
	if !strings.HasPrefix(one, "read hoodie.properties, "+moved) || strings.Count(one, "read timeline/") != 10 {
		t.Errorf("first pass asked for %s", one)
	}
	if got := pass(); got != quiet+partitions {
		t.Errorf("without news: %s", got)
	}
	w.commit("deltacommit", 100, 101, nil, w.log(100, data(100, row(100))))
	name := "timeline/" + at(100) + "_" + at(101) + ".deltacommit"
	if got := pass(); got != moved+", read "+name+partitions {
		t.Errorf("with one commit: %s", got)
	}
	w.clean(110, 111, basePath(2))
	if got := pass(); got != moved+", list , list p, read timeline/"+at(110)+"_"+at(111)+".clean, list p" {
		t.Errorf("with one clean: %s", got)
	}
	// Archived or rolled back: nothing has to be read to forget an instant.
	if err := w.st.Delete(t.Context(), ".hoodie/"+name); err != nil {
		t.Fatal(err)
	}
	if got := pass(); got != moved+partitions {
		t.Errorf("with one instant less: %s", got)
	}
}

// show is what the newest snapshot of a table and its files are.
func show(t *testing.T, tab *table.Table) string {
	t.Helper()
	files, err := tab.Files(t.Context())
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	fmt.Fprintln(&out, tab.Schema == nil, files.Skipped)
	for _, g := range files.Groups() {
		for _, cut := range []table.Cut{{}, {Upto: tab.Timeline.Earliest()}} {
			s, ok, err := files.Slice(g, cut)
			fmt.Fprint(&out, g, ok, s.Ignored, s.Instant, err)
			if s.Base != nil {
				fmt.Fprint(&out, " ", s.Base.Name, s.Base.Size)
			}
			for _, l := range s.Logs {
				rows, known, err := tab.LogRows(t.Context(), l)
				fmt.Fprint(&out, " ", l.Name, rows, known, err)
			}
			fmt.Fprintln(&out)
		}
	}
	return out.String()
}

// Through all of a table's history, with instants that come and go, a cache shows what a table opened anew shows.
func TestCacheShowsWhatANewTableShows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_compaction_clean", "nbcc_overlap_compaction", "cow_clustering", "replace_ops", "archived", "rollback_restore", "log_compaction", "flink_upgraded_mor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := load(t, name)
			type file struct {
				path string
				data []byte
				mod  time.Time
			}
			var done []file
			infos, err := st.List(t.Context(), ".hoodie/timeline")
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				if !strings.Contains(path.Base(info.Path), "_") {
					continue
				}
				b, _, err := st.ReadFile(t.Context(), info.Path)
				if err != nil {
					t.Fatal(err)
				}
				done = append(done, file{info.Path, b, info.ModTime})
			}
			slices.SortFunc(done, func(a, b file) int {
				_, x, _ := strings.Cut(path.Base(a.path), "_")
				_, y, _ := strings.Cut(path.Base(b.path), "_")
				return strings.Compare(x, y)
			})
			for _, f := range done[1:] {
				if err := st.Delete(t.Context(), f.path); err != nil {
					t.Fatal(err)
				}
			}
			cache := table.NewCache(st)
			check := func(what string) {
				t.Helper()
				tab, err := cache.Open(t.Context())
				fresh, freshErr := table.Open(t.Context(), st)
				if fmt.Sprint(err) != fmt.Sprint(freshErr) {
					t.Errorf("%s: %v with a cache, %v anew", what, err, freshErr)
				}
				if err != nil || freshErr != nil {
					return
				}
				if got, want := show(t, tab), show(t, fresh); got != want {
					t.Errorf("%s: with a cache\n%s\nanew\n%s", what, got, want)
				}
			}
			check("at first")
			for i, f := range done[1:] {
				st.Put(f.path, f.data, f.mod)
				check("after " + f.path)
				if i%3 == 0 {
					_ = st.Delete(t.Context(), f.path)
					check("without " + f.path)
					st.Put(f.path, f.data[:len(f.data)/2], f.mod)
					check("with half of " + f.path)
					st.Put(f.path, f.data, f.mod)
				}
			}
			for _, f := range done[:len(done)/2] {
				_ = st.Delete(t.Context(), f.path)
			}
			check("after the first half is gone")
		})
	}
}

// The history of the fixture with an archive: each archived write is on the longer timeline, a cut is asked about it, and a slice
// as of it is the file that it wrote, or gone.
func TestSinceOnARealArchive(t *testing.T) {
	t.Parallel()
	st := load(t, "archived")
	tab := open(t, st)
	long := since(t, st, "")
	writes := long.Timeline.Writes()
	if n := len(tab.Timeline.Writes()); n != 6 || len(writes) != 45 {
		t.Fatalf("%d writes, %d active", len(writes), n)
	}
	files, err := long.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	goneSlices, found := 0, 0
	in := map[string]bool{}
	for _, w := range writes {
		in[w.Requested] = true
		m, err := long.Commit(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Stats {
			slice, ok, err := files.Slice(table.Group{Partition: s.Partition, FileID: s.FileID}, table.Cut{In: table.Only(in)})
			switch {
			case errors.Is(err, table.ErrGone) && !strings.Contains(err.Error(), path.Base(s.Path)):
				t.Errorf("%s: %v, it wrote %s", w.Requested, err, s.Path)
			case errors.Is(err, table.ErrGone):
				goneSlices++
			case err != nil || !ok || slice.Base.Path != s.Path:
				t.Errorf("%s: %v %v %v", w.Requested, slice.Base, ok, err)
			default:
				found++
			}
		}
	}
	if goneSlices == 0 || found == 0 {
		t.Errorf("%d gone, %d found", goneSlices, found)
	}
	some := since(t, st, writes[20].Completed)
	if got := some.Timeline.Writes(); len(got) != len(writes)-21 || got[0] != writes[21] {
		t.Errorf("%d writes after the 21st of %d", len(got), len(writes))
	}
	if someFiles, err := some.Files(t.Context()); err != nil {
		t.Error(err)
	} else if _, _, err := someFiles.Slice(someFiles.Groups()[0], table.Cut{Upto: writes[20].Requested}); !errors.Is(err, table.ErrGone) {
		t.Errorf("a snapshot before that history: %v", err)
	}
}

// A catch-up asks for the archive once a pass, and a little more where the archive has grown.
func TestRequestsOfACatchUp(t *testing.T) {
	t.Parallel()
	st := fault.New(load(t, "archived"), fault.Config{})
	cache := table.NewCache(st)
	pass := func() (int, int) {
		t.Helper()
		n := st.Calls()
		tab, err := cache.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		long, err := tab.Since(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := long.Files(t.Context()); err != nil {
			t.Fatal(err)
		}
		return st.Calls() - n, len(long.Timeline.Writes())
	}
	first, writes := pass()
	if first > 60 {
		t.Errorf("%d requests for %d writes, 13 of them active\n%s", first, writes, strings.Join(st.Trace(), "\n"))
	}
	if again, _ := pass(); again != 4 { // timeline, properties, _version_, the one partition
		t.Errorf("%d requests for the second pass: %v", again, st.Trace()[first:])
	}
}

// What the archiver does between the look and the archive's reading is found out.
func TestArchivedBetweenTheLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i := range 5 {
		w.commit("commit", 10*i+10, 10*i+11, nil, w.base(10*i+10, row(float32(10*i+10))))
	}
	cache := table.NewCache(w.st)
	tab, err := cache.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.commit("commit", 60, 61, nil, w.base(60, row(60)))
	w.commit("commit", 70, 71, nil, w.base(70, row(70)))
	w.archive(60)
	if _, err := tab.Since(t.Context(), ""); !errors.Is(err, storage.ErrStale) {
		t.Errorf("an archive that is ahead of the look: %v", err)
	}
	if tab, err = cache.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	long, err := tab.Since(t.Context(), at(20))
	if err != nil || len(long.Timeline.Writes()) != 6 || !slices.ContainsFunc(long.Timeline.Writes(), func(i timeline.Instant) bool { return i.Archived && i.Requested == at(60) }) {
		t.Errorf("%v, %v", long, err)
	}
}
