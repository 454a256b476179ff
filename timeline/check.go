package timeline

import (
	"fmt"
	"slices"

	"tidemark/internal/storage"
)

const (
	oldestReadable   = 8 // table versions whose rows are read; version 6 forms slices differently
	newestReadable   = 9 // version 10 has native log files and is in no release
	upgradeHint      = "upgrade the table to version 9 with a Hudi 1.1 or newer writer"
	unreleasedHint   = "use a Tidemark that knows this table version"
	unsupportedHint  = "tables of this kind cannot be indexed"
	withoutMetadata  = "let the table's writer keep the metadata table (hoodie.metadata.enable=true) and write once, or keep the index beside the table: --sink URL"
	oldestTimeline   = 1
	newestTimeline   = 2
	nativeFormat     = "native"
	defaultStorage   = "default"
	noPartialUpdates = "NONE"
)

func (p *Properties) unsupported(hint, format string, args ...any) error {
	return &storage.Error{Op: "use table", Path: p.Name, Hint: hint,
		Err: fmt.Errorf(format+": %w", append(args, storage.ErrUnsupported)...)}
}

// CheckTimeline says whether the timeline can be read: layouts 1 and 2 can, whatever the table version.
func (p *Properties) CheckTimeline() error {
	if p.Layout < oldestTimeline || p.Layout > newestTimeline {
		return p.unsupported(unreleasedHint, "timeline layout %d", p.Layout)
	}
	return nil
}

// CheckReadable says whether the table's rows can be read as its own readers would see them. What it refuses it names, as
// storage.ErrUnsupported with a hint. It is meant for data tables; metadata tables have a merge mode and a base format
// of their own.
func (p *Properties) CheckReadable() error {
	if err := p.CheckTimeline(); err != nil {
		return err
	}
	switch {
	case p.Version < oldestReadable:
		return p.unsupported(upgradeHint, "table version %d: only versions 8 and 9 are handled", p.Version)
	case p.Version > newestReadable:
		return p.unsupported(unreleasedHint, "table version %d: only versions 8 and 9 are handled", p.Version)
	case p.Layout != 2:
		return p.unsupported(upgradeHint, "timeline layout %d with table version %d", p.Layout, p.Version)
	}
	if format := p.get(nativeFormat, "hoodie.table.format"); upper(format) != upper(nativeFormat) {
		return p.unsupported(unsupportedHint, "table format %s", format)
	}
	if p.BaseFormat != "PARQUET" {
		return p.unsupported(unsupportedHint, "base file format %s: only PARQUET is read", p.BaseFormat)
	}
	if p.flag("hoodie.table.multiple.base.file.formats.enable", false) {
		return p.unsupported(unsupportedHint, "several base file formats in one table")
	}
	if p.get("", "hoodie.bootstrap.base.path") != "" {
		return p.unsupported(unsupportedHint, "bootstrapped table: its rows lie in files outside it")
	}
	if layout := p.get(defaultStorage, "hoodie.table.storage.layout"); upper(layout) != upper(defaultStorage) {
		return p.unsupported(unsupportedHint, "storage layout %s", layout)
	}
	if p.Type != "COPY_ON_WRITE" && p.Type != "MERGE_ON_READ" {
		return p.unsupported(unsupportedHint, "table type %s", p.Type)
	}
	return p.checkMerge()
}

// checkMerge refuses merge rules that are code or unknown. Copy-on-write tables have merged when they wrote.
func (p *Properties) checkMerge() error {
	if p.Type != "MERGE_ON_READ" {
		return nil
	}
	if p.MergeMode != CommitTimeOrdering && p.MergeMode != EventTimeOrdering {
		return p.unsupported("use commit-time or event-time ordering", "merge mode %s: the result is decided by Java code", p.MergeMode)
	}
	if !slices.Contains([]string{noPartialUpdates, "IGNORE_DEFAULTS", "IGNORE_MARKERS"}, p.PartialUpdateMode) {
		return p.unsupported(unsupportedHint, "partial update mode %s", p.PartialUpdateMode)
	}
	return nil
}

// CheckWritable says whether an index may be written into the table's metadata table: what CheckReadable asks for, and a
// metadata table with its files partition (design, decision 1).
func (p *Properties) CheckWritable() error {
	if err := p.CheckReadable(); err != nil {
		return err
	}
	if !slices.Contains(p.MetadataPartitions, "files") {
		return p.unsupported(withoutMetadata, "no metadata table to write into")
	}
	return nil
}
