package hfile

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unsafe"
)

// sorted is a data block's cells in the order of their keys. The first bytes in which its keys differ lie together, as numbers: the keys
// themselves are spread over the block, and a search that goes from one to the next waits for memory at each step.
type sorted struct {
	cells  []Cell
	shared []byte   // what all keys begin with
	heads  []uint64 // of each key, the 8 bytes behind that, the first one highest; zeros behind a shorter key
}

// size is about what a block takes in memory with its bytes.
func (s *sorted) size(payload []byte) int64 {
	return int64(len(payload)) + int64(len(s.cells))*int64(unsafe.Sizeof(Cell{})+unsafe.Sizeof(uint64(0))) + int64(unsafe.Sizeof(*s))
}

// fill takes in the cells of a data block, which are used as they are. What was in s before is gone.
func (s *sorted) fill(r *Reader, payload []byte, off int64) error {
	s.cells, s.heads, s.shared = s.cells[:0], s.heads[:0], nil
	err := r.cells(payload, off, func(c Cell) error {
		s.cells = append(s.cells, c)
		return nil
	})
	if err != nil || len(s.cells) == 0 {
		return err
	}
	byKey := func(a, b Cell) int { return bytes.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(s.cells, byKey) {
		slices.SortStableFunc(s.cells, byKey)
	}
	first, last := s.cells[0].Key, s.cells[len(s.cells)-1].Key
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	s.shared = first[:n]
	for i := range s.cells {
		s.heads = append(s.heads, head(s.cells[i].Key[n:]))
	}
	return nil
}

// head is the first 8 bytes of a key as a number. Of keys in order the heads are in order, too, though some may be equal.
func head(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// floor returns the first cell whose key is not below key, if any cell has that key; else any number.
func (s *sorted) floor(key []byte) int {
	if !bytes.HasPrefix(key, s.shared) {
		return len(s.cells)
	}
	h := head(key[len(s.shared):])
	from := lower(s.heads, h)
	to := from
	for to < len(s.heads) && s.heads[to] == h {
		if to++; to-from > 8 { // the keys differ further on
			to = len(s.heads)
			if h+1 != 0 {
				to = lower(s.heads, h+1)
			}
			break
		}
	}
	at, _ := slices.BinarySearchFunc(s.cells[from:to], key, func(c Cell, key []byte) int { return bytes.Compare(c.Key, key) })
	return from + at
}

// lower returns how many numbers of an ascending list are below h. Its steps have no branch to be guessed wrong.
func lower(list []uint64, h uint64) int {
	at := 0
	for n := len(list); n > 0; {
		half := (n + 1) / 2
		next := at + half
		if list[next-1] < h {
			at = next
		}
		n -= half
	}
	return at
}
