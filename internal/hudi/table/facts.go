package table

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

// facts is what completed instants say about files: who wrote them, which are to be expected, which groups were replaced.
type facts struct {
	files    map[string]*fact   // by path
	replaced map[Group][]string // requested times of the instants that replaced a group
	damaged  map[string]error   // completed data writes whose metadata proves nothing, by requested time
}

type fact struct {
	group   Group
	file    *File // Present and Size unset
	writers []string
	expect  int64
	rows    int64 // rows that its writers say they wrote; deletes are not among them
	cleaned bool  // a clean took it
}

func newFacts() *facts {
	return &facts{files: map[string]*fact{}, replaced: map[Group][]string{}, damaged: map[string]error{}}
}

// know notes that a file exists or existed. Names that are no base or log file are passed over.
func (f *facts) know(partition, name string) *fact {
	p := filePath(partition, name)
	if k := f.files[p]; k != nil {
		return k
	}
	g, file, reason := parseFile(partition, name)
	if reason != "" {
		return nil
	}
	k := &fact{group: g, file: file}
	f.files[p] = k
	return k
}

// addCommit takes the stats of a completed data write.
func (f *facts) addCommit(requested string, m *timeline.CommitMetadata) {
	for _, s := range m.Stats {
		if s.Path != "" {
			if k := f.know(s.Partition, path.Base(s.Path)); k != nil {
				k.wrote(requested)
				k.expect = max(k.expect, s.FileSize)
				k.rows += s.NumWrites
			}
		}
		for _, name := range s.LogFiles {
			// Version 6 lists all logs of the slice, later versions the new ones, which carry the commit's own time.
			if k := f.know(s.Partition, path.Base(name)); k != nil && k.file.Instant == requested {
				k.wrote(requested)
			}
		}
		for _, name := range []string{s.BaseFile, s.PrevBaseFile} {
			if name != "" {
				f.know(s.Partition, path.Base(name))
			}
		}
	}
	for partition, ids := range m.Replaced {
		for _, id := range ids {
			g := Group{partition, id}
			f.replaced[g] = append(f.replaced[g], requested)
		}
	}
}

func (k *fact) wrote(requested string) {
	for _, w := range k.writers {
		if w == requested {
			return
		}
	}
	k.writers = append(k.writers, requested)
}

// addClean takes the names that a clean deleted.
func (f *facts) addClean(m *timeline.CleanMetadata) {
	for partition, names := range m.Deleted {
		for _, name := range names {
			if k := f.know(partition, path.Base(strings.TrimSuffix(name, "/"))); k != nil {
				k.cleaned = true
			}
		}
	}
}

// LogRows returns how many rows a log file holds at most, by the commit that wrote it. Not known (false) for a log of an
// archived commit, and before version 8, where commits share log files.
func (t *Table) LogRows(ctx context.Context, log File) (rows int64, known bool, err error) {
	if t.Props.Version < 8 {
		return 0, false, nil
	}
	f, err := t.facts(ctx)
	if err != nil {
		return 0, false, err
	}
	k := f.files[log.Path]
	if k == nil || len(k.writers) == 0 {
		return 0, false, nil
	}
	return k.rows, true, nil
}

// facts returns what the look's completed instants say.
func (t *Table) facts(ctx context.Context) (*facts, error) { return t.cache.facts(ctx, t) }

// stale turns a timeline file that vanished since Open (archived, or restored away) into storage.ErrStale: the look must be
// taken again. It must not pass for a gone data file.
func stale(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return &storage.Error{Op: "read timeline", Hint: "the timeline has changed since it was listed: try again", Err: fmt.Errorf("%v: %w", err, storage.ErrStale)}
	}
	return err
}
