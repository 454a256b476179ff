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

// CheckOurs is CheckListed with listing and definitions read here. A partition without files is listed, too.
func CheckOurs(ctx context.Context, place Place, p *timeline.Properties, partition string) error {
	files, err := place.Store.List(ctx, place.File(partition))
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("list partition: %w", err)
	}
	return CheckListed(place, p, partition, files, func() (*Definitions, error) {
		return ReadDefinitions(ctx, place.Store, DefinitionsPath(p))
	})
}

// CheckListed is HandedOver as an error of kind ErrHandedOver, with the definitions that defs returns, which is asked at most once.
func CheckListed(place Place, p *timeline.Properties, partition string, files []storage.Info, defs func() (*Definitions, error)) error {
	why, err := HandedOver(place, p, partition, files, defs)
	if err != nil || why == "" {
		return err
	}
	return &storage.Error{Op: "check", Path: place.File(partition), Err: fmt.Errorf("it %s: %w", why, ErrHandedOver),
		Hint: "an engine that knows vector indexes owns this partition now and nothing is written here any more; unregister it there to go on"}
}

// HandedOver returns why the partition of an index belongs to an engine that knows vector indexes (design decision 4); "" if it does
// not. partition is an Index's Dir, files the listing of that directory, p the data table's properties as they are now, and defs returns
// its definitions, if they are needed. Beside a table only the metafile counts: what the table lists or defines under that name is a
// partition of its own metadata table.
func HandedOver(place Place, p *timeline.Properties, partition string, files []storage.Info, defs func() (*Definitions, error)) (string, error) {
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
	d, err := defs()
	if err != nil {
		return "", err
	}
	if _, defined := d.of[partition]; defined {
		return "is defined in " + path.Base(d.Path), nil
	}
	return "", nil
}

// Definitions are the index definitions of a table, as read from a path.
type Definitions struct {
	Path string
	of   map[string]json.RawMessage // by the name of their partition
}

// DefinitionsPath is where a table of these properties keeps its index definitions, relative to its root. nil properties name the usual place.
func DefinitionsPath(p *timeline.Properties) string {
	if p != nil && p.Raw["hoodie.table.index.defs.path"] != "" {
		return p.Raw["hoodie.table.index.defs.path"]
	}
	return defaultDefinitions
}

// ReadDefinitions reads the index definitions of a table; none when there is no such file. storage.ErrCorrupt when they cannot be decoded.
func ReadDefinitions(ctx context.Context, st storage.Store, file string) (*Definitions, error) {
	b, _, err := st.ReadFile(ctx, file)
	if errors.Is(err, storage.ErrNotFound) || err == nil && len(b) == 0 {
		return &Definitions{Path: file}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index definitions: %w", err)
	}
	var defs struct {
		Definitions map[string]json.RawMessage `json:"indexDefinitions"`
	}
	if err := json.Unmarshal(b, &defs); err != nil {
		return nil, &storage.Error{Op: "read index definitions", Path: file, Err: fmt.Errorf("%w: %w", err, storage.ErrCorrupt)}
	}
	return &Definitions{file, defs.Definitions}, nil
}
