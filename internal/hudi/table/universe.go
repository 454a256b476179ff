package table

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"tidemark/internal/storage"
)

// partitionMarker begins the name of the file that makes a folder a partition.
const partitionMarker = ".hoodie_partition_metadata"

// maxPartitionDepth bounds the walk for partitions.
const maxPartitionDepth = 32

// Files are all known files of a table: those listed, and those that completed commits and cleans name. It is an immutable
// look, safe for concurrent use.
type Files struct {
	taking sync.Mutex // guards what take adds, while partitions are listed
	t      *Table
	groups map[Group]*group
	order  []Group // sorted
	only   map[string]bool
	// completed has completion times of archived instants whose logs stand beside later base files, by requested time.
	completed map[string]string
	// damaged are completed data writes of the active timeline whose metadata cannot be read.
	damaged map[string]error
	// Skipped counts listed files that belong to no group, by reason.
	Skipped map[string]int
}

type group struct {
	bases, logs []*File // by instant in the name; by merge order
	replaced    []string
}

// Files lists the table's files and joins them with what the instants of the Timeline say. With partitions given only those are
// listed, and only their groups can be asked for. Of what was archived before it knows the names in the listing only: enough
// for every snapshot at or after the first instant of the Timeline; see Since. Tables whose rows cannot be read are
// storage.ErrUnsupported.
func (t *Table) Files(ctx context.Context, partitions ...string) (*Files, error) {
	if err := t.Props.CheckReadable(); err != nil {
		return nil, err
	}
	f := &Files{t: t, groups: map[Group]*group{}, Skipped: map[string]int{}}
	if len(partitions) > 0 {
		f.only = map[string]bool{}
		for _, p := range partitions {
			if err := storage.CheckPath("list partition", p); err != nil {
				return nil, err
			}
			f.only[p] = true
			if err := f.list(ctx, p); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return nil, err
			}
		}
	} else if err := f.walk(ctx, "", 0); err != nil {
		return nil, err
	}
	facts, err := t.facts(ctx)
	if err != nil {
		return nil, err
	}
	f.join(facts)
	f.damaged = facts.damaged
	f.sort()
	if f.completed, err = f.archivedTimes(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Universe is Files.
func (t *Table) Universe(ctx context.Context, partitions ...string) (*Files, error) {
	return t.Files(ctx, partitions...)
}

// walk looks for partitions: folders with a marker file. The walk ends at a partition.
func (f *Files) walk(ctx context.Context, dir string, depth int) error {
	infos, err := f.listing(ctx, dir)
	if err != nil {
		return err
	}
	var children []string
	for _, info := range infos {
		name := path.Base(info.Path)
		if !info.IsDir && strings.HasPrefix(name, partitionMarker) {
			f.take(dir, infos)
			return nil
		}
		if info.IsDir && !(depth == 0 && name == HoodieDir) {
			children = append(children, info.Path)
		}
	}
	if depth == maxPartitionDepth && len(children) > 0 {
		return &storage.Error{Op: "list partitions", Path: dir, Err: fmt.Errorf("folders nest deeper than %d: %w", maxPartitionDepth, storage.ErrUnsupported)}
	}
	calls := make([]func() error, len(children))
	for i, child := range children {
		calls[i] = func() error {
			if err := f.walk(ctx, child, depth+1); err != nil && !errors.Is(err, storage.ErrNotFound) { // removed meanwhile
				return err
			}
			return nil
		}
	}
	return storage.Together(f.t.Store, calls...)
}

func (f *Files) list(ctx context.Context, partition string) error {
	infos, err := f.listing(ctx, partition)
	if err != nil {
		return err
	}
	f.take(partition, infos)
	return nil
}

func (f *Files) listing(ctx context.Context, dir string) ([]storage.Info, error) {
	infos, err := f.t.Store.List(ctx, dir)
	f.t.stats.add(kindList, 0)
	if err != nil {
		return nil, fmt.Errorf("list partition %q: %w", dir, err)
	}
	return infos, nil
}

// take adds the data files of one partition's listing.
func (f *Files) take(partition string, infos []storage.Info) {
	f.taking.Lock() // several folders may be listed at once
	defer f.taking.Unlock()
	for _, info := range infos {
		name := path.Base(info.Path)
		if info.IsDir || strings.HasPrefix(name, partitionMarker) {
			continue
		}
		g, file, reason := parseFile(partition, name)
		if reason != "" {
			f.Skipped[reason]++
			continue
		}
		file.Present, file.Size = true, info.Size
		f.group(g).add(file)
	}
}

func (f *Files) group(g Group) *group {
	x := f.groups[g]
	if x == nil {
		x = &group{}
		f.groups[g] = x
	}
	return x
}

func (x *group) add(file *File) {
	if file.Log {
		x.logs = append(x.logs, file)
	} else {
		x.bases = append(x.bases, file)
	}
}

// join adds what metadata says.
func (f *Files) join(facts *facts) {
	byPath := map[string]*File{}
	for _, x := range f.groups {
		for _, file := range x.bases {
			byPath[file.Path] = file
		}
		for _, file := range x.logs {
			byPath[file.Path] = file
		}
	}
	for p, k := range facts.files {
		if f.only != nil && !f.only[k.group.Partition] {
			continue
		}
		file := byPath[p]
		if file == nil {
			c := *k.file
			file = &c
			f.group(k.group).add(file)
		}
		file.writers = append(slices.Clip(file.writers), k.writers...)
		file.expect = max(file.expect, k.expect)
		file.cleaned = file.cleaned || k.cleaned
	}
	for g, instants := range facts.replaced {
		if f.only == nil || f.only[g.Partition] {
			x := f.group(g)
			x.replaced = append(x.replaced, instants...)
		}
	}
}

func (f *Files) sort() {
	f.order = f.order[:0]
	for g, x := range f.groups {
		f.order = append(f.order, g)
		slices.SortFunc(x.bases, func(a, b *File) int {
			if c := strings.Compare(a.Instant, b.Instant); c != 0 {
				return c
			}
			return strings.Compare(a.Name, b.Name)
		})
		slices.SortFunc(x.logs, mergeOrder)
		slices.Sort(x.replaced)
	}
	slices.SortFunc(f.order, Group.compare)
}

// Groups returns all known groups by partition and file id, whether or not a snapshot shows them.
func (f *Files) Groups() []Group { return slices.Clone(f.order) }
