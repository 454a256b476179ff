package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"tidemark/internal/storage"
)

// ArchivedRow is one completed instant of an archived timeline file.
type ArchivedRow struct {
	// Requested and Completed are the instant's times; Completed is empty for instants of old writers.
	Requested, Completed string
	// Action is that of the completed file.
	Action Action
	// Metadata and Plan are timeline files' bytes, nil where there were none.
	Metadata, Plan []byte
}

// RowReader reads the rows of one archived timeline file (Parquet), given its path in the store and its size.
type RowReader func(ctx context.Context, path string, size int64) ([]ArchivedRow, error)

// ArchiveFile is one file of the archived timeline of layout 2.
type ArchiveFile struct {
	// Path is in the store; Min and Max are the requested times it spans, inclusive.
	Path, Min, Max string
	Level          int
	Size           int64
}

// ArchiveFiles returns the files of the archived timeline that its current manifest names, in the manifest's order. Files
// that only lie in the folder are superseded and not returned. No archive is an empty list. Layout 1's archive is
// storage.ErrUnsupported.
func ArchiveFiles(ctx context.Context, st storage.Store, dir string, p *Properties) ([]ArchiveFile, error) {
	if p.Layout != 2 {
		return nil, p.unsupported(upgradeHint, "archived timeline of layout %d", p.Layout)
	}
	folder := p.HistoryDir(dir)
	version, err := archiveVersion(ctx, st, folder)
	if err != nil || version < 0 {
		return nil, err
	}
	file := path.Join(folder, manifestPrefix+strconv.Itoa(version))
	b, _, err := st.ReadFile(ctx, file)
	if err != nil {
		return nil, &storage.Error{Op: "read archive manifest", Path: file, Err: err}
	}
	files, err := parseManifestOld(b, folder)
	if err != nil {
		return nil, &storage.Error{Op: "read archive manifest", Path: file, Err: err, Hint: "the archived timeline is damaged: restore it from a copy"}
	}
	return files, nil
}

// ArchivedUpto returns the largest requested time that the archive holds by its manifest, "" if nothing was archived. It
// reads no archive file.
func ArchivedUpto(ctx context.Context, st storage.Store, dir string, p *Properties) (string, error) {
	files, err := ArchiveFiles(ctx, st, dir, p)
	upto := ""
	for _, f := range files {
		upto = max(upto, f.Max)
	}
	return upto, err
}

// archiveVersion returns the number of the current manifest, -1 if nothing was archived. The version file is deleted and made
// anew when it changes, so without it the largest manifest counts.
func archiveVersion(ctx context.Context, st storage.Store, folder string) (int, error) {
	file := path.Join(folder, versionFile)
	b, _, err := st.ReadFile(ctx, file)
	if err == nil {
		if v, bad := strconv.Atoi(strings.TrimSpace(string(b))); bad == nil && v >= 0 {
			return v, nil
		}
	} else if !errors.Is(err, storage.ErrNotFound) {
		return 0, &storage.Error{Op: "read archive version", Path: file, Err: err}
	}
	infos, err := st.List(ctx, folder)
	if errors.Is(err, storage.ErrNotFound) {
		return -1, nil
	}
	if err != nil {
		return 0, &storage.Error{Op: "list archive", Path: folder, Err: err}
	}
	newest := -1
	for _, info := range infos {
		if text, ok := strings.CutPrefix(path.Base(info.Path), manifestPrefix); ok {
			if v, bad := strconv.Atoi(text); bad == nil {
				newest = max(newest, v)
			}
		}
	}
	return newest, nil
}

func parseManifestOld(b []byte, folder string) ([]ArchiveFile, error) {
	var m struct {
		Files []struct {
			Name string `json:"fileName"`
			Len  int64  `json:"fileLen"`
		} `json:"files"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, damaged("JSON: %v", err)
	}
	var out []ArchiveFile
	for _, f := range m.Files {
		parts := archiveName.FindStringSubmatch(f.Name)
		if parts == nil || f.Len < 0 {
			return nil, damaged("file name %q or length %d", f.Name, f.Len)
		}
		level, _ := strconv.Atoi(parts[3])
		out = append(out, ArchiveFile{Path: path.Join(folder, f.Name), Min: parts[1], Max: parts[2], Level: level, Size: f.Len})
	}
	return out, nil
}

// FindArchived looks for the instant requested at that time in the archived timeline. Files are chosen by the range in their
// names; when one is gone because the archive was merged meanwhile, the search starts anew. A file whose name mentions the
// instant but which does not hold it is storage.ErrCorrupt.
func FindArchived(ctx context.Context, st storage.Store, dir string, p *Properties, requested string, rows RowReader) (ArchivedRow, bool, error) {
	for attempt := 1; ; attempt++ {
		row, ok, err := findArchived(ctx, st, dir, p, requested, rows)
		if err == nil || attempt == archiveAttempts || !errors.Is(err, storage.ErrNotFound) {
			return row, ok, err
		}
	}
}

func findArchived(ctx context.Context, st storage.Store, dir string, p *Properties, requested string, rows RowReader) (ArchivedRow, bool, error) {
	files, err := ArchiveFiles(ctx, st, dir, p)
	if err != nil {
		return ArchivedRow{}, false, err
	}
	for _, f := range files {
		if requested < f.Min || requested > f.Max {
			continue
		}
		found, err := rows(ctx, f.Path, f.Size)
		if err != nil {
			return ArchivedRow{}, false, fmt.Errorf("look for instant %s in the archive: %w", requested, err)
		}
		for _, r := range found {
			if r.Requested == requested {
				return r, true, nil
			}
		}
		if requested == f.Min || requested == f.Max {
			return ArchivedRow{}, false, &storage.Error{Op: "read archive", Path: f.Path,
				Err: damaged("instant %s is in its name but not in its rows", requested)}
		}
	}
	return ArchivedRow{}, false, nil
}
