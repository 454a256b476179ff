package mdt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/storage"
)

// View is what readers of ours see of one index: exactly the files that a state object names, merged newest wins. Files are opened
// at first use and kept. It is safe for concurrent use.
type View struct {
	// Locate names the physical file group of a logical key among n, or -1 if it may be in any. Get then reads only that
	// group. LocatePrefix does the same for all keys with a prefix, for scans. nil: all groups are read. Set them before the
	// first use. This package does not know how keys are placed.
	Locate, LocatePrefix func(key []byte, n int) int

	place  Place
	total  int         // file groups
	groups []viewGroup // by group number; only groups with files
	limit  int64       // size up to which a file is read whole

	mu   sync.Mutex
	held int64 // guarded by mu: bytes of files kept whole
}

type viewGroup struct {
	number int
	files  []*viewFile // oldest first
}

// viewFile is one file of ours, opened at first use.
type viewFile struct {
	DataFile
	mu     sync.Mutex
	layers []layer // guarded by mu
	opened bool    // guarded by mu
}

// Entry is one record of an index.
type Entry struct {
	Key    []byte // logical key
	Value  []byte // stored value: Avro binary by Schema, its key field empty
	Schema *avrox.Schema
	ID     string // deltacommit that wrote it
	Base   bool   // from a base file
}

// Record decodes the value by the schema it was written with.
func (e Entry) Record() (avrox.Record, error) {
	rec, rest, err := e.Schema.Decode(e.Value)
	if err == nil && len(rest) != 0 {
		err = fmt.Errorf("%d bytes behind the record: %w", len(rest), storage.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("decode record %x: %w", e.Key, err)
	}
	return rec, nil
}

// OpenView returns the view of an index that the state makes visible: its base files and those of all commits. An
// index that the state does not have, or that was dropped, is storage.ErrNotFound.
func OpenView(ctx context.Context, place Place, st *State, index string) (*View, error) {
	x := st.Indexes[index]
	if x == nil || x.Dropped {
		return nil, &storage.Error{Op: "open index", Path: index, Err: storage.ErrNotFound,
			Hint: "list the indexes of the table: tidemark index list"}
	}
	var files []DataFile
	for _, f := range st.Base {
		if f.Index == index {
			files = append(files, f)
		}
	}
	for _, c := range st.Commits {
		for _, f := range c.Files {
			if f.Index == index {
				files = append(files, f)
			}
		}
	}
	return OpenFiles(ctx, place, files, x.FileGroups)
}

// OpenFiles returns a view of exactly these files, for reading back what is not visible yet. groups is the number of
// physical file groups of the index.
func OpenFiles(_ context.Context, place Place, files []DataFile, groups int) (*View, error) {
	v := &View{place: place, total: groups, limit: WholeFile}
	byGroup := map[int][]*viewFile{}
	for _, f := range files {
		if f.Group < 0 || f.Group >= groups {
			return nil, &storage.Error{Op: "open index file", Path: place.File(f.Path), Err: fmt.Errorf("file group %d of %d: %w", f.Group, groups, storage.ErrCorrupt)}
		}
		byGroup[f.Group] = append(byGroup[f.Group], &viewFile{DataFile: f})
	}
	for n, list := range byGroup {
		slices.SortFunc(list, func(a, b *viewFile) int {
			if a.ID != b.ID {
				return strings.Compare(a.ID, b.ID)
			}
			if a.Base != b.Base {
				if a.Base {
					return -1
				}
				return 1
			}
			return strings.Compare(a.Path, b.Path)
		})
		v.groups = append(v.groups, viewGroup{n, list})
	}
	sort.Slice(v.groups, func(i, j int) bool { return v.groups[i].number < v.groups[j].number })
	return v, nil
}

// Inherit takes over the files that an older view of the same index has open. Call it before the first use.
func (v *View) Inherit(old *View) {
	open := map[DataFile]*viewFile{}
	for _, g := range old.groups {
		for _, f := range g.files {
			open[f.DataFile] = f
		}
	}
	for _, g := range v.groups {
		for i, f := range g.files {
			was := open[f.DataFile]
			if was == nil {
				continue
			}
			g.files[i] = was
			was.mu.Lock()
			if was.opened && was.Size <= v.limit {
				v.held += was.Size
			}
			was.mu.Unlock()
		}
	}
}

// Files returns the files of the view, by group and age.
func (v *View) Files() []DataFile {
	var out []DataFile
	for _, g := range v.groups {
		for _, f := range g.files {
			out = append(out, f.DataFile)
		}
	}
	return out
}

// fail locates an error in a file of ours; what is missing gets a hint.
func (v *View) fail(f *viewFile, err error) error {
	e := &storage.Error{Op: "read index file", Path: v.place.File(f.Path), Err: err, Hint: storage.Hint(err)}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		e.Hint = "read the state again; if the file stays missing, the index must be built anew: tidemark index drop, then create"
	case errors.Is(err, storage.ErrCorrupt):
		e.Hint = "the file is damaged: build the index anew: tidemark index drop, then create"
	}
	return e
}

// whole reads a file whole and checks its size and SHA-256.
func (v *View) whole(ctx context.Context, f *viewFile) ([]byte, error) {
	b, _, err := v.place.Store.ReadFile(ctx, v.place.File(f.Path))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != f.Size {
		return nil, fmt.Errorf("%d bytes, the state says %d: %w", len(b), f.Size, storage.ErrCorrupt)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, fmt.Errorf("sha-256 is %x, the state says %s: %w", sum, f.SHA256, storage.ErrCorrupt)
	}
	return b, nil
}

// open returns the layers of a file, oldest first. Files up to the limit are read whole and checked against the state; larger
// ones are read by ranges, where block checksums stand for it.
func (v *View) open(ctx context.Context, f *viewFile) ([]layer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened {
		return f.layers, nil
	}
	src := storage.FileSource(v.place.Store, v.place.File(f.Path), f.Size)
	inMemory := false
	if f.Size <= v.limit {
		b, err := v.whole(ctx, f)
		if err != nil {
			return nil, v.fail(f, err)
		}
		v.mu.Lock()
		if inMemory = v.held+f.Size <= holdBytes; inMemory {
			v.held += f.Size
			src = storage.BytesSource(b)
		}
		v.mu.Unlock()
	} else if info, err := v.place.Store.Stat(ctx, v.place.File(f.Path)); err != nil {
		return nil, v.fail(f, err)
	} else if info.Size != f.Size {
		return nil, v.fail(f, fmt.Errorf("%d bytes, the state says %d: %w", info.Size, f.Size, storage.ErrCorrupt))
	}
	layers, err := v.parse(ctx, f, src, inMemory)
	if err != nil {
		return nil, v.fail(f, err)
	}
	f.layers, f.opened = layers, true
	return layers, nil
}

// parse opens a base file or the blocks of a log. All blocks must carry the id of their file.
func (v *View) parse(ctx context.Context, f *viewFile, src storage.Source, inMemory bool) ([]layer, error) {
	data, err := openFile(ctx, src, f.Base, inMemory)
	if err != nil {
		return nil, err
	}
	if f.Base {
		l, err := baseLayer(f.Path, f.ID, data.base)
		return []layer{l}, err
	}
	var out []layer
	for _, b := range data.blocks {
		if b.Trailing || !b.IsData() || b.Instant() != f.ID {
			return nil, fmt.Errorf("block at %d: %s of instant %q in a file of %s: %w", b.Offset, b.Type, b.Instant(), f.ID, storage.ErrCorrupt)
		}
		l, err := data.makeLayer(ctx, f.Path, b)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// groupLayers returns the layers of a group, oldest first.
func (v *View) groupLayers(ctx context.Context, g viewGroup) ([]layer, error) {
	of := make([][]layer, len(g.files))
	calls := make([]func() error, len(g.files))
	for i, f := range g.files {
		calls[i] = func() (err error) {
			of[i], err = v.open(ctx, f)
			return err
		}
	}
	if err := storage.Together(v.place.Store, calls...); err != nil {
		return nil, err
	}
	return slices.Concat(of...), nil
}

// Get returns the records of logical keys, by key; absent ones give no entry. Slices of the entries are the caller's.
func (v *View) Get(ctx context.Context, keys [][]byte) (map[string]Entry, error) {
	out := make(map[string]Entry, len(keys))
	for _, g := range v.groups {
		var want []string
		logical := map[string][]byte{}
		for _, k := range keys {
			if v.Locate != nil {
				if n := v.Locate(k, v.total); n >= 0 && n != g.number {
					continue
				}
			}
			stored := string(hfile.EncodeKey(k))
			if _, twice := logical[stored]; !twice {
				logical[stored] = k
				want = append(want, stored)
			}
		}
		if len(want) == 0 {
			continue
		}
		layers, err := v.groupLayers(ctx, g)
		if err != nil {
			return nil, err
		}
		err = newest(ctx, layers, want, func(stored string, l layer, value []byte) error {
			k := bytes.Clone(logical[stored])
			if old, twice := out[string(k)]; twice {
				return fmt.Errorf("key %x is in two file groups (ids %s and %s): %w", k, old.ID, l.instant, storage.ErrCorrupt)
			}
			out[string(k)] = Entry{Key: k, Value: bytes.Clone(value), Schema: l.schema, ID: l.instant, Base: l.base}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Scan hands the records whose logical key starts with prefix to fn, in key order across file groups, each key once with its
// newest record; nil means all. key and rec are the callee's. An error of fn ends the scan and is returned as it is.
func (v *View) Scan(ctx context.Context, prefix []byte, fn func(key []byte, rec avrox.Record) error) error {
	return v.ScanEntries(ctx, prefix, func(e Entry) error {
		rec, err := e.Record()
		if err != nil {
			return err
		}
		return fn(bytes.Clone(e.Key), rec)
	})
}

// ScanEntries is Scan without decoding. The entry's slices are valid during the call only.
func (v *View) ScanEntries(ctx context.Context, prefix []byte, fn func(e Entry) error) error {
	groups := v.groups
	if v.LocatePrefix != nil {
		if n := v.LocatePrefix(prefix, v.total); n >= 0 {
			groups = nil
			for _, g := range v.groups {
				if g.number == n {
					groups = []viewGroup{g}
				}
			}
		}
	}
	return v.scan(ctx, groups, prefix, fn)
}

// Verify reads every file of the view whole and checks size, SHA-256 and every block. It returns the first error.
func (v *View) Verify(ctx context.Context) error {
	for _, g := range v.groups {
		for _, f := range g.files {
			b, err := v.whole(ctx, f)
			if err != nil {
				return v.fail(f, err)
			}
			layers, err := v.parse(ctx, f, storage.BytesSource(b), true)
			if err != nil {
				return v.fail(f, err)
			}
			for _, l := range layers {
				if l.file == nil {
					continue
				}
				for _, err := range l.file.Scan(ctx, nil) {
					if err != nil {
						return v.fail(f, err)
					}
				}
			}
		}
	}
	return nil
}
