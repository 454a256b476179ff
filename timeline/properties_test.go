package timeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/storage"
	"tidemark/timeline"

	godiff "github.com/google/go-cmp/cmp"
)

func load(t testing.TB, text string) (*timeline.Properties, error) {
	t.Helper()
	return timeline.LoadProperties(t.Context(), files(t, map[string]string{".hoodie/hoodie.properties": text}), dotHoodie)
}

func mustLoad(t testing.TB, text string) *timeline.Properties {
	t.Helper()
	p, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPropertiesSyntax(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, v9+"! note\r\n"+strings.Join([]string{
		`a\:b\=c = x\:y`, `tab:one\ttwo`, `blank   value with blanks `, `empty=`, `alone`,
		`long=first,\`, `     second`, `uni=\u00e4\u65e5\ud83d\ude00`, `latin=` + "\xe4", `esc=\#\!\\\n\r\f\q`,
		`  indented = yes`, `twice=1`, `twice=2`, `cut=\u12`, `bad=\uzzzz.`, `half=\ud83d`, `eq==x`, `two=a\\`, `next=1`}, "\n")+"\n")
	want := map[string]string{
		"a:b=c": "x:y", "tab": "one\ttwo", "blank": "value with blanks ", "empty": "", "alone": "",
		"long": "first,second", "uni": "ä日😀", "latin": "ä", "esc": "#!\\\n\r\fq", "indented": "yes",
		"twice": "2", "cut": "\uFFFD", "bad": "\uFFFD.", "half": "\uFFFD", "eq": "=x", "two": `a\`, "next": "1",
		"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.table.checksum": "498511606",
	}
	if diff := godiff.Diff(want, p.Raw); diff != "" {
		t.Errorf("properties differ (-want +got):\n%s", diff)
	}
}

func TestPropertiesOfFixtures(t *testing.T) {
	t.Parallel()
	_, p, _ := fixture(t, "mor_basic")
	if p.Name != "mor_basic" || p.Version != 9 || p.Layout != 2 || p.Type != "MERGE_ON_READ" || p.MergeMode != timeline.EventTimeOrdering ||
		!p.MetaFields || p.Zone != "UTC" || p.BaseFormat != "PARQUET" || p.KeyGenerator != "SIMPLE" || p.CDC {
		t.Errorf("mor_basic: %+v", p)
	}
	if diff := godiff.Diff([]string{"column_stats", "files", "partition_stats", "record_index"}, p.MetadataPartitions); diff != "" {
		t.Error(diff)
	}
	if err := p.CheckWritable(); err != nil {
		t.Error(err)
	}
	_, p, _ = fixture(t, "keys_complex")
	if diff := godiff.Diff([][]string{{"sku", "lang"}, {"region", "day"}, {"ts"}}, [][]string{p.RecordKeys, p.PartitionFields, p.OrderingFields}); diff != "" || !p.HivePartitions {
		t.Error(diff)
	}
	_, p, _ = fixture(t, "local_zone")
	if p.Zone != "LOCAL" {
		t.Errorf("local_zone: zone %s", p.Zone)
	}
	_, p, _ = fixture(t, "virtual_keys")
	if p.MetaFields {
		t.Error("virtual_keys has meta fields")
	}
	_, p, _ = fixture(t, "merge_commit_time")
	if p.MergeMode != timeline.CommitTimeOrdering {
		t.Errorf("merge_commit_time: %s", p.MergeMode)
	}
	_, p, _ = fixture(t, "sql_created")
	if p.Database != "default" || !strings.HasPrefix(p.CreateSchema, `{"type":"record"`) {
		t.Errorf("sql_created: database %q, schema %q", p.Database, p.CreateSchema)
	}
}

func TestVersion6IsReadForItsTimelineOnly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v6", "v6_array", "flink_v6_mor", "flink_v6_cow"} {
		_, p, tl := fixture(t, name)
		if p.Version != 6 || p.Layout != 1 || len(tl.Writes()) == 0 {
			t.Errorf("%s: version %d, layout %d, %d writes", name, p.Version, p.Layout, len(tl.Writes()))
		}
		err := p.CheckWritable()
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "version 6") || storage.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	const mdt = "hoodie.table.metadata.partitions=files\n"
	tests := []struct {
		name, add    string
		wantReadable string // part of the refusal, "" if readable
		wantWritable string
	}{
		{"plain", mdt, "", ""},
		{"version 8", mdt + "hoodie.table.version=8\n", "", ""},
		{"no metadata table", "", "", "no metadata table"},
		{"version 10", mdt + "hoodie.table.version=10\n", "version 10", "version 10"},
		{"version 5", mdt + "hoodie.table.version=5\n", "version 5", "version 5"},
		{"layout 3", mdt + "hoodie.timeline.layout.version=3\n", "layout 3", "layout 3"},
		{"version 9 in layout 1", mdt + "hoodie.timeline.layout.version=1\n", "layout 1", "layout 1"},
		{"ORC", mdt + "hoodie.table.base.file.format=orc\n", "ORC", "ORC"},
		{"LANCE", mdt + "hoodie.table.base.file.format=LANCE\n", "LANCE", "LANCE"},
		{"two formats", mdt + "hoodie.table.multiple.base.file.formats.enable=true\n", "several", "several"},
		{"bootstrap", mdt + "hoodie.bootstrap.base.path=/old\n", "bootstrapped", "bootstrapped"},
		{"LSM layout", mdt + "hoodie.table.storage.layout=lsm_tree\n", "lsm_tree", "lsm_tree"},
		{"other table format", mdt + "hoodie.table.format=iceberg\n", "iceberg", "iceberg"},
		{"unknown type", mdt + "hoodie.table.type=MERGE_ON_WRITE\n", "MERGE_ON_WRITE", "MERGE_ON_WRITE"},
		{"custom merge", mdt + "hoodie.table.type=MERGE_ON_READ\nhoodie.record.merge.mode=custom\n", "CUSTOM", "CUSTOM"},
		{"custom merge on write", mdt + "hoodie.record.merge.mode=custom\n", "", ""},
		{"unknown merge mode", mdt + "hoodie.table.type=MERGE_ON_READ\nhoodie.record.merge.mode=NEWEST\n", "NEWEST", "NEWEST"},
		{"partial update", mdt + "hoodie.table.type=MERGE_ON_READ\nhoodie.table.partial.update.mode=ignore_defaults\n", "", ""},
		{"unknown partial update", mdt + "hoodie.table.type=MERGE_ON_READ\nhoodie.table.partial.update.mode=KEEP_VALUES\n", "KEEP_VALUES", "KEEP_VALUES"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := mustLoad(t, v9+tt.add)
			for what, c := range map[string]struct {
				err  error
				want string
			}{"readable": {p.CheckReadable(), tt.wantReadable}, "writable": {p.CheckWritable(), tt.wantWritable}} {
				if c.want == "" && c.err != nil {
					t.Errorf("%s: %v", what, c.err)
				}
				if c.want != "" && (!errors.Is(c.err, storage.ErrUnsupported) || !strings.Contains(c.err.Error(), c.want) || storage.Hint(c.err) == "") {
					t.Errorf("%s: got %v, want a refusal that names %q and a hint", what, c.err, c.want)
				}
			}
		})
	}
}

func TestMergeMode(t *testing.T) {
	t.Parallel()
	const ordered = "hoodie.table.precombine.field=ts\n"
	const payload = "hoodie.compaction.payload.class=org.apache.hudi.common.model."
	tests := []struct {
		name, add string
		want      timeline.MergeMode
	}{
		{"9 without anything", "", timeline.CommitTimeOrdering},
		{"9 with ordering", ordered, timeline.EventTimeOrdering},
		{"9 stored, mixed case", ordered + "hoodie.record.merge.mode=Commit_Time_Ordering\n", timeline.CommitTimeOrdering},
		{"9 event time without ordering field", "hoodie.record.merge.mode=EVENT_TIME_ORDERING\n", timeline.CommitTimeOrdering},
		{"8 strategy wins over payload", ordered + payload + "Other\nhoodie.table.version=8\nhoodie.record.merge.strategy.id=EEB8D96F-b1e4-49fd-bbf8-28ac514178e5\n", timeline.EventTimeOrdering},
		{"8 strategy commit time", ordered + "hoodie.table.version=8\nhoodie.record.merge.strategy.id=ce9acb64-bde0-424c-9b91-f6ebba25356d\n", timeline.CommitTimeOrdering},
		{"8 unknown strategy", ordered + "hoodie.table.version=8\nhoodie.record.merge.strategy.id=x\n", timeline.CustomMerge},
		{"8 payload", ordered + "hoodie.table.version=8\n" + payload + "EventTimeAvroPayload\n", timeline.EventTimeOrdering},
		{"6 default payload", ordered + "hoodie.table.version=6\n" + payload + "DefaultHoodieRecordPayload\n", timeline.EventTimeOrdering},
		{"6 overwrite", ordered + "hoodie.table.version=6\n" + payload + "OverwriteWithLatestAvroPayload\n", timeline.CommitTimeOrdering},
		{"6 other payload", ordered + "hoodie.table.version=6\n" + payload + "PostgresDebeziumAvroPayload\n", timeline.CustomMerge},
		{"6 ordering only", ordered + "hoodie.table.version=6\n", timeline.EventTimeOrdering},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mustLoad(t, v9+tt.add).MergeMode; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestMergePropertiesAndLists(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, v9+"hoodie.record.merge.property.hoodie.payload.delete.field=Op\nhoodie.record.merge.property.hoodie.payload.delete.marker=D\n"+
		"hoodie.table.partition.fields=region:SIMPLE, day:TIMESTAMP\nhoodie.table.keygenerator.class=org.apache.hudi.keygen.CustomKeyGenerator\nhoodie.table.cdc.enabled=TRUE\n")
	if p.DeleteKey != "Op" || p.DeleteMarker != "D" || p.KeyGenerator != "org.apache.hudi.keygen.CustomKeyGenerator" || !p.CDC {
		t.Errorf("got %+v", p)
	}
	if diff := godiff.Diff([]string{"region", "day"}, p.PartitionFields); diff != "" {
		t.Error(diff)
	}
}

// Content that does not prove itself is never used and no default is assumed for it (field case O-TL-09).
func TestUnusableProperties(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":                "",
		"cut in the last line": strings.TrimSuffix(v9, "\n"),
		"other checksum":       strings.Replace(v9, "498511606", "7", 1),
		"no name":              "hoodie.table.version=9\n",
		"no version":           "hoodie.table.name=t\n",
		"version no number":    "hoodie.table.name=t\nhoodie.table.version=nine\n",
		"layout no number":     v9 + "hoodie.timeline.layout.version=two\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := load(t, text)
				if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "hoodie.properties") || storage.Hint(err) == "" {
					t.Errorf("got %v, want corrupt with the file's name and a hint", err)
				}
			})
		})
	}
}

func TestBackupServesWhileTheFileIsReplaced(t *testing.T) {
	t.Parallel()
	for name, main := range map[string]map[string]string{
		"missing": {}, "empty": {".hoodie/hoodie.properties": ""}, "short": {".hoodie/hoodie.properties": "hoodie.table.na"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main[".hoodie/hoodie.properties.backup"] = v9
			p, err := timeline.LoadProperties(t.Context(), files(t, main), dotHoodie)
			if err != nil || p.Version != 9 {
				t.Errorf("got %v, %v", p, err)
			}
		})
	}
}

// replacing serves hoodie.properties as a writer leaves it, one look after the other.
type replacing struct {
	storage.Store
	looks []string // "" = not there
	calls int
}

func (r *replacing) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	if !strings.HasSuffix(path, "hoodie.properties") {
		return r.Store.ReadFile(ctx, path)
	}
	look := r.looks[min(r.calls, len(r.looks)-1)]
	r.calls++
	if look == "" {
		return nil, storage.Info{}, storage.ErrNotFound
	}
	return []byte(look), r.info(path, r.calls-1), nil
}

// Stat describes what the next read would return.
func (r *replacing) Stat(ctx context.Context, path string) (storage.Info, error) {
	if !strings.HasSuffix(path, "hoodie.properties") {
		return r.Store.Stat(ctx, path)
	}
	return r.info(path, r.calls), nil
}

func (r *replacing) info(path string, n int) storage.Info {
	n = min(n, len(r.looks)-1)
	return storage.Info{Path: path, Size: int64(len(r.looks[n])), ModTime: time.Unix(int64(n), 0)}
}

func TestPropertiesAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &replacing{Store: files(t, map[string]string{".hoodie/x": ""}), looks: []string{"", "\n", strings.Replace(v9, "498511606", "7", 1), v9}}
		p, err := timeline.LoadProperties(t.Context(), st, dotHoodie)
		if err != nil || p.Name != "t" || st.calls != 4 {
			t.Errorf("got %v, %v after %d looks", p, err, st.calls)
		}
	})
}

func TestNoTable(t *testing.T) {
	t.Parallel()
	_, err := timeline.LoadProperties(t.Context(), files(t, map[string]string{"data.parquet": "x"}), dotHoodie)
	if !errors.Is(err, storage.ErrNotFound) || !strings.Contains(storage.Hint(err), ".hoodie") {
		t.Errorf("got %v, hint %q", err, storage.Hint(err))
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := timeline.LoadProperties(t.Context(), files(t, map[string]string{".hoodie/x": ""}), dotHoodie)
		if !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
			t.Errorf("folder without properties: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := timeline.LoadProperties(ctx, files(t, map[string]string{".hoodie/x": ""}), dotHoodie); err == nil {
			t.Error("a cancelled call succeeded")
		}
	})
}

func TestChecksumsOfTheSpecification(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hoodie.database.name=default\nhoodie.table.name=v9_txns_mor_simple_meta\nhoodie.table.version=9\nhoodie.table.checksum=1101448031\n",
		"hoodie.table.name=v9_txns_mor_simple_meta_metadata\nhoodie.table.version=9\nhoodie.table.checksum=2022389452\n",
	} {
		mustLoad(t, text)
	}
}

func TestOpenRetakesAMovingLook(t *testing.T) {
	t.Parallel()
	v6 := strings.Replace(v9, "version=9", "version=6", 1)
	base := files(t, map[string]string{".hoodie/timeline/20260101000000000_20260101000001000.commit": "", ".hoodie/20250101000000000.commit": ""})
	st := &replacing{Store: base, looks: []string{v6, v9}}
	p, tl, err := timeline.Open(t.Context(), st, dotHoodie)
	if err != nil || p.Version != 9 || len(tl.Writes()) != 1 || tl.Writes()[0].Requested != "20260101000000000" {
		t.Errorf("got %+v, %v", tl, err)
	}
	st = &replacing{Store: base, looks: []string{v6, v9, v6, v9, v6, v9, v6, v9, v6, v9}}
	if _, _, err := timeline.Open(t.Context(), st, dotHoodie); !errors.Is(err, storage.ErrStale) {
		t.Errorf("properties that never rest: %v", err)
	}
}

func TestMetadataTableProperties(t *testing.T) {
	t.Parallel()
	st := table(t, "v8")
	p, tl, err := timeline.Open(t.Context(), st, ".hoodie/metadata/.hoodie")
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "v8_metadata" || p.Version != 8 || p.MergeMode != timeline.CustomMerge || p.BaseFormat != "HFILE" || len(tl.Writes()) == 0 {
		t.Errorf("got %+v", p)
	}
}
