package spill

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"

	"tidemark/internal/storage"
)

const (
	// chunkSize is the unit in which entries take memory: 1 MiB, or less where the bound is less.
	chunkSize = 1 << 20
	// entryBytes is what an entry takes beside its key and value.
	entryBytes = 16
	// maxEntry bounds a key or value: 1 GiB.
	maxEntry = 1 << 30

	minReadBuffer, maxReadBuffer = 4 << 10, 256 << 10
)

// Entry is a key with a value.
type Entry struct{ Key, Value []byte }

// Sorter orders entries by key, those of one key by when they were added. Beyond its bound sorted runs wait in one temporary
// file. It is not safe for concurrent use.
type Sorter struct {
	dir    string
	limit  int64
	chunks [][]byte
	at     int // chunk that is being filled
	refs   []ref
	sorted bool
	held   int64
	file   *File
	runs   []run
}

// ref is an entry in memory.
type ref struct{ chunk, off, key, value uint32 }

// run is a sorted part of the file.
type run struct{ off, size int64 }

// NewSorter returns an empty sorter that holds about limit bytes in memory, at least one entry. dir is as Create takes it; nothing is
// made there before the bound is reached.
func NewSorter(dir string, limit int64) *Sorter { return &Sorter{dir: dir, limit: limit} }

// Add takes in an entry; both slices are copied.
func (s *Sorter) Add(key, value []byte) error {
	n := len(key) + len(value)
	if len(key) > maxEntry || len(value) > maxEntry {
		return fmt.Errorf("sort entry of %d bytes: %w", n, storage.ErrRefused)
	}
	if len(s.refs) > 0 && s.held+int64(n+entryBytes) > s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	for s.at < len(s.chunks) && len(s.chunks[s.at])+n > cap(s.chunks[s.at]) {
		s.at++
	}
	if s.at == len(s.chunks) {
		s.chunks = append(s.chunks, make([]byte, 0, max(int(min(chunkSize, max(s.limit/4, 0))), n)))
	}
	c := s.chunks[s.at]
	s.refs = append(s.refs, ref{uint32(s.at), uint32(len(c)), uint32(len(key)), uint32(len(value))})
	s.chunks[s.at] = append(append(c, key...), value...)
	s.held += int64(n + entryBytes)
	s.sorted = false
	return nil
}

func (s *Sorter) entry(r ref) Entry {
	b := s.chunks[r.chunk][r.off : r.off+r.key+r.value]
	return Entry{b[:r.key:r.key], b[r.key:]}
}

func (s *Sorter) sort() {
	if s.sorted {
		return
	}
	slices.SortFunc(s.refs, func(a, b ref) int {
		x, y := s.chunks[a.chunk][a.off:a.off+a.key], s.chunks[b.chunk][b.off:b.off+b.key]
		return cmp.Or(bytes.Compare(x, y), cmp.Compare(a.chunk, b.chunk), cmp.Compare(a.off, b.off))
	})
	s.sorted = true
}

// spill writes what is in memory as a run.
func (s *Sorter) spill() (err error) {
	if s.file == nil {
		if s.file, err = Create(s.dir); err != nil {
			return err
		}
	}
	s.sort()
	from := s.file.Size()
	out := bufio.NewWriterSize(s.file, maxReadBuffer)
	var head [2 * binary.MaxVarintLen64]byte
	for _, r := range s.refs {
		e := s.entry(r)
		h := binary.AppendUvarint(binary.AppendUvarint(head[:0], uint64(len(e.Key))), uint64(len(e.Value)))
		for _, b := range [][]byte{h, e.Key, e.Value} {
			if _, err := out.Write(b); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	s.runs = append(s.runs, run{from, s.file.Size() - from})
	s.chunks = slices.DeleteFunc(s.chunks, func(c []byte) bool { return cap(c) > chunkSize })
	for i := range s.chunks {
		s.chunks[i] = s.chunks[i][:0]
	}
	s.refs, s.held, s.at, s.sorted = s.refs[:0], 0, 0, false
	return nil
}

// Release gives back the memory of the entries; they come from the temporary file from then on. Without a temporary file there is
// nothing to give back: the entries stay where they are.
func (s *Sorter) Release() error {
	if s.file == nil {
		return nil
	}
	if len(s.refs) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.chunks, s.refs = nil, nil
	return nil
}

// Spilled says how many bytes wait in the temporary file, in how many runs.
func (s *Sorter) Spilled() (size int64, runs int) {
	if s.file != nil {
		size = s.file.Size()
	}
	return size, len(s.runs)
}

// Held is how many bytes of entries are in memory.
func (s *Sorter) Held() int64 { return s.held }

// Close removes the temporary file and forgets the entries.
func (s *Sorter) Close() error {
	f := s.file
	s.chunks, s.refs, s.runs, s.file, s.held, s.at = nil, nil, nil, nil, 0, 0
	if f == nil {
		return nil
	}
	return f.Close()
}

// All hands on the entries in order. An entry is valid until the next one. It may be called again, and entries may be added
// afterwards, but not during it.
func (s *Sorter) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := s.Cursor()
		for {
			e, ok, err := c.Next()
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !ok || !yield(e, nil) {
				return
			}
		}
	}
}

// Cursor is All for callers that want to stop in between. It needs no closing.
func (s *Sorter) Cursor() *Cursor { return &Cursor{s: s} }

// Cursor walks the entries of a sorter once.
type Cursor struct {
	s     *Sorter
	began bool
	at    int     // of the entries in memory, where there are no others
	h     merge   // of runs and memory
	head  *source // whose entry was handed on; it moves on at the next call
}

// Next returns the next entry, valid until the next call; ok is false behind the last one.
func (c *Cursor) Next() (e Entry, ok bool, err error) {
	s := c.s
	if !c.began {
		c.began = true
		s.sort()
		if err := c.open(); err != nil {
			return Entry{}, false, err
		}
	}
	if len(s.runs) == 0 {
		if c.at == len(s.refs) {
			return Entry{}, false, nil
		}
		c.at++
		return s.entry(s.refs[c.at-1]), true, nil
	}
	if c.head != nil {
		if c.head.done() {
			heap.Pop(&c.h)
		} else {
			if err := c.head.next(); err != nil {
				return Entry{}, false, err
			}
			heap.Fix(&c.h, 0)
		}
		c.head = nil
	}
	if len(c.h) == 0 {
		return Entry{}, false, nil
	}
	c.head = c.h[0]
	return c.head.head, true, nil
}

// open begins the merge of runs and memory.
func (c *Cursor) open() error {
	s := c.s
	if len(s.runs) == 0 {
		return nil
	}
	size := int(max(minReadBuffer, min(maxReadBuffer, s.limit/int64(len(s.runs)))))
	for i, r := range s.runs {
		src := &source{order: i, left: r.size, in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.off, r.size), size)}
		if err := src.next(); err != nil {
			return err
		}
		c.h = append(c.h, src)
	}
	if len(s.refs) > 0 {
		src := &source{order: len(s.runs), sorter: s}
		_ = src.next() // memory does not fail
		c.h = append(c.h, src)
	}
	heap.Init(&c.h)
	return nil
}

// source is one run of a merge, or the entries in memory.
type source struct {
	order  int
	head   Entry
	in     *bufio.Reader // nil: memory
	left   int64         // bytes of the run behind head
	buf    []byte
	sorter *Sorter
	at     int
}

func (x *source) done() bool {
	if x.in == nil {
		return x.at == len(x.sorter.refs)
	}
	return x.left == 0
}

// next reads the next entry. The bytes are our own of a moment ago.
func (x *source) next() error {
	if x.in == nil {
		x.head = x.sorter.entry(x.sorter.refs[x.at])
		x.at++
		return nil
	}
	k, err := binary.ReadUvarint(x.in)
	if err != nil {
		return fmt.Errorf("read sorted run: %w", err)
	}
	v, err := binary.ReadUvarint(x.in)
	if err != nil {
		return fmt.Errorf("read sorted run: %w", err)
	}
	if k > maxEntry || v > maxEntry {
		return fmt.Errorf("read sorted run: entry of %d and %d bytes: %w", k, v, storage.ErrCorrupt)
	}
	n := int(k + v)
	x.buf = slices.Grow(x.buf[:0], n)[:n]
	if _, err := io.ReadFull(x.in, x.buf); err != nil {
		return fmt.Errorf("read sorted run: %w", err)
	}
	x.head = Entry{x.buf[:k:k], x.buf[k:]}
	x.left -= int64(uvarintLen(k)+uvarintLen(v)) + int64(n)
	return nil
}

func uvarintLen(x uint64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], x)
}

// merge is a heap of sources by their heads.
type merge []*source

func (h merge) Len() int { return len(h) }
func (h merge) Less(i, j int) bool {
	if c := bytes.Compare(h[i].head.Key, h[j].head.Key); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}
func (h merge) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface.
func (h *merge) Push(x any) { *h = append(*h, x.(*source)) }

// Pop is heap.Interface.
func (h *merge) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
