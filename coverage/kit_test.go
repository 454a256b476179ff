package coverage_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/open"
	"tidemark/timeline"
)

const (
	properties = "hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.metadata.partitions=files\nhoodie.table.timeline.timezone=UTC\n"
	vectorOf8  = `{"type":"record","name":"t_record","fields":[{"name":"id","type":"string"},{"name":"embedding","type":["null",{"type":"fixed","name":"vector_float_8","size":32,"logicalType":"vector","dimension":8,"elementType":"FLOAT"}]}]}`
	metadata   = ".hoodie/metadata/"
)

// at is an instant text: minute and second of one hour.
func at(minute, second int) string { return fmt.Sprintf("2026113002%02d%02d000", minute, second) }

// noon is the moment of the text at(0, 0).
var noon = time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)

// world is a table with one index, made of small texts.
type world struct {
	t     testing.TB
	store *mem.Store
	state *mdt.State
	now   time.Time
}

// newWorld makes a table whose writes of minutes 1 to n are completed 10 s after they were requested, and an index that
// covers the first covered ones, the first of them as its baseline.
func newWorld(t testing.TB, n, covered int) *world {
	t.Helper()
	w := &world{t: t, store: mem.New("t"), now: noon.Add(time.Hour)}
	w.put(".hoodie/hoodie.properties", properties)
	w.put(metadata+".hoodie/hoodie.properties", strings.Replace(properties, "=t\n", "=t_metadata\n", 1))
	w.put(".hoodie/timeline/.keep", "")
	x := &mdt.Index{Name: "embedding_idx", Column: "embedding", Element: avrox.ElementFloat, Dim: 8, Dir: "vector_index_embedding_idx", FileGroups: 1,
		Generations: []mdt.GenState{{Number: 1, State: mdt.GenActive}},
		Baseline:    mdt.Baseline{Instants: map[string]string{}}, Covered: map[string]string{}}
	w.state = mdt.NewState()
	w.state.Indexes[x.Name] = x
	w.file("base.hfile", 4, true)
	for i := 1; i <= n; i++ {
		w.commit(at(i, 0), at(i, 10))
		if i > covered {
			continue
		}
		if i == 1 {
			x.Baseline.Instants[at(1, 0)] = at(1, 10)
		} else {
			x.Covered[at(i, 0)] = at(i, 10)
		}
		x.Frontier = mdt.Frontier{Requested: at(i, 0), Completed: at(i, 10)}
	}
	w.witness()
	return w
}

// witness notes what the index incorporates, as a commit of ours does.
func (w *world) witness() {
	w.t.Helper()
	_, tl, err := timeline.Open(w.t.Context(), w.store, ".hoodie")
	if err != nil {
		w.t.Fatal(err)
	}
	w.index().Witness(tl.Writes(), nil)
	evidence := mdt.Commit{ID: at(9, 0)}
	for requested, completed := range w.index().Covered {
		evidence.Covered = append(evidence.Covered, mdt.CoveredInstant{Index: "embedding_idx", Requested: requested, Completed: completed})
	}
	w.state.Commits = append(w.state.Commits, evidence)
	w.state.Archive.Earliest = tl.Earliest()
}

func (w *world) index() *mdt.Index { return w.state.Indexes["embedding_idx"] }

func (w *world) put(path, text string) { w.store.Put(path, []byte(text), noon) }

func (w *world) drop(path string) {
	w.t.Helper()
	if err := w.store.Delete(w.t.Context(), path); err != nil {
		w.t.Fatal(err)
	}
}

// file adds a file of the index to state and store.
func (w *world) file(name string, size int64, base bool) {
	f := mdt.DataFile{Path: "vector_index_embedding_idx/" + name, Index: "embedding_idx", Size: size, Base: base}
	w.state.Base = append(w.state.Base, f)
	w.put(metadata+f.Path, strings.Repeat("x", int(size)))
}

func (w *world) commit(requested, completed string) {
	w.instant(requested+"_"+completed+".deltacommit", commitOf(vectorOf8))
}

func commitOf(schema string) string {
	b, _ := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": map[string]string{"schema": schema}})
	return string(b)
}

func (w *world) instant(name, content string) { w.put(".hoodie/timeline/"+name, content) }

func (w *world) deps() coverage.Deps {
	if w.state != nil {
		b, err := mdt.EncodeState(w.state)
		if err != nil {
			w.t.Fatal(err)
		}
		w.put(".hoodie/.tidemark/state.json", string(b))
	}
	return coverage.Deps{Place: mdt.Inside(w.store), Table: "/data/t", Now: func() time.Time { return w.now }}
}

func (w *world) status() coverage.IndexStatus {
	w.t.Helper()
	all, err := coverage.Status(w.t.Context(), w.deps())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(all) != 1 {
		w.t.Fatalf("%d statuses, want one", len(all))
	}
	return all[0]
}

func newEmpty(t testing.TB) storage.Store {
	t.Helper()
	return mem.New("empty")
}

func openFixture(t testing.TB, dir string) storage.Store {
	t.Helper()
	st, err := open.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// archive moves instants to the archived timeline: rows of requested time, completion time and action.
func (w *world) archive(rows ...[3]string) {
	w.t.Helper()
	columns := make([][][]byte, 3)
	for _, r := range rows {
		w.drop(".hoodie/timeline/" + r[0] + "_" + r[1] + "." + r[2])
		for c := range columns {
			columns[c] = append(columns[c], []byte(r[c]))
		}
	}
	none, version := make([][]byte, len(rows)), make([][]byte, len(rows))
	for n := range version {
		version[n] = []byte{1, 0, 0, 0}
	}
	b := basefiletest.Write(w.t, basefiletest.Config{},
		basefiletest.Column{Name: "instantTime", Kind: basefile.String, Values: columns[0]},
		basefiletest.Column{Name: "completionTime", Kind: basefile.String, Values: columns[1]},
		basefiletest.Column{Name: "action", Kind: basefile.String, Values: columns[2]},
		basefiletest.Column{Name: "metadata", Kind: basefile.Bytes, Values: none},
		basefiletest.Column{Name: "plan", Kind: basefile.Bytes, Values: none},
		basefiletest.Column{Name: "version", Kind: basefile.Int32, Values: version})
	name := rows[0][0] + "_" + rows[len(rows)-1][0] + "_0.parquet"
	w.put(".hoodie/timeline/history/"+name, string(b))
	w.put(".hoodie/timeline/history/_version_", "1")
	w.put(".hoodie/timeline/history/manifest_1", fmt.Sprintf(`{"files":[{"fileName":%q,"fileLen":%d}]}`, name, len(b)))
}

func archivedWrite(minute int) [3]string {
	return [3]string{at(minute, 0), at(minute, 10), "deltacommit"}
}
