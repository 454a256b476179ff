package diffing

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/vector/kernel"
)

// meet classifies the two versions of a key; nil: the side has none. Both are valid during the call only.
func (c *comparison) meet(b, n *view) error {
	key := n
	if n == nil {
		key = b
	}
	h := maphash.Bytes(c.seed, key.key)
	c.met[h>>56] = append(c.met[h>>56], h)
	if b == nil || n == nil {
		c.alone(key)
	}
	if err := c.fresh(b, n); err != nil {
		return err
	}
	return c.classify(b, n)
}

// classify applies the table of the row classes (design section 4) for every target.
func (c *comparison) classify(b, n *view) error {
	c.work.Examined++
	for i := range c.req.Targets {
		if b != nil && n != nil && same(b.raw[c.at[i]], n.raw[c.at[i]]) {
			if err := c.kept(i, b, n); err != nil {
				return err
			}
			continue
		}
		if err := c.changed(i, b, n); err != nil {
			return err
		}
	}
	return nil
}

// same says whether two stored values are equal; NULL equals NULL only. Values of a page that both files share are one piece of
// memory, which bytes.Equal sees at once.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// kept classifies a row whose vector's bytes stayed: it moved, or not even that. It allocates nothing where the caller takes changes.
func (c *comparison) kept(i int, b, n *view) error {
	r, raw := &c.results[i], n.raw[c.at[i]]
	if ok, reason := c.indexable(i, raw); !ok {
		r.unindexable(reason)
		return nil
	}
	if b.position == n.position && c.places[b.place] == c.places[n.place] {
		r.Counts[delta.Unchanged]++
		return nil
	}
	r.Counts[delta.LocatorRefresh]++
	old := c.state(i, 0, raw, b)
	var cur *delta.Version
	if c.req.Changes != nil {
		cur = c.state(i, 1, raw, n)
	} else {
		cur = c.slab.version(delta.Version{Raw: old.Raw, Vector: old.Vector, Locator: c.locator(n)})
	}
	return c.hand(i, n.key, delta.Change{Class: delta.LocatorRefresh, Old: old, New: cur})
}

// indexable says whether a vector can be indexed, and why not. Where changes need a narrowed vector it is in c.narrow afterwards.
func (c *comparison) indexable(i int, raw []byte) (ok bool, reason string) {
	t := &c.req.Targets[i]
	if c.req.Changes != nil && plainly(raw, t) {
		return true, ""
	}
	return kernel.Narrow(c.narrow[i], raw, t.Vector.Element.Kernel(), t.Metric)
}

// hand passes a change on: to the caller who takes them, else to the result, which owns it then.
func (c *comparison) hand(i int, key []byte, ch delta.Change) error {
	if c.req.Changes != nil {
		return c.req.Changes.Add(i, Change{Class: ch.Class, Key: key, Old: ch.Old, New: ch.New})
	}
	ch.Key, ch.Instant = string(key), c.req.last()
	c.results[i].Changes = append(c.results[i].Changes, ch)
	return nil
}

// plainly says that a FLOAT vector is indexable, from its bits: the fast form of kernel.Narrow for nearly every row. False: look closer.
func plainly(raw []byte, t *Target) bool {
	if t.Vector.Element != avrox.ElementFloat || len(raw) != 4*t.Vector.Dim {
		return false
	}
	var high, any uint64 // two components at a time: adding 1 to the exponent of one never carries into the other
	for len(raw) >= 8 {
		x := binary.LittleEndian.Uint64(raw) & 0x7fffffff_7fffffff
		any |= x
		high |= x + 0x00800000_00800000 // the sign bit is set by an exponent of all ones: infinite or NaN
		raw = raw[8:]
	}
	if len(raw) == 4 {
		x := uint64(binary.LittleEndian.Uint32(raw) &^ (1 << 31))
		any |= x
		high |= x + 0x00800000
	}
	high &= 0x80000000_80000000
	return high == 0 && (any != 0 || t.Metric != kernel.Cosine)
}

// changed classifies any other row.
func (c *comparison) changed(i int, b, n *view) error {
	r := &c.results[i]
	change, reason := c.judge(i, b, n)
	if reason != "" {
		r.unindexable(reason)
	}
	if change.Class == 0 {
		return nil
	}
	r.Counts[change.Class]++
	if change.Class == delta.Unchanged {
		return nil
	}
	key := b
	if n != nil {
		key = n
	}
	return c.hand(i, key.key, change)
}

// judge returns what became of a row, class 0 if there is nothing to say, and why the row that is there now cannot be indexed, "" if it can.
func (c *comparison) judge(i int, b, n *view) (change delta.Change, reason string) {
	ev := &c.known[i]
	var old, cur *delta.Version
	if n != nil {
		cur, reason = c.version(i, 1, n)
	}
	if b != nil {
		old, _ = c.version(i, 0, b)
	} else if ev.known != nil && ev.gone(string(n.key)) {
		old = ev.version(string(n.key)) // the index has a posting, whose vector bytes are not known
	}
	class := classOf(old, cur)
	if class == delta.Insert && ev.known != nil {
		old = ev.version(string(n.key)) // a posting that outlived its row, in whatever cluster: it is replaced
	}
	return delta.Change{Class: class, Old: old, New: cur}, reason
}

// version returns an indexable row's state, or why the row is not indexable.
func (c *comparison) version(i, slot int, v *view) (*delta.Version, string) {
	raw := v.raw[c.at[i]]
	if ok, reason := c.indexable(i, raw); !ok {
		return nil, reason
	}
	return c.state(i, slot, raw, v), ""
}

// state returns a state of a row whose narrowed vector is in c.narrow: on memory of the result's, or where the caller takes changes in
// one of two slots, aliasing raw and without the vector.
func (c *comparison) state(i, slot int, raw []byte, v *view) *delta.Version {
	if c.req.Changes == nil {
		return c.slab.version(delta.Version{Raw: c.slab.bytes(raw), Vector: c.slab.floats(c.narrow[i]), Locator: c.locator(v)})
	}
	s := &c.slots[slot]
	if s.place != v.place || s.Locator.FileID == "" { // mostly the row before was in the same slice
		s.Locator, s.place = c.places[v.place], v.place
	}
	s.Raw, s.Locator.Position = raw, v.position
	return &s.Version
}

// slot is a state that is handed on, of a row in a place.
type slot struct {
	delta.Version
	place int
}

// slab is memory for what a result owns. Its rows are kept and dropped together, so that they need not be allocated one by one.
type slab struct {
	raw      []byte
	vectors  []float32
	versions []delta.Version
}

// slabSize is how many bytes are taken at once: 256 KiB, so that little is lost behind the last row.
const slabSize = 256 << 10

func (s *slab) bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) > cap(s.raw)-len(s.raw) {
		s.raw = make([]byte, 0, max(slabSize, len(b)))
	}
	from := len(s.raw)
	s.raw = append(s.raw, b...)
	return s.raw[from:len(s.raw):len(s.raw)]
}

func (s *slab) floats(v []float32) []float32 {
	if len(v) > cap(s.vectors)-len(s.vectors) {
		s.vectors = make([]float32, 0, max(slabSize/4, len(v)))
	}
	from := len(s.vectors)
	s.vectors = append(s.vectors, v...)
	return s.vectors[from:len(s.vectors):len(s.vectors)]
}

func (s *slab) version(v delta.Version) *delta.Version {
	if len(s.versions) == cap(s.versions) {
		s.versions = make([]delta.Version, 0, 256)
	}
	s.versions = append(s.versions, v)
	return &s.versions[len(s.versions)-1]
}

// evidence is what the index knows where slices are gone.
type evidence struct {
	known    map[string]Posting
	blind    map[string]bool // keys of the after-slices of degraded groups
	degraded []table.Group   // groups of this unit whose preceding slice is gone
}

// version is the row that a posting stands for, its bytes not known; nil without one.
func (e evidence) version(key string) *delta.Version {
	p, ok := e.known[key]
	if !ok {
		return nil
	}
	return &delta.Version{Locator: p.Locator, Cluster: p.Cluster, Routed: true}
}

// gone says whether the row before may have been in a slice that is gone.
func (e evidence) gone(key string) bool {
	p, ok := e.known[key]
	return ok && (e.blind[key] || slices.Contains(e.degraded, table.Group{Partition: p.Locator.Partition, FileID: p.Locator.FileID}))
}

// classOf compares two states; nil means absent or unindexable. 0: nothing to say.
func classOf(old, cur *delta.Version) delta.Class {
	switch {
	case old == nil && cur == nil:
		return 0
	case old == nil:
		return delta.Insert
	case cur == nil:
		return delta.Delete
	case old.Raw == nil || !bytes.Equal(old.Raw, cur.Raw):
		return delta.VectorUpdate
	case old.Locator != cur.Locator:
		return delta.LocatorRefresh
	}
	return delta.Unchanged
}
