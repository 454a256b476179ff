package table_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

func row(v float32) val { return val{key: "k", ts: int(v), v: v} }

func (w *world) want(cut table.Cut, want string) {
	w.t.Helper()
	if got, err := w.show(cut); err != nil || got != want {
		w.t.Errorf("got %q %v, want %q", got, err, want)
	}
}

func (w *world) wantErr(cut table.Cut, kind error, text string) {
	w.t.Helper()
	got, err := w.show(cut)
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("got %q %v, want %v naming %q", got, err, kind, text)
	}
}

func upto(n int) table.Cut { return table.Cut{Upto: at(n)} }

// One slice with many commits, cut after each: inclusive, exclusive and by sets.
func TestCuts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	for n := 10; n <= 50; n += 10 {
		w.commit("deltacommit", n, n+1, nil, w.log(n, data(n, row(float32(n)))))
	}
	w.want(upto(1), "")
	w.want(table.Cut{Upto: at(2), Before: true}, "")
	w.want(upto(2), "k=1/<nil>@0")
	for n := 10; n <= 50; n += 10 {
		before := fmt.Sprintf("k=%d/<nil>@-1", n-10)
		if n == 10 {
			before = "k=1/<nil>@0"
		}
		w.want(table.Cut{Upto: at(n + 1), Before: true}, before)
		w.want(upto(n+1), fmt.Sprintf("k=%d/<nil>@-1", n))
	}
	w.want(table.Cut{In: table.Only(map[string]bool{at(1): true, at(20): true})}, "k=20/<nil>@-1")
	w.want(table.Cut{In: table.Except(map[string]bool{at(50): true})}, "k=40/<nil>@-1")
	w.want(table.Cut{Upto: at(31), In: table.Except(map[string]bool{at(30): true})}, "k=20/<nil>@-1")
	w.want(table.Cut{In: table.Only(nil)}, "")
}

// A log joins the slice by its completion; inside a slice logs merge by requested time.
func TestOverlappingWriters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	w.commit("deltacommit", 10, 40, nil, w.log(10, data(10, row(10))))
	w.commit("deltacommit", 20, 25, nil, w.log(20, data(20, row(20))))
	w.want(upto(25), "k=20/<nil>@-1")
	w.want(upto(40), "k=20/<nil>@-1") // requested later, so it stays on top
	// A compaction of 20's log while 10 is pending: 10's log lies on the new base.
	w.commit("commit", 30, 35, nil, w.base(30, row(20)))
	w.want(upto(35), "k=20/<nil>@0")
	w.want(upto(40), "k=10/<nil>@-1")
}

func TestWhatIsNotVisible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	w.log(10, data(10, row(10))) // of a pending deltacommit
	w.put(".hoodie/timeline/"+at(10)+".deltacommit.requested", nil)
	w.put(".hoodie/timeline/"+at(10)+".deltacommit.inflight", nil)
	w.log(12, data(12, row(12))) // rolled back: nothing on the timeline
	w.base(13, row(13))          // of a pending compaction
	w.put(".hoodie/timeline/"+at(13)+".compaction.requested", nil)
	w.put("p/.g_"+at(1)+".log.1_0-0-0.cdc", []byte("x"))
	w.put("p/.g_0-0-0_"+at(1)+".parquet.crc", []byte("x"))
	w.put("p/._g_0-0-0_"+at(1)+".parquet", []byte("x"))
	w.put("p/readme.txt", []byte("x"))
	w.put("p/g_0-0-0_"+at(20)+"_1.log.parquet", []byte("x"))
	w.commit("deltacommit", 20, 21, nil, w.log(20, data(20, row(20))))
	w.want(table.Cut{}, "k=20/<nil>@-1")
	files, err := open(t, w.st).Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"change data log": 1, "hidden or temporary name": 2, "not a name of a base or log file": 1, "native log of table version 10": 1}
	if fmt.Sprint(files.Skipped) != fmt.Sprint(want) {
		t.Errorf("skipped %v, want %v", files.Skipped, want)
	}
}

// Files that carry a completed instant's time but that its metadata does not name are left by failed tasks.
func TestUnclaimedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	w.commit("deltacommit", 10, 11, nil, w.log(10, data(10, row(10))))
	w.put("p/.g_"+at(10)+".log.2_9-9-9", data(10, row(99)))
	w.put("p/g_9-9-9_"+at(1)+".parquet", []byte("half a file"))
	w.want(table.Cut{}, "k=10/<nil>@-1")
	files, err := open(t, w.st).Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, ok, err := files.Slice(table.Group{Partition: "p", FileID: "g"}, table.Cut{})
	if err != nil || !ok || s.Ignored != 2 {
		t.Errorf("%+v %v %v, want 2 ignored", s, ok, err)
	}
}

// A block of another instant in a visible log is judged by its own time; one that is not completed does not end the scan.
func TestBlockInstantDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"hoodie.table.initial.version": "6"})
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	// Version-6 names: both blocks lie in a log that carries the base instant, a third is of a failed write.
	l := w.log(1, data(10, row(10)), data(15, row(15)), data(20, row(20)))
	w.commit("deltacommit", 10, 11, nil, l)
	w.commit("deltacommit", 20, 21, nil, l)
	w.want(upto(2), "k=1/<nil>@0")
	w.want(upto(11), "k=10/<nil>@-1")
	w.want(upto(21), "k=20/<nil>@-1")
	// After a compaction the old log lies below the new base.
	w.commit("commit", 30, 31, nil, w.base(30, row(20)))
	w.want(upto(31), "k=20/<nil>@0")
}

func TestReplacedGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	w.commit("replacecommit", 10, 11, []string{"g"})
	w.want(upto(2), "k=1/<nil>@0")
	w.want(upto(11), "")
	w.want(table.Cut{In: table.Except(map[string]bool{at(10): true})}, "k=1/<nil>@0")
}

// Files that are gone never make a snapshot silently short.
func TestGone(t *testing.T) {
	t.Parallel()
	build := func() (*world, stat, stat) {
		w := newWorld(t, nil)
		b := w.base(1, row(1))
		w.commit("commit", 1, 2, nil, b)
		l := w.log(10, data(10, row(10)))
		w.commit("deltacommit", 10, 11, nil, l)
		w.commit("commit", 30, 31, nil, w.base(30, row(10)))
		return w, b, l
	}
	for i, name := range []string{"base", "log"} {
		w, b, l := build()
		if err := w.st.Delete(t.Context(), []string{b.path, l.path}[i]); err != nil {
			t.Fatal(err)
		}
		w.wantErr(upto(11), table.ErrGone, []string{b.path, l.path}[i])
		w.want(upto(31), "k=10/<nil>@0")
		if i == 1 {
			w.want(upto(2), "k=1/<nil>@0")
		}
		earliest, err := open(t, w.st).EarliestReadable(t.Context())
		if err != nil || earliest != at(30) {
			t.Errorf("%s gone: earliest readable %s %v, want %s", name, earliest, err, at(30))
		}
	}
	// Taken between finding the slice and reading it.
	w, b, l := build()
	tab := open(t, w.st)
	files, err := tab.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, ok, err := files.Slice(table.Group{Partition: "p", FileID: "g"}, upto(11))
	if err != nil || !ok || s.Instant != at(1) || len(s.Logs) != 1 {
		t.Fatal(s, ok, err)
	}
	for _, p := range []string{l.path, b.path} {
		if err := w.st.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		err := tab.ReadMerged(t.Context(), s, table.Columns{}, func(table.Row) error { return nil })
		if !errors.Is(err, table.ErrGone) || !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s taken while reading: %v", p, err)
		}
	}
}

// A log whose records were written onto a base file that nobody knows any more is not a log-only group.
func TestPositionsTellOfAMissingBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	b := logfile.AppendBlock(nil, logfile.TypeAvro, header(10, logfile.HeaderEntry{Key: logfile.PositionsBaseInstant, Value: at(1)}),
		logfile.AvroContent(nil, [][]byte{avro(10, row(10))}))
	w.commit("deltacommit", 10, 11, nil, w.log(10, b))
	w.wantErr(table.Cut{}, table.ErrGone, at(1))
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 3, 40, 100} {
		w := newWorld(t, nil)
		l := w.log(10, data(10, row(10)))
		b, _, err := w.st.ReadFile(t.Context(), l.path)
		if err != nil {
			t.Fatal(err)
		}
		w.commit("deltacommit", 10, 11, nil, l)
		w.put(l.path, b[:size])
		w.wantErr(table.Cut{}, storage.ErrCorrupt, l.path)
	}
	// A log whose only block says that it is of another instant: the commit's rows must not silently be missing.
	{
		w := newWorld(t, nil)
		l := w.log(10, data(9, row(10)))
		w.commit("deltacommit", 10, 11, nil, l)
		w.wantErr(table.Cut{}, storage.ErrCorrupt, l.path)
	}
	// Damage in the middle of a log of the right length: nothing of the slice is trusted.
	w := newWorld(t, nil)
	l := w.log(10, data(10, row(10)), data(10, val{key: "b", ts: 1, v: 2}), data(10, row(11)))
	w.commit("deltacommit", 10, 11, nil, l)
	b, _, err := w.st.ReadFile(t.Context(), l.path)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(b)
	bad[len(b)/2] ^= 0xff
	bad[len(b)/3+8] ^= 0xff
	w.put(l.path, bad)
	w.wantErr(table.Cut{}, storage.ErrCorrupt, l.path)

	w = newWorld(t, nil)
	base := w.base(1, row(1))
	w.commit("commit", 1, 2, nil, base)
	b, _, err = w.st.ReadFile(t.Context(), base.path)
	if err != nil {
		t.Fatal(err)
	}
	w.put(base.path, b[:len(b)-5])
	w.wantErr(table.Cut{}, storage.ErrCorrupt, base.path)
	copy(b[20:], "garbage garbage garbage")
	w.put(base.path, b)
	w.wantErr(table.Cut{}, storage.ErrCorrupt, base.path)
}

func TestHFileBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1), val{key: "l", ts: 1, v: 5}))
	hw := hfile.NewWriter(hfile.Config{Schema: logSchema})
	for _, r := range []val{row(10), {key: "m", ts: 1, v: 6}} {
		if err := hw.Append([]byte(r.key), avro(10, r)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := hw.Finish()
	if err != nil {
		t.Fatal(err)
	}
	w.commit("deltacommit", 10, 11, nil, w.log(10, logfile.AppendBlock(nil, logfile.TypeHFile, header(10), b), deletes(10, del("l"))))
	w.want(table.Cut{}, "k=10/<nil>@-1 m=6/<nil>@-1")
}

func TestArchivedTableBeforeTheActiveTimeline(t *testing.T) {
	t.Parallel()
	tab := open(t, load(t, "archived"))
	first := table.Cut{Upto: tab.Timeline.Earliest(), Before: true}
	first.Upto, _ = timeline.AddMillis(first.Upto, -1)
	plain, err := tab.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := since(t, tab.Store, "").Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range []*table.Files{plain, whole} {
		if _, _, err := files.Slice(files.Groups()[0], first); !errors.Is(err, table.ErrGone) {
			t.Errorf("snapshot before the active timeline: %v", err)
		}
		e, err := files.EarliestReadable()
		if err != nil || e == "" {
			t.Errorf("earliest readable: %q %v", e, err)
		}
	}
	a, _ := plain.EarliestReadable()
	b, _ := whole.EarliestReadable()
	if a != b {
		t.Errorf("with the archive %s, without %s", b, a)
	}
}

func TestOnePartitionOnly(t *testing.T) {
	t.Parallel()
	tab := open(t, load(t, "mor_basic"))
	all, err := tab.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	some, err := tab.Files(t.Context(), "eu")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all.Groups() {
		want, ok, err := all.Slice(g, table.Cut{})
		if err != nil {
			t.Fatal(err)
		}
		got, ok2, err := some.Slice(g, table.Cut{})
		if g.Partition != "eu" {
			if !errors.Is(err, storage.ErrUnsupported) {
				t.Errorf("%s: %v", g, err)
			}
			continue
		}
		if err != nil || ok != ok2 || fmt.Sprint(got.Base, got.Logs) != fmt.Sprint(want.Base, want.Logs) && got.Base != nil && got.Base.Path != want.Base.Path {
			t.Errorf("%s: %v %v", g, got, err)
		}
	}
}

func isGone(err error) bool { return errors.Is(err, table.ErrGone) }

// A base file that is gone is known from the clean that took it, or from the commit that followed it, although its own
// commit is archived and the listing does not show it.
func TestGoneFilesOfArchivedCommits(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"clean", "next commit"} {
		w := newWorld(t, nil)
		w.commit("commit", 1, 2, nil, w.base(1, row(1)))
		w.archive(1)
		next := w.base(30, row(30))
		if from == "next commit" {
			next.prev = path.Base(basePath(1))
		}
		w.commit("commit", 30, 31, nil, next)
		w.want(table.Cut{Upto: at(31), Before: true}, "k=1/<nil>@0")
		if err := w.st.Delete(t.Context(), basePath(1)); err != nil {
			t.Fatal(err)
		}
		if from == "clean" {
			w.clean(40, 41, basePath(1))
		}
		w.wantErr(table.Cut{Upto: at(31), Before: true}, table.ErrGone, basePath(1))
		w.want(table.Cut{}, "k=30/<nil>@0")
	}
}

// A group that was replaced by an instant since archived, and whose files a clean then took, shows nothing. A file that no clean
// took, or a group replaced by an instant that is still active, is gone as ever.
func TestCleanedGroupsOfArchivedReplaces(t *testing.T) {
	t.Parallel()
	build := func(archived bool) *world {
		w := newWorld(t, nil)
		w.commit("commit", 1, 2, nil, w.base(1, row(1)))
		w.commit("replacecommit", 10, 11, []string{"g"})
		if archived {
			w.archive(10)
		}
		w.commit("deltacommit", 30, 31, nil)
		w.clean(40, 41, basePath(1))
		w.commit("deltacommit", 50, 51, nil)
		if err := w.st.Delete(t.Context(), basePath(1)); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := build(true)
	w.want(table.Cut{}, "")
	w.want(upto(31), "")
	if e, err := open(t, w.st).EarliestReadable(t.Context()); err != nil || e != at(30) {
		t.Errorf("earliest readable: %q %v", e, err)
	}
	w = build(false)
	w.want(table.Cut{}, "")
	w.wantErr(table.Cut{In: table.Except(map[string]bool{at(10): true})}, table.ErrGone, basePath(1))
	w = newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	if err := w.st.Delete(t.Context(), basePath(1)); err != nil {
		t.Fatal(err)
	}
	w.wantErr(table.Cut{}, table.ErrGone, basePath(1))
}
