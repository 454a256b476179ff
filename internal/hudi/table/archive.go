package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// archive is the archived timeline: what it knows about files, and the completion times.
type archive struct {
	facts     *facts
	completed map[string]string // requested → completion time, of data writes
}

// archiveAttempts bounds how often the archive is read again while it is merged under the reader.
const archiveAttempts = 3

// archive reads the whole archived timeline once.
func (t *Table) archive(ctx context.Context) (*archive, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for attempt := 1; t.arch == nil; attempt++ {
		a, err := t.readArchive(ctx)
		if errors.Is(err, storage.ErrNotFound) && attempt < archiveAttempts {
			continue
		}
		if err != nil {
			return nil, stale(fmt.Errorf("read archived timeline: %w", err))
		}
		t.arch = a
	}
	return t.arch, nil
}

func (t *Table) readArchive(ctx context.Context) (*archive, error) {
	files, err := timeline.ArchiveFiles(ctx, t.Store, HoodieDir, t.Props)
	if err != nil {
		return nil, err
	}
	a := &archive{facts: newFacts(), completed: map[string]string{}}
	type key struct {
		requested string
		action    timeline.Action
	}
	seen := map[key]bool{}
	for _, file := range files {
		rows, err := t.ArchivedRows(ctx, file.Path, file.Size)
		if err != nil {
			return nil, &storage.Error{Op: "read archive file", Path: file.Path, Err: err}
		}
		for _, row := range rows {
			if seen[key{row.Requested, row.Action}] { // ranges of files may overlap
				continue
			}
			seen[key{row.Requested, row.Action}] = true
			if err := a.add(row); err != nil {
				return nil, &storage.Error{Op: "read archive file", Path: file.Path, Err: fmt.Errorf("instant %s: %w", row.Requested, err)}
			}
		}
	}
	return a, nil
}

func (a *archive) add(row timeline.ArchivedRow) error {
	if !row.Action.IsWrite() {
		return nil
	}
	if row.Completed == "" {
		row.Completed = row.Requested // as Hudi's own readers do for instants of old writers
	}
	a.completed[row.Requested] = row.Completed
	if len(row.Metadata) == 0 {
		return fmt.Errorf("commit without metadata: %w", storage.ErrCorrupt)
	}
	m, err := timeline.ParseCommit(row.Metadata)
	if err != nil {
		return err
	}
	a.facts.addCommit(row.Requested, m)
	return nil
}

// ArchivedRows reads one file of the archived timeline; it is a timeline.RowReader.
func (t *Table) ArchivedRows(ctx context.Context, path string, size int64) ([]timeline.ArchivedRow, error) {
	f, err := basefile.Open(ctx, t.source(kindArchive, path, size))
	if err != nil {
		return nil, err
	}
	var rows []timeline.ArchivedRow
	columns := []string{"instantTime", "completionTime", "action", "metadata", "plan"}
	err = f.Read(ctx, columns, func(r basefile.Row) error {
		rows = append(rows, timeline.ArchivedRow{
			Requested: string(r.Values[0]), Completed: string(r.Values[1]), Action: timeline.Action(r.Values[2]),
			Metadata: slices.Clone(r.Values[3]), Plan: slices.Clone(r.Values[4]),
		})
		return nil
	})
	return rows, err
}
