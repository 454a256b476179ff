package mdt

import (
	"context"
	"fmt"
	"path"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Archived says whether the metadata table's archived timeline holds a completed deltacommit with these requested and completion
// times. It reads the manifest and the one or two files whose range of times the id falls into.
func (m *MDT) Archived(ctx context.Context, id, completion string) (bool, error) {
	row, ok, err := timeline.FindArchived(ctx, m.Store, path.Join(rootDir, dataDir), m.Props, id, ArchiveReader(m.Store))
	if err != nil {
		return false, fmt.Errorf("look for deltacommit %s in the archive of the metadata table: %w", id, err)
	}
	return ok && row.Action == timeline.DeltaCommit && row.Completed == completion, nil
}

// ArchiveReader returns the reader of archived timeline files (layout 2: Parquet) that package timeline asks for.
func ArchiveReader(st storage.Store) timeline.RowReader {
	return func(ctx context.Context, path string, size int64) ([]timeline.ArchivedRow, error) {
		f, err := basefile.Open(ctx, storage.FileSource(st, path, size))
		if err != nil {
			return nil, located("read archive file", path, err)
		}
		columns := []string{"instantTime", "completionTime", "action", "metadata", "plan"}
		for _, c := range columns {
			if !f.HasColumn(c) {
				return nil, located("read archive file", path, fmt.Errorf("no column %q: %w", c, storage.ErrCorrupt))
			}
		}
		var rows []timeline.ArchivedRow
		err = f.Read(ctx, columns, func(r basefile.Row) error {
			rows = append(rows, timeline.ArchivedRow{
				Requested: string(r.Values[0]), Completed: string(r.Values[1]), Action: timeline.Action(r.Values[2]),
				Metadata: clone(r.Values[3]), Plan: clone(r.Values[4]),
			})
			return nil
		})
		if err != nil {
			return nil, located("read archive file", path, err)
		}
		return rows, nil
	}
}

// clone copies a value that is valid during a call only; nil stays nil.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
