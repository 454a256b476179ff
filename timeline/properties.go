package timeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"tidemark/internal/storage"
)

const (
	propertiesFile = "hoodie.properties"
	backupFile     = "hoodie.properties.backup"
	usualTimeline  = "timeline" // folder of the active timeline, unless properties say another one

	// Writers delete hoodie.properties and write it anew, so it may be absent, empty or short for a moment. Hudi's own
	// readers try about as often.
	loadAttempts = 5
	loadPause    = 200 * time.Millisecond
)

// Properties are a table's hoodie.properties. Defaults are Hudi's where a key is absent. Enum values are upper case.
type Properties struct {
	Name, Database string
	// Version is the table version (6, 8, 9, …), Layout the timeline layout: 1 or 2.
	Version, Layout int
	// Type is COPY_ON_WRITE or MERGE_ON_READ.
	Type string
	// RecordKeys, PartitionFields and OrderingFields are column names; empty lists for keys made by Hudi, tables without
	// partitions and tables without an ordering.
	RecordKeys, PartitionFields, OrderingFields []string
	// MergeMode is the effective mode: as stored or inferred by the rules of the table's version.
	MergeMode MergeMode
	// PartialUpdateMode is NONE, IGNORE_DEFAULTS, IGNORE_MARKERS or what else the table says.
	PartialUpdateMode string
	// PartialUpdateMarker is the value that means "not sent" under IGNORE_MARKERS.
	PartialUpdateMarker string
	// MetaFields says that files have filled meta columns (_hoodie_record_key and its like).
	MetaFields bool
	// BaseFormat is PARQUET, ORC, HFILE or LANCE.
	BaseFormat string
	// Zone is LOCAL (the writer's zone, which the table does not name) or UTC.
	Zone string
	// MetadataPartitions are the partitions of the metadata table that are ready; MetadataInflight those being built.
	MetadataPartitions, MetadataInflight []string
	// TimelinePath and HistoryPath are relative to .hoodie and to the timeline; ArchivePath is layout 1's archive folder.
	TimelinePath, HistoryPath, ArchivePath string
	// CreateSchema is the Avro schema at creation, possibly stale or empty: use TableSchema.
	CreateSchema string
	// KeyGenerator is the generator's type or class, upper case for a type.
	KeyGenerator string
	// DeleteKey and DeleteMarker: a row whose DeleteKey column holds DeleteMarker is a delete. Empty if not in use.
	DeleteKey, DeleteMarker string
	// CDC says that change data capture is on, so .cdc log files lie beside the others.
	CDC bool
	// HivePartitions and EncodedPartitions say how partition paths were made.
	HivePartitions, EncodedPartitions bool
	// Raw holds every key as stored.
	Raw map[string]string
	// Stamp is of the file they were read from: where it differs, the file was written anew, or another table lies at this path. Equal does
	// not compare it.
	Stamp string
}

// LoadProperties reads the hoodie.properties in dir (".hoodie", or ".hoodie/metadata/.hoodie" for the metadata table), or its
// backup while a writer replaces it. Content counts only when its checksum matches the names in it and version and name
// are there. It tries for about a second. No such folder or no such file is storage.ErrNotFound, content that stays
// unusable storage.ErrCorrupt.
func LoadProperties(ctx context.Context, st storage.Store, dir string) (*Properties, error) {
	p, _, err := loadProperties(ctx, st, dir)
	return p, err
}

// loadProperties also describes the file that was used.
func loadProperties(ctx context.Context, st storage.Store, dir string) (*Properties, storage.Info, error) {
	for attempt := 1; ; attempt++ {
		p, info, err := tryLoad(ctx, st, dir)
		if err == nil {
			return p, info, nil
		}
		if attempt == loadAttempts || !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrCorrupt) {
			return nil, info, err
		}
		if _, missing := st.List(ctx, dir); errors.Is(missing, storage.ErrNotFound) {
			return nil, info, &storage.Error{Op: "open table", Path: st.URL(), Hint: "give the base path of a Hudi table: the folder that holds .hoodie",
				Err: fmt.Errorf("no folder %s: %w", dir, storage.ErrNotFound)}
		}
		if err := pause(ctx, loadPause); err != nil {
			return nil, info, err
		}
	}
}

func tryLoad(ctx context.Context, st storage.Store, dir string) (*Properties, storage.Info, error) {
	var first error
	for _, name := range []string{propertiesFile, backupFile} {
		file := path.Join(dir, name)
		b, info, err := st.ReadFile(ctx, file)
		if err == nil {
			var p *Properties
			if p, err = readProperties(b); err == nil {
				p.Stamp = info.Stamp()
				return p, info, nil
			}
		}
		hint := "check that this is the table's base path"
		if errors.Is(err, storage.ErrCorrupt) {
			hint = "restore the file from " + backupFile + " or a copy of the table"
		}
		if first == nil {
			first = &storage.Error{Op: "read properties", Path: file, Err: err, Hint: hint}
		}
		if errors.Is(err, storage.ErrCorrupt) {
			continue
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return nil, info, &storage.Error{Op: "read properties", Path: file, Err: err}
		}
	}
	return nil, storage.Info{}, first
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, storage.ErrCorrupt)...)
}

func readProperties(b []byte) (*Properties, error) {
	if len(b) == 0 {
		return nil, damaged("file is empty")
	}
	if !bytes.HasSuffix(b, []byte("\n")) {
		return nil, damaged("last line is cut")
	}
	raw := parseProperties(b)
	p := &Properties{Raw: raw, Name: raw["hoodie.table.name"], Database: raw["hoodie.database.name"]}
	if p.Name == "" {
		return nil, damaged("hoodie.table.name is missing")
	}
	if sum := raw["hoodie.table.checksum"]; sum != "" && sum != checksum(p.Database, p.Name) {
		return nil, damaged("hoodie.table.checksum %s does not fit table %q", sum, p.Database+"."+p.Name)
	}
	var err error
	if p.Version, err = strconv.Atoi(raw["hoodie.table.version"]); err != nil {
		return nil, damaged("hoodie.table.version is missing or no number")
	}
	p.Layout = 2
	if p.Version <= 7 {
		p.Layout = 1
	}
	if text := raw["hoodie.timeline.layout.version"]; text != "" {
		if p.Layout, err = strconv.Atoi(text); err != nil {
			return nil, damaged("hoodie.timeline.layout.version %q is no number", text)
		}
	}
	p.fill()
	return p, nil
}

// checksum covers the two names only, not the file (spec, hoodie.properties 1.3).
func checksum(database, name string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(database+"."+name))), 10)
}

func (p *Properties) fill() {
	p.Type = upper(p.get("COPY_ON_WRITE", "hoodie.table.type"))
	p.RecordKeys = list(p.get("", "hoodie.table.recordkey.fields"))
	for _, f := range list(p.get("", "hoodie.table.partition.fields")) {
		name, _, _ := strings.Cut(f, ":") // custom key generator: field:SIMPLE
		p.PartitionFields = append(p.PartitionFields, name)
	}
	p.OrderingFields = list(p.get("", "hoodie.table.ordering.fields", "hoodie.table.precombine.field"))
	p.PartialUpdateMode = upper(p.get("NONE", "hoodie.table.partial.update.mode"))
	p.PartialUpdateMarker = p.mergeProperty("hoodie.write.partial.update.custom.marker")
	p.MetaFields = p.flag("hoodie.populate.meta.fields", true)
	p.BaseFormat = upper(p.get("PARQUET", "hoodie.table.base.file.format", "hoodie.table.ro.file.format"))
	p.Zone = upper(p.get("LOCAL", "hoodie.table.timeline.timezone"))
	p.MetadataPartitions = list(p.get("", "hoodie.table.metadata.partitions"))
	p.MetadataInflight = list(p.get("", "hoodie.table.metadata.partitions.inflight"))
	p.TimelinePath = p.get(usualTimeline, "hoodie.timeline.path")
	p.HistoryPath = p.get("history", "hoodie.timeline.history.path")
	p.ArchivePath = p.get("archived", "hoodie.archivelog.folder")
	p.CreateSchema = p.get("", "hoodie.table.create.schema")
	p.KeyGenerator = upper(p.get("", "hoodie.table.keygenerator.type"))
	if p.KeyGenerator == "" {
		p.KeyGenerator = p.get("", "hoodie.table.keygenerator.class")
	}
	p.DeleteKey = p.mergeProperty("hoodie.payload.delete.field")
	p.DeleteMarker = p.mergeProperty("hoodie.payload.delete.marker")
	p.CDC = p.flag("hoodie.table.cdc.enabled", false)
	p.HivePartitions = p.flag("hoodie.datasource.write.hive_style_partitioning", false)
	p.EncodedPartitions = p.flag("hoodie.datasource.write.partitionpath.urlencode", false)
	p.MergeMode = p.inferMergeMode()
}

// get returns the first non-empty value among the keys.
func (p *Properties) get(def string, keys ...string) string {
	for _, k := range keys {
		if v := strings.TrimSpace(p.Raw[k]); v != "" {
			return v
		}
	}
	return def
}

func (p *Properties) flag(key string, def bool) bool {
	v := p.get("", key)
	if v == "" {
		return def
	}
	return strings.EqualFold(v, "true")
}

// mergeProperty returns a merge property: version 9 stores it under a prefix, older tables may have it as it is.
func (p *Properties) mergeProperty(name string) string {
	return p.get("", "hoodie.record.merge.property."+name, name)
}

func upper(s string) string { return strings.ToUpper(s) }

func list(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// TimelineDir returns the folder of the active timeline for the .hoodie folder dir.
func (p *Properties) TimelineDir(dir string) string {
	if p.Layout == 1 {
		return dir
	}
	return path.Join(dir, p.TimelinePath)
}

// HistoryDir returns the folder of the archived timeline for the .hoodie folder dir.
func (p *Properties) HistoryDir(dir string) string {
	if p.Layout == 1 {
		return path.Join(dir, p.ArchivePath)
	}
	return path.Join(dir, p.TimelinePath, p.HistoryPath)
}

// Equal says whether both hold the same keys and values.
func (p *Properties) Equal(other *Properties) bool { return maps.Equal(p.Raw, other.Raw) }
