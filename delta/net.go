package delta

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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
	// State is a digest of the row's stored bytes and locator. It is looked at only if Known is set: bytes that are not known are equal
	// to none (design, decision 15).
	State [sha256.Size]byte
	Known bool
}

var absent = Place{Cluster: -1}

func (p *Place) there() bool { return p.Cluster >= 0 }

func (p *Place) setState(v *Version) {
	if v.Raw == nil {
		return
	}
	b := make([]byte, 0, len(v.Raw)+128)
	b = appendBytes(b, v.Raw)
	for _, s := range []string{v.Locator.Partition, v.Locator.FileID, v.Locator.BaseInstant} {
		b = appendString(b, s)
	}
	p.State, p.Known = sha256.Sum256(appendLong(b, v.Locator.Position)), true
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
			dst = append(dst, p.State[:]...)
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
	r := netReader{b: b}
	for _, p := range []*Place{&n.Old, &n.New} {
		p.Cluster = int(r.varint())
		if known := r.take(1); len(known) == 1 && known[0] == 1 {
			p.Known = copy(p.State[:], r.take(sha256.Size)) == sha256.Size
		}
	}
	n.Value = r.take(r.varint())
	n.Instant = string(r.take(r.varint()))
	for range r.uvarint() {
		if r.bad {
			break
		}
		n.Also = append(n.Also, int(r.uvarint()))
	}
	if r.bad || len(r.b) > 0 {
		return n, fmt.Errorf("parse net change of %d bytes: %w", len(b), storage.ErrCorrupt)
	}
	return n, nil
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
