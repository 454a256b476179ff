package coverage

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

const (
	defaultDefinitions = ".hoodie/.index_defs/index.json"
	metafile           = ".hoodie_partition_metadata"
)

// handedOver returns why the partition of an index belongs to an engine that knows vector indexes (decision 4): it is
// listed in the table's properties, defined in index.json, or has a metafile. Empty if it does not. dir lists the
// partition's directory.
func handedOver(ctx context.Context, place mdt.Place, p *timeline.Properties, partition string, dir []storage.Info) (string, error) {
	switch {
	case slices.Contains(p.MetadataPartitions, partition):
		return "is listed in hoodie.table.metadata.partitions", nil
	case slices.Contains(p.MetadataInflight, partition):
		return "is listed in hoodie.table.metadata.partitions.inflight", nil
	}
	for _, info := range dir {
		if strings.HasPrefix(path.Base(info.Path), metafile) {
			return "has a partition metafile", nil
		}
	}
	file := p.Raw["hoodie.table.index.defs.path"]
	if file == "" {
		file = defaultDefinitions
	}
	b, _, err := place.Store.ReadFile(ctx, file)
	if gone(err) || err == nil && len(b) == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read index definitions: %w", err)
	}
	var defs struct {
		Definitions map[string]json.RawMessage `json:"indexDefinitions"`
	}
	if err := json.Unmarshal(b, &defs); err != nil {
		return "", &storage.Error{Op: "read index definitions", Path: file, Err: fmt.Errorf("%v: %w", err, storage.ErrCorrupt)}
	}
	if _, defined := defs.Definitions[partition]; defined {
		return "is defined in " + path.Base(file), nil
	}
	return "", nil
}

// listDir lists a directory; one that is not there is empty.
func listDir(ctx context.Context, st storage.Store, dir string) ([]storage.Info, error) {
	infos, err := st.List(ctx, dir)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return infos, nil
}

// missingFile returns the first file of an index that is not in the listing of its directory with its size.
func missingFile(place mdt.Place, files []mdt.DataFile, dir []storage.Info) (string, bool) {
	sizes := make(map[string]int64, len(dir))
	for _, info := range dir {
		sizes[info.Path] = info.Size
	}
	for _, f := range files {
		if size, ok := sizes[place.File(f.Path)]; !ok || size != f.Size {
			return f.Path, true
		}
	}
	return "", false
}
