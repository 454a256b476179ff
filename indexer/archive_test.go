package indexer_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// history is where the recorded tables keep their archived timeline.
const history = ".hoodie/timeline/history/"

// archiveSome returns a copy of a table whose oldest n data writes, with all other completed instants that were requested
// before the last of them, are archived as Hudi's archiver does it: one more level file, a new manifest, no active files. Those kept, by
// requested time, stay where they are, as if a savepoint held them.
func archiveSome(t *testing.T, from *mem.Store, n int, kept ...string) *mem.Store {
	t.Helper()
	st := from.Clone()
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	all := tb.Timeline.Instants()
	slices.SortFunc(all, func(a, b timeline.Instant) int { return strings.Compare(a.Requested, b.Requested) })
	var rows []timeline.Instant
	writes := 0
	for _, i := range all {
		if writes == n || i.State != timeline.Completed {
			break
		}
		if i.IsDataWrite() {
			writes++
		}
		if !slices.Contains(kept, i.Requested) {
			rows = append(rows, i)
		}
	}
	if writes != n {
		t.Fatalf("only %d of %d data writes can be archived", writes, n)
	}
	read := func(name string) []byte {
		if name == "" {
			return nil
		}
		b, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	columns := make([][][]byte, 6)
	for _, i := range rows {
		for c, v := range [][]byte{[]byte(i.Requested), []byte(i.Completed), []byte(i.Action), read(i.File), read(i.Plan), binary.LittleEndian.AppendUint32(nil, 1)} {
			columns[c] = append(columns[c], v)
		}
	}
	b := basefiletest.Write(t, basefiletest.Config{},
		basefiletest.Column{Name: "instantTime", Kind: basefile.String, Values: columns[0]},
		basefiletest.Column{Name: "completionTime", Kind: basefile.String, Values: columns[1]},
		basefiletest.Column{Name: "action", Kind: basefile.String, Values: columns[2]},
		basefiletest.Column{Name: "metadata", Kind: basefile.Bytes, Values: columns[3]},
		basefiletest.Column{Name: "plan", Kind: basefile.Bytes, Values: columns[4]},
		basefiletest.Column{Name: "version", Kind: basefile.Int32, Values: columns[5]})
	name := rows[0].Requested + "_" + rows[len(rows)-1].Requested + "_0.parquet"
	st.Put(history+name, b, time.Time{})

	type file struct {
		Name string `json:"fileName"`
		Len  int    `json:"fileLen"`
	}
	var manifest struct {
		Files []file `json:"files"`
	}
	version := 0
	if text, _, err := st.ReadFile(t.Context(), history+"_version_"); err == nil {
		if version, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
		old, _, err := st.ReadFile(t.Context(), fmt.Sprintf("%smanifest_%d", history, version))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(old, &manifest); err != nil {
			t.Fatal(err)
		}
	}
	manifest.Files = append(manifest.Files, file{name, len(b)})
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	st.Put(fmt.Sprintf("%smanifest_%d", history, version+1), text, time.Time{})
	st.Put(history+"_version_", []byte(strconv.Itoa(version+1)), time.Time{})
	for _, f := range st.Paths() {
		for _, i := range rows {
			if path.Dir(f) == ".hoodie/timeline" && strings.HasPrefix(path.Base(f), i.Requested) {
				if err := st.Delete(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return st
}
