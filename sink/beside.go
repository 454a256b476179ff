package sink

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
	"strconv"
	"strings"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

// propertiesPath is the hoodie.properties of our own metadata table, beside a table.
func (s *Sink) propertiesPath() string { return s.place.File(".hoodie/hoodie.properties") }

// checkEmpty refuses a place beside a table at which the first state must not be made: the table cannot be indexed, or the place is a
// Hudi table itself. It writes nothing.
func (s *Sink) checkEmpty(ctx context.Context) error {
	p, err := timeline.LoadProperties(ctx, s.place.Store, dataDir)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	if err := s.place.CheckWritable(p); err != nil {
		return fmt.Errorf("check table: %w", err)
	}
	table := s.place.StateDir + "/.hoodie/hoodie.properties"
	switch _, err := s.guard.Stat(ctx, table); {
	case err == nil:
		return &storage.Error{Op: "create index", Path: table, Hint: "name a place of its own for the indexes with --sink",
			Err: fmt.Errorf("there is a Hudi table at that place: %w", storage.ErrRefused)}
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return nil
}

// createMDT makes the metadata table that the index lies in beside a table, which is its hoodie.properties, written once. One that is
// there is kept.
func (s *Sink) createMDT(ctx context.Context) error {
	if _, err := s.guard.Stat(ctx, s.propertiesPath()); err == nil || !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	p, err := timeline.LoadProperties(ctx, s.place.Store, dataDir)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	if err := s.createOnce(ctx, s.propertiesPath(), mdtProperties(p)); err != nil {
		return fmt.Errorf("create metadata table beside the table: %w", err)
	}
	return nil
}

// mdtProperties are what Hudi writes for the metadata table of a table, keys in order and without the times of writing.
func mdtProperties(data *timeline.Properties) []byte {
	name := data.Name + "_metadata"
	version := strconv.Itoa(data.Version)
	keys := map[string]string{
		"hoodie.archivelog.folder":                       "history",
		"hoodie.compaction.payload.class":                "org.apache.hudi.metadata.HoodieMetadataPayload",
		"hoodie.datasource.write.drop.partition.columns": "false",
		"hoodie.populate.meta.fields":                    "false",
		"hoodie.record.merge.mode":                       "CUSTOM",
		"hoodie.record.merge.strategy.id":                "00000000-0000-0000-0000-000000000000",
		"hoodie.table.base.file.format":                  "HFILE",
		"hoodie.table.checksum":                          strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte("."+name))), 10),
		"hoodie.table.initial.version":                   version,
		"hoodie.table.keygenerator.type":                 "HOODIE_TABLE_METADATA",
		"hoodie.table.name":                              name,
		"hoodie.table.recordkey.fields":                  "key",
		"hoodie.table.type":                              "MERGE_ON_READ",
		"hoodie.table.version":                           version,
		"hoodie.timeline.history.path":                   "history",
		"hoodie.timeline.layout.version":                 "2",
		"hoodie.timeline.path":                           "timeline",
	}
	lines := make([]string, 0, len(keys))
	for k, v := range keys {
		lines = append(lines, k+"="+v+"\n")
	}
	sort.Strings(lines)
	return []byte(strings.Join(lines, ""))
}
