package delta

import (
	"bytes"
	"fmt"

	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// Bulk is what a Router may offer besides: many vectors at once, row-major, with the results of the single calls in less
// time.
type Bulk interface {
	// Clusters sets ids[i] to the cluster of vector i.
	Clusters(vectors []float32, ids []int32)
	// Codes returns the code of each vector in its cluster. Clusters are in range.
	Codes(vectors []float32, clusters []int32) []rabitq.Code
}

// Room is memory that Nets uses again. The zero value is empty. It serves one call at a time.
type Room struct {
	values []byte // of the nets since Reset, one behind the other
	ids    []int32
	code   []byte
	norm   float32
	record PostingDelta
}

// Reset gives the values of the nets made so far up: their memory is used again.
func (r *Room) Reset() { r.values = r.values[:0] }

// Nets sets nets[i] to the Net of change i. It stops at the first error. Vectors are routed and encoded together, if the Router is Bulk: they
// are not copied where they lie in memory one behind the other, first those of the new rows in the order of the changes, then those of the old
// ones. Values lie in the room and are valid until its Reset.
func (b *Builder) Nets(changes []Change, nets []Net, room *Room) error {
	var to vectors
	for i := range changes { // the cluster of an old row with the same vector is that of the new one
		c := &changes[i]
		if sameVector(c) {
			to.add(c.Old)
		} else {
			to.add(c.New)
		}
	}
	split := to.n
	for i := range changes {
		c := &changes[i]
		if !sameVector(c) {
			to.add(c.Old)
		}
		for _, v := range c.Also {
			to.add(v)
		}
	}
	ids := b.clusters(&to, room)
	first, second := ids[:split], ids[split:]
	for i := range changes {
		if err := b.places(&changes[i], &nets[i], &first, &second); err != nil {
			return err
		}
	}
	var news vectors
	ids = ids[:0]
	for i := range changes {
		if v := changes[i].New; v != nil {
			news.put(v.Vector)
			ids = append(ids, int32(nets[i].New.Cluster))
		}
	}
	room.ids = ids
	bulk, ok := b.Router.(Bulk)
	var codes []rabitq.Code
	if ok && news.n > 0 {
		codes = bulk.Codes(news.all, ids)
	}
	for i, at := 0, 0; i < len(changes); i++ {
		c := &changes[i]
		if c.New == nil {
			continue
		}
		var code rabitq.Code
		if codes != nil {
			code = codes[at]
		} else {
			code = b.Router.Encode(c.New.Vector, nets[i].New.Cluster)
		}
		nets[i].Value = room.value(c.Key, c.New.Locator, code)
		at++
	}
	return nil
}

// clusters routes vectors.
func (b *Builder) clusters(v *vectors, room *Room) []int32 {
	if cap(room.ids) < v.n {
		room.ids = make([]int32, v.n)
	}
	ids := room.ids[:v.n]
	if bulk, ok := b.Router.(Bulk); ok && v.n > 0 {
		bulk.Clusters(v.all, ids)
		return ids
	}
	for i := range ids {
		n := len(v.all) / v.n
		ids[i] = int32(b.Router.Cluster(v.all[i*n : (i+1)*n]))
	}
	return ids
}

// places sets all of a net change but its value. The clusters of vectors are taken off the front of first and second.
func (b *Builder) places(c *Change, n *Net, first, second *[]int32) error {
	*n = Net{Instant: c.Instant, Old: absent, New: absent}
	of := func(v *Version, ids *[]int32) (int, error) {
		cluster := v.Cluster
		if !v.Routed {
			if len(v.Vector) == 0 {
				return 0, fmt.Errorf("build posting of %q: neither vector nor cluster of the old row is known: %w", c.Key, storage.ErrRefused)
			}
			cluster, *ids = int((*ids)[0]), (*ids)[1:]
		}
		if cluster < 0 || cluster >= len(b.Segments) {
			return 0, fmt.Errorf("build posting of %q: cluster %d of %d: %w", c.Key, cluster, len(b.Segments), storage.ErrRefused)
		}
		return cluster, nil
	}
	same := sameVector(c)
	var err error
	if c.Old != nil {
		ids := second
		if same {
			ids = first
		}
		if n.Old.Cluster, err = of(c.Old, ids); err != nil {
			return err
		}
		n.Old.setState(c.Old)
	}
	if c.New != nil {
		if len(c.New.Vector) == 0 {
			return fmt.Errorf("build posting of %q: new row without a vector: %w", c.Key, storage.ErrRefused)
		}
		if same {
			n.New.Cluster = n.Old.Cluster
		} else if n.New.Cluster, err = of(c.New, first); err != nil {
			return err
		}
		n.New.setState(c.New)
	}
	for _, v := range c.Also {
		also, err := of(v, second)
		if err != nil {
			return err
		}
		n.Also = append(n.Also, also)
	}
	return nil
}

// value is the posting delta of a row as it is stored.
func (r *Room) value(key string, at Locator, code rabitq.Code) []byte {
	const around = 96 // more than the record takes beside what is counted
	n := len(code.Sign) + rabitq.ExtendedBytes(len(code.Levels), max(1, code.Bits)) + len(key) + len(at.FileID) + len(at.Partition) + len(at.BaseInstant) + around
	if cap(r.values)-len(r.values) < n { // what is in the room already stays where it is
		r.values = make([]byte, 0, max(n, min(2*cap(r.values), 1<<20)))
	}
	r.code, r.norm = rabitq.DeltaBinary(r.code[:0], code), code.F.VectorNorm
	r.record = posting(key, at, code, r.code, &r.norm)
	from := len(r.values)
	r.values = EncodeRecord(r.values, &r.record)
	return r.values[from:len(r.values):len(r.values)]
}

// sameVector says that a change's new row has the old one's vector, so that its cluster is the old one's.
func sameVector(c *Change) bool {
	return c.Old != nil && c.New != nil && !c.Old.Routed && !c.New.Routed && c.Old.Raw != nil && bytes.Equal(c.Old.Raw, c.New.Raw)
}

// vectors gathers vectors, row-major: as a view as long as each begins where the last one ended, from then on as a copy.
type vectors struct {
	all  []float32
	n    int
	ours bool
}

// add takes a version whose cluster follows from its vector.
func (s *vectors) add(v *Version) {
	if v != nil && !v.Routed && len(v.Vector) > 0 {
		s.put(v.Vector)
	}
}

func (s *vectors) put(v []float32) {
	s.n++
	at := len(s.all)
	switch {
	case at == 0 && !s.ours:
		s.all = v
	case !s.ours && cap(s.all)-at >= len(v) && &s.all[:at+1][at] == &v[0]:
		s.all = s.all[:at+len(v)]
	case !s.ours:
		s.all, s.ours = append(append(make([]float32, 0, 4*(at+len(v))), s.all...), v...), true
	default:
		s.all = append(s.all, v...)
	}
}
