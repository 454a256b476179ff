package basefile

import (
	"context"
	"fmt"
	"sort"
	"unsafe"

	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/format"
)

// bounds are the least and the greatest value of each page of a chunk, from its column index. A page of nulls only has none.
type bounds struct {
	min, max []string
	null     []bool
}

// ReadHolding hands on the rows of the pages of a String column that may hold one of values, which ascend as bytes; with them come
// rows that hold none. Pages are left out by the column index: writers compare texts there as unsigned bytes and round cut
// bounds outwards, unlike in the older statistics of chunks and page headers. Without that index, or the offset index, all rows of the
// row group are handed on.
func (f *File) ReadHolding(ctx context.Context, name string, values []string, fn func(Row) error) error {
	cols, err := f.resolve([]string{name})
	if err != nil {
		return err
	}
	for g := range f.groups {
		group := &f.groups[g]
		if group.rows == 0 {
			continue
		}
		spans, err := f.spans(ctx, group, cols[0], values)
		if err != nil {
			return err
		}
		positions := make([]int64, 0, 1024)
		for _, s := range spans {
			for r := s.from; r < s.to; r++ {
				positions = append(positions, group.first+r)
			}
		}
		if err := f.ReadAt(ctx, []string{name}, positions, fn); err != nil {
			return err
		}
	}
	return nil
}

// spans returns the rows of a row group that lie in pages which may hold one of the values.
func (f *File) spans(ctx context.Context, g *rowGroup, c *column, values []string) ([]extent, error) {
	all := []extent{{0, g.rows}}
	ch := &g.chunks[c.leaf]
	if ch.boundsSize == 0 || c.kind != String {
		return all, nil
	}
	if err := f.loadIndexes(ctx, g, []*column{c}); err != nil {
		return nil, err
	}
	locs := ch.index.Load()
	if locs == nil {
		return all, nil
	}
	b, err := f.loadBounds(ctx, ch)
	if err != nil {
		return nil, fmt.Errorf("read column index of column %q: %w", c.name, err)
	}
	if len(b.null) != len(*locs) {
		return nil, fmt.Errorf("column index of column %q: %d pages, the offset index has %d: %w", c.name, len(b.null), len(*locs), storage.ErrCorrupt)
	}
	var out []extent
	for i, l := range *locs {
		if b.null[i] {
			continue
		}
		at := sort.SearchStrings(values, b.min[i])
		if at == len(values) || values[at] > b.max[i] {
			continue
		}
		to := g.rows
		if i+1 < len(*locs) {
			to = (*locs)[i+1].first
		}
		out = append(out, extent{l.first, to})
	}
	return out, nil
}

// loadBounds reads a chunk's column index, once.
func (f *File) loadBounds(ctx context.Context, ch *chunk) (*bounds, error) {
	if b := ch.bounds.Load(); b != nil {
		return b, nil
	}
	raw, err := f.src.ReadRange(ctx, ch.boundsAt, ch.boundsSize)
	if err != nil {
		return nil, err
	}
	var ci format.ColumnIndex
	if _, err := unmarshal(raw, &ci); err != nil {
		return nil, err
	}
	if len(ci.MinValues) != len(ci.NullPages) || len(ci.MaxValues) != len(ci.NullPages) {
		return nil, fmt.Errorf("%d pages, %d and %d bounds: %w", len(ci.NullPages), len(ci.MinValues), len(ci.MaxValues), storage.ErrCorrupt)
	}
	b := &bounds{null: append([]bool(nil), ci.NullPages...)}
	for i := range ci.NullPages {
		b.min, b.max = append(b.min, string(ci.MinValues[i])), append(b.max, string(ci.MaxValues[i]))
	}
	if ch.bounds.Swap(b) == nil {
		n := int64(len(b.null))
		for i := range b.null {
			n += int64(len(b.min[i])+len(b.max[i])) + 2*int64(unsafe.Sizeof(""))
		}
		f.bytes.Add(n)
	}
	return b, nil
}
