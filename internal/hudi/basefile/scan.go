package basefile

import (
	"bytes"
	"context"

	"github.com/parquet-go/parquet-go/format"
)

// Scanner walks the rows of a file forward, one at a time, reading only the chunks of its columns. Rows cost no
// allocation; pages do. It is not safe for concurrent use.
type Scanner struct {
	f       *File
	cols    []*column
	twin    *Scanner
	group   int // the next row group
	cursors []*cursor
	first   int64 // position of the row group's first row
	next    int64 // the next row within the row group
	rows    int64 // of the row group
	row     Row

	// Shared counts the pages that were taken over from the twin undecoded.
	Shared int
}

// Scan returns a scanner in front of the first row. An unknown or nested column is storage.ErrUnsupported.
func (f *File) Scan(columns []string) (*Scanner, error) {
	cols, err := f.resolve(columns)
	if err != nil {
		return nil, err
	}
	return &Scanner{f: f, cols: cols, row: Row{Values: make([][]byte, len(cols))}}, nil
}

// Pair lets two scanners of different files, for the same columns in the same order, share pages: one whose bytes
// are those of the page that the other one is at is not decoded again. Values of both are what they would be without.
func Pair(a, b *Scanner) {
	if len(a.cols) != len(b.cols) {
		return
	}
	a.twin, b.twin = b, a
}

// Next moves to the next row; false: there is none.
func (s *Scanner) Next(ctx context.Context) (bool, error) {
	for s.next >= s.rows {
		for _, c := range s.cursors {
			if err := c.finish(ctx); err != nil {
				return false, err
			}
		}
		s.cursors = nil
		if s.group >= len(s.f.groups) {
			s.rows, s.next = 0, 0
			return false, nil
		}
		g := &s.f.groups[s.group]
		s.group++
		s.first, s.next, s.rows = g.first, 0, g.rows
		if g.rows == 0 {
			continue
		}
		ranges := make([]extent, len(s.cols))
		for i, c := range s.cols {
			ranges[i] = extent{g.chunks[c.leaf].start, g.chunks[c.leaf].end}
		}
		var err error
		if s.cursors, err = s.f.cursors(ctx, g, s.cols, ranges); err != nil {
			return false, err
		}
		if s.twin != nil {
			for i, c := range s.cursors {
				c.twin = func() *cursor {
					if t := s.twin.cursors; t != nil {
						return t[i]
					}
					return nil
				}
				c.shared = &s.Shared
			}
		}
	}
	s.row.Position = s.first + s.next
	if err := fill(ctx, s.cursors, s.next, s.row.Values); err != nil {
		return false, err
	}
	s.next++
	return true, nil
}

// Row is the row that Next moved to. It is valid until Next is called again, and must not be changed.
func (s *Scanner) Row() Row { return s.row }

// borrow returns the twin's decoded page if it was decoded from the same bytes in the same way.
func (c *cursor) borrow(raw []byte) *page {
	if c.twin == nil {
		return nil
	}
	t := c.twin()
	if t == nil || t.page == nil || !c.alike(t) || c.dict != t.dict || !bytes.Equal(raw, t.raw) {
		return nil
	}
	*c.shared++
	return t.page
}

// borrowDictionary is borrow for a dictionary page.
func (c *cursor) borrowDictionary(raw []byte) *values {
	if c.twin == nil {
		return nil
	}
	t := c.twin()
	if t == nil || t.dict == nil || !c.alike(t) || !bytes.Equal(raw, t.rawDict) {
		return nil
	}
	return t.dict
}

// alike says whether the same page bytes mean the same values in both chunks.
func (c *cursor) alike(t *cursor) bool {
	return c.col.kind == t.col.kind && c.col.width == t.col.width && c.col.optional == t.col.optional && c.ch.codec == t.ch.codec
}

// decodeDictionary takes in the dictionary page whose bytes are raw, header and body.
func (c *cursor) decodeDictionary(h *format.PageHeader, body, raw []byte) (err error) {
	c.rawDict = raw
	if c.dict = c.borrowDictionary(raw); c.dict == nil {
		c.dict, err = decodeDictionary(c.col, c.ch.codec, h, body)
	}
	return err
}
