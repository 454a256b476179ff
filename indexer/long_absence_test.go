package indexer_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// absence is a table whose index stands at a commit after which n commits without files were archived, and one is active.
func absence(t testing.TB, n int) *mem.Store {
	t.Helper()
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	last := writes[len(writes)-1]
	create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "2"})
	meta, err := tb.Commit(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": map[string]string{"schema": meta.Extra["schema"]}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) string {
		text, err := timeline.AddMillis(last.Completed, 1000*(i+1))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	columns := make([][][]byte, 6)
	add := func(requested, completed string, metadata []byte) {
		for c, v := range [][]byte{[]byte(requested), []byte(completed), []byte("commit"), metadata, nil, binary.LittleEndian.AppendUint32(nil, 1)} {
			columns[c] = append(columns[c], v)
		}
	}
	for _, w := range writes {
		b, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+w.File)
		if err != nil {
			t.Fatal(err)
		}
		add(w.Requested, w.Completed, b)
	}
	for i := range n {
		add(at(i), at(i)[:14]+"999", empty)
	}
	kinds := []basefile.Kind{basefile.String, basefile.String, basefile.String, basefile.Bytes, basefile.Bytes, basefile.Int32}
	var cols []basefiletest.Column
	for c, name := range []string{"instantTime", "completionTime", "action", "metadata", "plan", "version"} {
		cols = append(cols, basefiletest.Column{Name: name, Kind: kinds[c], Values: columns[c]})
	}
	b := basefiletest.Write(t, basefiletest.Config{PageRows: 1000}, cols...)
	name := writes[0].Requested + "_" + at(n-1) + "_1.parquet"
	st.Put(history+name, b, time.Time{})
	st.Put(history+"manifest_1", fmt.Appendf(nil, `{"files":[{"fileName":%q,"fileLen":%d}]}`, name, len(b)), time.Time{})
	st.Put(history+"_version_", []byte("1"), time.Time{})
	for _, i := range tb.Timeline.Instants() {
		for _, f := range st.Paths() {
			if len(f) > 33 && f[:17] == ".hoodie/timeline/" && f[17:34] == i.Requested {
				if err := st.Delete(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	st.Put(".hoodie/timeline/"+at(n)+"_"+at(n)[:14]+"999.commit", empty, time.Time{})
	return st
}

// A catch-up over commits that changed no files: all are covered, and the time grows with their number, not with its square.
func TestLongAbsence(t *testing.T) {
	t.Parallel()
	n := 300
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		n = 10_000
	}
	st := absence(t, n)
	p := mdt.Inside(st)
	if s := status(t, p); s.Fresh || *s.LagInstants != n+1 {
		t.Fatalf("status: %+v", s)
	}
	began := time.Now()
	r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(n, "commits in", time.Since(began))
	if r.Processed != n+1 || len(r.Reconciled) != 1 { // the metadata table followed none of them
		t.Errorf("processed %d, %d reconciled", r.Processed, len(r.Reconciled))
	}
	s := status(t, p)
	if !s.Fresh {
		t.Errorf("status: %+v", s)
	}
	state, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if x := state.Indexes["embedding_idx"]; len(x.Covered) > 2 {
		t.Errorf("the state still names %d archived commits", len(x.Covered))
	}
}
