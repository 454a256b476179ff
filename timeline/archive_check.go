package timeline

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
)

// Reach says how far an archive reaches.
type Reach struct {
	// Version is that of its manifest, -1 if nothing was archived.
	Version int
	// Upto is the largest requested time in it by the names of its files, "" if nothing was archived.
	Upto string
}

// Check compares the archive's folder with its manifest: the version file is a number, its manifest is there and the newest,
// every file that it names is there with its length, and it reaches as far as it did before (least; the zero Reach if that is not
// known). It lists the folder and reads version and manifest, of level files nothing: what is inside them is looked at by who reads them,
// and by Verify. What does not fit is storage.ErrCorrupt. tl is the active timeline, listed before.
func (a *Archive) Check(ctx context.Context, tl *Timeline, least Reach) error {
	for attempt := 1; ; attempt++ { // Hudi may be at work between the steps
		again, err := a.check(ctx, tl, least)
		if err == nil || !again || attempt == archiveAttempts {
			return err
		}
		if err := pause(ctx, readPause); err != nil {
			return err
		}
	}
}

// check is one attempt of Check; again says that what was found may be an archiver's work.
func (a *Archive) check(ctx context.Context, tl *Timeline, least Reach) (again bool, err error) {
	folder := a.p.HistoryDir(a.dir)
	refuse := func(file, format string, args ...any) (bool, error) {
		return true, &storage.Error{Op: "check archive", Path: path.Join(folder, file), Hint: archiveHint, Err: damaged(format, args...)}
	}
	if b, _, err := a.st.ReadFile(ctx, path.Join(folder, versionFile)); err == nil {
		if v, bad := strconv.Atoi(strings.TrimSpace(string(b))); bad != nil || v < 1 { // Hudi begins with 1
			return refuse(versionFile, "%.20q is no version", b)
		}
	} else if !errors.Is(err, storage.ErrNotFound) {
		return false, &storage.Error{Op: "read archive version", Path: path.Join(folder, versionFile), Err: err}
	}
	m, err := a.manifest(ctx)
	if err != nil {
		return false, err
	}
	upto := m.upto()
	switch {
	case m.version < 0 && least.Upto != "":
		return refuse("", "it is gone, and it did reach to %s", least.Upto)
	case least.Version > 0 && m.version < least.Version:
		return refuse(versionFile, "manifest %d, and it was %d before", m.version, least.Version)
	case upto < least.Upto:
		return refuse(manifestPrefix+strconv.Itoa(m.version), "it reaches to %s, and it did reach to %s", orNothing(upto), least.Upto)
	case m.version < 0 && len(m.orphans) > 0:
		if _, active := tl.Find(upto); !active {
			return refuse("", "the folder has level files but no manifest that names them")
		}
		return false, nil // the first archival is under way
	case m.version < 0:
		return false, nil
	}
	infos, err := a.st.List(ctx, folder)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return false, &storage.Error{Op: "list archive", Path: folder, Err: err}
	}
	sizes, newest := map[string]int64{}, m.version
	for _, info := range infos {
		name := path.Base(info.Path)
		sizes[name] = info.Size
		if text, ok := strings.CutPrefix(name, manifestPrefix); ok {
			if v, bad := strconv.Atoi(text); bad == nil {
				newest = max(newest, v)
			}
		}
	}
	for _, f := range m.files {
		size, there := sizes[path.Base(f.path)]
		switch {
		case !there:
			return refuse(path.Base(f.path), "manifest %d names it, and it is not there", m.version)
		case size != f.size:
			return refuse(path.Base(f.path), "%d bytes, manifest %d says %d", size, m.version, f.size)
		}
	}
	if newest == m.version {
		return false, nil
	}
	return true, a.leftBehind(ctx, tl, m, newest)
}

// leftBehind refuses a version file that lies behind a newer manifest, unless that is what an archiver leaves that is at work or was
// killed: it writes the manifest, then the version file, and only then deletes the instants' files.
func (a *Archive) leftBehind(ctx context.Context, tl *Timeline, m *manifest, newest int) error {
	folder := a.p.HistoryDir(a.dir)
	files, err := a.readManifest(ctx, folder, newest)
	if errors.Is(err, storage.ErrCorrupt) {
		return nil // half written: the version file never named it
	}
	if err != nil {
		return err
	}
	after := (&manifest{files: files}).upto()
	if _, active := tl.Find(after); after > m.upto() && !active {
		return &storage.Error{Op: "check archive", Path: path.Join(folder, versionFile), Hint: archiveHint,
			Err: damaged("it names manifest %d, and commits up to %s were archived with manifest %d", m.version, after, newest)}
	}
	return nil
}

// upto is the largest requested time by the names of the files.
func (m *manifest) upto() string {
	upto := ""
	for _, f := range slices.Concat(m.files, m.orphans) {
		upto = max(upto, f.max)
	}
	return upto
}

// Reach returns how far the archive reaches. It reads version and manifest.
func (a *Archive) Reach(ctx context.Context) (Reach, error) {
	m, err := a.manifest(ctx)
	if err != nil {
		return Reach{Version: -1}, err
	}
	return Reach{Version: m.version, Upto: m.upto()}, nil
}

// Verify reads every row of every level file with its metadata and plan, and returns how many there are. What cannot be read or
// decoded is storage.ErrCorrupt and names the file. Level files have no checksum of their own: a byte inside a text, or of a filter
// that nobody reads, may be another one.
func (a *Archive) Verify(ctx context.Context) (rows int, err error) {
	err = a.retry(ctx, func(m *manifest) error {
		rows = 0
		for _, f := range m.files {
			l, err := openLevel(ctx, a.st, f) // anew: what is in memory says nothing about the file
			if err != nil {
				return levelError(f, err)
			}
			err = l.file.Read(ctx, []string{colMetadata, colPlan}, func(r basefile.Row) error {
				rows++
				return verifyRow(l.rows[l.byPosition[r.Position]], r.Values[0])
			})
			if err != nil {
				return levelError(f, err)
			}
		}
		return nil
	})
	return rows, err
}

// verifyRow decodes the metadata of a row.
func verifyRow(r levelRow, metadata []byte) error {
	if r.action.IsWrite() && len(metadata) == 0 {
		return nil // it was empty when it was archived, which a catch-up tells
	}
	_, err := metadataOf(r.action, metadata)
	if err == nil && !r.action.IsWrite() && r.action != Clean && len(metadata) > 0 {
		_, err = one(metadata)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.action, r.requested, err)
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
