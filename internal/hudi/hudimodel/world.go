package hudimodel

import (
	"crypto/md5"
	_ "embed"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage/mem"
)

// Config is the shape of a table. The zero value is a copy-on-write table of FLOAT vectors without partitions.
type Config struct {
	MoR bool
	// EventTime merges by the ordering column ts; else the last write wins.
	EventTime bool
	// Version is the table version, 8 or 9. Defaults to 9.
	Version int
	// Element and Dim are the type of the vector column v. Default to FLOAT and 2.
	Element avrox.Element
	Dim     int
	// Upgraded is a table that was version 6: until Upgrade is called log files are named after the base instant of their
	// slice, and several commits append to one of them.
	Upgraded bool
	// Marker names the column op with value D as the table's delete marker.
	Marker bool
	// Second adds a vector column u of the same named type.
	Second bool
	// TwoOrderings orders by ts, then by the text seq, in tables that merge by event time.
	TwoOrderings bool
	// Nulls lets the rows of some keys have no ordering value, or no seq. It is always so or never for a key: Hudi cannot compare
	// a null with a value.
	Nulls bool
	// Composite makes record keys of two columns, id and lang.
	Composite bool
	// Virtual is a table without meta columns: keys are computed.
	Virtual bool
	// CDC is a table with change data capture: files of CDC blocks lie beside the others, and write stats differ.
	CDC bool
}

// Column names. Vector is the column to index, Vector2 the one that Config.Second adds.
const (
	Vector    = "v"
	Vector2   = "u"
	isDeleted = "_hoodie_is_deleted"
)

// Vectors are the table's vector columns.
func (w *World) Vectors() []string {
	if w.Second {
		return []string{Vector, Vector2}
	}
	return []string{Vector}
}

// World is a made-up table: its files in Store, and what was written to it. It is not safe for concurrent use.
type World struct {
	Config
	Store *mem.Store
	// Step is told before each file is written or removed, and may block. Now is the clock of instants and files. They default to
	// nothing, and to a clock of the world's own.
	Step func(op, path string)
	Now  func() time.Time

	tb      testing.TB
	clock   time.Time
	txns    []*Txn // in the order of their beginning
	groups  []*Group
	known   map[string]bool // partitions with a marker file
	extra   []column        // columns beside the fixed ones, as they are now
	legacy  bool            // before the upgrade
	evolved int             // columns added so far
	newest  string          // largest completion time given out
	saved   []*Txn          // with a savepoint
	history history
	// metadata is the archive of the metadata table.
	metadata history
	script   []string
}

// column is a column beside the fixed ones. Its values are all derived from the row's key.
type column struct{ name, typ string }

// Group is a file group.
type Group struct {
	Partition, ID string
	files         []*file
	replaced      []*Txn
}

// file is one base or log file and what is in it.
type file struct {
	txn     *Txn
	log     bool
	path    string
	name    string
	version int
	rows    []Row   // of a base file, in file order
	blocks  []Block // of a log file
	size    int
	from    int // of a log file: where this instant's blocks begin
	gone    bool
	// compacted are the instants whose logs a log compaction merged into this one.
	compacted []string
}

func (f *file) compacts(instants []string) { f.compacted = instants }

// fileTime is when every file was written: long ago for any clock.
var fileTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns a table without commits.
func New(tb testing.TB, cfg Config) *World {
	tb.Helper()
	w := &World{Config: cfg, Store: mem.New("model"), tb: tb, clock: time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC), known: map[string]bool{}}
	if w.Version == 0 {
		w.Version = 9
	}
	if w.Element == "" {
		w.Element = avrox.ElementFloat
	}
	if w.Dim == 0 {
		w.Dim = 2
	}
	w.legacy = cfg.Upgraded
	w.log("w := hudimodel.New(t, %s)", goText(cfg))
	w.writeProperties()
	return w
}

// VectorBytes is the size of a stored vector.
func (w *World) VectorBytes() int { return w.Dim * w.Element.Width() }

func (w *World) put(path string, b []byte) {
	at := fileTime
	if w.Step != nil {
		w.Step("put", path)
	}
	if w.Now != nil {
		at = w.Now()
	}
	w.Store.Put(path, b, at)
}

func (w *World) log(format string, args ...any) {
	w.script = append(w.script, fmt.Sprintf(format, args...))
}

// Note adds a line to the script.
func (w *World) Note(format string, args ...any) { w.log(format, args...) }

// Script is the history so far as Go statements.
func (w *World) Script() string { return strings.Join(w.script, "\n") }

// Upgrade ends the time in which log files are named as in version 6.
func (w *World) Upgrade() {
	w.log("w.Upgrade()")
	w.legacy = false
}

// tick returns the next instant time.
func (w *World) tick() string {
	w.clock = w.clock.Add(time.Second)
	if w.Now != nil {
		w.clock = w.clock.Add(200*time.Millisecond - time.Second) // as far apart as the writer's time generator keeps its times
		if now := w.Now(); now.After(w.clock) {
			w.clock = now
		}
	}
	return strings.Replace(w.clock.Format("20060102150405.000"), ".", "", 1)
}

func checksum(name string) string { return fmt.Sprint(crc32.ChecksumIEEE([]byte("." + name))) }

func properties(m map[string]string) []byte {
	var b strings.Builder
	b.WriteString("#Updated at 2026-01-01T00:00:00.000000000Z\n#Thu Jan 01 00:00:00 UTC 2026\n")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%s\n", k, strings.ReplaceAll(m[k], ":", `\:`))
	}
	return []byte(b.String())
}

func (w *World) writeProperties() {
	both := map[string]string{
		"hoodie.table.version": fmt.Sprint(w.Version), "hoodie.table.initial.version": fmt.Sprint(w.Version), "hoodie.timeline.layout.version": "2",
		"hoodie.timeline.path": "timeline", "hoodie.timeline.history.path": "history", "hoodie.archivelog.folder": "history",
	}
	p := map[string]string{
		"hoodie.table.name": "model", "hoodie.table.checksum": checksum("model"), "hoodie.table.type": "COPY_ON_WRITE",
		"hoodie.table.base.file.format": "PARQUET", "hoodie.table.format": "native", "hoodie.table.recordkey.fields": "id",
		"hoodie.table.keygenerator.type": "SIMPLE", "hoodie.populate.meta.fields": "true", "hoodie.table.timeline.timezone": "UTC",
		"hoodie.table.metadata.partitions": "files", "hoodie.table.metadata.partitions.inflight": "", "hoodie.table.cdc.enabled": "false",
		"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
	}
	if w.MoR {
		p["hoodie.table.type"] = "MERGE_ON_READ"
	}
	if w.EventTime {
		p["hoodie.record.merge.mode"], p["hoodie.table.ordering.fields"] = "EVENT_TIME_ORDERING", "ts"
	}
	if w.Version == 8 {
		p["hoodie.record.merge.strategy.id"] = map[bool]string{true: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", false: "ce9acb64-bde0-424c-9b91-f6ebba25356d"}[w.EventTime]
	}
	if w.Upgraded {
		p["hoodie.table.initial.version"] = "6"
	}
	if w.EventTime && w.TwoOrderings {
		p["hoodie.table.ordering.fields"] = "ts,seq"
	}
	if w.Composite {
		p["hoodie.table.recordkey.fields"], p["hoodie.table.keygenerator.type"] = "id,lang", "COMPLEX"
	}
	if w.Virtual {
		p["hoodie.populate.meta.fields"] = "false"
	}
	if w.CDC {
		p["hoodie.table.cdc.enabled"], p["hoodie.table.cdc.supplemental.logging.mode"] = "true", "OP_KEY_ONLY"
	}
	if w.Marker {
		p["hoodie.record.merge.property.hoodie.payload.delete.field"] = "op"
		p["hoodie.record.merge.property.hoodie.payload.delete.marker"] = "D"
	}
	m := map[string]string{
		"hoodie.table.name": "model_metadata", "hoodie.table.checksum": checksum("model_metadata"), "hoodie.table.type": "MERGE_ON_READ",
		"hoodie.table.base.file.format": "HFILE", "hoodie.table.recordkey.fields": "key", "hoodie.populate.meta.fields": "false",
		"hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA", "hoodie.record.merge.mode": "CUSTOM",
		"hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000", "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
	}
	for k, v := range both {
		if p[k] == "" {
			p[k] = v
		}
		m[k] = v
	}
	w.put(".hoodie/hoodie.properties", properties(p))
	const meta = ".hoodie/metadata/.hoodie/"
	w.put(meta+"hoodie.properties", properties(m))
	const zero = "00000000000000000"
	w.put(meta+"timeline/"+zero+".deltacommit.requested", nil)
	w.put(meta+"timeline/"+zero+".deltacommit.inflight", nil)
	w.put(meta+"timeline/"+zero+"_"+w.tick()+".deltacommit", w.container(commitSchema, map[string]any{
		"partitionToWriteStats": map[string]any{}, "compacted": false, "extraMetadata": map[string]any{}, "operationType": "UPSERT_PREPPED"}))
	w.put(".hoodie/timeline/history/.keep", nil)
}

// container is a timeline file of one Avro record.
func (w *World) container(schema string, rec map[string]any) []byte {
	w.tb.Helper()
	b, err := avrox.WriteContainer(schema, rec, md5.Sum([]byte(w.clock.String())))
	if err != nil {
		w.tb.Fatalf("model: %v", err)
	}
	return b
}

// group returns the file group and begins it if it is new.
func (w *World) group(partition, id string) *Group {
	for _, g := range w.groups {
		if g.Partition == partition && g.ID == id {
			return g
		}
	}
	g := &Group{Partition: partition, ID: id}
	w.groups = append(w.groups, g)
	if !w.known[partition] {
		w.known[partition] = true
		depth := strings.Count(partition, "/") + 1
		if partition == "" {
			depth = 0
		}
		w.put(join(partition, ".hoodie_partition_metadata"), fmt.Appendf(nil, "#partition metadata\ncommitTime=%s\npartitionDepth=%d\n", w.txns[0].Requested, depth))
	}
	return g
}

// Keys returns the record keys that ever occurred in the group, some of them repeatedly.
func (g *Group) Keys() []string {
	var out []string
	for _, f := range g.files {
		for _, r := range f.rows {
			out = append(out, r.Key)
		}
		for _, b := range f.blocks {
			out = append(out, b.keys()...)
		}
	}
	return out
}

// Groups returns all file groups ever begun.
func (w *World) Groups() []*Group { return w.groups }

// Txns returns all instants ever begun that were not rolled back, in that order.
func (w *World) Txns() []*Txn {
	var out []*Txn
	for _, t := range w.txns {
		if !t.undone {
			out = append(out, t)
		}
	}
	return out
}

func join(partition, name string) string {
	if partition == "" {
		return name
	}
	return partition + "/" + name
}

// The schemas of timeline files, as Hudi 1.2.0 writes them.
var (
	//go:embed schemas/HoodieCommitMetadata.avsc
	commitSchema string
	//go:embed schemas/HoodieReplaceCommitMetadata.avsc
	replaceSchema string
	//go:embed schemas/HoodieRequestedReplaceMetadata.avsc
	requestedReplaceSchema string
	//go:embed schemas/HoodieCompactionPlan.avsc
	compactionSchema string
	//go:embed schemas/HoodieCleanerPlan.avsc
	cleanerPlanSchema string
	//go:embed schemas/HoodieCleanMetadata.avsc
	cleanSchema string
	//go:embed schemas/HoodieRollbackPlan.avsc
	rollbackPlanSchema string
	//go:embed schemas/HoodieRollbackMetadata.avsc
	rollbackSchema string
	//go:embed schemas/HoodieRestorePlan.avsc
	restorePlanSchema string
	//go:embed schemas/HoodieRestoreMetadata.avsc
	restoreSchema string
	//go:embed schemas/HoodieSavepointMetadata.avsc
	savepointSchema string
)
