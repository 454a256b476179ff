package table_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// archive moves the completed instants requested up to n from the active timeline into one archive file.
func (w *world) archive(n int) {
	w.t.Helper()
	infos, err := w.st.List(w.t.Context(), ".hoodie/timeline")
	if err != nil {
		w.t.Fatal(err)
	}
	var requested, completed, actions []string
	var metadata [][]byte
	for _, info := range infos {
		times, action, _ := strings.Cut(path.Base(info.Path), ".")
		r, c, ok := strings.Cut(times, "_")
		if !ok || r > at(n) {
			continue
		}
		b, _, err := w.st.ReadFile(w.t.Context(), info.Path)
		if err != nil {
			w.t.Fatal(err)
		}
		requested, completed, actions, metadata = append(requested, r), append(completed, c), append(actions, action), append(metadata, b)
		if err := w.st.Delete(w.t.Context(), info.Path); err != nil {
			w.t.Fatal(err)
		}
	}
	text := func(name string, v []string) basefiletest.Column {
		return basefiletest.Column{Name: name, Kind: basefile.String, Values: basefiletest.Strings(v...)}
	}
	b := basefiletest.Write(w.t, basefiletest.Config{}, text("instantTime", requested), text("completionTime", completed), text("action", actions),
		basefiletest.Column{Name: "metadata", Kind: basefile.Bytes, Values: metadata},
		basefiletest.Column{Name: "plan", Kind: basefile.Bytes, Values: make([][]byte, len(metadata))},
		basefiletest.Column{Name: "version", Kind: basefile.Int32, Required: true, Values: slices.Repeat([][]byte{{1, 0, 0, 0}}, len(metadata))})
	name := fmt.Sprintf("%s_%s_0.parquet", requested[0], requested[len(requested)-1])
	w.put(".hoodie/timeline/history/"+name, b)
	w.put(".hoodie/timeline/history/manifest_1", fmt.Appendf(nil, `{"files":[{"fileName":"%s","fileLen":%d}]}`, name, len(b)))
	w.put(".hoodie/timeline/history/_version_", []byte("1"))
}

// since opens a table with the history that completed after a time.
func since(t testing.TB, st storage.Store, after string) *table.Table {
	t.Helper()
	tab, err := open(t, st).Since(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// A log of an archived instant that began before a base file and completed after it lies on that base: only the archive
// tells.
func TestArchivedLogBesideALaterBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	w.commit("deltacommit", 10, 40, nil, w.log(10, data(10, row(10))))
	w.commit("deltacommit", 20, 25, nil, w.log(20, data(20, row(20))))
	w.commit("commit", 30, 35, nil, w.base(30, row(20)))
	w.commit("deltacommit", 50, 51, nil, w.log(50, data(50, val{key: "z", ts: 1, v: 1})))
	const want = "k=10/<nil>@-1 z=1/<nil>@-1"
	w.want(table.Cut{}, want)
	w.archive(30)
	w.want(table.Cut{}, want)
}

// A snapshot before the active timeline can be read with the archive as long as its files are there, and is never short.
func TestSnapshotOfArchivedInstants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	l := w.log(10, data(10, row(10)))
	w.commit("deltacommit", 10, 11, nil, l)
	w.commit("commit", 30, 31, nil, w.base(30, row(10)))
	w.commit("deltacommit", 50, 51, nil, w.log(50, data(50, row(50))))
	w.archive(30)
	w.want(upto(51), "k=50/<nil>@-1")
	w.want(table.Cut{Upto: at(51), Before: true}, "k=10/<nil>@0")

	read := func() (string, error) {
		tab := since(t, w.st, "")
		files, err := tab.Files(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, ok, err := files.Slice(table.Group{Partition: "p", FileID: "g"}, upto(11))
		if err != nil || !ok {
			return "", err
		}
		text := ""
		err = tab.ReadMerged(t.Context(), s, table.Columns{}, func(r table.Row) error { text += r.CommitTime; return nil })
		return text, err
	}
	if got, err := read(); err != nil || got != at(10) {
		t.Errorf("with the archive: %q %v, want %s", got, err, at(10))
	}
	if err := w.st.Delete(t.Context(), l.path); err != nil {
		t.Fatal(err)
	}
	if got, err := read(); !isGone(err) {
		t.Errorf("with the archive, log cleaned: %q %v", got, err)
	}
}

// Without the archive a snapshot before the active timeline is refused: an archived file that came later would pass for an
// earlier one.
func TestSnapshotBeforeTheActiveTimelineIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, row(1)))
	w.commit("commit", 5, 6, nil, w.base(5, row(5)))
	w.commit("commit", 30, 31, nil)
	w.archive(5)
	w.wantErr(upto(2), table.ErrGone, "before the active timeline")
	w.want(upto(31), "k=5/<nil>@0")
	files, err := since(t, w.st, "").Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s, ok, err := files.Slice(table.Group{Partition: "p", FileID: "g"}, upto(2)); err != nil || !ok || s.Instant != at(1) {
		t.Errorf("with the archive: %v %v %v", s, ok, err)
	}
}
