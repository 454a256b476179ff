package timeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

const history = ".hoodie/timeline/history/"

// at is an instant time, n milliseconds (less than a minute) after a moment.
func at(n int) string { return fmt.Sprintf("202601010000%05d", n) }

// row is one row of a level file that is made up. version defaults to 1, an empty completed is null.
type row struct {
	requested, completed, action string
	metadata, plan               []byte
	version                      byte
}

func commitRow(n int) row {
	return row{requested: at(n), completed: at(n + 1), action: "commit", metadata: commitText(n)}
}

// commitText is the metadata of a commit that wrote one file.
func commitText(n int) []byte {
	return fmt.Appendf(nil, `{"partitionToWriteStats":{"p":[{"fileId":"g","path":"p/g_1-0-1_%s.parquet","prevCommit":"null","numWrites":%d}]},"operationType":"UPSERT","extraMetadata":{"schema":""}}`,
		at(n), n)
}

func level(t testing.TB, rows ...row) []byte {
	t.Helper()
	columns := []basefiletest.Column{{Name: "instantTime", Kind: basefile.String}, {Name: "completionTime", Kind: basefile.String}, {Name: "action", Kind: basefile.String},
		{Name: "metadata", Kind: basefile.Bytes}, {Name: "plan", Kind: basefile.Bytes}, {Name: "version", Kind: basefile.Int32, Required: true}}
	for _, r := range rows {
		completed := []byte(r.completed)
		if r.completed == "" {
			completed = nil
		}
		for i, v := range [][]byte{[]byte(r.requested), completed, []byte(r.action), r.metadata, r.plan, {max(1, r.version), 0, 0, 0}} {
			columns[i].Values = append(columns[i].Values, v)
		}
	}
	return basefiletest.Write(t, basefiletest.Config{PageRows: 100}, columns...)
}

// archive makes level files, each of some rows, and a manifest that names them. It returns their paths.
func archive(t testing.TB, st *mem.Store, version int, files ...[]row) []string {
	t.Helper()
	var names []string
	text := ""
	for i, rows := range files {
		b := level(t, rows...)
		name := fmt.Sprintf("%s_%s_%d.parquet", lowest(rows), highest(rows), i%10)
		st.Put(history+name, b, time.Unix(int64(i), 0))
		names = append(names, history+name)
		text += fmt.Sprintf(`,{ "fileName" : "%s", "fileLen" : %d }`, name, len(b))
	}
	manifestOf(st, version, text[min(1, len(text)):])
	return names
}

func manifestOf(st *mem.Store, version int, entries string) {
	st.Put(fmt.Sprintf("%smanifest_%d", history, version), fmt.Appendf(nil, `{"files":[%s]}`, entries), time.Unix(0, 0))
	st.Put(history+"_version_", fmt.Append(nil, version), time.Unix(int64(version), 0))
}

func lowest(rows []row) string {
	return slices.MinFunc(rows, func(a, b row) int { return compareText(a.requested, b.requested) }).requested
}

func highest(rows []row) string {
	return slices.MaxFunc(rows, func(a, b row) int { return compareText(a.requested, b.requested) }).requested
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func commitRows(from, to int) []row {
	var rows []row
	for i := from; i <= to; i++ {
		rows = append(rows, commitRow(i))
	}
	return rows
}

func newArchive(t testing.TB, st *mem.Store) *timeline.Archive {
	t.Helper()
	return timeline.NewArchive(st, dotHoodie, mustLoad(t, v9))
}

// container is an Avro file of one record.
func container(t testing.TB, schema string, record map[string]any) []byte {
	t.Helper()
	b, err := avrox.WriteContainer(schema, record, [16]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
