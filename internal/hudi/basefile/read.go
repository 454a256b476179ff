package basefile

import (
	"context"
	"fmt"
	"sort"

	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/format"
)

// Row is one row as Read and ReadAt hand it on.
type Row struct {
	// Position is the row's zero-based ordinal in the file, across row groups.
	Position int64
	// Values holds one value per column asked for: the raw stored bytes, as ColumnKind says; nil is null and an empty value
	// is not nil. They are valid during the call only.
	Values [][]byte
}

// Read hands every row to fn in file order, reading only the chunks of the columns asked for. An unknown or nested column is
// storage.ErrUnsupported. An error of fn ends the reading and is returned as it is.
func (f *File) Read(ctx context.Context, columns []string, fn func(Row) error) error {
	s, err := f.Scan(columns)
	if err != nil {
		return err
	}
	for {
		ok, err := s.Next(ctx)
		if err != nil || !ok {
			return err
		}
		if err := fn(s.row); err != nil {
			return err
		}
	}
}

// ReadAt hands the rows at the given positions to fn. Positions ascend strictly; one outside the file is
// storage.ErrNotFound. Where a chunk has an offset index only the pages that hold a position are read, else the whole chunk.
func (f *File) ReadAt(ctx context.Context, columns []string, positions []int64, fn func(Row) error) error {
	cols, err := f.resolve(columns)
	if err != nil {
		return err
	}
	for i, p := range positions {
		if p < 0 || p >= f.rows {
			return fmt.Errorf("read row %d of %d: %w", p, f.rows, storage.ErrNotFound)
		}
		if i > 0 && p <= positions[i-1] {
			return fmt.Errorf("read row %d after row %d: positions must ascend: %w", p, positions[i-1], storage.ErrUnsupported)
		}
	}
	row := Row{Values: make([][]byte, len(cols))}
	for g := range f.groups {
		group := &f.groups[g]
		n := sort.Search(len(positions), func(i int) bool { return positions[i] >= group.first+group.rows })
		if n == 0 {
			continue
		}
		if err := f.loadIndexes(ctx, group, cols); err != nil {
			return err
		}
		var ranges []extent
		var runs [][]extent
		held := make([]map[int64]*page, len(cols))
		for i, c := range cols {
			held[i] = f.held(&group.chunks[c.leaf], group, positions[:n])
			runs = append(runs, group.chunks[c.leaf].pagesFor(group, positions[:n], held[i]))
			ranges = append(ranges, runs[len(runs)-1]...)
		}
		cursors, err := f.cursors(ctx, group, cols, ranges)
		if err != nil {
			return err
		}
		for i, c := range cursors {
			if locs := group.chunks[cols[i].leaf].index.Load(); locs != nil {
				c.locs, c.data.runs = *locs, merge(runs[i])
				c.held, c.pages, c.file = held[i], f.pages, f.name
			}
		}
		for _, p := range positions[:n] {
			row.Position = p
			if err := fill(ctx, cursors, p-group.first, row.Values); err != nil {
				return err
			}
			if err := fn(row); err != nil {
				return err
			}
		}
		positions = positions[n:]
	}
	return nil
}

func (f *File) resolve(names []string) ([]*column, error) {
	cols := make([]*column, len(names))
	for i, name := range names {
		c := f.columns[name]
		if c == nil {
			return nil, fmt.Errorf("read column %q: the file has none: %w", name, storage.ErrUnsupported)
		}
		if c.kind == Nested {
			return nil, fmt.Errorf("read column %q: struct, list or map: %w", name, storage.ErrUnsupported)
		}
		cols[i] = c
	}
	return cols, nil
}

func (f *File) cursors(ctx context.Context, g *rowGroup, cols []*column, ranges []extent) ([]*cursor, error) {
	fetched, err := prefetch(ctx, f.src, ranges)
	if err != nil {
		return nil, err
	}
	out := make([]*cursor, len(cols))
	for i, c := range cols {
		ch := &g.chunks[c.leaf]
		if ch.values != g.rows {
			return nil, fmt.Errorf("column %q: chunk of %d values in a row group of %d rows: %w", c.name, ch.values, g.rows, storage.ErrCorrupt)
		}
		out[i] = &cursor{col: c, ch: ch, rows: g.rows, next: ch.start,
			data: window{src: f.src, end: ch.end, fetched: fetched}}
	}
	return out, nil
}

func fill(ctx context.Context, cursors []*cursor, r int64, out [][]byte) error {
	for i, c := range cursors {
		v, err := c.at(ctx, r)
		if err != nil {
			return fmt.Errorf("read column %q near byte %d: %w", c.col.name, c.next, err)
		}
		out[i] = v
	}
	return nil
}

// cursor walks one chunk forward.
type cursor struct {
	col  *column
	ch   *chunk
	rows int64 // of the row group
	data window
	next int64      // file offset of the next page
	locs []location // offset index; nil = walk page by page
	dict *values
	// twin is the cursor of the same column in another file, if pages are to be shared with it; nil or returning nil: there is none.
	twin         func() *cursor
	shared       *int
	spare        []byte // memory of a page that nobody is at
	raw, rawDict []byte // stored bytes of page and dictionary, headers included
	held         map[int64]*page
	pages        *Pages // nil: none are kept
	file         string
	dictOwned    bool // dict may be kept, or is

	page     *page
	first, n int64 // rows [first, first+n) of the row group lie in page, or in the page just skipped
}

// at returns the value of row r of the row group; r must not descend. The result is valid until the next call.
func (c *cursor) at(ctx context.Context, r int64) ([]byte, error) {
	for c.page == nil || r >= c.first+c.n {
		if err := c.load(ctx, r); err != nil {
			return nil, err
		}
	}
	return c.page.at(int(r - c.first)), nil
}

// load decodes the page that holds row r, or steps over one page that ends before it.
func (c *cursor) load(ctx context.Context, r int64) error {
	named := int64(-1) // rows of the page, by the offset index; it alone says which rows they are
	if c.locs != nil {
		i := sort.Search(len(c.locs), func(i int) bool { return c.locs[i].first > r }) - 1
		named = c.rows - c.locs[i].first
		if i+1 < len(c.locs) {
			named = c.locs[i+1].first - c.locs[i].first
		}
		if p := c.held[c.locs[i].at]; p != nil {
			if int64(p.rows) != named {
				return errNotNamed(c.locs[i].first, named, int64(p.rows))
			}
			own := *p // users are counted for each cursor
			if own.ids != nil {
				own.values = c.held[c.ch.start].values
			}
			c.leave()
			c.page, c.first, c.n = &own, c.locs[i].first, named
			c.page.users++
			return nil
		}
		if err := c.loadDictionary(ctx, c.locs[0].at); err != nil {
			return err
		}
		c.next, c.first, c.n = c.locs[i].at, c.locs[i].first, 0
		if _, err := c.data.look(ctx, c.next, c.locs[i].size); err != nil {
			return err
		}
	}
	c.leave()
	h, body, raw, err := c.nextPage(ctx)
	if err != nil {
		return err
	}
	n, ok := dataRows(h)
	if !ok && c.locs != nil {
		return fmt.Errorf("the offset index names a page of type %v: %w", h.Type, storage.ErrCorrupt)
	}
	if h.Type == format.DictionaryPage {
		return c.decodeDictionary(h, body, raw)
	}
	if !ok {
		return nil // an index page
	}
	first := c.first + c.n
	if n > maxPageRows {
		return fmt.Errorf("page of %d rows, more than %d: %w", n, maxPageRows, storage.ErrUnsupported)
	}
	if n < 0 || n > c.rows-first {
		return fmt.Errorf("page of %d rows where %d are left: %w", n, c.rows-first, storage.ErrCorrupt)
	}
	if c.locs != nil && n != named {
		return errNotNamed(first, named, n)
	}
	c.first, c.n = first, n
	if r >= first+n {
		return nil
	}
	c.raw = raw
	if c.page = c.borrow(raw); c.page == nil {
		if c.page, err = decodePage(c.col, c.ch.codec, h, body, c.dict, c.spare); err != nil {
			return err
		}
		c.spare = nil
		if c.pages != nil {
			c.keep(c.next - int64(len(raw)))
		}
	}
	c.page.users++
	return nil
}

func errNotNamed(first, named, n int64) error {
	return fmt.Errorf("the offset index names a page of %d rows from row %d on, the page has %d: %w", named, first, n, storage.ErrCorrupt)
}

// leave ends the use of a page. Whoever is the last to use it unpacks the next one into its memory.
func (c *cursor) leave() {
	if c.page == nil {
		return
	}
	if c.page.users--; c.page.users == 0 && c.page.buf != nil {
		c.spare = c.page.buf
	}
	c.page = nil
}

// loadDictionary reads the page in front of the first data page, if there is one.
func (c *cursor) loadDictionary(ctx context.Context, firstData int64) error {
	if c.dict != nil || c.ch.start >= firstData {
		return nil
	}
	if kept := c.held[c.ch.start]; kept != nil {
		c.dict, c.dictOwned = kept.values, true
		return nil
	}
	c.next = c.ch.start
	if _, err := c.data.look(ctx, c.next, firstData-c.next); err != nil {
		return err
	}
	h, body, raw, err := c.nextPage(ctx)
	if err == nil && h.Type == format.DictionaryPage {
		err = c.decodeDictionary(h, body, raw)
	}
	return err
}

// nextPage returns the header, body and whole bytes of the page at next and moves behind it.
func (c *cursor) nextPage(ctx context.Context) (h *format.PageHeader, body, raw []byte, err error) {
	if c.next >= c.ch.end {
		return nil, nil, nil, fmt.Errorf("chunk ends after %d of %d rows: %w", c.first+c.n, c.rows, storage.ErrCorrupt)
	}
	for look := int64(minHeader); ; look *= 8 {
		b, err := c.data.look(ctx, c.next, min(look, c.ch.end-c.next))
		if err != nil {
			return nil, nil, nil, err
		}
		h, n, err := pageHeader(b)
		if err != nil {
			if isShort(err) && look < maxHeader && int64(len(b)) < c.ch.end-c.next {
				continue
			}
			return nil, nil, nil, fmt.Errorf("page header: %w", err)
		}
		total := int64(n) + int64(h.CompressedPageSize)
		if total > c.ch.end-c.next {
			return nil, nil, nil, fmt.Errorf("page of %d bytes leaves its chunk: %w", total, storage.ErrCorrupt)
		}
		if b, err = c.data.look(ctx, c.next, total); err != nil {
			return nil, nil, nil, err
		}
		c.next += total
		return h, b[n:total], b[:total], nil
	}
}

// finish checks that the pages held no more rows than were asked for.
func (c *cursor) finish(ctx context.Context) error {
	for c.next < c.ch.end {
		h, _, _, err := c.nextPage(ctx)
		if err != nil {
			return fmt.Errorf("read column %q near byte %d: %w", c.col.name, c.next, err)
		}
		if n, ok := dataRows(h); ok && n != 0 {
			return fmt.Errorf("read column %q: %d rows too many: %w", c.col.name, n, storage.ErrCorrupt)
		}
	}
	return nil
}
