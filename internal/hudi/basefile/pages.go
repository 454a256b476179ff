package basefile

import (
	"bytes"
	"unsafe"

	"tidemark/internal/lru"

	"github.com/parquet-go/parquet-go/format"
)

// Pages keeps decoded pages between calls of ReadAt, of any number of files, up to a budget. A file never changes under its name, so what is kept is
// never wrong. The dictionary of a chunk is kept once, as a page without rows; without it the chunk's pages that refer to it count for nothing.
// It is safe for concurrent use.
type Pages struct {
	kept       *lru.Cache[pageKey, *page]
	dictionary int64 // bytes of the largest dictionary that is kept
}

// pageKey is a page by the offset of its header; a dictionary is at the start of its chunk.
type pageKey struct {
	file string
	at   int64
}

// NewPages returns an empty cache with a budget in bytes. Of a chunk whose dictionary takes more than an eighth of it, no page that refers to it is kept.
func NewPages(budget int64) *Pages { return &Pages{lru.New[pageKey, *page](budget), budget / 8} }

// Stats returns what the cache has done so far.
func (p *Pages) Stats() lru.Stats { return p.kept.Stats() }

// Keep lets ReadAt keep pages that an offset index names. file names the file among all that share p. Call it before the first read.
func (f *File) Keep(p *Pages, file string) { f.pages, f.name = p, file }

// held returns those pages of a chunk that are kept, by offset, among the ones that hold positions of the row group, and its dictionary.
func (f *File) held(ch *chunk, g *rowGroup, positions []int64) map[int64]*page {
	locs := ch.index.Load()
	if f.pages == nil || locs == nil {
		return nil
	}
	out := map[int64]*page{}
	ch.eachPage(g, positions, func(l location) {
		if p, ok := f.pages.kept.Get(pageKey{f.name, l.at}); ok {
			out[l.at] = p
		}
	})
	var dict *page
	if ch.start < (*locs)[0].at { // asked for last, so that its pages go first
		dict, _ = f.pages.kept.Get(pageKey{f.name, ch.start})
	}
	for at, p := range out {
		if p.ids != nil && (dict == nil || dict.values.n != p.of) {
			delete(out, at)
		}
	}
	if dict != nil {
		out[ch.start] = dict
	}
	return out
}

// keep keeps the page that the cursor has just decoded, whose header is at an offset of the file, with the dictionary that it refers to. The memory
// of what is kept is never used again, and none of it lies in what was read together with other pages.
func (c *cursor) keep(at int64) {
	p := *c.page
	p.buf = nil
	if p.ids == nil {
		if c.page.buf == nil { // stored as it is
			p.values.data = bytes.Clone(p.values.data)
		}
		size := c.page.bytes()
		c.page.buf = nil
		c.pages.kept.Put(pageKey{c.file, at}, &p, size)
		return
	}
	dict := &page{values: c.dict}
	if dict.bytes() > c.pages.dictionary {
		return
	}
	if !c.dictOwned {
		c.dictOwned = true
		if c.ch.codec == format.Uncompressed {
			c.dict.data = bytes.Clone(c.dict.data)
		}
	}
	c.pages.kept.Put(pageKey{c.file, c.ch.start}, dict, dict.bytes())
	p.values, p.of = nil, c.dict.n
	c.pages.kept.Put(pageKey{c.file, at}, &p, p.bytes())
}

// bytes is about what a page takes in memory.
func (p *page) bytes() int64 {
	n := 256 + int64(cap(p.present))*int64(unsafe.Sizeof(rankedWord{})) + 4*int64(cap(p.ids))
	if p.values != nil {
		n += max(int64(cap(p.values.data)), int64(cap(p.buf))) + 4*int64(cap(p.values.bounds))
	}
	return n
}
