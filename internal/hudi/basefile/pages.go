package basefile

import (
	"bytes"
	"unsafe"

	"tidemark/internal/lru"

	"github.com/parquet-go/parquet-go/format"
)

// Pages keeps decoded pages between calls of ReadAt, of any number of files, up to a budget. A file never changes under its name, so what is kept is
// never wrong. It is safe for concurrent use.
type Pages struct {
	kept *lru.Cache[pageKey, *page]
}

// pageKey is a page by the offset of its header.
type pageKey struct {
	file string
	at   int64
}

// NewPages returns an empty cache with a budget in bytes.
func NewPages(budget int64) *Pages { return &Pages{lru.New[pageKey, *page](budget)} }

// Stats returns what the cache has done so far.
func (p *Pages) Stats() lru.Stats { return p.kept.Stats() }

// Keep lets ReadAt keep pages that an offset index names. file names the file among all that share p. Call it before the first read.
func (f *File) Keep(p *Pages, file string) { f.pages, f.name = p, file }

// held returns those pages of a chunk that are kept, by offset, among the ones that hold positions of the row group.
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
	return out
}

// keep keeps the page that the cursor decoded from body. From then on the page's memory is never used again.
func (c *cursor) keep(at int64, h *format.PageHeader) {
	p := *c.page
	p.buf, c.page.buf = nil, nil
	bytes := int64(h.UncompressedPageSize) + int64(len(p.present))*int64(unsafe.Sizeof(rankedWord{})) + 4*int64(len(p.ids)) + 256
	if p.values != nil {
		bytes += 4 * int64(len(p.values.bounds))
	}
	c.pages.kept.Put(pageKey{c.file, at}, &p, bytes)
}

// own copies a page's bytes if the page would alias what was read together with other pages.
func (c *cursor) own(body []byte) []byte {
	if c.pages != nil && c.ch.codec == format.Uncompressed {
		return bytes.Clone(body)
	}
	return body
}
