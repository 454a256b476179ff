package basefile

import (
	"context"
	"fmt"
	"sort"
	"unsafe"

	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/format"
)

const (
	// prefetchMax is how much one call takes into memory at once for a row group; up to it all columns are read in as few
	// requests as possible, above it each column in windows.
	prefetchMax = 16 << 20
	// windowSize is one sequential read of a large chunk.
	windowSize = 4 << 20
	// gap is how many unwanted bytes are read rather than making another request. Small against a 1 MiB page.
	gap = 16 << 10
	// minHeader is the first guess of a page header's length: without statistics it takes about 30 bytes. maxHeader bounds it.
	minHeader, maxHeader = 256, 1 << 20
)

// extent is the bytes [from, to) of a file.
type extent struct{ from, to int64 }

// buffer is bytes of the file from an offset on.
type buffer struct {
	from int64
	b    []byte
}

// prefetch reads the extents if they are small together, close ones in one request. A large total is left to the windows.
func prefetch(ctx context.Context, src storage.Source, ranges []extent) ([]buffer, error) {
	merged := merge(ranges)
	total := int64(0)
	for _, e := range merged {
		total += e.to - e.from
	}
	if total > prefetchMax {
		return nil, nil
	}
	out := make([]buffer, 0, len(merged))
	for _, e := range merged {
		b, err := src.ReadRange(ctx, e.from, e.to-e.from)
		if err != nil {
			return nil, err
		}
		out = append(out, buffer{e.from, b})
	}
	return out, nil
}

// merge sorts the extents and joins those that overlap or lie close.
func merge(ranges []extent) []extent {
	ranges = append([]extent(nil), ranges...)
	sort.Slice(ranges, func(i, j int) bool { return ranges[i].from < ranges[j].from })
	out := ranges[:0]
	for _, e := range ranges {
		if n := len(out); n > 0 && e.from-out[n-1].to <= gap {
			out[n-1].to = max(out[n-1].to, e.to)
			continue
		}
		if e.to > e.from {
			out = append(out, e)
		}
	}
	return out
}

// window serves one chunk's bytes: from what was fetched beforehand, else by sequential reads of windowSize.
type window struct {
	src     storage.Source
	end     int64    // of the chunk
	runs    []extent // the only bytes wanted, ascending and apart; nil: all of the chunk
	fetched []buffer
	own     buffer
	joined  buffer // the last piece across two reads
}

// look returns at least n bytes from off; the chunk holds that many. They are not overwritten later.
func (w *window) look(ctx context.Context, off, n int64) ([]byte, error) {
	if b := w.own.slice(off, n); b != nil {
		return b, nil
	}
	if b := w.joined.slice(off, n); b != nil {
		return b, nil
	}
	i := sort.Search(len(w.fetched), func(i int) bool { return w.fetched[i].from > off }) - 1
	if i >= 0 {
		if b := w.fetched[i].slice(off, n); b != nil {
			return b, nil
		}
	}
	// What was asked for lies across two reads: it is put together, and the rest of the newer read stays where it is. The joined
	// piece serves a longer look at the same place.
	held := w.held(off)
	have := int64(0)
	for _, h := range held {
		have += int64(len(h))
	}
	if have < n {
		from, size := off+have, n-have
		b, err := w.src.ReadRange(ctx, from, max(size, min(windowSize, w.wantedEnd(from)-from)))
		if err != nil {
			return nil, err
		}
		w.own = buffer{from, b}
		if have == 0 {
			return b, nil
		}
		held = append(held, b)
	}
	out := make([]byte, 0, n)
	for _, h := range held {
		out = append(out, h[:min(len(h), int(n)-len(out))]...)
	}
	w.joined = buffer{off, out}
	return out, nil
}

// held returns what is in memory from off on, in pieces.
func (w *window) held(off int64) [][]byte {
	end := w.own.from + int64(len(w.own.b))
	if off >= w.own.from {
		if off >= end {
			return nil
		}
		return [][]byte{w.own.b[off-w.own.from:]}
	}
	if b := w.joined.slice(off, w.own.from-off); b != nil {
		return [][]byte{b[:w.own.from-off], w.own.b}
	}
	return nil
}

// wantedEnd returns where the wanted bytes that hold off end.
func (w *window) wantedEnd(off int64) int64 {
	if w.runs == nil {
		return w.end
	}
	i := sort.Search(len(w.runs), func(i int) bool { return w.runs[i].to > off })
	if i == len(w.runs) || w.runs[i].from > off {
		return off
	}
	return w.runs[i].to
}

func (b buffer) slice(off, n int64) []byte {
	if off < b.from || off+n > b.from+int64(len(b.b)) || len(b.b) == 0 {
		return nil
	}
	return b.b[off-b.from:]
}

// location is one entry of an offset index.
type location struct {
	at, size int64 // in the file, header included
	first    int64 // first row, within the row group
}

// loadIndexes reads the offset indexes that are not there yet, in one request when they lie together.
func (f *File) loadIndexes(ctx context.Context, g *rowGroup, cols []*column) error {
	var ranges []extent
	var missing []*column
	for _, c := range cols {
		ch := &g.chunks[c.leaf]
		if ch.indexSize > 0 && ch.index.Load() == nil {
			ranges = append(ranges, extent{ch.indexAt, ch.indexAt + ch.indexSize})
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fetched, err := prefetch(ctx, f.src, ranges)
	if err != nil {
		return fmt.Errorf("read offset index: %w", err)
	}
	for _, c := range missing {
		ch := &g.chunks[c.leaf]
		w := window{src: f.src, end: ch.indexAt + ch.indexSize, fetched: fetched}
		b, err := w.look(ctx, ch.indexAt, ch.indexSize)
		if err == nil {
			err = f.setIndex(ch, b[:ch.indexSize], g.rows)
		}
		if err != nil {
			return fmt.Errorf("read offset index of column %q: %w", c.name, err)
		}
	}
	return nil
}

// setIndex decodes and checks an offset index: pages ascend in file and rows, start at row 0 and stay in the chunk.
func (f *File) setIndex(ch *chunk, b []byte, rows int64) error {
	var oi format.OffsetIndex
	if _, err := unmarshal(b, &oi); err != nil {
		return err
	}
	locs := make([]location, len(oi.PageLocations))
	at, row := ch.start, int64(-1)
	for i, p := range oi.PageLocations {
		l := location{p.Offset, int64(p.CompressedPageSize), p.FirstRowIndex}
		if l.at < at || l.size <= 0 || l.size > ch.end-l.at || l.first <= row || l.first >= rows || i == 0 && l.first != 0 {
			return fmt.Errorf("page %d: %d bytes at %d, first row %d of %d: %w", i, l.size, l.at, l.first, rows, storage.ErrCorrupt)
		}
		at, row, locs[i] = l.at+l.size, l.first, l
	}
	if len(locs) == 0 && rows > 0 {
		return fmt.Errorf("no pages for %d rows: %w", rows, storage.ErrCorrupt)
	}
	if ch.index.Swap(&locs) == nil {
		f.bytes.Add(int64(len(locs)) * int64(unsafe.Sizeof(location{})))
	}
	return nil
}

// pagesFor returns the bytes needed for the rows at positions (of the file, within the group): the pages that hold them and the dictionary in
// front, without those that are held, or the whole chunk when there is no index.
func (ch *chunk) pagesFor(g *rowGroup, positions []int64, held map[int64]*page) []extent {
	p := ch.index.Load()
	if p == nil {
		return []extent{{ch.start, ch.end}}
	}
	var out []extent
	ch.eachPage(g, positions, func(l location) {
		if held[l.at] == nil {
			out = append(out, extent{l.at, l.at + l.size})
		}
	})
	if first := (*p)[0].at; ch.start < first && len(out) > 0 && held[ch.start] == nil {
		out = append([]extent{{ch.start, first}}, out...)
	}
	return out
}

// eachPage calls fn for each page that holds one of the positions. The chunk has an index.
func (ch *chunk) eachPage(g *rowGroup, positions []int64, fn func(location)) {
	locs := *ch.index.Load()
	page, last := 0, -1
	for _, pos := range positions {
		for page+1 < len(locs) && locs[page+1].first <= pos-g.first {
			page++
		}
		if page != last {
			fn(locs[page])
			last = page
		}
	}
}
