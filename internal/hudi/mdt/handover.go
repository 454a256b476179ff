package mdt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

const (
	defaultDefinitions = ".hoodie/.index_defs/index.json"
	metafile           = ".hoodie_partition_metadata"
)

// ErrHandedOver says that an index's partition is registered in the table: an aware engine owns it (design decision 4). Nothing may be
// written any more.
var ErrHandedOver = fmt.Errorf("handed over to an aware engine: %w", storage.ErrRefused)

// CheckOurs is CheckListed with the listing made here. A partition without files is listed, too.
func CheckOurs(ctx context.Context, place Place, p *timeline.Properties, partition string) error {
	files, err := place.Store.List(ctx, place.File(partition))
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("list partition: %w", err)
	}
	return CheckListed(ctx, place, p, partition, files)
}

// CheckListed is HandedOver as an error of kind ErrHandedOver.
func CheckListed(ctx context.Context, place Place, p *timeline.Properties, partition string, files []storage.Info) error {
	why, err := HandedOver(ctx, place, p, partition, files)
	if err != nil || why == "" {
		return err
	}
	return &storage.Error{Op: "check", Path: place.File(partition), Err: fmt.Errorf("it %s: %w", why, ErrHandedOver),
		Hint: "an engine that knows vector indexes owns this partition now and nothing is written here any more; unregister it there to go on"}
}

// HandedOver returns why the partition of an index belongs to an engine that knows vector indexes (design decision 4); "" if it does
// not. partition is an Index's Dir, files the listing of that directory, p the data table's properties as they are now. Beside a table
// only the metafile counts: what the table lists or defines under that name is a partition of its own metadata table.
func HandedOver(ctx context.Context, place Place, p *timeline.Properties, partition string, files []storage.Info) (string, error) {
	for _, i := range files {
		if strings.HasPrefix(path.Base(i.Path), metafile) {
			return "has a partition metafile", nil
		}
	}
	if place.IsBeside() {
		return "", nil
	}
	switch {
	case slices.Contains(p.MetadataPartitions, partition):
		return "is listed in hoodie.table.metadata.partitions", nil
	case slices.Contains(p.MetadataInflight, partition):
		return "is listed in hoodie.table.metadata.partitions.inflight", nil
	}
	defs, file, err := definitions(ctx, place.Store, p)
	if err != nil {
		return "", err
	}
	if _, defined := defs[partition]; defined {
		return "is defined in " + path.Base(file), nil
	}
	return "", nil
}

// definitions returns the index definitions of a table by the name of their partition; none when there is no such file.
func definitions(ctx context.Context, st storage.Store, p *timeline.Properties) (map[string]json.RawMessage, string, error) {
	file := p.Raw["hoodie.table.index.defs.path"]
	if file == "" {
		file = defaultDefinitions
	}
	b, _, err := st.ReadFile(ctx, file)
	if errors.Is(err, storage.ErrNotFound) || err == nil && len(b) == 0 {
		return nil, file, nil
	}
	if err != nil {
		return nil, file, fmt.Errorf("read index definitions: %w", err)
	}
	var defs struct {
		Definitions map[string]json.RawMessage `json:"indexDefinitions"`
	}
	if err := json.Unmarshal(b, &defs); err != nil {
		return nil, file, &storage.Error{Op: "read index definitions", Path: file, Err: fmt.Errorf("%w: %w", err, storage.ErrCorrupt)}
	}
	return defs.Definitions, file, nil
}
