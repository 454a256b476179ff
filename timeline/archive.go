package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tidemark/internal/storage"
)

// Archive is the archived timeline of one table (layout 2). It reads lazily: the manifest first, of its files only those whose
// range is asked for, and of those only the columns that are needed. What cannot change, the index columns of a level file, is
// kept. It is safe for concurrent use.
//
// Hudi merges files under its readers; then a method starts anew from the version file, up to a bound, after which the error is
// storage.ErrStale. A cut or damaged file, a manifest that names a missing file, and rows outside their file's range are
// storage.ErrCorrupt; layout 1 and rows of an unknown version are storage.ErrUnsupported. Neither is ever taken for "nothing was
// archived".
//
// List the active timeline before asking: Hudi deletes an instant's files only after the archive names it, so that what is in
// neither place was undone.
type Archive struct {
	st    storage.Store
	dir   string
	p     *Properties
	cache *lru

	mu      sync.Mutex            // guards what follows
	current *manifest             // as last read; nil until then
	levels  map[string]*levelFile // opened files of the current manifest, by path
}

// NewArchive returns the archive that belongs to dir (see Load). It reads nothing.
func NewArchive(st storage.Store, dir string, p *Properties) *Archive {
	return newArchive(st, dir, p, newLRU(cacheBytes))
}

func newArchive(st storage.Store, dir string, p *Properties, cache *lru) *Archive {
	return &Archive{st: st, dir: dir, p: p, cache: cache, levels: map[string]*levelFile{}}
}

// adopt takes over what another archive of the same folder has read.
func (a *Archive) adopt(old *Archive) {
	old.mu.Lock()
	defer old.mu.Unlock()
	a.current = old.current
	for p, l := range old.levels {
		a.levels[p] = l
	}
}

// manifest is one snapshot of the archive.
type manifest struct {
	version int // -1: nothing was archived
	files   []archiveFile
	// orphans are the level files of a folder without any manifest: the first archival is under way, or manifests were lost.
	orphans []archiveFile
}

// archiveFile is one level file. min and max are the requested times it spans, inclusive.
type archiveFile struct {
	path, min, max string
	size           int64
}

const (
	versionFile    = "_version_"
	manifestPrefix = "manifest_"
	// archiveAttempts bounds how often a reader starts anew from _version_ when the archive is merged under it.
	archiveAttempts = 4
	archiveHint     = "the archived timeline is damaged: restore it from a copy; without it a catch-up is not possible, but the index can be created anew"
)

var archiveName = regexp.MustCompile(`^(\d+)_(\d+)_(\d)\.parquet$`)

// Upto returns the largest requested time in the archive by the names of its files, "" if nothing was archived. It reads
// no level file.
func (a *Archive) Upto(ctx context.Context) (string, error) {
	m, err := a.manifest(ctx)
	if err != nil {
		return "", err
	}
	return m.upto(), nil
}

// retry runs fn with the archive's current manifest, and again with a newer one when a file is missed.
func (a *Archive) retry(ctx context.Context, fn func(m *manifest) error) error {
	version := -2
	for attempt := 1; ; attempt++ {
		m, err := a.manifest(ctx)
		if err != nil {
			return err
		}
		if len(m.orphans) > 0 {
			return &storage.Error{Op: "read archive", Path: m.orphans[0].path, Hint: archiveHint,
				Err: damaged("the folder has level files but no manifest that names them")}
		}
		if err = fn(m); err == nil || !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		switch {
		case attempt == archiveAttempts && m.version != version:
			return &storage.Error{Op: "read archive", Path: a.p.HistoryDir(a.dir), Hint: "the archive is merged faster than it can be read: try again",
				Err: fmt.Errorf("%v: %w", err, storage.ErrStale)}
		case attempt == archiveAttempts:
			return &storage.Error{Op: "read archive", Path: a.p.HistoryDir(a.dir), Hint: archiveHint,
				Err: damaged("%s%d names a file that is not there: %v", manifestPrefix, m.version, err)}
		case m.version == version:
			if err := pause(ctx, readPause); err != nil {
				return err
			}
		}
		version = m.version
	}
}

// manifest returns the archive's current manifest. Only the version file is read if it is the one read before.
func (a *Archive) manifest(ctx context.Context) (*manifest, error) {
	if a.p.Layout != 2 {
		return nil, a.p.unsupported(upgradeHint, "archived timeline of layout %d", a.p.Layout)
	}
	folder := a.p.HistoryDir(a.dir)
	for attempt := 1; ; attempt++ {
		version, orphans, err := a.version(ctx, folder)
		if err != nil {
			return nil, err
		}
		if m := a.known(version); m != nil && version >= 0 {
			return m, nil
		}
		m := &manifest{version: version, orphans: orphans}
		if version >= 0 {
			m.files, err = a.readManifest(ctx, folder, version)
		}
		if err == nil {
			a.keep(m)
			return m, nil
		}
		if attempt == archiveAttempts || !errors.Is(err, storage.ErrCorrupt) {
			return nil, err
		}
		if err := pause(ctx, readPause); err != nil { // a manifest may be short, or gone with its version, for a moment
			return nil, err
		}
	}
}

func (a *Archive) known(version int) *manifest {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil || a.current.version != version {
		return nil
	}
	return a.current
}

// keep takes a newer manifest and forgets level files that it does not name.
func (a *Archive) keep(m *manifest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && a.current.version > m.version {
		return
	}
	a.current = m
	named := map[string]bool{}
	for _, f := range m.files {
		named[f.path] = true
	}
	for p := range a.levels {
		if !named[p] {
			delete(a.levels, p)
		}
	}
}

// version returns the number of the current manifest, -1 if there is none. The version file is deleted and made anew when it
// changes, so without it the largest manifest counts.
func (a *Archive) version(ctx context.Context, folder string) (version int, orphans []archiveFile, err error) {
	file := path.Join(folder, versionFile)
	b, _, err := a.st.ReadFile(ctx, file)
	if err == nil {
		if v, bad := strconv.Atoi(strings.TrimSpace(string(b))); bad == nil && v >= 0 {
			return v, nil, nil
		}
	} else if !errors.Is(err, storage.ErrNotFound) {
		return 0, nil, &storage.Error{Op: "read archive version", Path: file, Err: err}
	}
	infos, err := a.st.List(ctx, folder)
	if errors.Is(err, storage.ErrNotFound) {
		return -1, nil, nil
	}
	if err != nil {
		return 0, nil, &storage.Error{Op: "list archive", Path: folder, Err: err}
	}
	newest := -1
	for _, info := range infos {
		name := path.Base(info.Path)
		if text, ok := strings.CutPrefix(name, manifestPrefix); ok {
			if v, bad := strconv.Atoi(text); bad == nil {
				newest = max(newest, v)
			}
		}
		if f, ok := parseArchiveName(folder, name, info.Size); ok && !info.IsDir {
			orphans = append(orphans, f)
		}
	}
	if newest >= 0 {
		orphans = nil
	}
	return newest, orphans, nil
}

func parseArchiveName(folder, name string, size int64) (archiveFile, bool) {
	parts := archiveName.FindStringSubmatch(name)
	if parts == nil || size < 0 || parts[1] > parts[2] {
		return archiveFile{}, false
	}
	return archiveFile{path: path.Join(folder, name), min: parts[1], max: parts[2], size: size}, true
}

func (a *Archive) readManifest(ctx context.Context, folder string, version int) ([]archiveFile, error) {
	file := path.Join(folder, manifestPrefix+strconv.Itoa(version))
	b, _, err := a.st.ReadFile(ctx, file)
	var files []archiveFile
	switch {
	case errors.Is(err, storage.ErrNotFound):
		err = damaged("%s names a manifest that is not there", versionFile)
	case err == nil:
		files, err = parseManifest(b, folder)
	}
	if err != nil {
		return nil, &storage.Error{Op: "read archive manifest", Path: file, Err: err, Hint: archiveHint}
	}
	return files, nil
}

func parseManifest(b []byte, folder string) ([]archiveFile, error) {
	var m struct {
		Files *[]struct {
			Name string `json:"fileName"`
			Len  int64  `json:"fileLen"`
		} `json:"files"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, damaged("JSON: %v", err)
	}
	if m.Files == nil {
		return nil, damaged("no member files")
	}
	var out []archiveFile
	for _, f := range *m.Files {
		file, ok := parseArchiveName(folder, f.Name, f.Len)
		if !ok {
			return nil, damaged("file name %q or length %d", f.Name, f.Len)
		}
		out = append(out, file)
	}
	return out, nil
}
