package delta

import (
	"bytes"

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

// Ahead returns a builder that has routed and encoded the vectors of these changes together, if the Router is Bulk. Nothing
// else is different. The vectors must not change while it is in use.
func (b *Builder) Ahead(changes []Change) *Builder {
	bulk, ok := b.Router.(Bulk)
	if !ok || len(changes) < 2 {
		return b
	}
	k := &known{Router: b.Router, clusters: map[*float32]int32{}, codes: map[place]rabitq.Code{}}
	var found vectors
	for i := range changes {
		c := &changes[i]
		found.add(c.Old)
		if !sameVector(c) {
			found.add(c.New)
		}
		for _, v := range c.Also {
			found.add(v)
		}
	}
	ids := make([]int32, len(found.first))
	if len(ids) > 0 {
		bulk.Clusters(found.all, ids)
	}
	for i, at := range found.first {
		k.clusters[at] = ids[i]
	}
	found = vectors{all: found.all[:0]}
	ids = ids[:0]
	for i := range changes {
		c := &changes[i]
		if c.New == nil || len(c.New.Vector) == 0 {
			continue
		}
		id := int32(c.New.Cluster)
		if !c.New.Routed {
			from := c.New
			if sameVector(c) {
				from = c.Old
			}
			if len(from.Vector) == 0 {
				continue
			}
			id = k.clusters[&from.Vector[0]]
		}
		if id >= 0 && int(id) < len(b.Segments) {
			found.all, found.first = append(found.all, c.New.Vector...), append(found.first, &c.New.Vector[0])
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		for i, code := range bulk.Codes(found.all, ids) {
			k.codes[place{found.first[i], ids[i]}] = code
		}
	}
	ahead := *b
	ahead.Router = k
	return &ahead
}

// sameVector says that a change's new row has the old one's vector, so that its cluster is the old one's.
func sameVector(c *Change) bool {
	return c.Old != nil && c.New != nil && !c.Old.Routed && !c.New.Routed && c.Old.Raw != nil && bytes.Equal(c.Old.Raw, c.New.Raw)
}

// vectors gathers vectors, row-major, and where each came from.
type vectors struct {
	all   []float32
	first []*float32
}

// add takes a version whose cluster follows from its vector.
func (s *vectors) add(v *Version) {
	if v != nil && !v.Routed && len(v.Vector) > 0 {
		s.all, s.first = append(s.all, v.Vector...), append(s.first, &v.Vector[0])
	}
}

// known is a router that has looked at some vectors before; it knows them by where they lie.
type known struct {
	Router
	clusters map[*float32]int32
	codes    map[place]rabitq.Code
}

// place is a vector in a cluster.
type place struct {
	at      *float32
	cluster int32
}

func (k *known) Cluster(v []float32) int {
	if c, ok := k.clusters[first(v)]; ok {
		return int(c)
	}
	return k.Router.Cluster(v)
}

func (k *known) Encode(v []float32, cluster int) rabitq.Code {
	if c, ok := k.codes[place{first(v), int32(cluster)}]; ok {
		return c
	}
	return k.Router.Encode(v, cluster)
}

func first(v []float32) *float32 {
	if len(v) == 0 {
		return nil
	}
	return &v[0]
}
