package mdt

import (
	"context"
	"errors"
	"fmt"
	"path"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
)

const (
	// WholeFile is the size in bytes up to which a file is read whole and checked by its SHA-256; larger ones are read by ranges.
	WholeFile = 1 << 20
	// holdBytes bounds the files that one MDT or View keeps whole in memory; beyond it files are read again.
	holdBytes = 64 << 20
	// holdLayers bounds the layers of logs of the record index that one MDT keeps: keys that were deleted since the last compaction, about 700,000 of
	// them, and tails of HFile blocks. Layers of a file group that do not fit are made again by every look-up that needs them.
	holdLayers = 64 << 20
	// deletedKey is what a key of a delete block takes in memory beside its bytes: its place in a map that is three quarters full, and its text's size class.
	deletedKey = 40
)

// layer is one source of records of a file group: a base file, an HFile block or a delete block. Newer layers win.
type layer struct {
	path    string
	instant string
	base    bool
	file    *hfile.Reader       // nil for a delete block
	deleted map[string]struct{} // stored keys; nil for a file
	bytes   int64               // about what a layer of a log takes in memory, without the file's own bytes
	schema  *avrox.Schema
	// location reads entries of the record index, once setLocation has prepared it.
	location *avrox.Picker
}

// fileData is an opened file: a base file's reader, or a log's blocks with where their content is.
type fileData struct {
	src    storage.Source
	base   *hfile.Reader
	blocks []logfile.Block
}

// located wraps an error with the file it belongs to.
func located(op, path string, err error) error {
	return &storage.Error{Op: op, Path: path, Err: err, Hint: storage.Hint(err)}
}

// openFile opens a base file or reads the frames of a log. Content of blocks is held only if it is in memory already.
func openFile(ctx context.Context, src storage.Source, base, whole bool) (*fileData, error) {
	f := &fileData{src: src}
	if base {
		var err error
		f.base, err = hfile.Open(ctx, src)
		return f, err
	}
	frames := logfile.Frames
	if whole {
		frames = logfile.Blocks
	}
	for b, err := range frames(ctx, src) {
		if err != nil {
			return nil, err
		}
		if b.Type == logfile.TypeCorrupt && !b.Trailing {
			return nil, fmt.Errorf("bytes %d to %d: %s: %w", b.Offset, b.Offset+b.Size, b.Reason, storage.ErrCorrupt)
		}
		f.blocks = append(f.blocks, b)
	}
	return f, nil
}

// content returns a block's content as a file.
func (f *fileData) content(b logfile.Block) storage.Source {
	if b.Content != nil {
		return storage.BytesSource(b.Content)
	}
	return logfile.Section(f.src, b.ContentOffset, b.ContentSize)
}

// makeLayer turns a block that counts into a layer.
func (f *fileData) makeLayer(ctx context.Context, path string, b logfile.Block) (layer, error) {
	l := layer{path: path, instant: b.Instant()}
	switch b.Type {
	case logfile.TypeDelete:
		if b.Content == nil {
			var err error
			if b.Content, err = f.src.ReadRange(ctx, b.ContentOffset, b.ContentSize); err != nil {
				return l, fmt.Errorf("read delete block: %w", err)
			}
		}
		deletes, err := b.Deletes()
		if err != nil {
			return l, err
		}
		l.deleted = make(map[string]struct{}, len(deletes))
		for _, d := range deletes {
			l.deleted[d.Key] = struct{}{}
			l.bytes += int64(len(d.Key)) + deletedKey
		}
		return l, nil
	case logfile.TypeHFile:
		r, err := hfile.Open(ctx, f.content(b))
		if err != nil {
			return l, fmt.Errorf("block at %d: %w", b.Offset, err)
		}
		l.file, l.bytes = r, r.Bytes()
		return l, l.setSchema(b.Schema())
	}
	return l, fmt.Errorf("block at %d is of type %s: %w", b.Offset, b.Type, storage.ErrUnsupported)
}

// setSchema takes the writer's schema: the block's header, else the HFile's own entry.
func (l *layer) setSchema(text string) (err error) {
	if text == "" {
		text = l.file.Schema()
	}
	if text == "" {
		return fmt.Errorf("hfile without a schema: %w", storage.ErrCorrupt)
	}
	l.schema, err = avrox.ParseSchema(text)
	return err
}

// baseLayer is the layer of a base file.
func baseLayer(path, instant string, r *hfile.Reader) (layer, error) {
	l := layer{path: path, instant: instant, base: true, file: r}
	return l, l.setSchema("")
}

// open returns an opened file of the metadata table; files are immutable, so it is kept for the life of m.
func (m *MDT) open(ctx context.Context, info storage.Info, base bool) (*fileData, error) {
	m.mu.Lock()
	f := m.files[info.Path]
	m.mu.Unlock()
	if f != nil {
		return f, nil
	}
	src := storage.FileSource(m.Store, info.Path, info.Size)
	whole := info.Size <= WholeFile
	if whole {
		b, err := src.ReadRange(ctx, 0, info.Size)
		if err != nil {
			return nil, m.gone(info.Path, err)
		}
		src = storage.BytesSource(b)
	}
	f, err := openFile(ctx, src, base, whole)
	if err != nil {
		return nil, m.gone(info.Path, err)
	}
	if base && m.blocks != nil {
		f.base.Keep(m.blocks, m.Store.URL()+"/"+info.Path+"#"+info.Stamp())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if whole && m.held+info.Size > holdBytes {
		clear(m.files)
		m.held = 0
		m.records = keptLayers{} // which are made of them
		m.dropped++
	}
	if whole {
		m.held += info.Size
	}
	m.files[info.Path] = f
	return f, nil
}

// gone adds a hint to a file that the snapshot needs and that is no longer there.
func (m *MDT) gone(path string, err error) error {
	e := &storage.Error{Op: "read metadata file", Path: path, Err: err, Hint: storage.Hint(err)}
	if errors.Is(err, storage.ErrNotFound) {
		e.Hint = "the metadata table was compacted and cleaned meanwhile: try again"
	}
	return e
}

// layers returns the layers of a file group, oldest first. keep says which instants of log blocks are valid.
func (m *MDT) layers(ctx context.Context, g group, keep func(string) bool) ([]layer, error) {
	if storage.IsBroad(m.Store) { // opened files are kept, so that what follows finds them
		var calls []func() error
		if g.base != nil {
			calls = append(calls, func() error { _, err := m.open(ctx, *g.base, true); return err })
		}
		for _, info := range g.logs {
			calls = append(calls, func() error { _, err := m.open(ctx, info, false); return err })
		}
		if err := storage.Together(m.Store, calls...); err != nil {
			return nil, err
		}
	}
	var out []layer
	if g.base != nil {
		f, err := m.open(ctx, *g.base, true)
		if err != nil {
			return nil, err
		}
		l, err := baseLayer(g.base.Path, baseName.FindStringSubmatch(path.Base(g.base.Path))[3], f.base)
		if err != nil {
			return nil, located("read metadata file", g.base.Path, err)
		}
		out = append(out, l)
	}
	var blocks []logfile.Block
	files := make([]*fileData, len(g.logs))
	for i, info := range g.logs {
		f, err := m.open(ctx, info, false)
		if err != nil {
			return nil, err
		}
		files[i] = f
		for _, b := range f.blocks {
			b.File = i
			switch {
			case b.Type == logfile.TypeCorrupt:
				m.skip(info.Path, b.Reason)
			case b.IsData() && !keep(b.Instant()):
				m.skip(info.Path, "instant "+b.Instant()+" is not valid for the metadata table")
			}
			blocks = append(blocks, b)
		}
	}
	for _, b := range logfile.Effective(blocks, keep) {
		l, err := files[b.File].makeLayer(ctx, g.logs[b.File].Path, b)
		if err != nil {
			return nil, m.gone(g.logs[b.File].Path, err)
		}
		out = append(out, l)
	}
	return out, nil
}
