package indexer_test

import (
	"bytes"
	"path"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

// The recorded table with a real archive and an index beside it, which stands at the last commit of a level file. The next level file is named no
// more when the catch-up begins. The table's metadata table tells of it, has followed the table only since then, or is not there: the
// index ends equal to the table.
func TestCatchUpOverALostFileBeside(t *testing.T) {
	t.Parallel()
	const lost = "20261130022521740_20261130022539210_0.parquet"
	const stood = "20261130022517831"
	steps := testkit.Oracle(t, "archived")
	for name, change := range map[string]func(t *testing.T, st *mem.Store){
		"followed": func(*testing.T, *mem.Store) {},
		"followed since": func(t *testing.T, st *mem.Store) {
			for _, p := range st.Paths() {
				rest, ok := strings.CutPrefix(p, ".hoodie/metadata/.hoodie/timeline/")
				if ok && (strings.HasPrefix(rest, "history/") || rest < "20261130022540") {
					if err := st.Delete(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
		"not there": withoutMDT,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, beyond := store(t, "archived"), mem.New("sink")
			p := beside(t, st, beyond)
			create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "3"})
			change(t, st)
			state, _, err := mdt.ReadState(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range steps {
				for _, i := range step.Instants {
					if i.Requested == stood {
						x := state.Indexes["embedding_idx"]
						x.Baseline = mdt.Baseline{Instants: map[string]string{stood: i.Completion}, Before: stood}
						x.Covered, x.Seen, x.Frontier = nil, nil, mdt.Frontier{Requested: stood, Completed: i.Completion}
						state.Archive = mdt.SeenArchive{}
					}
				}
			}
			b, err := mdt.EncodeState(state)
			if err != nil {
				t.Fatal(err)
			}
			beyond.Put(path.Base(p.StatePath()), b, time.Time{})
			manifest, _, err := st.ReadFile(t.Context(), history+"manifest_16")
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.LastIndex(manifest[:bytes.Index(manifest, []byte(lost))], []byte(", {"))
			end := at + bytes.IndexByte(manifest[at:], '}') + 1
			st.Put(history+"manifest_16", append(manifest[:at:at], manifest[end:]...), time.Time{})
			if s := status(t, p); s.State != coverage.StateCatchingUp {
				t.Fatalf("%+v", s)
			}
			r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{})
			if err != nil || r.Processed == 0 || len(r.Reconciled) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			unit := 0
			for _, m := range markersOf(t, p) {
				if m.Mode == "merged" {
					unit++
				}
			}
			t.Logf("%d covered, %d of them merged", r.Processed, unit)
			if s := status(t, p); !s.Fresh {
				t.Errorf("%+v", s)
			}
			if v, err := coverage.Verify(t.Context(), coverage.Deps{Place: p}, coverage.VerifyRequest{}); err != nil || !v.OK {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}
