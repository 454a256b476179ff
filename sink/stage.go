package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"iter"
	"runtime"
	"strconv"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/spill"
	"tidemark/internal/storage"
)

const (
	// defaultMemory is how many bytes of a batch's files are kept in memory until they are staged.
	defaultMemory = 16 << 20
	// readBack is how much of a staged file is read at a time.
	readBack = 8 << 20
	// small is the size of files that are staged at once.
	small = 1 << 20
	// blockLimit is the size at which the content of a log block ends and another block begins: Java readers hold a block's content
	// in an array of less than 2 GiB.
	blockLimit = 1 << 30
	// aheadMost is how many blocks of a file are compressed at once at most.
	aheadMost = 4
)

// Record is one record of a batch. The sink does not look into it.
type Record struct {
	Key     []byte // logical key
	Payload []byte // encoded by Config.Schema
}

// FileRecords are the records of one file, ascending by key without doubles.
type FileRecords struct {
	Index   string
	Group   int  // physical file group
	Base    bool // a base file instead of a log file
	Records []Record
	// Stream hands on the records where they do not fit in memory; Records is empty then. A record is valid until the
	// next one. An error ends it and is returned by Commit.
	Stream iter.Seq2[Record, error]

	merge func(w *hfile.Writer) error // of a fold: writes what is in the base file
}

func (f *FileRecords) all() iter.Seq2[Record, error] {
	if f.Stream != nil {
		return f.Stream
	}
	return func(yield func(Record, error) bool) {
		for _, r := range f.Records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// staged is a file of a batch with its content.
type staged struct {
	mdt.DataFile
	pieces []piece
}

// piece is a part of a file: bytes, or a buffer that need not be in memory.
type piece struct {
	bytes  []byte
	buffer *spill.Buffer
	sum    hash.Hash // SHA-256 of a buffer that is a whole file
}

// open returns the content from the front.
func (f *staged) open() (io.ReadCloser, error) {
	var all []io.Reader
	for _, p := range f.pieces {
		if p.buffer != nil {
			all = append(all, p.buffer.Reader())
			continue
		}
		all = append(all, bytes.NewReader(p.bytes))
	}
	return io.NopCloser(io.MultiReader(all...)), nil
}

// whole returns the content if all of it is in memory.
func (f *staged) whole() ([]byte, bool) {
	var all []byte
	for _, p := range f.pieces {
		b := p.bytes
		if p.buffer != nil {
			var ok bool
			if b, ok = p.buffer.Bytes(); !ok {
				return nil, false
			}
		}
		all = append(all, b...)
	}
	return all, true
}

// encode makes the files of a batch, in a space: at most one log and one base file per index and file group. Deterministic.
func (s *Sink) encode(space *spill.Space, id string, epoch int64, batch []FileRecords) ([]staged, error) {
	var out []staged
	seen := map[string]bool{}
	for n := range batch {
		f := &batch[n]
		if f.Index == "" || f.Group < 0 || f.Group > 9999 {
			return nil, fmt.Errorf("encode file %d: index %q, file group %d: %w", n, f.Index, f.Group, storage.ErrRefused)
		}
		what := fmt.Sprintf("%s/%d/%t", f.Index, f.Group, f.Base)
		if seen[what] {
			return nil, fmt.Errorf("encode file %d: index %s has file group %d twice in one batch: %w", n, f.Index, f.Group, storage.ErrRefused)
		}
		seen[what] = true
		token := mdt.TokenPrefix + strconv.FormatInt(epoch, 10) + "-" + strconv.Itoa(n)
		name := mdt.LogName(f.Group, id, token)
		if f.Base {
			name = mdt.BaseName(f.Group, id, token)
		}
		file := staged{DataFile: mdt.DataFile{Path: mdt.PartitionDir(f.Index) + "/" + name, Index: f.Index, Group: f.Group, Base: f.Base, ID: id}}
		var err error
		if file.pieces, err = s.pieces(space, id, f); err == nil && len(file.pieces) == 1 {
			p := file.pieces[0]
			file.Size, file.SHA256 = p.buffer.Size(), hex.EncodeToString(p.sum.Sum(nil))
		} else if err == nil {
			err = file.sum()
		}
		if err != nil {
			return nil, fmt.Errorf("encode file group %d of index %s: %w", f.Group, f.Index, err)
		}
		out = append(out, file)
	}
	return out, nil
}

// pieces encodes the records as one HFile, or as a log of as many HFile blocks as their size asks for.
func (s *Sink) pieces(space *spill.Space, id string, f *FileRecords) ([]piece, error) {
	var out []piece
	var buffer *spill.Buffer
	var w *hfile.Writer
	sum := sha256.New()
	begin := func() {
		buffer = space.Buffer()
		var to io.Writer = buffer
		if f.Base {
			to = io.MultiWriter(buffer, sum)
		}
		w = hfile.NewWriterTo(to, hfile.Config{Schema: s.cfg.Schema, Ahead: min(runtime.GOMAXPROCS(0), aheadMost)})
	}
	end := func() error {
		if err := w.Close(); err != nil {
			return err
		}
		if f.Base {
			out = append(out, piece{buffer: buffer, sum: sum})
			return nil
		}
		before, after := logfile.Envelope(logfile.TypeHFile, []logfile.HeaderEntry{
			{Key: logfile.SchemaKey, Value: s.cfg.Schema},
			{Key: logfile.InstantTime, Value: id},
		}, buffer.Size())
		out = append(out, piece{bytes: before}, piece{buffer: buffer}, piece{bytes: after})
		return nil
	}
	begin()
	if f.merge != nil {
		err := f.merge(w)
		if err == nil {
			err = end()
		}
		return out, err
	}
	var key []byte
	for r, err := range f.all() {
		if err != nil {
			return nil, err
		}
		if !f.Base && w.Reaches(s.blockLimit) {
			if err := end(); err != nil {
				return nil, err
			}
			begin()
		}
		key = hfile.AppendKey(key[:0], r.Key)
		if err := w.Append(key, r.Payload); err != nil {
			return nil, err
		}
	}
	return out, end()
}

// sum fills in size and SHA-256 of a log: its first bytes depend on how many follow, so this is a second look at them.
func (f *staged) sum() error {
	h := sha256.New()
	r, err := f.open()
	if err != nil {
		return err
	}
	f.Size, err = io.Copy(h, r)
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return err
}

// createFiles is the first half of step 4. A name that is there with our bytes is our own attempt whose answer was lost.
func (s *Sink) createFiles(ctx context.Context, files []staged) error {
	return s.each(files, func(f *staged) error {
		if err := s.createFile(ctx, s.place.File(f.Path), f); err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		return nil
	})
}

// compareFiles is the second half: read all back, and compare.
func (s *Sink) compareFiles(ctx context.Context, files []staged) error {
	return s.each(files, func(f *staged) error {
		path := s.place.File(f.Path)
		same, err := s.holdsFile(ctx, path, f)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if !same {
			return &storage.Error{Op: "read back", Path: path, Hint: "the store does not return what was written; check it",
				Err: fmt.Errorf("size or checksum differs: %w", storage.ErrCorrupt)}
		}
		return nil
	})
}

// each does something with every file: with small ones at once where the store allows it, with large ones, which wait for bytes and take
// memory, one after the other.
func (s *Sink) each(files []staged, do func(f *staged) error) error {
	var calls, large []func() error
	for i := range files {
		call := func() error { return do(&files[i]) }
		if files[i].Size <= small {
			calls = append(calls, call)
		} else {
			large = append(large, call)
		}
	}
	if err := storage.Together(s.guard, calls...); err != nil {
		return err
	}
	for _, call := range large {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// atOnce says whether files are so few and small that all are read back within about one call's time.
func atOnce(files []staged) bool {
	sum := int64(0)
	for _, f := range files {
		sum += f.Size
	}
	return sum <= readBack
}

// createFile is createOnce for a file of the batch.
func (s *Sink) createFile(ctx context.Context, path string, f *staged) error {
	if content, ok := f.whole(); ok {
		return s.createOnce(ctx, path, content)
	}
	_, err := s.guard.CreateFrom(ctx, path, f.Size, f.open)
	return s.resolve(path, err, func() (bool, error) { return s.holdsFile(ctx, path, f) })
}

// holdsFile says whether a file has the size and the SHA-256 of one of the batch. Large ones are read in parts.
func (s *Sink) holdsFile(ctx context.Context, path string, f *staged) (bool, error) {
	h := sha256.New()
	if f.Size <= readBack {
		got, _, err := s.guard.ReadFile(ctx, path)
		if err != nil || int64(len(got)) != f.Size {
			return false, err
		}
		h.Write(got)
	} else {
		info, err := s.guard.Stat(ctx, path)
		if err != nil || info.Size != f.Size {
			return false, err
		}
		for off := int64(0); off < f.Size; off += readBack {
			got, err := s.guard.ReadRange(ctx, path, off, min(readBack, f.Size-off))
			if err != nil {
				return false, err
			}
			h.Write(got)
		}
	}
	return hex.EncodeToString(h.Sum(nil)) == f.SHA256, nil
}
