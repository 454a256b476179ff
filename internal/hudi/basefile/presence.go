package basefile

import "math/bits"

// presence says which rows of a page are not null, and where their values are, without a look at the rows before: one word for 64 rows.
// nil: no row is null.
type presence []rankedWord

// rankedWord is the presence of 64 rows, the first in the lowest bit, and how many rows before them are not null. A page has fewer than 2³² rows.
type rankedWord struct {
	rows   uint64
	before uint32
}

// decodePresence reads the definition levels of n rows of a flat optional column.
func decodePresence(b []byte, n int) (presence, error) {
	levels, err := decodeLevels(b, n)
	if err != nil {
		return nil, err
	}
	return newPresence(levels), nil
}

// newPresence makes a presence of a byte for each row, 1 = not null, 0 = null.
func newPresence(levels []byte) presence {
	count := 0
	for _, d := range levels {
		count += int(d)
	}
	if count == len(levels) {
		return nil
	}
	out := make(presence, (len(levels)+63)/64)
	before := uint32(0)
	for i := range out {
		w := rankedWord{before: before}
		for j, d := range levels[64*i : min(64*i+64, len(levels))] {
			w.rows |= uint64(d) << j
		}
		out[i] = w
		before += uint32(bits.OnesCount64(w.rows))
	}
	return out
}

// place returns how many rows before a row are not null, which is where its value is; false: the row is null. The page has the row.
func (p presence) place(row int) (int, bool) {
	if p == nil {
		return row, true
	}
	w, bit := p[row/64], uint64(1)<<(row%64)
	return int(w.before) + bits.OnesCount64(w.rows&(bit-1)), w.rows&bit != 0
}

// values returns how many of a page's rows are not null.
func (p presence) values(rows int) int {
	if len(p) == 0 {
		return rows
	}
	last := p[len(p)-1]
	return int(last.before) + bits.OnesCount64(last.rows)
}
