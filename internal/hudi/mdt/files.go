package mdt

import (
	"context"
	"errors"
	"fmt"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

const (
	allPartitions = "__all_partitions__"
	unpartitioned = "." // name of the only partition of a table without partitions
	typeAll       = 1
	typeFiles     = 2
	typeRecord    = 5
)

// listedFile is an entry of filesystemMetadata.
type listedFile struct {
	size    int64
	deleted bool
}

// Files returns the files of data-table partitions as the `files` partition lists them: partition ("" for a table without
// partitions) → file name → size. partitions nil means all; a partition that is not known gives no entry. data is the data table's
// active timeline. A metadata table without the partition `files` is storage.ErrNotFound.
func (m *MDT) Files(ctx context.Context, data *timeline.Timeline, partitions []string) (map[string]map[string]int64, error) {
	p, err := m.partition(ctx, filesPartition)
	if err != nil {
		return nil, err
	}
	keep := m.ValidInstants(data)
	merged := map[string]map[string]listedFile{}
	for _, g := range p.groups {
		layers, err := m.layers(ctx, g, keep)
		if err != nil {
			return nil, err
		}
		for _, l := range layers {
			if err := mergeFiles(ctx, l, merged); err != nil {
				return nil, located("read metadata file", l.path, err)
			}
		}
	}
	all, ok := merged[allPartitions]
	if !ok {
		return nil, &storage.Error{Op: "read metadata partition", Path: filesPartition, Err: fmt.Errorf("no list of partitions: %w", storage.ErrCorrupt)}
	}
	out := map[string]map[string]int64{}
	add := func(key string) {
		if f, ok := all[key]; !ok || f.deleted {
			return
		}
		name := key
		if key == unpartitioned {
			name = ""
		}
		out[name] = map[string]int64{}
		for file, f := range merged[key] {
			if !f.deleted {
				out[name][file] = f.size
			}
		}
	}
	if partitions == nil {
		for key := range all {
			add(key)
		}
	}
	for _, name := range partitions {
		if name == "" {
			name = unpartitioned
		}
		add(name)
	}
	return out, nil
}

// mergeFiles adds the records of one layer to those of the older ones.
func mergeFiles(ctx context.Context, l layer, merged map[string]map[string]listedFile) error {
	for key := range l.deleted {
		delete(merged, key)
	}
	if l.file == nil {
		return nil
	}
	proj, err := l.schema.Project("type", "filesystemMetadata")
	if err != nil {
		return err
	}
	values := make([]any, 2)
	for c, err := range l.file.Scan(ctx, nil) {
		if err != nil {
			return err
		}
		key := string(c.Key)
		if err := proj.Decode(c.Value, values); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		want := int32(typeFiles)
		if key == allPartitions {
			want = typeAll
		}
		if typ, ok := values[0].(int32); !ok || typ != want {
			return fmt.Errorf("record %q is of type %v, want %d: %w", key, values[0], want, storage.ErrCorrupt)
		}
		list, _ := values[1].(map[string]any)
		if merged[key] == nil {
			merged[key] = map[string]listedFile{}
		}
		for name, v := range list {
			f, err := toListed(v)
			if err != nil {
				return fmt.Errorf("record %q, file %q: %w", key, name, err)
			}
			old, there := merged[key][name]
			switch {
			case f.deleted && there && !old.deleted:
				delete(merged[key], name)
			case !f.deleted && there:
				merged[key][name] = listedFile{size: max(old.size, f.size)}
			default:
				merged[key][name] = f
			}
		}
	}
	return nil
}

func toListed(v any) (listedFile, error) {
	rec, ok := asRecord(v)
	if !ok {
		return listedFile{}, errors.Join(errors.New("entry is no record"), storage.ErrCorrupt)
	}
	size, ok1 := rec.Long("size")
	deleted, ok2 := rec.Bool("isDeleted")
	if !ok1 || !ok2 {
		return listedFile{}, errors.Join(errors.New("entry lacks size or isDeleted"), storage.ErrCorrupt)
	}
	return listedFile{size, deleted}, nil
}

func asRecord(v any) (avrox.Record, bool) {
	switch r := v.(type) {
	case avrox.Record:
		return r, true
	case map[string]any:
		return avrox.Record(r), true
	}
	return nil, false
}
