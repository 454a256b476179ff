package timeline_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

func find(t testing.TB, tl *timeline.Timeline, requested string, action timeline.Action) timeline.Instant {
	t.Helper()
	for _, i := range tl.Instants() {
		if i.Requested == requested && i.Action == action {
			return i
		}
	}
	t.Fatalf("no %s %s", action, requested)
	return timeline.Instant{}
}

func first(t testing.TB, instants []timeline.Instant) timeline.Instant {
	t.Helper()
	if len(instants) == 0 {
		t.Fatal("no such instant")
	}
	return instants[0]
}

// Both forms of commit metadata give the same model (O-TL-03).
func TestBothFormsOfCommitMetadata(t *testing.T) {
	t.Parallel()
	v6, err := timeline.ParseCommit(testkit.File(t, "hudi-rs/commit_metadata/v6_commit.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := v6.Stats[0]
	if v6.Operation != "UPSERT" || s.Partition != "" || s.PrevCommit != "20240418173550988" || s.NumWrites != 4 || s.NumUpdates != 1 || s.NumInserts != 1 ||
		s.Path != "a079bdb3-731c-4894-b855-abfcd6921007-0_0-203-274_20240418173551906.parquet" || v6.Extra["schema"] == "" {
		t.Errorf("JSON: %+v", v6)
	}
	v8, err := timeline.ParseCommit(testkit.File(t, "hudi-rs/commit_metadata/v8_deltacommit.avro"))
	if err != nil {
		t.Fatal(err)
	}
	if len(v8.Stats) == 0 || v8.Stats[0].FileID == "" || v8.Extra["schema"] == "" {
		t.Errorf("Avro: %+v", v8)
	}
	replace, err := timeline.ParseCommit([]byte(` {"partitionToWriteStats":{"b":[{"fileId":"f","path":"b/f","prevCommit":"null","cdcStats":{"b/c":7},"later":1}],"a":[]},
		"extraMetadata":{"k":null,"x":"y"},"operationType":"cluster","compacted":true,"partitionToReplaceFileIds":{"b":["g","h"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "JSON replace", &timeline.CommitMetadata{Operation: "CLUSTER", Compacted: true, Extra: map[string]string{"x": "y"},
		Replaced: map[string][]string{"b": {"g", "h"}},
		Stats:    []timeline.WriteStat{{Partition: "b", FileID: "f", Path: "b/f", CDC: map[string]int64{"b/c": 7}}}}, replace)
}

func TestEmptyCommits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, `{"partitionToWriteStats":{},"compacted":false,"extraMetadata":{},"operationType":"BULK_INSERT"}`,
		`{"partitionToWriteStats":null,"extraMetadata":null}`} {
		m, err := timeline.ParseCommit([]byte(text))
		if err != nil || len(m.Stats) != 0 || m.Extra == nil || m.Replaced == nil {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	st, p, tl := fixture(t, "merge_noop")
	empty := 0
	for _, w := range tl.Writes() {
		m, err := timeline.ReadCommit(t.Context(), st, dotHoodie, p, w)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Stats) == 0 {
			empty++
		}
	}
	equal(t, "empty deltacommits of merge_noop", 4, empty)
}

// A completed file that is empty or cut for good is corrupt and named (O-TL-01, O-TL-02).
func TestDamagedCommits(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "cow_basic")
	inst := tl.Writes()[2]
	whole, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+inst.File)
	if err != nil {
		t.Fatal(err)
	}
	json := []byte(`{"partitionToWriteStats":{"":[{"fileId":"f","path":"f"}]},"operationType":"UPSERT"}`)
	for name, b := range map[string][]byte{
		"empty": nil, "Avro cut in the middle": whole[:len(whole)*6/10], "Avro cut at the end": whole[:len(whole)-1],
		"Avro header only": whole[:headerLength(t, whole)], "JSON cut": json[:len(json)-2], "JSON list": []byte(`[]`), "blank": []byte(" \n"),
		"text": []byte("commit"), "JSON of other types": []byte(`{"partitionToWriteStats":7}`), "two JSON values": append(slices.Clone(json), json...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				damaged := files(t, map[string]string{".hoodie/timeline/" + inst.File: string(b)})
				_, err := timeline.ReadCommit(t.Context(), damaged, dotHoodie, p, inst)
				if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), inst.File) || storage.Hint(err) == "" {
					t.Errorf("got %v, want corrupt with the file's name and a hint", err)
				}
			})
		})
	}
}

// A byte flipped in a name or a path must not turn a commit into one of fewer, or of other, files. Flips that Avro itself
// notices are damage, too.
func TestFlippedCommits(t *testing.T) {
	t.Parallel()
	st, _, tl := fixture(t, "cow_basic")
	whole, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+tl.Writes()[2].File)
	if err != nil {
		t.Fatal(err)
	}
	m, err := timeline.ParseCommit(whole)
	if err != nil {
		t.Fatal(err)
	}
	stat := m.Stats[0]
	for _, text := range []string{`"partitionToWriteStats"`, `"extraMetadata"`, `"operationType"`, `"fileId"`, `"path"`, `"prevCommit"`, stat.Path, stat.FileID} {
		at := strings.Index(string(whole), text)
		if at < 0 {
			t.Fatalf("no %s", text)
		}
		b := slices.Clone(whole)
		b[at+1] ^= 1
		if _, err := timeline.ParseCommit(b); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("a flip in %s: %v", text, err)
		}
	}
}

func TestFlippedReplaceCommit(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "cow_clustering")
	inst := first(t, tl.CompletedOf(timeline.ReplaceCommit))
	whole, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+inst.File)
	if err != nil {
		t.Fatal(err)
	}
	whole[strings.Index(string(whole), `"partitionToReplaceFileIds"`)+1] ^= 1
	synctest.Test(t, func(t *testing.T) {
		damaged := files(t, map[string]string{".hoodie/timeline/" + inst.File: string(whole)})
		if _, err := timeline.ReadCommit(t.Context(), damaged, dotHoodie, p, inst); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStatsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]error{
		`"p":[{"fileId":"f","path":"p/f_1-0-1_001.parquet","partitionPath":"p"}]`: nil,
		`"p":[{"fileId":"f","path":"p/.f_001.log.1_1-0-1"}]`:                      nil,
		`"":[{"fileId":"f","path":"f_1-0-1_001.parquet","partitionPath":""}]`:     nil,
		`"p":[{"fileId":"f"}]`:                                                    nil, // announced
		`"p":[{"fileId":"f","path":"p/g_1-0-1_001.parquet"}]`:                     storage.ErrCorrupt,
		`"p":[{"fileId":"f","path":"p/ff_1-0-1_001.parquet"}]`:                    storage.ErrCorrupt,
		`"p":[{"path":"p/f_1-0-1_001.parquet"}]`:                                  storage.ErrCorrupt,
		`"p":[{"fileId":"f","path":"q/f_1-0-1_001.parquet"}]`:                     storage.ErrCorrupt,
		`"p":[{"fileId":"f","path":"f_1-0-1_001.parquet"}]`:                       storage.ErrCorrupt,
		`"p":[{"fileId":"f","path":"p/f_1-0-1_001.parquet","partitionPath":"q"}]`: storage.ErrCorrupt,
	} {
		if _, err := timeline.ParseCommit([]byte(`{"partitionToWriteStats":{` + stat + `}}`)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", stat, err, want)
		}
	}
}

// headerLength is where the first block begins: behind the first sync marker, which also ends the file.
func headerLength(t *testing.T, whole []byte) int {
	t.Helper()
	i := strings.Index(string(whole), string(whole[len(whole)-16:]))
	if i < 0 {
		t.Fatal("no sync marker")
	}
	return i + 16
}

// growing serves a file cut twice and then whole.
type growing struct {
	storage.Store
	calls int
}

func (g *growing) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	b, info, err := g.Store.ReadFile(ctx, path)
	if g.calls++; g.calls <= 2 {
		b = b[:len(b)*6/10]
	}
	return b, info, err
}

func TestCommitCutForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, p, tl := fixture(t, "cow_basic")
		m, err := timeline.ReadCommit(t.Context(), &growing{Store: st}, dotHoodie, p, tl.Writes()[0])
		if err != nil || len(m.Stats) == 0 {
			t.Errorf("got %+v, %v", m, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := timeline.ReadCommit(ctx, &growing{Store: st}, dotHoodie, p, tl.Writes()[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestVanishedCommit(t *testing.T) {
	t.Parallel()
	_, p, tl := fixture(t, "cow_basic")
	_, err := timeline.ReadCommit(t.Context(), files(t, nil), dotHoodie, p, tl.Writes()[0])
	if !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestReadersRefuseOtherActions(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "rollback_restore")
	ctx, commit := t.Context(), tl.Writes()[0]
	clean := timeline.Instant{Requested: "1", Completed: "2", Action: timeline.Clean, State: timeline.Completed, File: "1_2.clean"}
	var errs []error
	collect := func(_ any, err error) { errs = append(errs, err) }
	collect(timeline.ReadCommit(ctx, st, dotHoodie, p, clean))
	collect(timeline.ReadClean(ctx, st, dotHoodie, p, commit))
	collect(timeline.ReadRollback(ctx, st, dotHoodie, p, commit))
	collect(timeline.ReadRestore(ctx, st, dotHoodie, p, commit))
	collect(timeline.ReadSavepoint(ctx, st, dotHoodie, p, commit))
	collect(timeline.ReadIndexing(ctx, st, dotHoodie, p, commit))
	collect(timeline.ReadCompactionPlan(ctx, st, dotHoodie, p, commit))
	collect(timeline.ReadClusteringPlan(ctx, st, dotHoodie, p, commit))
	for i, err := range errs {
		if !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("reader %d: %v", i, err)
		}
	}
}

// Inserts minus deletes in the write stats are what the oracle's rows gained, for a table without duplicates.
func TestWriteStatsAgreeWithTheRows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cow_basic", "mor_basic"} {
		st, p, tl := fixture(t, name)
		rows := 0
		for _, step := range testkit.Oracle(t, name) {
			var inserts, deletes int64
			for _, i := range step.Instants {
				inst, ok := tl.Find(i.Requested)
				if !ok {
					t.Fatalf("%s: instant %s is gone", name, i.Requested)
				}
				m, err := timeline.ReadCommit(t.Context(), st, dotHoodie, p, inst)
				if err != nil {
					t.Fatal(err)
				}
				b, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+inst.File)
				if err != nil || m.Digest != sha256.Sum256(b) {
					t.Errorf("%s: digest of %s, %v", name, inst.File, err)
				}
				for _, s := range m.Stats {
					if m.Operation != "COMPACT" {
						inserts, deletes = inserts+s.NumInserts, deletes+s.NumDeletes
					}
				}
			}
			if got := int(inserts - deletes); got != len(step.Rows)-rows {
				t.Errorf("%s step %d: stats say %+d rows, the oracle %+d", name, step.Step, got, len(step.Rows)-rows)
			}
			rows = len(step.Rows)
		}
	}
}

func TestReplaceOps(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "replace_ops")
	var got []string
	for _, w := range tl.CompletedOf(timeline.ReplaceCommit) {
		m, err := timeline.ReadCommit(t.Context(), st, dotHoodie, p, w)
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]bool{}
		for _, s := range m.Stats {
			written[s.Partition] = true
			if s.PrevCommit != "" || s.Partition == "" {
				t.Errorf("%s: stat %+v", w.File, s)
			}
		}
		for partition, ids := range m.Replaced {
			if len(ids) == 0 {
				t.Errorf("%s: nothing replaced in %s", w.File, partition)
			}
		}
		got = append(got, m.Operation)
		if m.Operation == "DELETE_PARTITION" && len(m.Stats) != 0 {
			t.Error("delete_partition wrote files")
		}
	}
	slices.Sort(got)
	equal(t, "operations", []string{"DELETE_PARTITION", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"}, got)
}

func TestLogAppendStats(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "mor_basic")
	var appends, fills int
	for _, w := range tl.CompletedOf(timeline.DeltaCommit) {
		m, err := timeline.ReadCommit(t.Context(), st, dotHoodie, p, w)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Stats {
			if len(s.LogFiles) > 0 {
				appends++
				if s.PrevCommit != w.Requested || s.BaseFile != "" || s.LogFiles[0] != s.Path[strings.LastIndexByte(s.Path, '/')+1:] {
					t.Errorf("log append %+v", s)
				}
			} else if s.PrevBaseFile != "" {
				fills++
			}
		}
	}
	if appends == 0 || fills == 0 {
		t.Errorf("%d log appends, %d filled base files", appends, fills)
	}
	st, p, tl = fixture(t, "cdc_mor")
	w := first(t, tl.CompletedOf(timeline.DeltaCommit))
	m, err := timeline.ReadCommit(t.Context(), st, dotHoodie, p, w)
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Stats[0]; s.PrevCommit == w.Requested || s.BaseFile == "" {
		t.Errorf("log append of a CDC table %+v", s)
	}
	st, p, tl = fixture(t, "cdc")
	m, err = timeline.ReadCommit(t.Context(), st, dotHoodie, p, tl.Writes()[1])
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Stats[0].CDC) != 1 {
		t.Errorf("change data files of %+v", m.Stats[0])
	}
}

func TestPendingCommits(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "rollback_cow")
	m, err := timeline.ReadCommit(t.Context(), st, dotHoodie, p, first(t, tl.Pending()))
	if err != nil || len(m.Stats) == 0 {
		t.Errorf("inflight commit announces %+v, %v", m, err)
	}
	st, p, tl = fixture(t, "pending")
	plan := first(t, tl.Pending())
	m, err = timeline.ReadCommit(t.Context(), st, dotHoodie, p, plan)
	if err != nil || len(m.Stats) != 0 || plan.Action != timeline.Compaction {
		t.Errorf("pending compaction as a commit: %+v, %v", m, err)
	}
	c, err := timeline.ReadCompactionPlan(t.Context(), st, dotHoodie, p, plan)
	if err != nil || len(c.Operations) == 0 {
		t.Fatal(c, err)
	}
	if op := c.Operations[0]; !strings.HasPrefix(op.BaseFile, op.FileID+"_") || len(op.LogFiles) == 0 || op.LogFiles[0][0] != '.' || op.Partition == "" || len(op.BaseInstant) != 17 {
		t.Errorf("operation %+v", op)
	}
}

func TestClusteringPlan(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "cow_pending_clustering")
	plan, err := timeline.ReadClusteringPlan(t.Context(), st, dotHoodie, p, first(t, tl.Pending()))
	if err != nil {
		t.Fatal(err)
	}
	s := plan.Groups[0][0]
	if plan.Operation != "CLUSTER" || s.Partition != "eu" || strings.Contains(s.BaseFile, "/") || !strings.HasPrefix(s.BaseFile, s.FileID) {
		t.Errorf("plan %+v", plan)
	}
	st, p, tl = fixture(t, "replace_ops")
	plan, err = timeline.ReadClusteringPlan(t.Context(), st, dotHoodie, p, first(t, tl.CompletedOf(timeline.ReplaceCommit)))
	if err != nil || len(plan.Groups) != 0 {
		t.Errorf("insert overwrite has plan %+v, %v", plan, err)
	}
}

func TestCleanRollbackRestoreSavepoint(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st, p, tl := fixture(t, "mor_compaction_clean")
	c, err := timeline.ReadClean(ctx, st, dotHoodie, p, find(t, tl, "20261130021812204", timeline.Clean))
	if err != nil {
		t.Skipf("the fixture was made anew: %v", err)
	}
	if c.EarliestRetained != "20261130021757974" || c.LastCompleted != "20261130021804946" || len(c.Deleted["eu"]) != 2 || len(c.Failed) != 0 || strings.Contains(c.Deleted["eu"][0], "/") {
		t.Errorf("clean %+v", c)
	}
	st, p, tl = fixture(t, "rollback_restore")
	rb, err := timeline.ReadRollback(ctx, st, dotHoodie, p, first(t, tl.CompletedOf(timeline.Rollback)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "rolled back", []timeline.InstantRef{{Requested: "20261130022705561", Action: timeline.DeltaCommit}}, rb.Refs)
	equal(t, "rolled back", []string{"20261130022705561"}, rb.Instants)
	if names := rb.Deleted["us"]; len(names) == 0 || strings.Contains(names[0], "/") {
		t.Errorf("deleted %v", rb.Deleted)
	}
	rs, err := timeline.ReadRestore(ctx, st, dotHoodie, p, first(t, tl.CompletedOf(timeline.Restore)))
	if err != nil {
		t.Fatal(err)
	}
	if len(rs.Instants) != 3 || len(rs.Rollbacks) != 3 || len(rs.Rollbacks["20261130022742588"]) != 1 {
		t.Errorf("restore %+v", rs)
	}
	saved := first(t, tl.CompletedOf(timeline.Savepoint))
	sp, err := timeline.ReadSavepoint(ctx, st, dotHoodie, p, saved)
	if err != nil {
		t.Fatal(err)
	}
	if len(sp.Files) == 0 {
		t.Errorf("savepoint %+v", sp)
	}
	if inst, ok := tl.Find(saved.Requested); !ok || !inst.IsDataWrite() {
		t.Errorf("the saved commit is not found: %+v", inst)
	}
}

func TestIndexing(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"record","name":"HoodieIndexCommitMetadata","namespace":"org.apache.hudi.avro.model","fields":[{"name":"version","type":["int","null"]},{"name":"operationType","type":["null","string"]},{"name":"indexPartitionInfos","type":["null",{"type":"array","items":{"type":"record","name":"HoodieIndexPartitionInfo","fields":[{"name":"version","type":["int","null"]},{"name":"metadataPartitionPath","type":["null","string"]},{"name":"indexUptoInstant","type":["null","string"]}]}}]}]}`
	b, err := avrox.WriteContainer(schema, map[string]any{"version": 1, "operationType": "index", "indexPartitionInfos": []any{
		map[string]any{"version": 1, "metadataPartitionPath": "record_index", "indexUptoInstant": "20260101000000100"}}}, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	st := files(t, map[string]string{".hoodie/timeline/20260101000000101_20260101000000102.indexing": string(b)})
	p := mustLoad(t, v9)
	tl, err := timeline.Load(t.Context(), st, dotHoodie, p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := timeline.ReadIndexing(t.Context(), st, dotHoodie, p, first(t, tl.Instants()))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "indexing", &timeline.IndexMetadata{Operation: "INDEX", Partitions: map[string]string{"record_index": "20260101000000100"}}, m)
	if len(tl.Writes()) != 0 || tl.Earliest() != "" {
		t.Error("indexing counts as a data write")
	}
}

const rowSchema = `{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}`

func TestTableSchema(t *testing.T) {
	t.Parallel()
	commit := func(op, schema string) string {
		return `{"operationType":"` + op + `","extraMetadata":{"schema":` + schema + `}}`
	}
	wide := strings.Replace(rowSchema, `]}`, `,{"name":"later","type":"int"}]}`, 1)
	quoted := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }
	st := files(t, map[string]string{
		".hoodie/timeline/20260101000000100_20260101000000101.commit":        commit("BULK_INSERT", quoted(rowSchema)),
		".hoodie/timeline/20260101000000102_20260101000000103.commit":        commit("UPSERT", quoted(wide)),
		".hoodie/timeline/20260101000000104_20260101000000105.replacecommit": commit("DELETE_PARTITION", `""`),
		".hoodie/timeline/20260101000000106_20260101000000107.commit":        commit("DELETE", quoted(`"null"`)),
		".hoodie/timeline/20260101000000108_20260101000000109.commit":        commit("COMPACT", quoted(rowSchema)),
		".hoodie/timeline/20260101000000110_20260101000000111.commit":        commit("UPSERT", `null`),
	})
	p := mustLoad(t, v9)
	tl, err := timeline.Load(t.Context(), st, dotHoodie, p)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"": wide, "20260101000000111": wide, "20260101000000103": wide, "20260101000000102": rowSchema, "20260101000000101": rowSchema} {
		got, err := timeline.TableSchema(t.Context(), st, dotHoodie, p, tl, at)
		if got != want || err != nil {
			t.Errorf("at %q: got %s, %v", at, got, err)
		}
	}
	if _, err := timeline.TableSchema(t.Context(), st, dotHoodie, p, tl, "20260101000000100"); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("before the first commit: %v", err)
	}
	p.CreateSchema = rowSchema
	if got, err := timeline.TableSchema(t.Context(), st, dotHoodie, p, tl, "20260101000000100"); got != rowSchema || err != nil {
		t.Errorf("from the properties: %s, %v", got, err)
	}
}

func TestTableSchemaDoesNotPassADamagedCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := files(t, map[string]string{".hoodie/timeline/20260101000000100_20260101000000101.commit": `{"extraMetadata":{"schema":""}}`, ".hoodie/timeline/20260101000000102_20260101000000103.commit": ""})
		p := mustLoad(t, v9)
		tl, err := timeline.Load(t.Context(), st, dotHoodie, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := timeline.TableSchema(t.Context(), st, dotHoodie, p, tl, ""); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSchemasOfFixtures(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cow_basic": "embedding:VECTOR(8)", "two_vectors": "a:VECTOR(8) b:VECTOR(8) c:VECTOR(4)", "v6_array": "",
		"elements": "e32:VECTOR(8) e64:VECTOR(8, DOUBLE) i8:VECTOR(16, INT8)", "evolved": "embedding:VECTOR(8)", "demo_words": "embedding:VECTOR(100)",
	} {
		st, p, tl := fixture(t, name)
		text, err := timeline.TableSchema(t.Context(), st, dotHoodie, p, tl, "")
		if err != nil {
			t.Fatal(name, err)
		}
		s, err := avrox.ParseSchema(text)
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for _, v := range s.Vectors() {
			got = append(got, v.Column+":"+v.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
		if name == "evolved" {
			early, err := timeline.TableSchema(t.Context(), st, dotHoodie, p, tl, tl.Writes()[0].Completed)
			if err != nil || strings.Contains(early, "vector") {
				t.Errorf("evolved begins with %s, %v", early, err)
			}
		}
	}
}
