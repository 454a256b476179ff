package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// dataDir is the data table's .hoodie directory, relative to the store's root.
const dataDir = ".hoodie"

// look is what both timelines and both hoodie.properties said at one time.
type look struct {
	dataProps, mdtProps *timeline.Properties
	data, mdt           *timeline.Timeline
}

// look reads both timelines. ErrNoMDT when the metadata table, its properties or its timeline are not there; ErrUnsupported
// when the table's version is not one that may be written.
func (s *Sink) look(ctx context.Context) (*look, error) {
	l := &look{}
	var err error
	if l.dataProps, l.data, err = timeline.Open(ctx, s.place.Store, dataDir); err != nil {
		return nil, fmt.Errorf("read data timeline: %w", err)
	}
	if err := l.dataProps.CheckWritable(); err != nil {
		if !slices.Contains(l.dataProps.MetadataPartitions, "files") && l.dataProps.CheckReadable() == nil {
			return nil, fmt.Errorf("check table: %w: %w", err, ErrNoMDT)
		}
		return nil, fmt.Errorf("check table: %w", err)
	}
	l.mdtProps, l.mdt, err = timeline.Open(ctx, s.place.Store, s.place.File(".hoodie"))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, &storage.Error{Op: "read", Path: s.place.MDTDir, Err: fmt.Errorf("%w (%w)", ErrNoMDT, err),
			Hint: "a writer with hoodie.metadata.enable=false deletes it: enable it, write once, then create the index again"}
	}
	if err != nil {
		return nil, fmt.Errorf("read metadata table's timeline: %w", err)
	}
	if l.mdtProps.Version != l.dataProps.Version || l.mdtProps.Layout != 2 ||
		l.mdtProps.TimelineDir(s.place.File(".hoodie")) != s.place.TimelineDir() {
		return nil, &storage.Error{Op: "read", Path: s.place.MDTDir, Hint: "finish the upgrade of the table with its own writer",
			Err: fmt.Errorf("metadata table of version %d beside a table of version %d, or its timeline elsewhere: %w",
				l.mdtProps.Version, l.dataProps.Version, storage.ErrUnsupported)}
	}
	return l, nil
}

// newest returns the newest requested or completion time of a completed data-table instant, in 17 digits, and the newest
// modification time of a file of the data timeline.
func (l *look) newest() (at string, file time.Time) {
	for _, i := range l.data.Instants() {
		if i.ModTime.After(file) {
			file = i.ModTime
		}
		if i.State != timeline.Completed {
			continue
		}
		times := []string{i.Requested, i.Completed}
		if i.Derived {
			times = times[:1] // a modification time, not one of the sequence
		}
		for _, t := range times {
			if t, err := timeline.AddMillis(t, 0); err == nil && t > at {
				at = t
			}
		}
	}
	return at, file
}

// taken says whether a time is on either timeline, as a requested or a completion time.
func (l *look) taken(t string) bool {
	if _, ok := l.mdt.Find(t); ok {
		return true
	}
	return l.onData(t)
}

func (l *look) onData(t string) bool {
	_, ok := l.data.Find(t)
	return ok
}

// checkRestores returns ErrStale when a completed restore or rollback is on the data timeline that the state has not
// dealt with.
func (l *look) checkRestores(st *mdt.State) error {
	for _, a := range []timeline.Action{timeline.Restore, timeline.Rollback} {
		for _, i := range l.data.CompletedOf(a) {
			if done, ok := st.Restores[i.Requested]; !ok || done != i.Completed && !i.Derived {
				return stale("%s %s is not dealt with", i.Action, i.Requested)
			}
		}
	}
	return nil
}

// checkStage returns ErrHandedOver when one of the index directories is a registered partition: listed in the table's
// properties, defined in index.json, or with a metafile (decision 4).
func (s *Sink) checkStage(ctx context.Context, l *look, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	defined, err := s.definitions(ctx, l.dataProps)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		why := ""
		switch {
		case slices.Contains(l.dataProps.MetadataPartitions, dir):
			why = "listed in hoodie.table.metadata.partitions"
		case slices.Contains(l.dataProps.MetadataInflight, dir):
			why = "listed in hoodie.table.metadata.partitions.inflight"
		case slices.Contains(defined, dir):
			why = "defined in index.json"
		}
		if why == "" {
			infos, err := s.list(ctx, s.place.File(dir))
			if err != nil {
				return err
			}
			for _, i := range infos {
				if strings.HasPrefix(path.Base(i.Path), ".hoodie_partition_metadata") {
					why = "a partition with a metafile"
				}
			}
		}
		if why != "" {
			return &storage.Error{Op: "check", Path: s.place.File(dir), Err: fmt.Errorf("%s: %w", why, ErrHandedOver),
				Hint: "an engine that knows vector indexes owns this partition now; drop the index here, or unregister it there"}
		}
	}
	return nil
}

// definitions returns the index names in the table's index.json; none when there is no such file.
func (s *Sink) definitions(ctx context.Context, p *timeline.Properties) ([]string, error) {
	file := p.Raw["hoodie.table.index.defs.path"]
	if file == "" {
		file = ".hoodie/.index_defs/index.json"
	}
	b, _, err := s.guard.ReadFile(ctx, file)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index definitions: %w", err)
	}
	var defs struct {
		Definitions map[string]json.RawMessage `json:"indexDefinitions"`
	}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &defs); err != nil {
			return nil, &storage.Error{Op: "read index definitions", Path: file, Err: fmt.Errorf("%w: %w", err, storage.ErrCorrupt)}
		}
	}
	var names []string
	for n := range defs.Definitions {
		names = append(names, n)
	}
	sort.Strings(names)
	return names, nil
}

// list is List with a missing directory as an empty one.
func (s *Sink) list(ctx context.Context, dir string) ([]storage.Info, error) {
	infos, err := s.guard.List(ctx, dir)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	return infos, err
}

// checkFiles returns ErrFilesGone when a file that should be there is missing or has another size. One listing a
// directory.
func (s *Sink) checkFiles(ctx context.Context, files []mdt.DataFile) error {
	sizes := map[string]int64{}
	seen := map[string]bool{}
	for _, f := range files {
		if dir := path.Dir(f.Path); !seen[dir] {
			seen[dir] = true
			infos, err := s.list(ctx, s.place.File(dir))
			if err != nil {
				return fmt.Errorf("check files: %w", err)
			}
			for _, i := range infos {
				sizes[i.Path] = i.Size
			}
		}
		size, ok := sizes[s.place.File(f.Path)]
		if ok && size == f.Size {
			continue
		}
		what := "missing"
		if ok {
			what = fmt.Sprintf("%d bytes instead of %d", size, f.Size)
		}
		return &storage.Error{Op: "check", Path: s.place.File(f.Path), Err: fmt.Errorf("%s: %w", what, ErrFilesGone),
			Hint: "the index is absent: drop it and create it again"}
	}
	return nil
}

// dirs returns the directories of all indexes that are not dropped, sorted.
func dirs(st *mdt.State) []string {
	var out []string
	for _, x := range st.Indexes {
		if !x.Dropped {
			out = append(out, x.Dir)
		}
	}
	sort.Strings(out)
	return out
}

// archived says whether an instant is in the MDT's archived timeline.
func (s *Sink) archived(ctx context.Context, l *look, requested string) (bool, error) {
	for _, err := range timeline.NewArchive(s.place.Store, s.place.File(".hoodie"), l.mdtProps).Instants(ctx, requested, requested) {
		if err != nil {
			return false, fmt.Errorf("look into the metadata table's archived timeline: %w", err)
		}
		return true, nil
	}
	return false, nil
}
