package delta

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"tidemark/internal/storage"
)

// Net is what one or more data commits did to a record key, with all that needs its vectors worked out: a Change that takes few bytes
// and can be merged with a later one. Builder.Net makes it.
type Net struct {
	// Old is where the key was before the first of the commits, New where it is after the last one.
	Old, New Place
	// Value is the posting delta of the new row as it is stored; empty without one.
	Value   []byte
	Instant string // requested time of the last data instant
	Also    []int  // clusters in which further old versions may have a posting
}

// Place says where a key's posting is.
type Place struct {
	Cluster int // -1: the key is not in the index
	// State is a digest of the row's stored bytes and locator, of this process only. It is looked at only if Known is set: bytes that are not
	// known are equal to none (design, decision 15).
	State State
	Known bool
}

var absent = Place{Cluster: -1}

func (p *Place) there() bool { return p.Cluster >= 0 }

// State is two hashes of a row's stored bytes and locator, each with a key of its own that this process drew: 128 bits, of which nobody outside
// can know what makes them equal.
type State [2]uint64

var stateSeeds = [len(State{})]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (p *Place) setState(v *Version) {
	if v.Raw == nil {
		return
	}
	var at [192]byte // more than most locators take
	for i, seed := range stateSeeds {
		b := binary.LittleEndian.AppendUint64(at[:0], maphash.Bytes(seed, v.Raw))
		b = appendString(b, v.Locator.Partition)
		b = appendString(b, v.Locator.FileID)
		b = appendString(b, v.Locator.BaseInstant)
		p.State[i] = maphash.Bytes(seed, appendLong(b, v.Locator.Position))
	}
	p.Known = true
}

// Then returns the net effect of n followed by a later one of the same key: the first old and the last new place decide.
func (n Net) Then(later Net) Net {
	n.New, n.Value, n.Instant = later.New, later.Value, later.Instant
	n.Also = append(slices.Clip(n.Also), later.Also...)
	return n
}

// Effect says whether anything is to be written: not where an insert was deleted again, nor where a row is what and where it was.
func (n *Net) Effect() bool {
	if !n.Old.there() || !n.New.there() {
		return n.Old.there() || n.New.there()
	}
	return !n.Old.Known || !n.New.Known || n.Old.State != n.New.State
}

// AppendTo appends the net change in a form that ParseNet reads: for temporary files of the same process, not a format.
func (n *Net) AppendTo(dst []byte) []byte {
	for _, p := range []*Place{&n.Old, &n.New} {
		dst = binary.AppendVarint(dst, int64(p.Cluster))
		dst = appendBool(dst, p.Known)
		if p.Known {
			for _, h := range p.State {
				dst = binary.LittleEndian.AppendUint64(dst, h)
			}
		}
	}
	dst = appendBytes(dst, n.Value)
	dst = appendString(dst, n.Instant)
	dst = binary.AppendUvarint(dst, uint64(len(n.Also)))
	for _, c := range n.Also {
		dst = binary.AppendUvarint(dst, uint64(c))
	}
	return dst
}

// ParseNet reads what AppendTo appended. The value aliases b. storage.ErrCorrupt when it is something else.
func ParseNet(b []byte) (n Net, err error) {
	err = n.Parse(b)
	return n, err
}

// Parse is ParseNet into n, whose instant is kept where it is the same.
func (n *Net) Parse(b []byte) error {
	r := netReader{b: b}
	instant := n.Instant
	*n = Net{}
	for _, p := range []*Place{&n.Old, &n.New} {
		p.Cluster = int(r.varint())
		if known := r.take(1); len(known) == 1 && known[0] == 1 {
			for i := range p.State {
				if h := r.take(8); len(h) == 8 {
					p.State[i], p.Known = binary.LittleEndian.Uint64(h), true
				}
			}
		}
	}
	n.Value = r.take(r.varint())
	if at := r.take(r.varint()); string(at) == instant {
		n.Instant = instant
	} else {
		n.Instant = string(at)
	}
	for range r.uvarint() {
		if r.bad {
			break
		}
		n.Also = append(n.Also, int(r.uvarint()))
	}
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("parse net change of %d bytes: %w", len(b), storage.ErrCorrupt)
	}
	return nil
}

// netReader takes values off the front of b; bad once they are not there.
type netReader struct {
	b   []byte
	bad bool
}

func (r *netReader) take(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *netReader) varint() int64 {
	v, k := binary.Varint(r.b)
	r.take(int64(max(k, 0)))
	r.bad = r.bad || k <= 0
	return v
}

func (r *netReader) uvarint() uint64 {
	v, k := binary.Uvarint(r.b)
	r.take(int64(max(k, 0)))
	r.bad = r.bad || k <= 0
	return v
}
