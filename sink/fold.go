package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"maps"
	"slices"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// Fold is one fold as its caller describes it: the log files of each file group and its base file become one new base file, the newest
// record of each key (docs/format/commit.md, Fold). Readers get the same records before and after.
type Fold struct {
	// Revision is as in Batch.
	Revision int64
	// All folds every file group; otherwise those that have log files.
	All bool
	// Keep decides which of the newest records from logs a file group keeps. It is called once a file group, and what it returns
	// once for each such record, ascending by key. base are the group's records before; a key that is not kept is neither in them nor in
	// the new base file any more, so only what hides nothing may go. Records that no log touches are always kept. Defaults to keeping all.
	Keep func(index *mdt.Index, base *mdt.View) func(ctx context.Context, e mdt.Entry) (bool, error)
}

// Folded says what a fold did.
type Folded struct {
	ID     string // of its deltacommit; "" if there was nothing to fold
	Groups int    // file groups
	Bytes  int64  // of the new base files
	Blocks hfile.Merged
	// Dropped are the records from logs that Keep did not want.
	Dropped int64
}

// group is a file group that is folded.
type foldGroup struct {
	index  *mdt.Index
	number int
	base   mdt.DataFile
	logs   []mdt.DataFile
}

// Fold makes a fold visible as one deltacommit. The replaced files are retired, the state's list of commits is emptied, and the
// evidence in it goes to the ledger. It holds one file group at a time. Errors as Commit; storage.ErrUnsupported where a file has another
// schema than Config.Schema. Without anything to fold it makes no commit.
func (s *Sink) Fold(ctx context.Context, f Fold) (Folded, error) {
	var done Folded
	known := s.current()
	if known == nil {
		return done, fmt.Errorf("fold: not acquired: %w", ErrLeaseLost)
	}
	if f.Revision == 0 {
		f.Revision = known.Revision
	}
	groups, err := foldGroups(known, f.All)
	if err != nil || len(groups) == 0 {
		return done, err
	}
	build := func(string, string) ([]FileRecords, error) {
		done = Folded{Groups: len(groups)}
		var out []FileRecords
		for _, g := range groups {
			out = append(out, FileRecords{Index: g.index.Name, Group: g.number, Base: true, merge: func(w *hfile.Writer) error {
				return s.foldGroup(ctx, w, g, f, &done)
			}})
		}
		return out, nil
	}
	apply := func(st *mdt.State, _, _ string, files []mdt.DataFile) error {
		replaced := map[string]bool{}
		for _, g := range groups {
			replaced[g.base.Path] = true
		}
		st.Base = slices.DeleteFunc(st.Base, func(f mdt.DataFile) bool { return replaced[f.Path] })
		st.Base = append(st.Base, files...)
		for i := range st.Commits {
			st.Commits[i].Files = nil
		}
		if f.All {
			st.Refold = false
		}
		done.Bytes = 0
		for _, f := range files {
			done.Bytes += f.Size
		}
		return nil
	}
	id, err := s.Commit(ctx, Batch{Kind: "fold", Revision: f.Revision, Build: build, Apply: apply, fold: true})
	if err != nil {
		return Folded{}, err
	}
	done.ID = id
	return done, nil
}

// foldGroups returns the file groups that are to be folded, by index and number.
func foldGroups(st *mdt.State, all bool) ([]foldGroup, error) {
	var out []foldGroup
	for _, name := range slices.Sorted(maps.Keys(st.Indexes)) {
		x := st.Indexes[name]
		if x.Dropped {
			continue
		}
		by := map[int]*foldGroup{}
		for _, f := range st.Base {
			if f.Index != name {
				continue
			}
			if by[f.Group] != nil {
				return nil, fmt.Errorf("fold index %s: file group %d has two base files: %w", name, f.Group, storage.ErrCorrupt)
			}
			by[f.Group] = &foldGroup{index: x, number: f.Group, base: f}
		}
		for _, c := range st.Commits {
			for _, f := range c.Files {
				if f.Index != name {
					continue
				}
				g := by[f.Group]
				if g == nil || f.Base {
					return nil, fmt.Errorf("fold index %s: %s has no base file below it: %w", name, f.Path, storage.ErrCorrupt)
				}
				g.logs = append(g.logs, f)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(by)) {
			if g := by[n]; all || len(g.logs) > 0 {
				out = append(out, *g)
			}
		}
	}
	return out, nil
}

// foldGroup writes the new base file of a group.
func (s *Sink) foldGroup(ctx context.Context, w *hfile.Writer, g foldGroup, f Fold, done *Folded) error {
	src := &summed{Source: storage.FileSource(s.place.Store, s.place.File(g.base.Path), g.base.Size), sum: sha256.New()}
	base, err := hfile.Open(ctx, src)
	if err == nil && base.Schema() != s.cfg.Schema {
		err = fmt.Errorf("another schema than that of this program: %w", storage.ErrUnsupported)
	}
	if err != nil {
		return foldError(s.place.File(g.base.Path), err)
	}
	keep := func(context.Context, mdt.Entry) (bool, error) { return true, nil }
	if f.Keep != nil {
		below, err := mdt.OpenFiles(ctx, s.place, []mdt.DataFile{g.base}, g.index.FileGroups)
		if err != nil {
			return err
		}
		keep = f.Keep(g.index, below)
	}
	count, err := hfile.Merge(ctx, w, base, s.changes(ctx, g, keep, done))
	if err == nil {
		err = src.check(ctx, g.base.SHA256)
	}
	if err != nil {
		return foldError(s.place.File(g.base.Path), err)
	}
	done.Blocks.Copied += count.Copied
	done.Blocks.Unpacked += count.Unpacked
	return nil
}

// foldError says where, unless the error says so already.
func foldError(path string, err error) error {
	var located *storage.Error
	if errors.As(err, &located) {
		return err
	}
	return &storage.Error{Op: "fold", Path: path, Err: err, Hint: "a damaged file: build the index anew, tidemark index drop, then create"}
}

// changes hands on what a group's logs change in its base file.
func (s *Sink) changes(ctx context.Context, g foldGroup, keep func(context.Context, mdt.Entry) (bool, error), done *Folded) iter.Seq2[hfile.Change, error] {
	return func(yield func(hfile.Change, error) bool) {
		var schema string
		var key []byte
		err := s.checkLogs(ctx, g)
		if err == nil && len(g.logs) > 0 {
			var logs *mdt.View
			if logs, err = mdt.OpenFiles(ctx, s.place, g.logs, g.index.FileGroups); err == nil {
				err = logs.ScanEntries(ctx, nil, func(e mdt.Entry) error {
					if text := e.Schema.Text(); text != schema {
						if schema = text; schema != s.cfg.Schema {
							return fmt.Errorf("log of %s: another schema than that of this program: %w", e.ID, storage.ErrUnsupported)
						}
					}
					kept, err := keep(ctx, e)
					if err != nil {
						return err
					}
					if !kept {
						done.Dropped++
					}
					key = hfile.AppendKey(key[:0], e.Key)
					if !yield(hfile.Change{Key: key, Value: e.Value, Drop: !kept}, nil) {
						return errEnough
					}
					return nil
				})
			}
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(hfile.Change{}, err)
		}
	}
}

// errEnough ends a scan whose reader wants no more.
var errEnough = errors.New("enough")

// checkLogs compares the logs that are read by ranges with the state: what a fold copies must be what was written.
func (s *Sink) checkLogs(ctx context.Context, g foldGroup) error {
	for _, f := range g.logs {
		if f.Size <= mdt.WholeFile {
			continue // the view does it
		}
		same, err := s.holdsFile(ctx, s.place.File(f.Path), &staged{DataFile: f})
		if err != nil {
			return err
		}
		if !same {
			return foldError(s.place.File(f.Path), fmt.Errorf("size or sha-256 is not what the state says: %w", storage.ErrCorrupt))
		}
	}
	return nil
}

// summed is a file that is summed up while it is read from front to back.
type summed struct {
	storage.Source
	sum  hash.Hash
	next int64 // first byte that is not summed up
}

// ReadRange is a method of storage.Source.
func (f *summed) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	b, err := f.Source.ReadRange(ctx, off, n)
	if err == nil && off <= f.next && f.next < off+n {
		f.sum.Write(b[f.next-off:])
		f.next = off + n
	}
	return b, err
}

// check reads what is left and compares the sum.
func (f *summed) check(ctx context.Context, want string) error {
	for f.next < f.Size() {
		if _, err := f.ReadRange(ctx, f.next, min(readBack, f.Size()-f.next)); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(f.sum.Sum(nil)); got != want {
		return fmt.Errorf("sha-256 is %s, the state says %s: %w", got, want, storage.ErrCorrupt)
	}
	return nil
}
