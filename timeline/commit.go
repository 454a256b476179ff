package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// CommitMetadata is the content of a commit, deltacommit or replacecommit.
type CommitMetadata struct {
	// Operation is the operation type in upper case (UPSERT, COMPACT, CLUSTER, …), empty if the commit does not say.
	Operation string
	Compacted bool
	// Extra holds the writer's key-values, the table's schema under "schema" among them.
	Extra map[string]string
	// Stats are the files written, by partition, within a partition in the order of the file.
	Stats []WriteStat
	// Replaced are the file groups that are no longer visible: partition to file ids.
	Replaced map[string][]string
	// Digest is the SHA-256 of the file.
	Digest [32]byte
}

// WriteStat describes one file that a commit wrote.
type WriteStat struct {
	// Partition is "" for a table without partitions.
	Partition, FileID string
	// Path is relative to the table's base path. Empty for what an inflight file only announces.
	Path string
	// PrevCommit is the instant of the file's predecessor, empty for a new file group (Hudi writes the text "null"). Log
	// appends of versions 8 and 9 have their own instant here, those of CDC tables and log compactions the base instant.
	PrevCommit string
	// BaseFile and PrevBaseFile are file names; empty where Hudi writes null or "".
	BaseFile, PrevBaseFile string
	// LogFiles are file names: in versions 8 and 9 the new ones only.
	LogFiles                                                []string
	NumWrites, NumInserts, NumUpdates, NumDeletes, FileSize int64
	// CDC maps change data files, relative to the base path, to their sizes.
	CDC map[string]int64
}

// ReadCommit reads the metadata of a commit, deltacommit or replacecommit, Avro or JSON by its first bytes. Of a completed
// instant a file that is empty or does not decode is storage.ErrCorrupt: it proves nothing and is never read as a commit
// without changes. Of a pending instant an empty file gives empty metadata. A file that is gone is storage.ErrNotFound.
func ReadCommit(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*CommitMetadata, error) {
	if !inst.Action.IsWrite() {
		return nil, wrongAction(inst, "a commit")
	}
	file := path.Join(p.TimelineDir(dir), inst.File)
	m, digest, err := read(ctx, st, file, func(b []byte) (*CommitMetadata, error) {
		if inst.State != Completed && (len(b) == 0 || inst.State == Requested || inst.Action != inst.Action.Completes()) {
			return &CommitMetadata{}, nil // plans are no commit metadata
		}
		return parseCommit(b, inst.State == Completed && inst.Action == ReplaceCommit)
	})
	if err != nil {
		return nil, err
	}
	m.Digest = digest
	return m, nil
}

// ParseCommit decodes commit metadata from the bytes of a timeline file or of an archived instant. Digest is not set. Empty
// or damaged content is storage.ErrCorrupt, and so is Avro whose schema lacks a field that every writer's has (a damaged name
// would read as a commit without changes), and a write stat whose path lies in another partition or file group than it says.
func ParseCommit(b []byte) (*CommitMetadata, error) { return parseCommit(b, false) }

// parseCommit is ParseCommit that knows whether the commit replaces file groups.
func parseCommit(b []byte, replaces bool) (*CommitMetadata, error) {
	if len(b) == 0 {
		return nil, damaged("file is empty")
	}
	if !isAvro(b) {
		return parseCommitJSON(b)
	}
	rec, err := one(b)
	if err != nil {
		return nil, err
	}
	fields := []string{"partitionToWriteStats", "extraMetadata", "operationType"}
	if replaces {
		fields = append(fields, "partitionToReplaceFileIds")
	}
	if err := has(rec, "commit metadata", fields...); err != nil {
		return nil, err
	}
	m := &CommitMetadata{Operation: upper(str(rec, "operationType")), Extra: map[string]string{}, Replaced: map[string][]string{}}
	m.Compacted, _ = rec.Bool("compacted")
	extra, _ := rec.Map("extraMetadata")
	for k, v := range extra {
		if s, ok := v.(string); ok {
			m.Extra[k] = s
		}
	}
	replaced, _ := rec.Map("partitionToReplaceFileIds")
	for partition, ids := range replaced {
		m.Replaced[partition] = texts(ids)
	}
	stats, _ := rec.Map("partitionToWriteStats")
	for _, partition := range slices.Sorted(maps.Keys(stats)) {
		for _, r := range records(stats[partition]) {
			if err := has(r, "write stat", "fileId", "path", "prevCommit"); err != nil {
				return nil, err
			}
			s := statOf(partition, r)
			if err := s.check(str(r, "partitionPath")); err != nil {
				return nil, err
			}
			m.Stats = append(m.Stats, s)
		}
	}
	return m, nil
}

// has refuses a record whose schema lacks one of the fields. A field that is null is there.
func has(r avrox.Record, what string, fields ...string) error {
	for _, f := range fields {
		if _, ok := r[f]; !ok {
			return damaged("%s has no field %s", what, f)
		}
	}
	return nil
}

// check refuses a stat that contradicts itself: its path lies in its partition and its name begins with its file id, as a base
// file's does, or with a dot and its file id, as a log file's does. partition is what the stat itself says, "" if nothing.
func (s WriteStat) check(partition string) error {
	trim := func(p string) string { return strings.Trim(p, "/") }
	if partition != "" && trim(partition) != trim(s.Partition) {
		return damaged("write stat of partition %q stands under partition %q", partition, s.Partition)
	}
	if s.Path == "" {
		return nil
	}
	dir, name := path.Split(s.Path)
	if trim(dir) != trim(s.Partition) {
		return damaged("write stat of partition %q names the file %s", s.Partition, s.Path)
	}
	if name = strings.TrimPrefix(name, "."); s.FileID == "" || name != s.FileID && !strings.HasPrefix(name, s.FileID+"_") {
		return damaged("write stat of file id %q names the file %s", s.FileID, s.Path)
	}
	return nil
}

func statOf(partition string, r avrox.Record) WriteStat {
	s := WriteStat{
		Partition: partition, FileID: str(r, "fileId"), Path: str(r, "path"), PrevCommit: previous(str(r, "prevCommit")),
		BaseFile: str(r, "baseFile"), PrevBaseFile: str(r, "prevBaseFile"), LogFiles: texts(r["logFiles"]),
		NumWrites: num(r, "numWrites"), NumInserts: num(r, "numInserts"), NumUpdates: num(r, "numUpdateWrites"),
		NumDeletes: num(r, "numDeletes"), FileSize: num(r, "fileSizeInBytes"),
	}
	cdc, _ := r.Map("cdcStats")
	for name, size := range cdc {
		if n, ok := size.(int64); ok {
			if s.CDC == nil {
				s.CDC = map[string]int64{}
			}
			s.CDC[name] = n
		}
	}
	return s
}

func previous(instant string) string {
	if instant == "null" {
		return ""
	}
	return instant
}

type commitJSON struct {
	Stats     map[string][]statJSON `json:"partitionToWriteStats"`
	Compacted bool                  `json:"compacted"`
	Extra     map[string]*string    `json:"extraMetadata"`
	Operation string                `json:"operationType"`
	Replaced  map[string][]string   `json:"partitionToReplaceFileIds"`
}

type statJSON struct {
	FileID       string           `json:"fileId"`
	Partition    string           `json:"partitionPath"`
	Path         string           `json:"path"`
	PrevCommit   string           `json:"prevCommit"`
	BaseFile     string           `json:"baseFile"`
	PrevBaseFile string           `json:"prevBaseFile"`
	LogFiles     []string         `json:"logFiles"`
	NumWrites    int64            `json:"numWrites"`
	NumInserts   int64            `json:"numInserts"`
	NumUpdates   int64            `json:"numUpdateWrites"`
	NumDeletes   int64            `json:"numDeletes"`
	FileSize     int64            `json:"fileSizeInBytes"`
	CDC          map[string]int64 `json:"cdcStats"`
}

func parseCommitJSON(b []byte) (*CommitMetadata, error) {
	var raw *commitJSON
	if first := bytes.TrimSpace(b); len(first) == 0 || first[0] != '{' {
		return nil, damaged("neither Avro nor JSON")
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, damaged("JSON: %v", err)
	}
	m := &CommitMetadata{Operation: upper(raw.Operation), Compacted: raw.Compacted, Extra: map[string]string{}, Replaced: raw.Replaced}
	if m.Replaced == nil {
		m.Replaced = map[string][]string{}
	}
	for k, v := range raw.Extra {
		if v != nil {
			m.Extra[k] = *v
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(raw.Stats)) {
		for _, s := range raw.Stats[partition] {
			stat := WriteStat{
				Partition: partition, FileID: s.FileID, Path: s.Path, PrevCommit: previous(s.PrevCommit),
				BaseFile: s.BaseFile, PrevBaseFile: s.PrevBaseFile, LogFiles: s.LogFiles,
				NumWrites: s.NumWrites, NumInserts: s.NumInserts, NumUpdates: s.NumUpdates, NumDeletes: s.NumDeletes,
				FileSize: s.FileSize, CDC: s.CDC,
			}
			if err := stat.check(s.Partition); err != nil {
				return nil, err
			}
			m.Stats = append(m.Stats, stat)
		}
	}
	return m, nil
}
